"""A comparison as published GPU comparisons print it: models across, devices down, per cent. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from wrapper.reporter.analysis import grouped
from wrapper.reporter.comparison import (
    Comparison,
    Row,
    differing,
    geometric_mean,
    geometric_mean_by_model,
    percent_text,
    shared_conditions,
    unstated,
)
from wrapper.reporter.matching import not_stated


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """A model on a GPU in a headline table."""

    ratio: float
    """Measured / reference."""
    batch_sizes: tuple[tuple[int, int | None], ...]
    """Measured and reference batch size of each row behind it."""
    differing: tuple[str, ...]
    """Conditions in which at least one row behind it differs."""
    unstated: tuple[str, ...]
    """Conditions that at least one row behind it doesn't state."""

    @property
    def text(self) -> str:
        """In per cent, as published comparisons have it."""
        return percent_text(self.ratio)

    @property
    def label(self) -> str:
        """What differs and what is not stated, in words; empty where all is stated and the same."""
        return _label(self.differing, self.unstated)


class HeadlineLine(msgspec.Struct, frozen=True, kw_only=True):
    """A GPU of a source in a headline table."""

    gpu: str
    source: str
    cells: tuple[Cell | None, ...]
    """By model; None where there is nothing to compare."""
    overall: float | None
    """The geometric mean of the ratios over all models of the table; None where the line lacks one: means over other models can't be compared."""

    differing: tuple[str, ...]
    """Conditions in which at least one row behind it differs."""
    unstated: tuple[str, ...]
    """Conditions that at least one row behind it doesn't state."""

    @property
    def label(self) -> str:
        """What differs and what is not stated, in words."""
        return _label(self.differing, self.unstated) or "same conditions"

    @property
    def text(self) -> str:
        return f"only {sum(map(bool, self.cells))} of {len(self.cells)}" if self.overall is None else percent_text(self.overall)


class HeadlineTable(msgspec.Struct, frozen=True, kw_only=True):
    """Models across, GPUs down, "this GPU / that GPU" in per cent."""

    conditions: str
    gpu: str
    """This GPU."""
    models: tuple[str, ...]
    figures: tuple[float | None, ...]
    """The measured mean by model in images/sec; None where the model has several cases (batch sizes) under these conditions."""
    lines: tuple[HeadlineLine, ...]

    @property
    def over(self) -> str:
        """What heads the column of geometric means."""
        return f"All {len(self.models)} models (geometric mean)" if len(self.models) > 1 else "Geometric mean"


def headline_tables(comparison: Comparison) -> tuple[HeadlineTable, ...]:
    """A table for each set of conditions that the cases share: the lines that have all models first, slowest reference first among those."""
    tables = grouped(comparison.rows, lambda row: shared_conditions(row.summary.case))
    return tuple(_table(comparison.conditions.gpu, shared, rows) for shared, rows in tables.items())


def _table(gpu: str, shared: str, rows: Sequence[Row]) -> HeadlineTable:
    models = tuple(geometric_mean_by_model(rows))
    lines = grouped(rows, lambda row: (row.reference.gpu, row.reference.source))
    return HeadlineTable(
        conditions=shared,
        gpu=gpu,
        models=models,
        figures=tuple(_only_mean(rows, model) for model in models),
        lines=tuple(sorted((_line(*key, line, models) for key, line in lines.items()), key=_rank)),
    )


def _label(differing: Sequence[str], unstated: Sequence[str]) -> str:
    return "; ".join([*([f"differs in {', '.join(differing)}"] if differing else []), *not_stated(unstated)])


def _rank(line: HeadlineLine) -> tuple[int, float]:
    ratios = [cell.ratio for cell in line.cells if cell]
    return -len(ratios), -geometric_mean(ratios)


def _only_mean(rows: Iterable[Row], model: str) -> float | None:
    means = {row.summary.case: row.summary.mean for row in rows if row.summary.case.model == model}
    return next(iter(means.values())) if len(means) == 1 else None


def _line(gpu: str, source: str, rows: Sequence[Row], models: Sequence[str]) -> HeadlineLine:
    behind = {model: [row for row in rows if row.summary.case.model == model] for model in models}
    means = geometric_mean_by_model(rows)
    cells = tuple(_cell(means[model], behind[model]) if behind[model] else None for model in models)
    overall = geometric_mean(means.values()) if all(cells) else None
    return HeadlineLine(gpu=gpu, source=source, cells=cells, overall=overall, differing=differing(rows), unstated=unstated(rows))


def _cell(ratio: float, rows: Sequence[Row]) -> Cell:
    sizes = dict.fromkeys((row.summary.case.batch_size, row.reference.batch_size) for row in rows)
    return Cell(ratio=ratio, batch_sizes=tuple(sizes), differing=differing(rows), unstated=unstated(rows))
