"""report.html, one file that asks for nothing else, and throughput.svg, from templates. Whatever was logged is text in them and nothing more."""

from __future__ import annotations

import base64
import functools
import hashlib
import textwrap
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from wrapper.reporter.chart import bar_chart
from wrapper.reporter.comparison import Comparison
from wrapper.reporter.comparison_grid import headline_tables
from wrapper.reporter.content import Report
from wrapper.reporter.cost import Cost
from wrapper.reporter.facts import started_by
from wrapper.reporter.figures import Figure, batch_figures, scaling_figures, series_figures
from wrapper.reporter.headline import Table, mean_text, settings, significant
from wrapper.reporter.markdown import clean
from wrapper.reporter.paths import without_directories
from wrapper.reporter.reference import load_sources
from wrapper.reporter.series import TRIALS_READ, Series
from wrapper.reporter.tables import contents, fitted
from wrapper.reporter.templates import TEMPLATES, environment

if TYPE_CHECKING:
    import jinja2
    from markupsafe import Markup

_TITLE_CHARACTERS, _SUBTITLE_CHARACTERS = 52, 68
"""What fits into a line of the picture."""


def report_html(report: Report, *, series: Mapping[int, Series] | None = None, comparison: Comparison | None = None, cost: Cost | None = None) -> str:
    """The report as a page that opens from disk.

    Args:
        series: what `read_series` found, by index of the trial; none of it where it is left out.
        comparison: the report beside references.
        cost: by the user's prices.
    """
    named = {row.reference.source for row in comparison.rows} if comparison else set()
    return render(
        "report.html.j2",
        **contents(report),
        title=report.title,
        mark=mark(report),
        common=Table(("Setting", "Value"), list(report.common.items()), "ll"),
        chart=bar_chart(report),
        figures=[*batch_figures(report), *scaling_figures(report)],
        over_time=_over_time(report, series or {}),
        note_time=f"Shown are the first {TRIALS_READ} trials; the readings of all are in logs/." if len(series or ()) >= TRIALS_READ else "",
        comparison=comparison,
        grids=headline_tables(comparison) if comparison else (),
        sources={name: source for name, source in load_sources().items() if name in named} if named else {},
        cost=cost,
        sweep=_typed(started_by(report.session)),
    )


def picture(report: Report) -> str:
    """The bars alone, as an SVG document on a white ground."""
    chart, common = bar_chart(report), report.common
    subtitle = [
        report.notice,
        ", ".join(common[name] for name in ("Mode", "Devices", "Precision") if name in common),
        f"{'Tick' if chart.x.log else 'Bar'}: mean of the repeats (dots); line: its 95 % interval.{' Logarithmic.' if chart.x.log else ''}",
        report.unfinished,
        f"The first {len(chart.bars)} of {len(report.summaries)} cases; all are in results.csv." if chart.more else "",
    ]
    return (
        _environment()
        .get_template("throughput.svg.j2")
        .render(
            chart=chart,
            title=_wrapped(report.title, _TITLE_CHARACTERS),
            subtitle=[part for line in subtitle for part in _wrapped(line, _SUBTITLE_CHARACTERS)],
            fitted=fitted,
        )
    )


def mark(report: Report) -> str:
    """What stands before every title of a demo's table or figure."""
    return "DEMO: " if report.notice else ""


def render(template: str, *, script: str = "", **values: Any) -> str:
    """Fill a template that extends base.html.j2.

    Args:
        script: a file of the templates' folder, the only script that the page may run.
        values: the template's; all text in them is escaped.
    """
    from markupsafe import Markup

    styles, code = _file("page.css"), _file(script) if script else ""
    # https://www.w3.org/TR/CSP3/: nothing is loaded, sent or embedded, and no style or script counts but the very text that is hashed here
    allowed = f"style-src '{_hash(styles)}'; " + (f"script-src '{_hash(code)}'; " if code else "")
    return (
        _environment()
        .get_template(template)
        .render(
            policy=Markup(f"default-src 'none'; {allowed}base-uri 'none'; form-action 'none'"),
            styles=Markup(styles),
            script=Markup(code),
            fitted=fitted,
            significant=significant,
            mean_text=mean_text,
            settings=settings,
            **values,
        )
    )


@functools.cache
def _environment() -> jinja2.Environment:
    return environment(lambda value: value if hasattr(value, "__html__") else without_directories(clean(value)), html=True)


def _wrapped(text: str, characters: int) -> list[str]:
    return textwrap.wrap(without_directories(clean(text)), characters)


def _file(name: str) -> str:
    return (TEMPLATES / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _over_time(report: Report, series: Mapping[int, Series]) -> list[tuple[str, list[Figure]]]:
    found = []
    for case, trials in report.by_case.items():
        label = report.labels[case]
        shown = {f"{label}, repeat {trial.repeat}, {trial.log}": series[trial.index] for trial in trials if trial.index in series}
        found += [(label, series_figures(shown))] if shown else []
    return found


def _typed(command: str) -> Markup:
    """A command line in which the directories stay, because its author typed them."""
    from markupsafe import escape

    return escape(clean(command))
