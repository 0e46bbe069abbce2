"""Make the report from the records alone: the same records give the same bytes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from wrapper.reporter.content import Report, compose
from wrapper.reporter.cost import cost
from wrapper.reporter.files import write_text_atomically
from wrapper.reporter.html import picture, report_html
from wrapper.reporter.kept import COMPARISON_FILE, compare_again, comparison_json, read_asked
from wrapper.reporter.numerics import load_known_losses
from wrapper.reporter.page import page
from wrapper.reporter.results import results_csv, results_json
from wrapper.reporter.series import read_series
from wrapper.reporter.store import read_records, read_session

FILES = ("report.md", "report.html", "results.csv", "results.json", "throughput.svg")


def read_report(directory: Path) -> Report:
    """The records in a sweep's report directory, and what they say. Raises FatalError: they are missing or damaged."""
    return compose(read_session(directory), read_records(directory), load_known_losses())


def write_report(directory: Path, prices: Mapping[str, float | None] | None = None) -> Report:
    """Make `FILES` from session.json and trials.jsonl, the curves of report.html from what is in logs/, and what comparison.json asks for, if there
    is one, again.

    Args:
        directory: a sweep's report directory.
        prices: those of `cost`, by name, for report.html; they are not kept.

    Returns:
        what the report says.

    Raises:
        FatalError: the records or comparison.json are missing or damaged, or the files can't be written.
        UsageError: comparison.json names what this version's references lack, or a price is not a number above zero.
    """
    report = read_report(directory)
    asked = read_asked(directory)
    compared = compare_again(asked, report) if asked else None
    series = read_series(directory, report.trials)
    texts = (
        page(report, comparison=compared),
        report_html(report, series=series, comparison=compared, cost=cost(report, **prices or {})),
        results_csv(report),
        results_json(report),
        picture(report),
    )
    for name, text in zip(FILES, texts, strict=True):
        write_text_atomically(directory / name, text)
    if asked and compared:
        write_text_atomically(directory / COMPARISON_FILE, comparison_json(asked, compared))
    return report
