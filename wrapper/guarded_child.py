"""A child and the guard beside it. Used by `process.py` alone.

Where the wrapper is killed with SIGKILL it can end nothing any more: the guard (`guard.py`) does it then.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, NamedTuple

import psutil

from wrapper import guard
from wrapper.guard import DONE, clean_up
from wrapper.process_tree import KILL_S, MARK, ProcessTree, adopt_orphans

if sys.platform == "win32":
    _CREATION_FLAGS = subprocess.CREATE_NEW_PROCESS_GROUP  # a Ctrl-C at the terminal reaches the wrapper alone
    _GUARD_FLAGS = _CREATION_FLAGS | subprocess.CREATE_NO_WINDOW
else:
    _CREATION_FLAGS = _GUARD_FLAGS = 0


class Call(NamedTuple):
    """What is started."""

    command: Sequence[str]
    cwd: Path | None
    environment: Mapping[str, str]
    cleanup: Sequence[str] = ()
    adopting: bool = False
    """Whether orphans of the child belong to it whatever they are: not those of an engine, whose container outlives them and has a cleanup."""


class GuardedChild:
    """A child with all its descendants, and the guard that ends them where the wrapper is killed."""

    def __init__(self, call: Call, stdout: IO[bytes] | int, stderr: IO[bytes]) -> None:
        mark = uuid.uuid4().hex
        self._cleanup = list(call.cleanup)
        self._guard = _start_guard(mark, self._cleanup)
        try:
            adopting = adopt_orphans(call.adopting)
            self.child = subprocess.Popen(
                list(call.command),
                cwd=call.cwd,
                env={**call.environment, MARK: mark},
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                bufsize=0,
                start_new_session=True,
                creationflags=_CREATION_FLAGS,
            )
        except BaseException:
            self._dismiss_guard()
            raise
        self.tree = ProcessTree(self.child.pid, mark, adopting=adopting)
        self._tell_guard(b"%d\n" % self.child.pid)

    def end(self) -> set[psutil.Process]:
        """End whatever still runs; returns what could not be ended."""
        survivors = self.tree.end()
        # the leader of a child with many threads is a zombie for some time before it can be collected
        with suppress(subprocess.TimeoutExpired):
            self.child.wait(KILL_S)
        clean_up(self._cleanup)
        self._dismiss_guard()
        return survivors

    def _dismiss_guard(self) -> None:
        self._tell_guard(DONE)
        if self._guard.stdin:
            self._guard.stdin.close()
        try:
            self._guard.wait(KILL_S)
        except subprocess.TimeoutExpired:  # somebody has stopped it
            self._guard.kill()
            self._guard.wait()

    def _tell_guard(self, message: bytes) -> None:
        with suppress(OSError):  # somebody has ended it
            if self._guard.stdin:
                self._guard.stdin.write(message)


def _start_guard(mark: str, cleanup: list[str]) -> subprocess.Popen[bytes]:
    """Start the guard of a child that is about to be started, and don't wait until it is ready."""
    places = [str(Path(module.__file__ or "").parents[1]) for module in (guard, psutil)]
    return subprocess.Popen(
        [sys.executable, "-I", "-S", guard.__file__, mark, json.dumps(places), json.dumps(cleanup)],
        cwd=Path(sys.executable).anchor,
        env={**os.environ, MARK: f"guard of {mark}"},
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,  # it outlives the wrapper, and must not keep open what others read
        stderr=subprocess.DEVNULL,
        bufsize=0,
        start_new_session=True,  # a Ctrl-C, a hang-up and the end of a whole group don't reach it
        creationflags=_GUARD_FLAGS,
    )
