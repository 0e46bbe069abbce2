"""The figures of report.html: values with their scales, which a template draws as SVG. Pure.

Drawn here and not by a library because the page's security policy allows no style attributes, the reader's theme sets the colours, a page may hold
sixty figures, and each is as wide as its place while its text stays as large as the page's: across, places are per cent; down, pixels.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

import msgspec

from wrapper.reporter.analysis import Summary
from wrapper.reporter.content import Report
from wrapper.reporter.headline import labels, mean_text, significant
from wrapper.reporter.series import COLUMNS, Points, Series, Throttled

T = TypeVar("T")

_TOP = 22
_TALL, _MIDDLE, _LOW, _GAP = 200, 110, 56, 28
"""Heights of panels, and what is between two."""
_LABEL = 11.0
"""Per cent across that a number of four digits takes on a telephone."""
_POINTS_DRAWN, _MARKS_DRAWN = 200, 40
_STEADY = 0.05
"""The least share of the mean that a time axis shows on either side: less would make a mountain of noise."""


class Scale(msgspec.Struct, frozen=True, kw_only=True):
    """From values to places."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def at(self, value: float) -> float:
        """The place of a value; one beyond the scale is put at its end."""
        low, high, value = map(math.log, (self.low, self.high, value)) if self.log else (self.low, self.high, value)
        share = (value - low) / (high - low) if high > low else 0.5
        return round(self.start + (self.end - self.start) * min(max(share, 0.0), 1.0), 2)

    def ticks(self, about: int) -> list[float]:
        """Round numbers on the scale, at least two: 1, 2 or 5 times a power of ten apart, roughly so many; on a logarithmic one, across,
        1, 2 and 5 times each power where their labels don't touch, else the powers alone."""
        if self.log:
            powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
            finest = [value for power in powers for factor in (1, 2, 5) if self.low <= (value := factor * 10.0**power) <= self.high]
            tens = [10.0**power for power in powers if self.low <= 10.0**power <= self.high]
            return finest if self.apart(finest) == finest or len(tens) < 2 else tens
        rough = (self.high - self.low) / about
        if not rough > 0:
            return [self.low]
        power = 10.0 ** math.floor(math.log10(rough))
        steps = [factor * power for factor in (10, 5, 2, 1, 0.5, 0.2)]
        roundest = max(number for number, step in enumerate(steps) if step >= 0.999 * rough)
        found = (self._multiples(step) for step in steps[roundest:])
        return next(ticks for ticks in found if len(ticks) > 1)

    def _multiples(self, step: float) -> list[float]:
        return [round(number * step, 10) for number in range(math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9) + 1)]

    def apart(self, values: Iterable[float]) -> list[float]:
        """The values whose labels do not touch, on a scale across."""
        kept: list[float] = []
        for value in values:
            if not kept or self.at(value) - self.at(kept[-1]) >= _LABEL:
                kept.append(value)
        return kept


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """A point with what it says, and half of its interval."""

    x: float
    y: float
    half: float | None = None
    text: str


