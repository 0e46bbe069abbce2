"""The same cases on several releases, side by side: releases.md and releases.html, made from the records alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from wrapper.parser.remedies import meanings
from wrapper.reporter.analysis import Summary
from wrapper.reporter.axis import Axis, Part, read_axis, read_part
from wrapper.reporter.comparison import Comparison, Row, compare, ratio_text
from wrapper.reporter.content import Report, compose
from wrapper.reporter.facts import hardware, known
from wrapper.reporter.files import write_text_atomically
from wrapper.reporter.headline import Table, common_settings, labels, mean_text
from wrapper.reporter.html import render
from wrapper.reporter.matching import conditions_of, references_from
from wrapper.reporter.page import render_markdown
from wrapper.reporter.store import Session, read_records
from wrapper.reporter.tables import shortened
from wrapper.runner.sweep import Case

FILES = ("releases.md", "releases.html")
NOT_MEASURED = "not measured"

_OWN = frozenset({"TensorFlow", "repeats"})
"""Differences that are those of the releases themselves, or that the table shows."""


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """A release that has a report."""

    part: Part
    report: Report

    @property
    def session(self) -> Session:
        return self.report.session

    @property
    def summaries(self) -> dict[Case, Summary]:
        return {summary.case: summary for summary in self.report.summaries}


class Cell(msgspec.Struct, frozen=True):
    """A case on a release."""

    figure: str
    """The mean with its interval, or why there is none."""
    said: tuple[str, ...] = ()
    """The ratio, and what a reader must know of the figure."""

    def __str__(self) -> str:
        return f"{self.figure} ({', '.join(self.said)})" if self.said else self.figure


class SideBySide(msgspec.Struct, frozen=True, kw_only=True):
    """What is shown of several releases, as plain text that may hold anything that was logged: whoever shows it has to escape it."""

    title: str
    caption: str
    """Of the figures."""
    figures: Table
    """A line for each case, then the geometric means; a column of `Cell` for each release."""
    common: dict[str, str]
    """Settings that all cases share."""
    software: Table
    """What each release stands on."""
    reports: tuple[str, ...]
    """The releases that have a report, each in a directory of its name."""
    left_out: Table
    """The releases that could not be prepared or gone on with, and why."""
    notes: tuple[str, ...]
    meanings: tuple[tuple[str, str], ...]
    """The kinds of warnings in the cells, each with what it means."""


def write_side_by_side(directory: Path) -> SideBySide:
    """Make `FILES` from the records of all releases.

    Args:
        directory: of a sweep on several releases.

    Returns:
        what they say.

    Raises:
        FatalError: records are missing or damaged, or the files can't be written.
    """
    found = read_side_by_side(directory)
    write_text_atomically(directory / FILES[0], markdown(found))
    write_text_atomically(directory / FILES[1], render("releases.html.j2", title=found.title, found=found))
    return found


def read_side_by_side(directory: Path) -> SideBySide:
    """What is shown, from the records. Raises FatalError: some are missing or damaged."""
    axis = read_axis(directory)
    measured = [
        Measured(part=part, report=compose(session, read_records(directory / part.tensorflow), ()))
        for part in axis.parts
        if (session := read_part(directory, part))
    ]
    return side_by_side(axis, measured)


def markdown(found: SideBySide) -> str:
    """The text of releases.md."""
    return render_markdown("releases.md.j2", found=found)


def side_by_side(axis: Axis, measured: Sequence[Measured]) -> SideBySide:
    """Set each release's figures beside those of the first that has any, case for case; ratios and intervals are those of `compare`. Pure."""
    base = next((one for one in measured if one.report.valid), None)
    first: dict[Case, Summary] = {}
    for one in measured:
        first |= {case: summary for case, summary in one.summaries.items() if case not in first}
    comparisons = {one.part: _compare(one, base, list(one.summaries)) for one in measured if base and one is not base}
    by_part = {one.part: one for one in measured}
    names = labels(list(first))
    rows = [(names[case], *(_cell(by_part.get(part), case, base, comparisons.get(part)) for part in axis.parts)) for case in first]
    return SideBySide(
        title=f"Images per second by TensorFlow release on {hardware(measured[0].session) if measured else 'this machine'}",
        caption="Mean images/sec with its 95 % interval"
        + (f", then the ratio to TensorFlow {base.part.tensorflow} (above 1 is faster) and warnings" if base else ""),
        figures=Table(
            ("Case", *(f"TensorFlow {part.tensorflow}" for part in axis.parts)), (*rows, *_means(axis, measured, base)), "l" + "r" * len(axis.parts)
        ),
        common=common_settings(first),
        software=_software(measured),
        reports=tuple(one.part.tensorflow for one in measured),
        left_out=Table(
            ("TensorFlow", "Left out because", "What to do"),
            [(part.tensorflow, shortened(part.reason), part.remedy) for part in axis.parts if part.reason],
            "lll",
        ),
        notes=(*_notes(measured), *_differences(comparisons)),
        meanings=meanings(kind for one in measured for summary in one.report.summaries if summary.n for kind in one.report.caveats(summary)),
    )


