"""What a trial did over time, from the files beside its log: stamps of the lines, readings of the devices."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path, PureWindowsPath

import msgspec

from wrapper.parser.clock import read_stamps, window_throughput
from wrapper.reporter.analysis import figure
from wrapper.reporter.store import LOGS_DIRECTORY, Trial
from wrapper.runner.telemetry_summary import HARMFUL_REASONS, read_columns

TRIALS_READ = 60
"""A page with the curves of more trials than this would be slow to open; all readings are in the logs."""
COLUMNS = {"sm_mhz": "SM clock, MHz", "power_w": "Power, W", "temperature_c": "Temperature, °C"}
"""The columns of a device that are shown, in words."""

Points = tuple[tuple[float, float], ...]
"""Seconds since the trial's start, and a value."""

_Reading = tuple[float, dict[str, str]]
"""Seconds since the trial's start, and the row."""


class Throttled(msgspec.Struct, frozen=True, kw_only=True):
    """A stretch of readings that all say that a device was held down."""

    start_s: float
    end_s: float
    reasons: tuple[str, ...]
    """In NVIDIA's words."""


class Series(msgspec.Struct, frozen=True, kw_only=True):
    """One trial over time. Empty is what was not kept."""

    throughput: Points = ()
    """images/sec of each window of the independent clock (`wrapper.parser.clock`), at its end."""
    steps: tuple[tuple[int, int], ...] = ()
    """The first and the last step of each window."""
    readings: dict[str, dict[str, Points]] = {}
    """By column of `COLUMNS`, then by device, such as "gpu0"."""
    throttled: tuple[Throttled, ...] = ()


def read_series(directory: Path, trials: Sequence[Trial]) -> dict[int, Series]:
    """The first `TRIALS_READ` trials that have a valid figure and something to show over time, by index.

    Args:
        directory: the report's; only files in its `logs/` are read, whatever a record says.
    """
    valid = [trial for trial in trials if figure(trial) is not None][:TRIALS_READ]
    found = {trial.index: _series(directory / LOGS_DIRECTORY, trial) for trial in valid}
    return {index: series for index, series in found.items() if series.throughput or series.readings}


def _series(logs: Path, trial: Trial) -> Series:
    name = PureWindowsPath(trial.log).stem  # a Windows path knows the separators of both worlds
    stamps: Sequence[float] = ()
    with suppress(OSError, ValueError):
        stamps = read_stamps(logs / f"{name}.times.csv")
    stamped = {step.step: stamps[step.line - 1] for step in trial.steps if 0 < step.line <= len(stamps)}
    clock = window_throughput(trial.steps, stamps, trial.case.global_batch_size)
    windows = clock.windows if clock else ()
    readings = _readings(logs / f"{name}.telemetry.csv")
    if stamped:  # the steps last seconds, the start before them minutes
        readings = [(at, cells) for at, cells in readings if min(stamped.values()) <= at <= max(stamped.values())]
    return Series(
        throughput=tuple((stamped[window.last_step], window.images_per_sec) for window in windows),
        steps=tuple((window.first_step, window.last_step) for window in windows),
        readings={column: curves for column in COLUMNS if (curves := _curves(readings, column))},
        throttled=tuple(_throttled(readings)),
    )


def _readings(path: Path) -> list[_Reading]:
    """The whole rows of the sampler's CSV whose time is a number; none where it can't be read."""
    with suppress(OSError, UnicodeDecodeError, csv.Error):
        columns = read_columns(path)
        rows = (dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True))
        return [(at, row) for row in rows if (at := _number(row.get("seconds", ""))) is not None]
    return []


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _curves(readings: Sequence[_Reading], column: str) -> dict[str, Points]:
    curves: dict[str, list[tuple[float, float]]] = {}
    for at, row in readings:
        for name, cell in row.items():
            if name.endswith(f"_{column}") and (value := _number(cell)) is not None:
                curves.setdefault(name.removesuffix(f"_{column}"), []).append((at, value))
    return {device: tuple(points) for device, points in curves.items()}


def _throttled(readings: Sequence[_Reading]) -> Iterator[Throttled]:
    """Stretches of neighbouring readings with a harmful reason on any device; each lasts until the reading that no longer has it."""
    start: float | None = None
    seen: dict[str, None] = {}
    for at, row in readings:
        names = {name for column, cell in row.items() if column.endswith("_throttle") for name in cell.split("+")}
        reasons = [words for name, words in HARMFUL_REASONS.items() if name in names]
        if start is not None and not reasons:
            yield Throttled(start_s=start, end_s=at, reasons=tuple(seen))
            start, seen = None, {}
        elif reasons:
            start = at if start is None else start
            seen |= dict.fromkeys(reasons)
    if start is not None:
        yield Throttled(start_s=start, end_s=readings[-1][0], reasons=tuple(seen))
