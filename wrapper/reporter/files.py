"""Reading records, and writing that a crash or a full disk can't turn into half a record."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import msgspec

from wrapper.errors import FatalError

T = TypeVar("T")

# Windows has no quota error of its own, and errno lacks the name there.
_FULL = frozenset({errno.ENOSPC}) if sys.platform == "win32" else frozenset({errno.ENOSPC, errno.EDQUOT})

DAMAGED = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What the decoding of a damaged file raises; the last where it is nested deeper than any that was written."""
_OF_SWEEPS = ("session.json", "releases.json")
"""One of these lies in the directory of every sweep."""


def read_whole(path: Path, missing: str) -> bytes:
    """What a file of a sweep's directory holds.

    Args:
        missing: what is said where there is none.

    Raises:
        FatalError: there is none, it is no regular file, or it can't be read.
    """
    try:
        if path.exists() and not path.is_file():  # a pipe would wait for its writer, and a device may have no end
            raise FatalError(f"{path} is no regular file", "Restore it from a copy, or remove it")
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise FatalError(missing, "Name a directory that a sweep made") from error
    except OSError as error:
        raise FatalError(f"{path} can't be read ({error})") from error


def json_text(content: object, *, indent: int = 2) -> str:
    """A record as JSON that people can read."""
    return msgspec.json.format(msgspec.json.encode(content), indent=indent).decode() + "\n"


def from_json(data: bytes, kind: type[T], name: object, remedy: str) -> T:
    """What a record of a kind says. Raises FatalError: it is damaged, or of a newer version of this program.

    Args:
        name: of its file.
    """
    try:
        return msgspec.json.decode(data, type=kind)
    except DAMAGED as error:
        raise FatalError(f"{name} is damaged, or a newer version wrote it ({error})", remedy) from error


def write_text_atomically(path: Path, text: str) -> None:
    """Write a UTF-8 file with line feeds: a reader sees the old text or the new one, never a part.

    Raises:
        FatalError: the disk is full or the file can't be written; the old file is kept.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with explained(f"writing {path.name}", path.parent):
        try:
            with temporary.open("w", encoding="utf-8", newline="\n") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
            sync_directory(path.parent)
        finally:
            temporary.unlink(missing_ok=True)


def append_durably(path: Path, data: bytes) -> None:
    """Add to the end of a file, made if missing; when this returns, the data survive a crash of the machine. Raises OSError."""
    with path.open("ab") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    sync_directory(path.parent)


def unfinished_line(path: Path) -> bytes:
    """What follows a file's last line feed; nothing for a missing or empty file. More than a byte is read only after a crash. Raises OSError."""
    if not path.exists() or not path.stat().st_size:
        return b""
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        if file.read(1) == b"\n":
            return b""
        file.seek(0)
        return file.read().rpartition(b"\n")[2]


@contextmanager
def explained(doing: str, directory: Path) -> Iterator[None]:
    """Turn an operating system's refusal to write into a FatalError that says what is lost and what is not.

    Args:
        doing: what was being done, and what is lost by it, as it follows "while".
        directory: where the finished trials are, if it is that of a sweep.
    """
    try:
        yield
    except OSError as error:
        full = error.errno in _FULL
        what = "The disk is full" if full else f"The operating system refuses ({error})"
        remedy = "Free some space" if full else "Make the directory writable, and close other programs that have the file open"
        if any((directory / name).is_file() for name in _OF_SWEEPS):
            raise FatalError(f"{what}, while {doing}", f"Finished trials are kept in {directory}. {remedy}, then go on with --resume") from error
        raise FatalError(f"{what}, while {doing}", f"{remedy}, or name another place") from error


def sync_directory(directory: Path) -> None:
    """Make a new name in a directory survive a crash of the machine; Windows does so by itself and can't be asked."""
    if sys.platform != "win32":
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
