"""Cut a stream of bytes at line ends, in constant memory, so that whole blocks can be searched at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

BLOCK = 1 << 20
LONGEST_LINE = 1 << 16
"""Bytes; nothing that is looked for stands on a longer line."""


def line_blocks(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Join and cut the pieces of a stream.

    Args:
        pieces: the stream's bytes in order, cut anywhere.

    Returns:
        blocks of whole lines; the last one lacks its line end where the stream does. A line that is longer than `LONGEST_LINE` and
        not yet ended at the end of a block becomes an empty line, so that lines can be counted.
    """
    rest = b""
    skipping = False
    for piece in _gather(pieces):
        if skipping:
            end = piece.find(b"\n") + 1
            if not end:
                continue
            piece = piece[end:]
            skipping = False
        block = rest + piece
        cut = block.rfind(b"\n") + 1
        rest = block[cut:]
        if cut:
            yield block[:cut]
        if len(rest) > LONGEST_LINE:
            yield b"\n"
            rest = b""
            skipping = True
    if rest:
        yield rest


def lines_with(markers: Iterable[bytes], block: bytes) -> set[int]:
    """Where the lines of a block start that hold a marker; one that begins with a line end belongs to the line after it. The block ends with one."""
    starts = set()
    for marker in markers:
        found = block.find(marker)
        while found >= 0:
            starts.add(block.rfind(b"\n", 0, found + 1) + 1)
            found = block.find(marker, block.index(b"\n", found + 1))
    return starts


def file_blocks(path: Path) -> Iterator[bytes]:
    """The bytes of a file in pieces. Raises OSError where it can't be read."""
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            yield block


def _gather(pieces: Iterable[bytes]) -> Iterator[bytes]:
    gathered: list[bytes] = []
    size = 0
    for piece in pieces:
        gathered.append(piece)
        size += len(piece)
        if size >= BLOCK:
            yield b"".join(gathered)
            gathered, size = [], 0
    yield b"".join(gathered)
