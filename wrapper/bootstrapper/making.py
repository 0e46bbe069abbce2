"""An environment of ours on disk: made whole or not at all, found again where it lies, and looked over for what it has lost."""

from __future__ import annotations

import csv
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from wrapper.bootstrapper.inspection import Environment
from wrapper.bootstrapper.libraries import PACKAGES, library_path
from wrapper.bootstrapper.placing import Say, alone
from wrapper.bootstrapper.pythons import PROGRAMS, PYTHON
from wrapper.errors import FatalError
from wrapper.process import Captured

MARKER = "tfcnn-environment.json"
"""Written last: a directory without it is half made."""
INSTALL_LIMIT_S = 3600.0
"""A GPU environment of several GB over a slow line."""

_TROUBLES = (
    (
        r"No space left on device|NoSpaceLeftError|os error 28|os error 112",
        "the disk is full",
        "Make room (a GPU environment takes up to 10 GB, and the cache of {program} as much)",
    ),
    (
        r"[Hh]ash mismatch|ChecksumMismatch",
        "a package is not what the lock says",
        "The index served another file: use another index or empty the cache ({program} has a command for it: clean)",
    ),
    (
        r"PackagesNotFound|nothing provides|does not exist",
        "a package is not to be had",
        "Take another release, or an environment that has TensorFlow with --python PATH",
    ),
    (
        r"error sending request|dns error|[Ff]ailed to (fetch|download)|[Cc]onnection|timed out|network (was|connectivity is) disabled|CondaHTTPError"
        r"|Could not resolve|UnavailableInvalidChannel",
        "the packages can't be fetched",
        "Check the network, or name a mirror (uv: UV_DEFAULT_INDEX; conda: its .condarc), or an environment that has TensorFlow with --python PATH, "
        "or try --demo",
    ),
)


def read_marker(directory: Path) -> Environment | None:
    """The environment that was made in `directory`, as its marker records it; None where there is none, or no whole one.

    A virtual environment that was moved, or lies in a `vendor` that is mounted elsewhere now, works where it is: only its console scripts name the
    old place, and no trial starts one. conda writes the place into many files, so its environments can't be moved.
    """
    try:
        environment = msgspec.json.decode((directory / MARKER).read_bytes(), type=Environment)
    except (OSError, msgspec.DecodeError):  # not there, or of another version of the wrapper
        return None
    if Path(environment.path) != directory:
        if environment.kind != "locked":
            return None
        environment = msgspec.structs.replace(environment, path=str(directory), python=str(directory / PROGRAMS / PYTHON))
    if environment.kind == "locked":  # what was known when it was made holds for the place and the variables of then
        environment = msgspec.structs.replace(environment, variables=environment.variables | library_path(directory))
    return environment if Path(environment.python).exists() else None


def losses(directory: Path) -> str | None:
    """The files of an environment that its packages list as their own and that are gone or cut short, in words; None where all are there.

    Takes about 0.1 s.
    """
    if (directory / "conda-meta").is_dir():  # conda writes an environment's place into files, whose sizes then differ from the lists
        return None
    lost = [
        str(path.relative_to(packages))
        for pattern in PACKAGES
        for packages in directory.glob(pattern)
        for path, size in _listed(packages)
        if not _has_size(path, size)
    ]
    return f"{len(lost)} files of its packages are gone or cut short, such as {min(lost)}" if lost else None


def aside_of(directory: Path) -> Path:
    """Where an environment is kept while another is made in its place."""
    return directory.with_name(f".{directory.name}.damaged")


