"""Reports of several machines side by side: a table for each set of conditions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import msgspec

from wrapper.errors import UsageError
from wrapper.reporter.analysis import Summary
from wrapper.reporter.comparison import shared_conditions
from wrapper.reporter.matching import Conditions, conditions_of, references_from
from wrapper.reporter.report import read_report

Column = tuple[str, int]
"""Model and batch size per device."""

_SAME = (
    *("mode", "data_set", "precision", "tf32", "devices", "data", "xla", "variable_update"),
    *("all_reduce", "parameter_device", "optimizer", "flags"),
)
"""What is the same in a whole table: the conditions of `matching.STRICT` besides the batch size, and what upstream's flags change."""


class Ratio(msgspec.Struct, frozen=True, kw_only=True):
    """This report's mean / that of the first report in the table that has one; above 1 is faster."""

    value: float
    ci95: float | None
    """Half the width of its 95 % interval; None for a report beside itself, and with fewer than two trials on a side."""


class MergedCell(msgspec.Struct, frozen=True, kw_only=True):
    """A case of a report."""

    summary: Summary
    caveats: tuple[str, ...]
    """Kinds of warnings on it and its trials, and whether its sweep is incomplete."""


class MergedLine(msgspec.Struct, frozen=True, kw_only=True):
    """A report in a table."""

    conditions: Conditions
    cells: tuple[MergedCell | None, ...]
    """By column; None where the report has no valid figure."""
    ratios: tuple[Ratio | None, ...]
    """By column; None also where the ratio's interval is wider than the ratio, which then says nothing."""


class MergedTable(msgspec.Struct, frozen=True, kw_only=True):
    """Reports measured under the same conditions."""

    conditions: str
    columns: tuple[Column, ...]
    lines: tuple[MergedLine, ...]


def merge(directories: Sequence[Path]) -> tuple[MergedTable, ...]:
    """Put reports side by side, model for model and batch size for batch size; cases of different conditions are kept apart.

    Releases, repeats and numbers of steps may differ within a table: each line's conditions and summaries tell them.

    Args:
        directories: report directories, in the order in which they are to be shown.

    Raises:
        FatalError: a directory is no report, or a demo.
        UsageError: a report is named twice.
    """
    if len({directory.resolve() for directory in directories}) < len(directories):
        raise UsageError("a report is named twice", "Name each report once")
    tables: dict[tuple[object, ...], dict[Path, tuple[Conditions, dict[Column, MergedCell]]]] = {}
    for directory in directories:
        report = read_report(directory)
        conditions = conditions_of(report.session, directory.resolve().name)
        valid = [summary for summary in report.summaries if summary.mean is not None]
        for summary, reference in zip(valid, references_from(valid, conditions), strict=True):
            table = tables.setdefault(tuple(getattr(reference, name) for name in _SAME), {})
            table.setdefault(directory, (conditions, {}))[1][(summary.case.model, summary.case.batch_size)] = MergedCell(
                summary=summary, caveats=report.caveats(summary)
            )
    return tuple(_table(list(table.values())) for table in tables.values())


def _table(lines: Sequence[tuple[Conditions, dict[Column, MergedCell]]]) -> MergedTable:
    first: dict[Column, MergedCell] = {}
    for _, line in lines:
        first = line | first
    columns = tuple(dict.fromkeys(column for _, line in lines for column in line))
    case = first[columns[0]].summary.case
    return MergedTable(
        conditions=f"{shared_conditions(case)}, {case.variable_update}",
        columns=columns,
        lines=tuple(
            MergedLine(
                conditions=conditions,
                cells=tuple(line.get(column) for column in columns),
                ratios=tuple(_ratio(line.get(column), first[column]) for column in columns),
            )
            for conditions, line in lines
        ),
    )


def _ratio(figure: MergedCell | None, first: MergedCell) -> Ratio | None:
    if figure is first:
        return Ratio(value=1.0, ci95=None)
    if figure is None or not figure.summary.mean or not first.summary.mean:
        return None
    value = figure.summary.mean / first.summary.mean
    if figure.summary.ci95 is None or first.summary.ci95 is None:
        return Ratio(value=value, ci95=None)
    ci95 = value * math.hypot(figure.summary.ci95 / figure.summary.mean, first.summary.ci95 / first.summary.mean)
    return Ratio(value=value, ci95=ci95) if 2 * ci95 <= value else None
