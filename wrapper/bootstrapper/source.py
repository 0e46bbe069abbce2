"""Where TensorFlow comes from: what the text of `--environment` means."""

from __future__ import annotations

from pathlib import Path

import msgspec

from wrapper.errors import UsageError

FORMS = "locked, python:PATH, conda, conda:NAME, docker, docker:IMAGE, podman or podman:IMAGE"
_KINDS = ("locked", "python", "conda", "docker", "podman")


class Source(msgspec.Struct, frozen=True):
    """Where the interpreter that runs upstream is taken from."""

    kind: str = "locked"
    """"locked", "python", "conda", "docker" or "podman"."""
    name: str = ""
    """A path, an environment or an image that the user names, used as it is; empty where one is made or chosen for the release."""

    @property
    def contained(self) -> bool:
        """Whether it is in a container."""
        return self.kind in ("docker", "podman")

    @property
    def text(self) -> str:
        """As `--environment` takes it."""
        return f"{self.kind}:{self.name}" if self.name else self.kind


def parse_source(text: str) -> Source:
    """Read the text of `--environment`.

    Raises:
        UsageError: it names no kind of environment, or lacks or has a name where the kind needs or takes none.
    """
    kind, colon, name = text.strip().partition(":")
    if kind not in _KINDS:
        remedy = f"Write --environment python:{text}" if Path(text).exists() else f"It is {FORMS}"
        raise UsageError(f"--environment {text[:200]!r} is no kind of environment", remedy)
    if colon and not name.strip():
        raise UsageError(f"--environment {text}: nothing stands after the colon", f"It is {FORMS}")
    if kind == "locked" and name:
        raise UsageError(f"--environment {text}: a locked environment is made for the release and has no name", "Write locked alone")
    if kind == "python" and not name:
        raise UsageError("--environment python: which interpreter is not said", "Write python:PATH")
    if kind != "python" and name.strip().startswith("-"):  # the engine or conda would read it as an option of its own
        raise UsageError(f"--environment {text}: no {'environment' if kind == 'conda' else 'image'} has a name that begins with -", f"It is {FORMS}")
    return Source(kind, name.strip())
