"""Standard error of a trial: what explains a failure, and TensorFlow's own word on the devices it uses."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable
from pathlib import Path

import msgspec

from wrapper.parser.blocks import LONGEST_LINE, file_blocks, line_blocks, lines_with
from wrapper.parser.line import readable
from wrapper.parser.signatures import load_signatures

KEPT_LINES = 5
"""Last lines that are kept."""
KEPT_DEVICES = 64


class Hit(msgspec.Struct, frozen=True):
    """A line that says something."""

    line: int
    """From 1."""
    text: str


class GpuLine(msgspec.Struct, frozen=True, kw_only=True):
    """TensorFlow's line about a GPU that it has opened."""

    index: int
    """Among the GPUs that the process may see."""
    name: str
    line: int


class StderrSummary(msgspec.Struct, frozen=True, kw_only=True):
    """What one standard error holds."""

    hits: dict[str, Hit] = {}
    """The first line of each kind of signatures.yaml."""
    error: Hit | None = None
    """TensorFlow's first error line where there is one, else Python's first: the last lines often say where an operation was created."""
    cause: Hit | None = None
    """The first "(0) ..." line, which names the cause where the error line only counts root errors."""
    gpus: tuple[GpuLine, ...] = ()
    """The GPUs that TensorFlow opened, each once, in the order of their index."""
    candidate_gpus: tuple[int, ...] = ()
    """The GPUs among the candidate devices that TensorFlow listed when it could not place an operation where it was asked to."""
    last_lines: tuple[str, ...] = ()
    lines: int = 0


# 1.5: "Creating TensorFlow device (/device:GPU:0) -> (device: 0, name: ..."; 1.6 to 2.4: "Created TensorFlow device (.../device:GPU:0 with N MB
# memory) -> physical GPU (device: 0, name: ..."; from 2.5 on: "Created device .../device:GPU:0 with N MB memory:  -> device: 0, name: ...".
_GPU = re.compile(
    rb"Creat(?:ed|ing) (?:TensorFlow )?device .{0,200}?device:GPU:\d+.{0,200}? -> (?:physical GPU )?\(?device: (\d{1,4}), name: ([^,]+)"
)
_CANDIDATE = re.compile(rb"\A  /job:\S{1,200}/device:GPU:(\d{1,4})[\],.]*\r?\n?\Z")
_ERROR = re.compile(rb"\A(?:[\w.]+(?:Error|Exception)|Exception)(?: \(see above for traceback\))?: .*", re.DOTALL)
_CAUSE = re.compile(rb"\A\s*\(0\) ")
_TENSORFLOW_ERROR = b"errors_impl."
_MARKERS = (b" -> ", b"\n  /job:", b"Error: ", b"Error (see above", b"Exception: ", b"(0) ")


def read_stderr(path: Path) -> StderrSummary:
    """Read a standard error log in constant memory. Raises OSError where the file can't be read."""
    return summarise_stderr(file_blocks(path))


def summarise_stderr(pieces: Iterable[bytes]) -> StderrSummary:
    """Read a standard error in constant memory.

    Args:
        pieces: its bytes in order; they need not be whole lines.
    """
    reader = _Reader()
    for block in line_blocks(pieces):
        reader.read(block)
    return reader.summary()


class _Reader:
    """Gathers a `StderrSummary` from blocks of lines."""

    def __init__(self) -> None:
        table = load_signatures()
        self._signatures = [(kind, text.encode()) for kind, texts in table.explain.items() for text in texts]
        self._harmless = tuple(text.encode() for text in table.harmless)
        self._hits: dict[str, Hit] = {}
        self._error: Hit | None = None
        self._tensorflow_error: Hit | None = None
        self._cause: Hit | None = None
        self._gpus: dict[int, GpuLine] = {}
        self._candidate_gpus: set[int] = set()
        self._last: deque[str] = deque(maxlen=KEPT_LINES)
        self._lines = 0

    def read(self, block: bytes) -> None:
        lines = block.count(b"\n") + (not block.endswith(b"\n"))
        # A line end before and after the block lets a text that stands at the start or the end of a line be found anywhere.
        block = b"\n" + block + b"\n"
        self._find_signatures(block)
        position, number = 0, self._lines
        for start in sorted(lines_with(_MARKERS, block)):
            number += block.count(b"\n", position, start)
            position, end = start, block.index(b"\n", start) + 1
            if end - start <= LONGEST_LINE:
                self._take(block[start:end], number)
        for line in block[-4 * LONGEST_LINE :].rstrip().rsplit(b"\n", KEPT_LINES)[-KEPT_LINES:]:
            if line.strip():
                self._last.append(_text(line))
        self._lines += lines

    def summary(self) -> StderrSummary:
        return StderrSummary(
            hits=self._hits,
            error=self._tensorflow_error or self._error,
            cause=self._cause,
            gpus=tuple(self._gpus[index] for index in sorted(self._gpus)),
            candidate_gpus=tuple(sorted(self._candidate_gpus)),
            last_lines=tuple(self._last),
            lines=self._lines,
        )

    def _find_signatures(self, block: bytes) -> None:
        """Look for the kinds that have not been seen yet; of each the first line counts."""
        found: dict[str, int] = {}
        for kind, text in self._signatures:
            position = block.find(text)
            if position >= 0:
                position += text.startswith(b"\n")
                found[kind] = min(position, found.get(kind, position))
        for kind, position in found.items():
            start = block.rfind(b"\n", 0, position) + 1
            line = block[start : min(block.index(b"\n", position), start + LONGEST_LINE)]
            self._hits[kind] = Hit(self._lines + block.count(b"\n", 0, start), _text(line))
        self._signatures = [(kind, text) for kind, text in self._signatures if kind not in found]

    def _take(self, line: bytes, number: int) -> None:
        if found := _GPU.search(line):
            if len(self._gpus) < KEPT_DEVICES:
                index = int(found[1])
                self._gpus.setdefault(index, GpuLine(index=index, name=_text(found[2]), line=number))
        elif found := _CANDIDATE.match(line):
            if len(self._candidate_gpus) < KEPT_DEVICES:
                self._candidate_gpus.add(int(found[1]))
        elif self._cause is None and _CAUSE.match(line):
            self._cause = Hit(number, _text(line))
        elif _ERROR.match(line) and not line.startswith(self._harmless):
            hit = Hit(number, _text(line))
            self._error = self._error or hit
            if _TENSORFLOW_ERROR in line.split(b":", 1)[0]:
                self._tensorflow_error = self._tensorflow_error or hit


def _text(line: bytes) -> str:
    return readable(line.decode("utf-8", "replace"))
