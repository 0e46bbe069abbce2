"""What differs between a directory and the commit that it was checked out from."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

_LINK = "120000"
"""git's mode of a symbolic link."""
_OTHER_REPOSITORY = "160000"
"""git's mode of a submodule, which is not fetched."""


def changed_files(directory: Path, listing: str) -> list[str]:
    """The files that were changed, added or deleted, sorted.

    Neither git's index nor its ignore rules, attributes or settings are asked: they can be set so that git calls an edit clean. Byte code that
    Python itself put into a `__pycache__` is no edit: Python imports it only with its source beside that directory.

    Args:
        listing: what `git ls-tree -r -z` says of the commit (https://git-scm.com/docs/git-ls-tree#_output_format).

    Raises:
        OSError: something in the directory can't be read.
    """
    tree = dict(_entries(listing))
    found = dict(_files(directory))
    changed = {name for name in tree if name not in found or not _is(found[name], *tree[name])}
    added = {name for name, path in found.items() if name not in tree and not (path.parent.name == "__pycache__" and path.suffix == ".pyc")}
    return sorted(changed | added)


def _entries(listing: str) -> Iterator[tuple[str, tuple[str, str]]]:
    """Name, and mode and hash, of every file of a commit."""
    for entry in filter(None, listing.split("\0")):
        facts, _, name = entry.partition("\t")
        mode, _, blob = facts.split(" ")
        if mode != _OTHER_REPOSITORY:
            yield name, (mode, blob)


def _files(directory: Path) -> Iterator[tuple[str, Path]]:
    """Everything but directories, and but git's own at the top; a link to a directory counts as a file. Names have forward slashes."""
    pending = [directory]
    while pending:
        with os.scandir(pending.pop()) as entries:
            for entry in entries:
                path = Path(entry.path)
                if not entry.is_dir(follow_symlinks=False):
                    yield path.relative_to(directory).as_posix(), path
                elif path != directory / ".git":
                    pending.append(path)


def _is(path: Path, mode: str, blob: str) -> bool:
    """Whether a file has the content that git names `blob`."""
    kind = path.lstat().st_mode
    if stat.S_ISLNK(kind) and mode == _LINK:
        data = os.fsencode(path.readlink())
    elif stat.S_ISREG(kind):  # a link too, where the system has none: git writes where it leads into a file
        data = path.read_bytes()
    else:
        return False
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest() == blob
