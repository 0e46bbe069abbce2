"""Make a directory whole or not at all, one process at a time."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from wrapper.errors import FatalError

Say = Callable[[str], None]
"""Prints one line for the user."""
_ANOTHER = "Mend that, or name another place with --vendor DIR"


def place(final: Path, fill: Callable[[Path], None], say: Say) -> None:
    """Make the directory `final`, if nothing of that name is there, by filling a sibling and renaming it.

    Processes that ask at the same time wait for the first. What a run that died has left is removed; `final` itself never is.

    Args:
        final: absolute; its parent is made where missing.
        fill: called with the sibling, an empty directory.
        say: told when another process has to be waited for.

    Raises:
        FatalError: the disk refuses.
    """
    if os.path.lexists(final):
        return
    try:
        with alone(final, say):
            if not os.path.lexists(final):
                _fill_aside(final, fill)
    except OSError as error:
        raise FatalError(f"could not make {final}: {error}", "Mend what is named (space, permissions), and run the same again") from error


@contextlib.contextmanager
def alone(directory: Path, say: Say) -> Iterator[None]:
    """Be the only process that makes a directory, whose parent is made where missing; others that ask wait, and are told. Raises OSError."""
    from filelock import FileLock, Timeout

    directory.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(directory.with_name(f".{directory.name}.lock"))
    try:
        lock.acquire(blocking=False)
    except Timeout:
        say(f"Waiting for another process that is making {directory}")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def check_vendor(vendor: Path, *, writable: bool = False) -> None:
    """Refuse a place in which no directory can be, or if it has to be `writable` none can be made. Raises FatalError."""
    lowest = next(place for place in (vendor.absolute(), *vendor.absolute().parents) if os.path.lexists(place))
    if not lowest.is_dir():
        raise FatalError(f"--vendor {vendor}: {lowest} is not a directory, and environments and upstream go there", _ANOTHER)
    if writable and not os.access(lowest, os.W_OK | os.X_OK):
        raise FatalError(f"{lowest} can't be written (it is read-only, or another user's), and environments and upstream go there", _ANOTHER)


def existing(path: Path) -> Path:
    """The path itself, or the nearest directory above it that is there."""
    return next(place for place in (path.absolute(), *path.absolute().parents) if place.is_dir())


def _fill_aside(final: Path, fill: Callable[[Path], None]) -> None:
    # The lock is ours, so these are of runs that died. A name is not used twice: a child may outlive such a run, and still write there.
    for stale in final.parent.glob(f".{final.name}-*.partial"):
        _remove(stale)
    partial = final.parent / f".{final.name}-{secrets.token_hex(4)}.partial"
    partial.mkdir()
    try:
        fill(partial)
        partial.rename(final)
    except BaseException:
        _remove(partial)
        raise


def _remove(directory: Path) -> None:
    """Delete what can be deleted now; the next run tries the rest."""

    def retry_writable(function: Callable[[str], object], path: str, _: object) -> None:  # Windows keeps read-only files, and git makes such
        Path(path).chmod(stat.S_IWRITE)
        function(path)

    with contextlib.suppress(OSError):
        if sys.platform != "win32":
            shutil.rmtree(directory)
        elif sys.version_info >= (3, 12):
            shutil.rmtree(directory, onexc=retry_writable)
        else:
            shutil.rmtree(directory, onerror=retry_writable)