def make_whole(directory: Path, fill: Callable[[], Environment], say: Say) -> Environment:
    """The environment in `directory`, as it was left by an earlier call, or made by `fill` in place of a half-made or damaged one.

    Processes that ask at the same time wait for the first. A damaged one is kept where it can't be made again: without a network, what it lost may be
    had from another copy.

    Args:
        directory: absolute, without links in it.
        fill: makes the directory and what is in it.
        say: told in a line what takes long.

    Raises:
        FatalError: what `fill` raises, or the disk refuses. Nothing half-made is left.
    """
    try:
        with alone(directory, say):
            aside = aside_of(directory)
            if aside.is_dir() and not aside.is_symlink():  # left by a start that was killed while it made another in its place
                _clear_up(directory, aside)
            made = read_marker(directory)
            lost = losses(directory) if made else "it is half made, was moved, or its Python has gone"
            if made and not lost:
                return made
            if not directory.exists():
                return _make(directory, fill)
            say(f"{directory} is made again: {lost}")
            if (directory / MARKER).exists():
                return _make_again(directory, aside, fill)
            shutil.rmtree(directory)
            return _make(directory, fill)
    except OSError as error:
        raise FatalError(f"the environment {directory} can't be made: {error}", "Mend that and start again") from error


def check_complete(directory: Path) -> None:
    """Refuse an environment that lacks files as soon as it is installed. Raises FatalError."""
    if lost := losses(directory):
        raise FatalError(f"{directory} is damaged as it was installed: {lost}", "Empty the installer's cache (uv cache clean, conda clean --all)")


def check_installed(captured: Captured, what: str, program: str) -> None:
    """Raise what an installer complains of; its text is read, because its exit code says only that it failed.

    Raises:
        FatalError: naming the kind of trouble, with the installer's own last lines.
    """
    if captured.exit_code == 0:
        return
    said = captured.stderr if captured.stderr.strip() else captured.stdout  # mamba complains on standard output
    for pattern, trouble, remedy in _TROUBLES:
        if re.search(pattern, said):
            raise FatalError(f"{trouble} while {what}: {tail(said)}", remedy.format(program=program))
    raise FatalError(f"{program} failed while {what}: {tail(said)}", "Mend that, or name an environment that has TensorFlow with --python PATH")


def tail(text: str) -> str:
    """The last twelve lines of what a program said, as one, without the warnings of one that failed for another reason."""
    said = [" ".join(line.split()) for line in text.splitlines() if line.strip()]
    return " | ".join(([line for line in said if not line.startswith("warning:")] or said)[-12:])


def _make(directory: Path, fill: Callable[[], Environment]) -> Environment:
    try:
        environment = fill()
        temporary = directory / f"{MARKER}.new"
        temporary.write_bytes(msgspec.json.format(msgspec.json.encode(environment)))
        temporary.replace(directory / MARKER)
        return environment
    finally:
        if directory.exists() and not (directory / MARKER).exists():
            shutil.rmtree(directory)


def _clear_up(directory: Path, aside: Path) -> None:
    if read_marker(directory) and not losses(directory):
        shutil.rmtree(aside, ignore_errors=True)
        return
    if directory.exists():
        shutil.rmtree(directory)
    aside.rename(directory)


def _make_again(directory: Path, aside: Path, fill: Callable[[], Environment]) -> Environment:
    directory.rename(aside)
    try:
        made = _make(directory, fill)
    except BaseException:
        if not directory.exists():  # else the next start clears it up
            aside.rename(directory)
        raise
    shutil.rmtree(aside, ignore_errors=True)
    return made


def _listed(packages: Path) -> Iterator[tuple[Path, int]]:
    """The files of all packages with their sizes (https://packaging.python.org/specifications/recording-installed-packages/#the-record-file).

    A file that several packages bring is as one of them left it.
    """
    rows = [row for record in packages.glob("*.dist-info/RECORD") for row in _rows(record)]
    owners = Counter(name for name, _ in rows)
    return ((packages / name, size) for name, size in rows if owners[name] == 1)


def _rows(record: Path) -> list[tuple[str, int]]:
    """Names and sizes in a RECORD; itself, as a file that is gone, where it can't be read."""
    try:
        rows = list(csv.reader(record.read_text(encoding="utf-8").splitlines()))
    except (OSError, ValueError, csv.Error):
        return [(f"{record.parent.name}/{record.name}", -1)]
    sized = [(row[0], row[2]) for row in rows if len(row) == 3 and not row[0].endswith(".pyc")]
    return [(name, int(size)) for name, size in sized if size.isascii() and size.isdigit()]


def _has_size(path: Path, size: int) -> bool:
    try:
        return path.stat().st_size == size
    except OSError:
        return False
