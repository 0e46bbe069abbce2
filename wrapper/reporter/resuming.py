"""The command that goes on with a sweep, as it can be pasted into a shell."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

_KEPT = frozenset({"--vendor", "--upstream"})
_KEPT_ALONE = frozenset({"--unproven-device", "--no-telemetry"})
"""What a record does not say and the sweep went by."""


def own_program() -> str:
    """How this machine's user can call tfcnn: by its name where that is found, else by its place beside this interpreter."""
    return "tfcnn" if shutil.which("tfcnn") else str(Path(sys.executable).with_name("tfcnn"))


def resume_command(directory: str, started_by: Sequence[str], *more: str, program: str = "tfcnn") -> str:
    """The command line, quoted for this system's shell.

    Args:
        directory: the report's, or what stands for it.
        started_by: the command line that started the sweep; where it found upstream and kept environments is asked for again.
        more: arguments to add.
        program: how tfcnn is called; its plain name in records, which are read elsewhere.
    """
    command = (program, "run", "--resume", directory, *more, *_kept(started_by))
    return subprocess.list2cmdline(command) if sys.platform == "win32" else shlex.join(command)


def _kept(command: Sequence[str]) -> Iterator[str]:
    words = iter(command)
    for word in words:
        name, equals, _ = word.partition("=")
        if word in _KEPT_ALONE or (name in _KEPT and equals):
            yield word
        elif word in _KEPT:
            yield from (word, *islice(words, 1))
