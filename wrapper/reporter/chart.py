"""A bar for each case, with its repeats and its interval: values with their scale, which a template draws as SVG. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from wrapper.reporter.analysis import figures
from wrapper.reporter.content import Report
from wrapper.reporter.figures import Scale
from wrapper.reporter.headline import mean_text

MOST_BARS = 40
WIDE = 10
"""Where the fastest case is so many times as fast as the slowest, the scale is logarithmic; bars would lie there, so the mean is a tick."""
MOST_POINTS = 30
"""More repeats than this are a blot: the interval alone is drawn."""


class Bar(msgspec.Struct, frozen=True, kw_only=True):
    """One case, in images/sec."""

    label: str
    text: str
    """The figure as text, or why there is none."""
    mean: float | None
    ci95: float | None
    repeats: tuple[float, ...]
    """Empty where they are too many to be drawn."""


class BarChart(msgspec.Struct, frozen=True, kw_only=True):
    """Horizontal bars from zero, or ticks on a logarithmic scale (see `WIDE`)."""

    bars: tuple[Bar, ...]
    x: Scale
    """Across, in per cent."""
    more: int
    """Cases beyond `MOST_BARS`, which are not drawn."""


def bar_chart(report: Report) -> BarChart:
    """The first `MOST_BARS` cases, in the report's order."""
    bars = tuple(
        Bar(
            label=report.labels[summary.case],
            text=mean_text(summary),
            mean=summary.mean,
            ci95=summary.ci95,
            repeats=figures(report.by_case[summary.case]),
        )
        for summary in report.summaries[:MOST_BARS]
    )
    low = _lowest(bars)
    x = Scale(low=low, high=1.05 * _longest(bars), start=0, end=100, log=low > 0)
    drawn = tuple(msgspec.structs.replace(bar, repeats=()) if len(bar.repeats) > MOST_POINTS else bar for bar in bars)
    return BarChart(bars=drawn, x=x, more=len(report.summaries) - len(bars))


def _longest(bars: Sequence[Bar]) -> float:
    """The largest figure to be drawn; an interval of two or three repeats can be so wide that it would shrink everything else, and is cut instead."""
    largest = max((value for bar in bars for value in (bar.mean or 0.0, *bar.repeats)), default=0.0) or 1.0
    return max(largest, *(min(bar.mean + bar.ci95, 1.3 * largest) for bar in bars if bar.mean and bar.ci95), 0.0)


def _lowest(bars: Sequence[Bar]) -> float:
    """Where the scale begins: at zero, or above it where it has to be logarithmic."""
    means = [bar.mean for bar in bars if bar.mean]
    return 0.5 * min(means) if means and max(means) > WIDE * min(means) else 0.0
