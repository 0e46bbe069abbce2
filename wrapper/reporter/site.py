"""A static site of many reports, and of other people's logs: a table of every figure, and a page for each report with its conditions. It opens
from disk."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import msgspec

from wrapper.errors import FatalError
from wrapper.parser.remedies import meanings
from wrapper.reporter.analysis import Summary
from wrapper.reporter.facts import UNKNOWN, hardware, known
from wrapper.reporter.files import explained, write_text_atomically
from wrapper.reporter.headline import settings
from wrapper.reporter.html import render, report_html
from wrapper.reporter.importer import ImportedReport
from wrapper.reporter.kept import compare_again, read_asked
from wrapper.reporter.report import read_report
from wrapper.reporter.series import read_series

INDEX = "index.html"
_CONDITIONS = ("Mode", "Devices", "Precision", "XLA", "Data")
"""Settings of a case with a column of their own; the others are on the report's page."""


class Site(msgspec.Struct, frozen=True, kw_only=True):
    """What was made."""

    index: Path
    pages: tuple[Path, ...]
    left_out: tuple[tuple[str, str], ...]
    """The name of each report that is not in it, and why."""


class _Figure(msgspec.Struct, frozen=True, kw_only=True):
    """A line of the table."""

    page: str
    machine: str
    summary: Summary
    caveats: tuple[str, ...]
    """Kinds of warnings."""
    tensorflow: str
    date: str


def write_site(reports: Sequence[Path], directory: Path, imported: Sequence[ImportedReport] = ()) -> Site:
    """Make a site of reports. Each page is made from the records anew, because a page that somebody sent could hold anything.

    Args:
        reports: report directories; demos, and those whose records can't be read, are left out and named on the site.
        directory: where it goes, made if missing; pages of an earlier site by the same names are replaced.
        imported: other people's logs, a page for each machine, GPU and release.

    Raises:
        FatalError: the site can't be written.
    """
    with explained("making the site", directory):
        directory.mkdir(parents=True, exist_ok=True)
    figures: dict[str, list[_Figure]] = {}
    left_out: list[tuple[str, str]] = []
    for source in reports:
        name = _page_name(source.resolve().name, figures)
        made = _own_page(source, name)
        if isinstance(made, str):
            left_out.append((source.name, made))
            continue
        text, figures[name] = made
        write_text_atomically(directory / name, text)
    for logs in imported:
        name = _page_name(f"{logs.conditions.name} {logs.conditions.tensorflow}", figures)
        text, figures[name] = _imported_page(logs, name)
        write_text_atomically(directory / name, text)
    write_text_atomically(directory / INDEX, _index(figures, left_out))
    return Site(index=directory / INDEX, pages=tuple(directory / name for name in figures), left_out=tuple(left_out))


def _own_page(source: Path, name: str) -> tuple[str, list[_Figure]] | str:
    """The page of a report and its lines of the table, or why it is left out."""
    try:
        report = read_report(source)
        session = report.session
        if session.demo:
            return "a demo, whose figures can't be compared with anything"
        asked = read_asked(source)
        comparison = compare_again(asked, report) if asked else None
    except FatalError as error:
        return error.what
    facts = {"machine": hardware(session), "tensorflow": known(session.release, "tensorflow"), "date": session.created[:10]}
    figures = [_Figure(page=name, summary=summary, caveats=report.caveats(summary), **facts) for summary in report.summaries]
    return report_html(report, series=read_series(source, report.trials), comparison=comparison), figures


def _imported_page(logs: ImportedReport, name: str) -> tuple[str, list[_Figure]]:
    conditions = logs.conditions
    facts = {"machine": conditions.gpu, "tensorflow": conditions.tensorflow or UNKNOWN, "date": conditions.measured or "not stated"}
    words = meanings(kind for summary in logs.summaries for kind in summary.warnings)
    text = render("imported.html.j2", title=f"{conditions.gpu}, from logs of others", logs=logs, meanings=words)
    return text, [_Figure(page=name, summary=summary, caveats=tuple(summary.warnings), **facts) for summary in logs.summaries]


def _index(pages: Mapping[str, Sequence[_Figure]], left_out: Sequence[tuple[str, str]]) -> str:
    figures = [figure for page in pages.values() for figure in page]
    cases = [figure.summary.case for figure in figures]
    filters = {"Model": sorted({case.model for case in cases})}
    filters |= {name: sorted({settings(case)[name] for case in cases}) for name in ("Precision", "Devices")}
    return render(
        "site.html.j2",
        script="site.js",
        title="Images per second by machine",
        figures=figures,
        conditions=_CONDITIONS,
        filters=filters,
        reports=sum(map(bool, pages.values())),
        meanings=meanings(kind for figure in figures for kind in figure.caveats),
        left_out=left_out,
    )


def _page_name(name: str, taken: Collection[str]) -> str:
    """A name that is safe in every file system and address, and that no other page has, in capitals or not."""
    stem = re.sub(r"[^a-z0-9.-]+", "-", name.lower()).strip("-.") or "report"
    stem = "report-index" if f"{stem}.html" == INDEX else stem
    names = (f"{stem}{suffix}.html" for suffix in ("", *(f"-{number}" for number in range(2, len(taken) + 3))))
    return next(name for name in names if name not in taken)
