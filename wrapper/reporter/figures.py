"""The figures of report.html: values with their scales, which a template draws as SVG. Pure.

Drawn here and not by altair because the page's security policy allows no style attributes, the reader's theme sets the colours, and a page may hold
sixty figures.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

import msgspec

from wrapper.reporter.analysis import Summary
from wrapper.reporter.content import Report
from wrapper.reporter.headline import labels, mean_text, significant
from wrapper.reporter.series import COLUMNS, Points, Series, Throttled

T = TypeVar("T")

WIDTH = 360
"""Of every figure, in its own units: as wide as a telephone, so that the text is as large as the page's there, and larger elsewhere."""
LEFT, RIGHT, TOP = 46, 12, 22
_TALL, _MIDDLE, _LOW, _GAP = 150, 90, 46, 26
"""Heights of panels, and what is between two."""
_POINTS_DRAWN, _MARKS_DRAWN = 200, 40
_STEADY = 0.05
"""The least share of the mean that a time axis shows on either side: less would make a mountain of noise."""


class Scale(msgspec.Struct, frozen=True, kw_only=True):
    """From values to places."""

    low: float
    high: float
    start: float
    end: float
    log2: bool = False

    def at(self, value: float) -> float:
        """The place of a value; one beyond the scale is put at its end."""
        low, high, value = map(math.log2, (self.low, self.high, value)) if self.log2 else (self.low, self.high, value)
        share = (value - low) / (high - low) if high > low else 0.5
        return round(self.start + (self.end - self.start) * min(max(share, 0.0), 1.0), 1)

    def ticks(self, about: int) -> list[float]:
        """Round numbers on the scale: 1, 2 or 5 times a power of ten apart, roughly so many; on a logarithmic one, 1, 2 and 5 times each power."""
        if self.log2:
            powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
            return [value for power in powers for factor in (1, 2, 5) if self.low <= (value := factor * 10.0**power) <= self.high]
        rough = (self.high - self.low) / about
        if not rough > 0:
            return [self.low]
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= 0.999 * rough)
        return [round(number * step, 10) for number in range(math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9) + 1)]

    def apart(self, values: Iterable[float], distance: float = 24) -> list[float]:
        """The values whose labels do not touch."""
        kept: list[float] = []
        for value in values:
            if not kept or self.at(value) - self.at(kept[-1]) >= distance:
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
    steps: dict[float, int] = {}
    """Written above it, by horizontal value."""


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """Panels above each other on one horizontal axis."""

    title: str
    description: str
    panels: tuple[Panel, ...]
    x: Scale
    ticks: Sequence[float]
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
    x = Scale(low=values[0], high=values[-1], start=LEFT + 12, end=WIDTH - RIGHT - 12, log2=field == "batch_size")
    panel = Panel(label="images/sec", y=Scale(low=0, high=1.05 * max(tops), start=TOP + _TALL, end=TOP), curves=tuple(curves))
    return Figure(title=title, description="; ".join(mark.text for mark in measured), panels=(panel,), x=x, ticks=x.apart(values), label=label)


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


def series_figure(title: str, series: Series) -> Figure:
    """One trial's throughput by the clock, with the readings of its devices below it on the same seconds."""
    shown = [("images/sec; step:", {"throughput": series.throughput})] if series.throughput else []
    shown += [(COLUMNS[column], devices) for column, devices in series.readings.items()]
    times = [time for _, curves in shown for points in curves.values() for time, _ in points]
    x = Scale(low=min(times), high=max(times), start=LEFT, end=WIDTH - RIGHT)
    panels: list[Panel] = []
    spoken = []
    for label, curves in shown:
        values = [value for points in curves.values() for _, value in points]
        spoken.append(f"{label.partition(';')[0]}: {significant(min(values), 4)} to {significant(max(values), 4)}")
        y = _time_scale(values, panels[-1].y.start + _GAP if panels else TOP, _LOW if panels or not series.throughput else _MIDDLE)
        drawn = [Curve(name=name, points=_thinned(points, _POINTS_DRAWN)) for name, points in curves.items()]
        panels.append(Panel(label=label, y=y, curves=tuple(drawn), spans=series.throttled))
    if series.throughput:
        panels[0] = _with_steps(panels[0], series, x)
    reasons = ", ".join(dict.fromkeys(reason for span in series.throttled for reason in span.reasons))
    return Figure(
        title=title,
        description="; ".join(spoken) + (f"; throttled by {reasons}" if reasons else ""),
        panels=tuple(panels),
        x=x,
        ticks=x.apart(x.ticks(5)),
        label="seconds since the trial's start",
        note=f"Shaded: throttled ({reasons})." if reasons else "",
    )


def _with_steps(panel: Panel, series: Series, x: Scale) -> Panel:
    ends = _thinned(tuple(zip(series.throughput, series.steps, strict=True)), _MARKS_DRAWN)
    marks = tuple(Mark(x=time, y=value, text=f"steps {first} to {last}: {significant(value, 4)} images/sec") for (time, value), (first, last) in ends)
    beside_label = [time for (time, _), _ in ends if x.at(time) > LEFT + 96]
    last_steps = {time: last for (time, _), (_, last) in ends}
    curve = msgspec.structs.replace(panel.curves[0], marks=marks)
    return msgspec.structs.replace(panel, curves=(curve,), steps={time: last_steps[time] for time in x.apart(beside_label)})


def _time_scale(values: Sequence[float], top: float, height: float) -> Scale:
    margin = max(_STEADY * sum(values) / len(values), 0.1 * (max(values) - min(values)), 1e-9)
    return Scale(low=max(0.0, min(values) - margin), high=max(values) + margin, start=top + height, end=top)


def _thinned(points: tuple[T, ...], most: int) -> tuple[T, ...]:
    return points[:: max(1, -(-len(points) // most))]
