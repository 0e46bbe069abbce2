"""The picture of a report: a bar for each case. Pure."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Sequence
from typing import Any

import msgspec

from wrapper.reporter.analysis import figures_by_case
from wrapper.reporter.content import Report
from wrapper.reporter.headline import mean_text
from wrapper.reporter.markdown import clean
from wrapper.reporter.paths import without_directories
from wrapper.reporter.store import Trial

_WIDTH = 420
"""Pixels; a telephone shows it without shrinking the text much."""
_ROW = 46
_TITLE_CHARACTERS = 52
_SUBTITLE_CHARACTERS = 68
_BAR_KEY = "Bar: mean of the repeats (dots); line: its 95 % interval."
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


def picture(trials: Sequence[Trial], report: Report) -> str:
    """The bars, as an SVG document."""
    common = report.headline.common
    conditions = ", ".join(common[name] for name in ("Mode", "Devices", "Precision") if name in common)
    drawn = bars(trials, report)
    key = "Tick: mean of the repeats (dots); line: its 95 % interval. Logarithmic." if lowest(drawn) else _BAR_KEY
    return draw(drawn, title=report.title, subtitle=[line for line in (report.notice, conditions, key, report.unfinished) if line])


def bars(trials: Sequence[Trial], report: Report) -> tuple[Bar, ...]:
    """A bar for each case, in the report's order."""
    repeats = figures_by_case(trials)
    return tuple(
        Bar(
            label=report.labels[summary.case],
            text=mean_text(summary),
            mean=summary.mean,
            ci95=summary.ci95,
            repeats=tuple(repeats.get(summary.case, ())),
        )
        for summary in report.summaries
    )


def draw(bars: Sequence[Bar], *, title: str, subtitle: Sequence[str]) -> str:
    """Draw horizontal bars from zero (or ticks on a logarithmic scale, see `WIDE`), each with its repeats and its 95 % interval.

    At most 40, and it says if there are more.

    Returns:
        an SVG document on a white ground.
    """
    import altair as alt

    shown = bars[:MOST_BARS]
    more = f"The first {len(shown)} of {len(bars)} cases; all are in results.csv." if len(bars) > len(shown) else ""
    end = 1.08 * longest(shown)
    base = alt.Chart().encode(y=alt.Y("row:O", axis=None))
    low = lowest(shown)
    wide = low > 0
    scale = alt.Scale(domain=[low, end], nice=False, type="log" if wide else "linear")
    x = alt.X("mean:Q", title="images/sec", scale=scale, axis=alt.Axis(tickCount=5, format="~r"))
    marks = {True: base.mark_tick(thickness=4, size=18, yOffset=8, color="#6baed6"), False: base.mark_bar(height=14, yOffset=8, color="#9ecae1")}
    layers = [
        marks[wide].encode(x=x),
        alt.Chart(alt.InlineData(values=_points(shown)))
        .mark_circle(yOffset=8, size=28, color="#d94801", opacity=0.7)
        .encode(y=alt.Y("row:O", axis=None), x="value:Q"),
        base.mark_rule(yOffset=8, strokeWidth=2, color="#08306b").encode(x="low:Q", x2="high:Q"),
        base.mark_text(align="left", dy=-9, fontSize=13, color="#222222", limit=_WIDTH * 0.62).encode(x=alt.value(0), text="label:N"),
        base.mark_text(align="right", dy=-9, fontSize=13, fontWeight="bold", color="#222222").encode(x=alt.value(_WIDTH), text="text:N"),
    ]
    chart = alt.layer(*layers, data=alt.InlineData(values=[_row(number, bar, low, end) for number, bar in enumerate(shown)])).properties(
        width=_WIDTH,
        height=max(1, len(shown)) * _ROW,
        padding=12,
        background="#ffffff",
        title=alt.Title(
            _wrapped(title, _TITLE_CHARACTERS),
            subtitle=[part for line in (*subtitle, more) for part in _wrapped(line, _SUBTITLE_CHARACTERS)],
            anchor="start",
            fontSize=15,
            subtitleFontSize=12,
            offset=14,
        ),
    )
    svg = io.StringIO()
    chart.configure_view(stroke=None).configure_axis(labelFontSize=12, titleFontSize=12, gridColor="#e5e5e5").save(svg, format="svg")
    return svg.getvalue()


def longest(bars: Sequence[Bar]) -> float:
    """The largest figure to be drawn; an interval of two or three repeats can be so wide that it would shrink everything else, and is cut instead."""
    largest = max((value for bar in bars for value in (bar.mean or 0.0, *bar.repeats)), default=0.0) or 1.0
    return max(largest, *(min(bar.mean + bar.ci95, 1.3 * largest) for bar in bars if bar.mean and bar.ci95), 0.0)


def lowest(bars: Sequence[Bar]) -> float:
    """Where the scale begins: at zero, or above it where it has to be logarithmic (see `WIDE`)."""
    means = [bar.mean for bar in bars if bar.mean]
    return 0.5 * min(means) if means and max(means) > WIDE * min(means) else 0.0


def _row(number: int, bar: Bar, low: float, end: float) -> dict[str, Any]:
    # Cut here and not by Vega's clip: its clip paths are numbered through a process, and the same picture must be the same bytes.
    interval = {} if bar.mean is None or bar.ci95 is None else {"low": max(low, bar.mean - bar.ci95), "high": min(end, bar.mean + bar.ci95)}
    return {"row": number, "label": without_directories(clean(bar.label)), "text": clean(bar.text), "mean": bar.mean} | interval


def _points(bars: Sequence[Bar]) -> list[dict[str, Any]]:
    return [{"row": number, "value": value} for number, bar in enumerate(bars) if len(bar.repeats) <= MOST_POINTS for value in bar.repeats]


def _wrapped(text: str, characters: int) -> list[str]:
    return textwrap.wrap(without_directories(clean(text)), characters)
