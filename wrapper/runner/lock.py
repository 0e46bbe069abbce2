"""One sweep at a time on a machine: two would measure each other."""

from __future__ import annotations

import contextlib
import getpass
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec

from wrapper.errors import FatalError


class Holder(msgspec.Struct, frozen=True, kw_only=True):
    """Whose sweep is running."""

    user: str
    pid: int
    directory: str


@contextlib.contextmanager
def one_sweep_at_a_time(directory: str, *, folder: Path | None = None) -> Iterator[None]:
    """Hold this machine's lock for the duration; the system releases it however the process ends.

    Args:
        directory: what the holder is working on, told to those who come second.
        folder: where the lock lies; by default the machine's temporary directory, so that all users share it.

    Raises:
        FatalError: another sweep holds it, naming whose.
    """
    import filelock

    folder = folder or Path(tempfile.gettempdir()) / "tfcnn"
    path = folder / "sweep.lock"
    note = folder / "sweep.json"
    try:
        folder.mkdir(exist_ok=True)
        with contextlib.suppress(PermissionError):
            folder.chmod(0o777)
        lock = filelock.FileLock(path, mode=0o666)
        lock.acquire(blocking=False)
    except filelock.Timeout as error:
        raise FatalError(f"another sweep is running on this machine ({_whose(note)})", "Wait for it to end: two would measure each other") from error
    except OSError as error:
        raise FatalError(f"the lock {path} can't be taken ({error.strerror})", "Let its owner make it writable for all users") from error
    try:
        with contextlib.suppress(OSError):
            note.write_bytes(msgspec.json.encode(Holder(user=_user(), pid=os.getpid(), directory=directory)))
        yield
    finally:
        lock.release()


def _whose(note: Path) -> str:
    try:
        holder = msgspec.json.decode(note.read_bytes(), type=Holder)
    except (OSError, msgspec.MsgspecError):
        return "whose is not known"
    return f"user {holder.user!r}, process {holder.pid}, in {holder.directory!r}"


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "unknown"
