"""Reports of several machines side by side: a table for each set of conditions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from wrapper.errors import UsageError
from wrapper.reporter.analysis import Summary, summarise
from wrapper.reporter.comparison import shared_conditions
from wrapper.reporter.matching import Conditions, conditions_of, references_from
from wrapper.reporter.store import read_session, read_trials

Column = tuple[str, int]
"""Model and batch size per device."""

_SAME = (
    *("mode", "data_set", "precision", "tf32", "devices", "data", "xla", "variable_update"),
    *("all_reduce", "parameter_device", "optimizer", "flags"),
)
"""What is the same in a whole table: the conditions of `matching.STRICT` besides the batch size, and what upstream's flags change."""


class MergedLine(msgspec.Struct, frozen=True, kw_only=True):
    """A report in a table."""

    conditions: Conditions
    cells: tuple[Summary | None, ...]
    """By column; None where the report has no valid figure."""
    ratios: tuple[float | None, ...]
    """By column: this report's mean / that of the first report in the table that has one; above 1 is faster."""


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
    tables: dict[tuple[object, ...], dict[Path, tuple[Conditions, dict[Column, Summary]]]] = {}
    for directory in directories:
        conditions = conditions_of(read_session(directory), directory.resolve().name)
        valid = [summary for summary in summarise(read_trials(directory)) if summary.mean is not None]
        for summary, reference in zip(valid, references_from(valid, conditions), strict=True):
            table = tables.setdefault(tuple(getattr(reference, name) for name in _SAME), {})
            table.setdefault(directory, (conditions, {}))[1][(summary.case.model, summary.case.batch_size)] = summary
    return tuple(_table(list(table.values())) for table in tables.values())


def _table(lines: Sequence[tuple[Conditions, dict[Column, Summary]]]) -> MergedTable:
    first: dict[Column, Summary] = {}
    for _, line in lines:
        first = line | first
    columns = tuple(dict.fromkeys(column for _, line in lines for column in line))
    case = first[columns[0]].case
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


def _ratio(summary: Summary | None, first: Summary) -> float | None:
    return summary.mean / first.mean if summary and summary.mean and first.mean else None
