"""Upstream's standard output: header, step lines, total."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from wrapper.parser.blocks import LONGEST_LINE, file_blocks, line_blocks, lines_with
from wrapper.parser.line import STAGES, Event, Step, read_line

__all__ = ["KEPT_STEPS", "Event", "Output", "Step", "parse", "parse_file", "read_line"]

KEPT_STEPS = 10_000
"""Step lines that are kept from the start of a log; the last one is kept beyond them."""
KEPT_TOTALS = 1_000
KEPT_MALFORMED = 10

_LONGEST_HEADER = 200
"""Lines after `TensorFlow:` in which header lines are looked for when the closing rule does not come."""

# Only lines that hold one of these are decoded, outside of a header: it is what makes reading fast.
_MARKERS = (b"TensorFlow:  ", b"Generating ", b"Initializing graph", b"Running warm up", b"Img/sec", b"total images/sec")
_STEP_MARKER = b"images/sec: "

# What is left of a total whose line another stream's line, perhaps itself a number, fell into.
_TORN_OFF = re.compile(rb"\A[\d.,]+[\s`]*\Z")


class Output(msgspec.Struct, frozen=True, kw_only=True):
    """What one standard output holds."""

    header: dict[str, str] = {}
    """Header keys as printed, without the colon ("Model" -> "resnet50"); the batch sizes as "Batch size global" and "Batch size per device"."""
    steps: tuple[Step, ...] = ()
    """At most the first `KEPT_STEPS` step lines and the last one."""
    stage: str = "start"
    """The last stage reached: start, header, building, initializing, warm-up, steps, total."""
    totals: tuple[float, ...] = ()
    """Every total printed on a complete, well-formed line (nan and inf included), at most 1,000."""
    total_lines: tuple[int, ...] = ()
    """Their line numbers, from 1."""
    step_header_line: int | None = None
    malformed_totals: tuple[str, ...] = ()
    """Lines that look like a total and are not credible as one (cut off, glued, decimal comma)."""
    lines: int = 0


def parse(lines: Iterable[bytes], *, tolerant: bool = False) -> Output:
    """Read a whole standard output in constant memory.

    Args:
        lines: its bytes in order; the pieces need not be whole lines.
        tolerant: see `read_line`.

    Returns:
        everything that the log says. Whether to believe it is the verdict's matter.
    """
    reader = _Reader(tolerant)
    for block in line_blocks(lines):
        reader.read(block)
    return reader.output()


def parse_file(path: Path, *, tolerant: bool = False) -> Output:
    """Read a standard output log from disk as `parse` does. Raises OSError where the file can't be read."""
    return parse(file_blocks(path), tolerant=tolerant)


class _Reader:
    """Gathers an `Output` from blocks of bytes."""

    def __init__(self, tolerant: bool) -> None:
        self._tolerant = tolerant
        self._header: dict[str, str] = {}
        self._header_lines_left = 0
        self._steps: list[Step] = []
        self._last_step: Step | None = None
        self._stage = 0
        self._totals: list[float] = []
        self._total_lines: list[int] = []
        self._step_header_line: int | None = None
        self._malformed: list[str] = []
        self._line_after_total = 0
        self._lines = 0

    def output(self) -> Output:
        last = () if self._last_step is None else (self._last_step,)
        return Output(
            header=self._header,
            steps=(*self._steps, *last),
            stage=STAGES[self._stage],
            totals=tuple(self._totals),
            total_lines=tuple(self._total_lines),
            step_header_line=self._step_header_line,
            malformed_totals=tuple(self._malformed),
            lines=self._lines,
        )

    def read(self, block: bytes) -> None:
        """Read a block of lines: all of them inside a header and the one after a total, elsewhere those that hold a marker."""
        if not block.endswith(b"\n"):
            self._lines += 1
            self._take(block, self._lines)
            return
        position, number = self._read_on(block, 0, self._lines + 1)
        for start in self._candidates(block):
            if start < position:
                continue
            number += block.count(b"\n", position, start)
            end = block.index(b"\n", start) + 1
            self._take(block[start:end], number)
            position, number = self._read_on(block, end, number + 1)
        self._lines = number - 1 + block.count(b"\n", position)

    def _read_on(self, block: bytes, position: int, number: int) -> tuple[int, int]:
        """Read line by line while in a header or after a total. Returns where and at which line number it stopped."""
        while (self._header_lines_left or number == self._line_after_total) and position < len(block):
            end = block.index(b"\n", position) + 1
            line = block[position:end]
            self._header_lines_left = max(self._header_lines_left - 1, 0)
            if line.rstrip(b"\r\n`").endswith(b"=========="):
                self._header_lines_left = 0
            self._take(line, number)
            position, number = end, number + 1
        return position, number

    def _candidates(self, block: bytes) -> list[int]:
        """Where the lines start that must be read, in order."""
        return sorted(lines_with(_MARKERS, block).union(self._step_candidates(block)))

    def _step_candidates(self, block: bytes) -> Iterator[int]:
        """As many step lines as there is room for, then the last of the block alone."""
        room = KEPT_STEPS - len(self._steps)
        found = block.find(_STEP_MARKER)
        while found >= 0 and room > 0:
            room -= 1
            yield block.rfind(b"\n", 0, found) + 1
            found = block.find(_STEP_MARKER, block.index(b"\n", found))
        found = block.rfind(_STEP_MARKER, found) if found >= 0 else -1
        while found >= 0:
            start = block.rfind(b"\n", 0, found) + 1
            event = read_line(block[start : block.index(b"\n", start) + 1], tolerant=self._tolerant)
            if event and event.kind == "step":
                yield start
                return
            found = block.rfind(_STEP_MARKER, 0, start)

    def _take(self, line: bytes, number: int) -> None:
        if number == self._line_after_total and _TORN_OFF.match(line):
            self._withdraw_total(line)
        event = None if len(line) > LONGEST_LINE else read_line(line, number, tolerant=self._tolerant)
        if event is None:
            return
        if event.kind == "header":
            self._take_header(event)
        elif event.kind == "stage":
            self._reach(event.key)
            if event.key == "steps" and self._step_header_line is None:
                self._step_header_line = number
        elif event.step is not None:
            self._take_step(event.step)
        elif event.total is not None:
            self._take_total(event.total, number)
        elif len(self._malformed) < KEPT_MALFORMED:
            self._malformed.append(event.value)

    def _take_header(self, event: Event) -> None:
        if event.key == "TensorFlow":
            self._header_lines_left = _LONGEST_HEADER
        if self._header_lines_left:
            self._header.setdefault(event.key, event.value)
            self._reach("header")

    def _take_step(self, step: Step) -> None:
        if len(self._steps) < KEPT_STEPS:
            self._steps.append(step)
        else:
            self._last_step = step

    def _take_total(self, total: float, number: int) -> None:
        self._reach("total")
        if len(self._totals) < KEPT_TOTALS:
            self._totals.append(total)
            self._total_lines.append(number)
            self._line_after_total = number + 1

    def _withdraw_total(self, torn_off: bytes) -> None:
        self._total_lines.pop()
        total = self._totals.pop()
        if len(self._malformed) < KEPT_MALFORMED:
            self._malformed.append(f"total images/sec: {total:.2f}, torn off: {torn_off.decode().strip()[:20]}")

    def _reach(self, stage: str) -> None:
        self._stage = max(self._stage, STAGES.index(stage))
