"""An independent clock: throughput from when the step lines came, without upstream's arithmetic."""

from __future__ import annotations

import math
import statistics
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from wrapper.parser.line import Step
from wrapper.parser.output import Output

STAMP_S = 0.05
"""How late a line's stamp may be on a busy machine: it is taken where the line arrives, not where it is printed."""
SHORTEST_WINDOW_S = 0.5
DRIFT = 0.05
"""Relative change of the throughput within a trial that is worth a warning."""
FEWEST_WINDOWS = 4


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """The steps between two step lines."""

    first_step: int
    """The first step in it."""
    last_step: int
    images_per_sec: float


class Clock(msgspec.Struct, frozen=True, kw_only=True):
    """What the stamps say about the timed loop, from the end of the first step shown to the end of the last one shown."""

    images_per_sec: float
    steps: int
    """Steps that it covers."""
    seconds: float
    """How long they took, with all that happened between them."""
    resolution: float
    """How far off `images_per_sec` may be because of the stamps alone, relative."""
    windows: tuple[Window, ...] = ()
    """The same in parts of half a second at least: whether the warm-up was long enough, and drift."""


def read_stamps(path: Path) -> array[float]:
    """When each line of a log came, from the file that was written beside it.

    Returns:
        seconds since the start of the child; those of line n at index n - 1. A last line that a crash cut off is left out.

    Raises:
        OSError: the file can't be read.
        ValueError: it is damaged.
    """
    with path.open(encoding="ascii", newline="") as file:
        next(file, None)
        rows = (line.split(",") for line in file if line.endswith("\n"))
        stamps = array("d", (float(seconds) for _, seconds in rows))
    if not all(map(math.isfinite, stamps)):
        raise ValueError(f"{path.name} holds a time that is no number")
    return stamps


def window_throughput(steps: Sequence[Step], seconds: Sequence[float], global_batch_size: int) -> Clock | None:
    """Time the loop by the stamps of its step lines.

    Args:
        steps: the step lines of one process, in order, with their line numbers.
        seconds: when each line of the log came, by a monotonic clock; that of line n at index n - 1.
        global_batch_size: images per step.

    Returns:
        None where the stamps can't tell: fewer than two step lines, a line without a stamp, or all in one piece because of buffering.
    """
    if len(steps) < 2 or any(not 0 < step.line <= len(seconds) for step in steps):
        return None
    first, last = steps[0], steps[-1]
    covered, duration = last.step - first.step, seconds[last.line - 1] - seconds[first.line - 1]
    if covered <= 0 or duration <= STAMP_S:
        return None
    return Clock(
        images_per_sec=covered * global_batch_size / duration,
        steps=covered,
        seconds=duration,
        resolution=2 * STAMP_S / duration,
        windows=tuple(_windows(steps, seconds, global_batch_size)),
    )


def timed_window(output: Output, stamps: Sequence[float]) -> tuple[float, float] | None:
    """When the timed loop ran at most: from the step header, which upstream prints just before it starts its clock, to the total.

    Args:
        output: what one process printed.
        stamps: when each line of it came, in seconds since the start of the child; that of line n at index n - 1.

    Returns:
        start and end in seconds since the start of the child; None where a line is missing or has no stamp.
    """
    if output.step_header_line is None or not output.total_lines or max(output.step_header_line, output.total_lines[0]) > len(stamps):
        return None
    return stamps[output.step_header_line - 1], stamps[output.total_lines[0] - 1]


def disagreement(clock: Clock, total: float, *, steps: int, tolerance: float) -> float | None:
    """How far a total is from the clock, where that is more than can be explained.

    Args:
        clock: what the stamps say.
        total: upstream's, images/sec.
        steps: how many steps the total covers; those that the clock did not see may have taken any time up to twice the usual.
        tolerance: relative difference that is always allowed for.

    Returns:
        total / clock, or None where the two agree.
    """
    unseen = max(steps - clock.steps, 0) / steps
    ratio = total / clock.images_per_sec
    return ratio if abs(ratio - 1) > tolerance + clock.resolution + unseen else None


def drift(clock: Clock) -> str:
    """How the throughput changed over the timed steps, in words; empty where it stayed within `DRIFT` or there are too few windows to say.

    A first window below all others says that the warm-up was too short; else the first third is held against the last.
    """
    rates = [window.images_per_sec for window in clock.windows]
    if len(rates) < FEWEST_WINDOWS:
        return ""
    first, rest = rates[0], statistics.median(rates[1:])
    allowed = DRIFT + 2 * STAMP_S * len(rates) / clock.seconds
    if first < min(rates[1:]) and first < (1 - allowed) * rest:
        steps = f"steps {clock.windows[0].first_step} to {clock.windows[0].last_step}"
        return f"{steps} at {first:.2f} images/sec, those after at {rest:.2f}: the warm-up was too short"
    third = len(rates) // 3
    early, late = statistics.fmean(rates[:third]), statistics.fmean(rates[-third:])
    return f"from {early:.2f} to {late:.2f} images/sec in the course of the trial" if abs(late / early - 1) > allowed else ""


def _windows(steps: Sequence[Step], seconds: Sequence[float], global_batch_size: int) -> Iterator[Window]:
    start = steps[0]
    for step in steps[1:]:
        duration = seconds[step.line - 1] - seconds[start.line - 1]
        if duration >= SHORTEST_WINDOW_S and step.step > start.step:
            rate = (step.step - start.step) * global_batch_size / duration
            yield Window(first_step=start.step + 1, last_step=step.step, images_per_sec=rate)
            start = step
