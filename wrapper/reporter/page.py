"""report.md, from a template in `data/templates`. Everything printed into it is escaped unless it is Markdown of ours."""

from __future__ import annotations

from typing import Any

from wrapper.reporter.comparison import Comparison
from wrapper.reporter.comparison_tables import comparison_tables
from wrapper.reporter.content import Report
from wrapper.reporter.facts import started_by
from wrapper.reporter.headline import Table
from wrapper.reporter.markdown import Markdown, code_block, inline, table
from wrapper.reporter.paths import without_directories
from wrapper.reporter.reference import load_sources
from wrapper.reporter.resuming import resume_command
from wrapper.reporter.tables import contents
from wrapper.reporter.templates import environment

_RETRIES_SHOWN = 20


def page(report: Report, *, comparison: Comparison | None = None) -> str:
    """The report as GitHub Flavored Markdown, without the directories of the machine, and with a comparison where there is one."""
    retries = (resume_command("DIR", report.session.command, "--retry", str(failed.index)) for failed in report.failures[:_RETRIES_SHOWN])
    return render_markdown(
        "report.md.j2",
        **contents(report),
        code_block=code_block,
        retries=code_block(retries),
        sweep=code_block([started_by(report.session)]),
        comparison=comparison_tables([comparison], load_sources()) if comparison else (),
    )


def render_markdown(template: str, **values: Any) -> str:
    """Fill a template whose `table` makes a table; all other text in the values is escaped."""
    return environment(_shown, html=False).get_template(template).render(**values, table=_table)


def _shown(value: object) -> Markdown:
    return value if isinstance(value, Markdown) else inline(without_directories(str(value)))


def _table(found: Table) -> Markdown:
    return table(found.headers, [[None if cell is None else _shown(cell) for cell in row] for row in found.rows], found.align)