class Curve(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    points: Points
    marks: tuple[Mark, ...] = ()
    ideal: bool = False
    """Not measured."""


class Panel(msgspec.Struct, frozen=True, kw_only=True):
    label: str
    y: Scale
    curves: tuple[Curve, ...]
    spans: tuple[Throttled, ...] = ()
    """Shaded."""


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """Panels above each other on one horizontal axis."""

    title: str
    description: str
    panels: tuple[Panel, ...]
    x: Scale
    ticks: dict[float, str]
    """What is written on the horizontal axis, by value."""
    label: str
    """Of the horizontal axis."""
    note: str = ""


def batch_figures(report: Report) -> list[Figure]:
    """Throughput against batch size, a figure for each model that was measured with several."""
    return _against(report, "batch_size", "batch size per device", "Throughput against batch size")


def scaling_figures(report: Report) -> list[Figure]:
    """Throughput against the number of devices, a figure for each model that was measured on several numbers of them."""
    return _against(report, "devices", "devices", "Scaling against devices")


def _against(report: Report, field: str, label: str, title: str) -> list[Figure]:
    models: dict[str, dict[object, list[Summary]]] = {}
    for summary in sorted(report.summaries, key=lambda summary: int(getattr(summary.case, field))):
        if summary.mean is not None:
            alike = msgspec.structs.replace(summary.case, **{field: 1})
            models.setdefault(summary.case.model, {}).setdefault(alike, []).append(summary)
    lines = {model: [group for group in groups.values() if len(group) > 1] for model, groups in models.items()}
    return [_against_figure(groups, report, field, label, f"{title}: {model}") for model, groups in lines.items() if groups]


def _against_figure(groups: Sequence[Sequence[Summary]], report: Report, field: str, label: str, title: str) -> Figure:
    curves = [Curve(name=name, points=_points(marks), marks=marks) for name, marks in _named_marks(groups, report, field)]
    if field == "devices":
        ends = [(curve.marks[0], curve.marks[-1].x) for curve in curves]
        ideals = [((first.x, first.y), (last, first.y / first.x * last)) for first, last in ends]
        curves += [Curve(name="in proportion to its first", points=points, ideal=True) for points in ideals]
    measured = [mark for curve in curves for mark in curve.marks]
    values = sorted({mark.x for mark in measured})
    # with two repeats an interval can be so wide that it would flatten everything else
    tops = [mark.y + min(mark.half or 0, 0.3 * mark.y) for mark in measured] + [y for curve in curves for _, y in curve.points]
    x = Scale(low=values[0], high=values[-1], start=4, end=96, log=field == "batch_size")
    panel = Panel(label="images/sec", y=Scale(low=0, high=1.05 * max(tops), start=_TOP + _TALL, end=_TOP), curves=tuple(curves))
    ticks = {value: f"{value:g}" for value in x.apart(values)}
    return Figure(title=title, description="; ".join(mark.text for mark in measured), panels=(panel,), x=x, ticks=ticks, label=label)


def _named_marks(groups: Sequence[Sequence[Summary]], report: Report, field: str) -> Iterator[tuple[str, tuple[Mark, ...]]]:
    """The marks of each group, and a name that tells it from the other groups."""
    first = [group[0].case for group in groups]
    for case, group in zip(first, groups, strict=True):
        name = labels(first)[case]
        yield (
            name.replace(f", batch {case.batch_size}", "", 1) if field == "batch_size" else name,
            tuple(
                Mark(x=getattr(one.case, field), y=one.mean or 0, half=one.ci95, text=f"{report.labels[one.case]}: {mean_text(one)} images/sec")
                for one in group
            ),
        )


def _points(marks: Iterable[Mark]) -> Points:
    return tuple((mark.x, mark.y) for mark in marks)


def series_figures(trials: Mapping[str, Series]) -> list[Figure]:
    """Throughput over the steps of each trial, by its title, with the readings of its devices below it; all on the same scales."""
    panels = {title: _curves_by_label(series) for title, series in trials.items()}
    values: dict[str, list[float]] = {}
    for shown in panels.values():
        for label, curves in shown.items():
            values.setdefault(label, []).extend(value for points in curves.values() for _, value in points)
    spans = {title: _first_and_last(shown) for title, shown in panels.items()}
    seconds = max((last - first for first, last in spans.values()), default=0.0)
    return [
        _series_figure(title, trials[title], shown, values, Scale(low=spans[title][0], high=spans[title][0] + seconds, start=0, end=100))
        for title, shown in panels.items()
    ]


def _curves_by_label(series: Series) -> dict[str, dict[str, Points]]:
    throughput = {"images/sec": {"throughput": series.throughput}} if series.throughput else {}
    return throughput | {COLUMNS[column]: devices for column, devices in series.readings.items()}


def _first_and_last(shown: Mapping[str, Mapping[str, Points]]) -> tuple[float, float]:
    times = [time for curves in shown.values() for points in curves.values() for time, _ in points]
    return min(times), max(times)


def _series_figure(title: str, series: Series, shown: Mapping[str, Mapping[str, Points]], values: Mapping[str, Sequence[float]], x: Scale) -> Figure:
    """Args: values: of all trials with the same scales, by label."""
    ends = _thinned(tuple(zip(series.throughput, series.steps, strict=True)), _MARKS_DRAWN)
    marks = tuple(Mark(x=time, y=value, text=f"{_steps(*steps)}: {significant(value, 4)} images/sec") for (time, value), steps in ends)
    panels: list[Panel] = []
    spoken = []
    for label, curves in shown.items():
        own = [value for points in curves.values() for _, value in points]
        spoken.append(f"{label}: {significant(min(own), 4)} to {significant(max(own), 4)}")
        y = _time_scale(values[label], panels[-1].y.start + _GAP if panels else _TOP, _LOW if panels or not marks else _MIDDLE)
        drawn = [Curve(name=name, points=_thinned(points, _POINTS_DRAWN), marks=() if panels else marks) for name, points in curves.items()]
        panels.append(Panel(label=label, y=y, curves=tuple(drawn), spans=series.throttled))
    reasons = ", ".join(dict.fromkeys(reason for span in series.throttled for reason in span.reasons))
    last_steps = {time: f"{last}" for (time, _), (_, last) in ends}
    seconds = {value: f"{value:g}" for value in x.ticks(5)}
    return Figure(
        title=title,
        description="; ".join(spoken) + (f"; throttled by {reasons}" if reasons else ""),
        panels=tuple(panels),
        x=x,
        ticks={value: text for value, text in (last_steps or seconds).items() if value in x.apart(last_steps or seconds)},
        label="step, placed by the clock" if last_steps else "seconds since the trial's start",
        note=f"Shaded: throttled ({reasons})" if reasons else "",
    )


def _steps(first: int, last: int) -> str:
    return f"step {last}" if first == last else f"steps {first} to {last}"


def _time_scale(values: Sequence[float], top: float, height: float) -> Scale:
    margin = max(_STEADY * sum(values) / len(values), 0.1 * (max(values) - min(values)), 1e-9)
    return Scale(low=max(0.0, min(values) - margin), high=max(values) + margin, start=top + height, end=top)


def _thinned(points: tuple[T, ...], most: int) -> tuple[T, ...]:
    return points[:: max(1, -(-len(points) // most))]