def _compare(one: Measured, base: Measured, cases: Sequence[Case]) -> Comparison:
    """A release beside the first, in the cases given."""
    summaries = [one.summaries[case] for case in cases]
    references = [base.summaries[case] for case in cases if case in base.summaries]
    beside = references_from(references, conditions_of(base.session, base.part.tensorflow))
    return compare(summaries, conditions_of(one.session, one.part.tensorflow), beside)


def _same_case(comparison: Comparison, case: Case) -> Row | None:
    """The ratio of a case to itself; where the first release lacks it, a comparison finds the nearest other case."""
    return next((row for row in comparison.rows if row.summary.case == case and row.reference.row == case.name), None)


def _cell(one: Measured | None, case: Case, base: Measured | None, comparison: Comparison | None) -> Cell:
    if one is None:
        return Cell(NOT_MEASURED)
    summary = one.summaries.get(case)
    if summary is None:
        return Cell("upstream can't run it")
    said = [f"{number} failed: {verdict.replace('_', ' ')}" for verdict, number in summary.failed.items()]
    if summary.mean is None:
        return Cell(mean_text(summary), tuple(said))
    row = _same_case(comparison, case) if comparison else None
    ratio = ["ratio 1"] if one is base else [f"ratio {row.ratio_text}"] if row else []
    warned = [f"warning: {kind}" for kind in one.report.caveats(summary)]
    return Cell(mean_text(summary), (*ratio, *said, *warned))


def _means(axis: Axis, measured: Sequence[Measured], base: Measured | None) -> Iterator[tuple[str | Cell, ...]]:
    """The geometric means of the ratios over the cases in which every release that has a figure at all has one, by what those cases share."""
    valid = [one for one in measured if one.report.valid]
    shared = [case for case in (base.summaries if base else ()) if all(case in one.summaries and one.summaries[case].n for one in valid)]
    if base is None or len(valid) < 2 or len(shared) < 2:
        return
    overall = {one.part: {each.conditions: each for each in _compare(one, base, shared).overall} for one in valid if one is not base}
    groups = next(iter(overall.values()))
    for conditions, any_of in groups.items():
        ratios = {part: ratio_text(of[conditions].ratio) for part, of in overall.items()} | {base.part: "1"}
        models = f"{len(any_of.models)} model{'s' if len(any_of.models) > 1 else ''}"
        label = f"geometric mean of the ratios, {models} that all have" + (f", {conditions}" if len(groups) > 1 else "")
        yield (label, *(Cell(ratios.get(part, NOT_MEASURED if part.reason else "no valid figure")) for part in axis.parts))


def _software(measured: Sequence[Measured]) -> Table:
    cuda = {"CUDA": "cuda", "cuDNN": "cudnn"} if any(one.session.device == "gpu" for one in measured) else {}
    rows = [
        (
            one.part.tensorflow,
            known(one.session.environment, "python_version"),
            *(known(one.session.release, key) for key in cuda.values()),
            known(one.session.upstream, "commit"),
        )
        for one in measured
    ]
    return Table(("TensorFlow", "Python", *cuda, "Upstream commit"), rows, "l" * (3 + len(cuda)))


def _notes(measured: Sequence[Measured]) -> Iterator[str]:
    for one in measured:
        if one.report.unfinished:
            yield f"TensorFlow {one.part.tensorflow}: {one.report.unfinished}."
    yield "Each release runs the upstream commit, Python and libraries that go with it: a ratio is that of the whole, not of TensorFlow's code alone."


def _differences(comparisons: Mapping[Part, Comparison]) -> Iterator[str]:
    for part, comparison in comparisons.items():
        rows = [row for row in comparison.rows if row.reference.row == row.summary.case.name]
        found = dict.fromkeys(str(difference) for row in rows for difference in row.match.differences if difference.what not in _OWN)
        found |= dict.fromkeys(f"{what} is not known of one of them" for row in rows for what in row.match.unstated)
        if found:
            yield f"TensorFlow {part.tensorflow} beside the first: {'; '.join(found)}."
