"""One sweep at a time on a machine: two would measure each other."""

from __future__ import annotations

import contextlib
import getpass
import os
import stat
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec

from wrapper.errors import FatalError

# On POSIX not tempfile.gettempdir(): that follows TMPDIR, and two users with a TMPDIR each would not see each other.
FOLDER = Path(tempfile.gettempdir() if sys.platform == "win32" else "/tmp") / "tfcnn"
_NOTE_LIMIT = 64 * 1024
"""Bytes read of a note, which anyone may have written."""


class Holder(msgspec.Struct, frozen=True, kw_only=True):
    """Whose sweep is running."""

    user: str
    pid: int
    directory: str


@contextlib.contextmanager
def one_sweep_at_a_time(directory: str, *, folder: Path | None = None) -> Iterator[None]:
    """Hold this machine's lock for the duration; the system releases it however the process ends.

    All users can write where it lies, so nothing there is followed or trusted: no link, no file of another kind.

    Args:
        directory: what the holder is working on, told to those who come second.
        folder: where the lock lies; by default `FOLDER`, one for all users of the machine.

    Raises:
        FatalError: another sweep holds it, naming whose; or something else stands in its place.
    """
    import filelock

    folder = folder or FOLDER
    path = folder / "sweep.lock"
    note = folder / "sweep.json"
    try:
        _make_for_all_users(folder)
        if os.path.lexists(path) and not stat.S_ISREG(path.lstat().st_mode):
            raise FatalError(f"the lock {path} is a link or no file", "Look at what it is and remove it")
        lock = filelock.FileLock(path, mode=0o666)
        lock.acquire(blocking=False)
    except filelock.Timeout as error:
        raise FatalError(f"another sweep is running on this machine ({_whose(note)})", "Wait for it to end: two would measure each other") from error
    except OSError as error:
        raise FatalError(f"the lock {path} can't be taken ({error.strerror})", "Let its owner make it writable for all users") from error
    try:
        with contextlib.suppress(OSError):
            _write(note, Holder(user=_user(), pid=os.getpid(), directory=directory))
        yield
    finally:
        lock.release()


def whose_sweep(folder: Path | None = None) -> str | None:
    """Whose sweep is running on this machine, in words; None where nobody's is, or where no lock can be looked at."""
    import filelock

    path = (folder or FOLDER) / "sweep.lock"
    if path.is_symlink() or not path.is_file():
        return None
    try:
        with filelock.FileLock(path, mode=0o666).acquire(blocking=False):
            return None
    except filelock.Timeout:
        return _whose(path.with_name("sweep.json"))
    except OSError:
        return None


def _make_for_all_users(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode):
        raise FatalError(f"{folder}, where the machine's lock lies, is a link", "Look at what made it and remove it")
    if sys.platform != "win32" and found.st_uid == os.geteuid():
        folder.chmod(0o777)


def _write(note: Path, holder: Holder) -> None:
    """Put a new file in the place of what is there: opening that could follow a link or wait for the reader of a pipe."""
    note.unlink(missing_ok=True)
    with note.open("xb") as file:
        file.write(msgspec.json.encode(holder))


def _whose(note: Path) -> str:
    try:
        holder = msgspec.json.decode(_read(note), type=Holder)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return "whose is not known"
    return f"user {holder.user!r}, process {holder.pid}, in {holder.directory!r}"


def _read(note: Path) -> bytes:
    """The note's beginning; empty where it is no regular file. Raises OSError."""
    flags = os.O_RDONLY
    if sys.platform != "win32":
        flags |= os.O_NOFOLLOW | os.O_NONBLOCK
    with os.fdopen(os.open(note, flags), "rb") as file:
        return file.read(_NOTE_LIMIT) if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else b""


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "unknown"
