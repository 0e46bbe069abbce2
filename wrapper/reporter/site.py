"""A static site of many reports: a table of every figure, and a page for each report with its conditions. It opens from disk."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import msgspec

from wrapper.errors import FatalError
from wrapper.reporter.analysis import Summary
from wrapper.reporter.content import compose
from wrapper.reporter.files import explained, write_text_atomically
from wrapper.reporter.headline import settings
from wrapper.reporter.html import render, report_html
from wrapper.reporter.numerics import load_known_losses
from wrapper.reporter.series import read_series
from wrapper.reporter.store import Session, read_records, read_session

INDEX = "index.html"
_CONDITIONS = ("Mode", "Devices", "Precision", "XLA", "Data")
"""Settings of a case with a column of their own; the others are on the report's page."""


class Site(msgspec.Struct, frozen=True, kw_only=True):
    """What was made."""

    index: Path
    pages: tuple[Path, ...]
    left_out: tuple[tuple[str, str], ...]
    """The name of each report that is not in it, and why."""


def write_site(reports: Sequence[Path], directory: Path) -> Site:
    """Make a site of reports. Each page is made from the records anew, because a page that somebody sent could hold anything.

    Args:
        reports: report directories; demos, and those whose records can't be read, are left out and named on the site.
        directory: where it goes, made if missing; pages of an earlier site by the same names are replaced.

    Raises:
        FatalError: the site can't be written.
    """
    with explained("making the site", directory):
        directory.mkdir(parents=True, exist_ok=True)
    figures: list[tuple[str, Session, Summary]] = []
    pages: list[Path] = []
    left_out: list[tuple[str, str]] = []
    for source in reports:
        try:
            session, records = read_session(source), read_records(source)
        except FatalError as error:
            left_out.append((source.name, error.what))
            continue
        if session.demo:
            left_out.append((source.name, "a demo, whose figures can't be compared with anything"))
            continue
        report = compose(session, records, load_known_losses())
        page = directory / _page_name(source, {page.name for page in pages})
        write_text_atomically(page, report_html(session, records.trials, report, series=read_series(source, records.trials)))
        pages.append(page)
        figures += [(page.name, session, summary) for summary in report.summaries]
    write_text_atomically(directory / INDEX, _index(figures, left_out))
    return Site(index=directory / INDEX, pages=tuple(pages), left_out=tuple(left_out))


def _index(figures: Sequence[tuple[str, Session, Summary]], left_out: Sequence[tuple[str, str]]) -> str:
    cases = [summary.case for _, _, summary in figures]
    filters = {"Model": sorted({case.model for case in cases})}
    filters |= {name: sorted({settings(case)[name] for case in cases}) for name in ("Precision", "Devices")}
    return render(
        "site.html.j2",
        script="site.js",
        title="Images per second by machine",
        figures=figures,
        conditions=_CONDITIONS,
        filters=filters,
        reports=len({page for page, _, _ in figures}),
        left_out=left_out,
    )


def _page_name(source: Path, taken: set[str]) -> str:
    """A name that is safe in every file system and address, and that no other page has, in capitals or not."""
    stem = re.sub(r"[^a-z0-9.-]+", "-", source.resolve().name.lower()).strip("-.") or "report"
    stem = "report-index" if f"{stem}.html" == INDEX else stem
    names = (f"{stem}{suffix}.html" for suffix in ("", *(f"-{number}" for number in range(2, len(taken) + 3))))
    return next(name for name in names if name not in taken)
