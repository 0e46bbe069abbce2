"""comparison.json: what a report was compared with and what came of it, kept beside the report and made again whenever that is."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import msgspec

from wrapper.errors import UsageError
from wrapper.reporter.comparison import Comparison, Row, Unmatched, compare
from wrapper.reporter.content import Report
from wrapper.reporter.files import from_json, json_text, read_whole
from wrapper.reporter.matching import conditions_of
from wrapper.reporter.reference import Reference, load_references, load_sources

COMPARISON_FILE = "comparison.json"
_DIGITS = 9
"""Of a ratio that are kept: the last ones of a logarithm or a root are not the same on every machine."""


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What to compare with; of comparison.json the part that isn't worked out."""

    format: Literal[1] = 1
    against: tuple[str, ...] = ()
    """Sources, and names of GPUs and CPUs; empty: all published figures, or the baseline alone where there is one."""
    strict: bool = False
    baseline: tuple[Reference, ...] = ()
    """The figures of another report, or of logs."""


def comparing_with(asked: Asked) -> tuple[tuple[Reference, ...], tuple[str, ...]]:
    """The references and the entries of `against` that `compare` is to be given.

    Raises:
        UsageError: the baseline bears the name of a published source, and would be taken for it.
    """
    own = sorted({reference.source for reference in asked.baseline})
    if taken := [name for name in own if name in load_sources()]:
        raise UsageError(f"the baseline has the name of a published source, {taken[0]}", "Give its directory another name")
    published = load_references() if asked.against or not own else ()
    # a source by the baseline's name is always among those compared with
    return (*published, *asked.baseline), (*asked.against, *own) if asked.against else ()


def compare_again(asked: Asked, report: Report) -> Comparison:
    """The comparison that belongs to a report, whatever its directory is called. Raises what `comparing_with` and `compare` raise."""
    references, entries = comparing_with(asked)
    return compare(report.summaries, conditions_of(report.session, "this report"), references, against=entries, strict=asked.strict)


def read_asked(directory: Path) -> Asked | None:
    """What the report in a directory was compared with last; None where it never was. Raises FatalError: the file is damaged or can't be read."""
    path = directory / COMPARISON_FILE
    return decode_asked(read_whole(path, "")) if path.exists() else None


def decode_asked(data: bytes) -> Asked:
    """What comparison.json asks for. Raises FatalError: it is damaged, or of a newer version of this program."""
    return from_json(data, Asked, COMPARISON_FILE, "Delete it, and compare again with tfcnn report DIR --against")


def comparison_json(asked: Asked, comparison: Comparison) -> str:
    """The text of comparison.json: what was asked for, each ratio with its conditions, what could not be compared, and the geometric means."""
    content = {
        **msgspec.to_builtins(asked),
        "rows": [_row(row) for row in comparison.rows],
        "unmatched": [_unmatched(one) for one in comparison.unmatched],
        "without_figure": [case.name for case in comparison.missing],
        "overall": [msgspec.structs.replace(one, ratio=_rounded(one.ratio)) for one in comparison.overall],
    }
    return json_text(content, indent=1)


def _row(row: Row) -> dict[str, Any]:
    return {
        "case": row.summary.case.name,
        "images_per_sec": row.summary.mean,
        "images_per_sec_ci95": row.summary.ci95,
        "reference": {field: value for field, value in msgspec.structs.asdict(row.reference).items() if value is not None},
        "ratio": _rounded(row.ratio),
        "ratio_ci95": None if row.ci95 is None else _rounded(row.ci95),
        "conditions": row.match.label,
        "spread_of_reference": row.spread,
    }


def _unmatched(one: Unmatched) -> dict[str, Any]:
    nearest = one.nearest.reference if one.nearest else None
    return {"case": one.case.name, "against": one.against, "reason": one.reason, "nearest": nearest and [nearest.gpu, nearest.source, nearest.row]}


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")
