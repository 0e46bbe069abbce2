"""What a figure costs, by the prices that the user gives and the energy that was read. No price is known here. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

import msgspec

from wrapper.errors import UsageError
from wrapper.reporter.analysis import figure, readings_of
from wrapper.reporter.content import Report
from wrapper.reporter.headline import Table
from wrapper.reporter.store import Trial
from wrapper.runner.sweep import Case

_JOULES_PER_KWH = 3.6e6


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """What each case with a figure costs."""

    table: Table
    assumptions: tuple[str, ...]
    """What it does not count."""
    priced: bool = True
    """False where no price was given, and it is a table of energy alone."""


def cost(report: Report, *, price: float | None = None, kwh: float | None = None, per_hour: float | None = None) -> Cost | None:
    """What each case costs, as far as prices were given and energy was read; all prices in the same currency, which is not named.

    Args:
        price: of the hardware, once.
        kwh: of a kilowatt-hour.
        per_hour: of an hour of the machine, as clouds rent it.

    Returns:
        None where no price was given and no energy was read.

    Raises:
        UsageError: a price is not a finite number above zero.
    """
    for name, value in (("--price", price), ("--kwh", kwh), ("--per-hour", per_hour)):
        if value is not None and not (math.isfinite(value) and value > 0):
            raise UsageError(f"{name}: {value:g} is not a price", "Give a number above zero, all prices in the same currency")
    joules = {case: found for case, trials in report.by_case.items() if (found := _joules_per_image(trials)) is not None}
    means = {summary.case: summary.mean for summary in report.summaries if summary.mean is not None}
    columns: dict[str, dict[Case, float]] = {}
    if price:
        columns["Images/sec per unit of price"] = {case: mean / price for case, mean in means.items()}
    if per_hour:
        columns["Images per unit of rent"] = {case: 3600 * mean / per_hour for case, mean in means.items()}
    if joules:
        columns["Images per joule"] = {case: 1 / energy for case, energy in joules.items()}
    if joules and kwh:
        columns["Energy cost of a million images"] = {case: 1e6 * energy * kwh / _JOULES_PER_KWH for case, energy in joules.items()}
    if not columns and not kwh:
        return None
    rows = [(report.labels[case], *(_text(values.get(case)) for values in columns.values())) for case in means]
    table = Table(("Case", *columns), rows, "l" + "r" * len(columns))
    assumptions = _assumptions(price, kwh, per_hour, bool(joules))
    return Cost(table=table, assumptions=assumptions, priced=any((price, kwh, per_hour)))


def _text(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def _joules_per_image(trials: Sequence[Trial]) -> float | None:
    """Of the GPUs over the timed window; the mean of a case's trials, None unless each with a figure was read."""
    energies = [_energy(trial, value) for trial in trials if (value := figure(trial)) is not None]
    known = [energy for energy in energies if energy is not None]
    return statistics.fmean(known) if known and len(known) == len(energies) else None


def _energy(trial: Trial, images_per_sec: float) -> float | None:
    window = readings_of(trial)
    if window is None:
        return None
    seconds = window.end_s - window.start_s
    return window.energy_j / (images_per_sec * seconds) if window.energy_j and seconds > 0 else None


def _assumptions(price: float | None, kwh: float | None, per_hour: float | None, energy: bool) -> tuple[str, ...]:
    lines = []
    if price:
        lines.append(
            f"Price {price:g}, paid once: no lifetime, resale or use is assumed, so this is throughput for the price and not a cost per image"
        )
    if per_hour:
        lines.append(f"{per_hour:g} per hour, for the timed steps alone: start, warm-up and idle hours are rented as well and not counted")
    if energy:
        lines.append(
            "Energy of the GPUs alone over the timed steps, as they report it (logs/*.telemetry.csv); CPU, fans and power supply are not in it"
        )
    if kwh:
        lines.append(f"{kwh:g} per kWh" + ("" if energy else ": not used, because no trial's energy was read"))
    return tuple(lines)
