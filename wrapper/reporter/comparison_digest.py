"""Comparisons in about a screen: a line for each device of each source, and in words what is not shown. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from wrapper.reporter.analysis import grouped
from wrapper.reporter.comparison import Comparison, Unmatched
from wrapper.reporter.comparison_grid import HeadlineTable, headline_tables
from wrapper.reporter.comparison_tables import Parts, comparison_tables, numbered, source_lines
from wrapper.reporter.headline import Table
from wrapper.reporter.reference import Source

_FEW = 12
"""So many ratios, each with its conditions, fit a screen or two, and nothing is left out."""


_UNCERTAIN = 0.5
"""Half the width of the 95 % interval of a mean, as a share of it, beyond which that is said of its ratios."""


def comparison_digest(comparisons: Sequence[Comparison], sources: Mapping[str, Source]) -> Parts:
    """As `comparison_tables` where there are few ratios, else in per cent alone, with the conditions by name and what was left out."""
    ratios = sum(len(comparison.rows) for comparison in comparisons)
    if ratios + sum(len(comparison.unmatched) for comparison in comparisons) <= _FEW:
        yield from comparison_tables(comparisons, sources)
        return
    numbers = numbered(row.reference.source for comparison in comparisons for row in comparison.rows)
    notes: dict[str, int] = {}
    lines = 0
    for comparison in comparisons:
        yield str(comparison.conditions)
        for headline in headline_tables(comparison):
            yield f"{headline.gpu} / the other device in per cent (above 100 % this one is faster); {headline.conditions}"
            yield _grid(headline, numbers, notes)
            lines += len(headline.lines)
        yield from _uncertain(comparison)
        yield from _unmatched(comparison.unmatched)
        if comparison.missing:
            yield f"No valid figure: {', '.join(case.name for case in comparison.missing)}"
    yield from (f"({number}) {label}" for label, number in notes.items())
    yield from source_lines(numbers, sources)
    yield f"Shown: a line for each device of each source ({lines}), made of all ratios ({ratios}); where a model has several, their geometric mean"
    yield "Not shown: each ratio with its interval, published figure, cautions and exact conditions, and why a case has none: add --all"


def _grid(headline: HeadlineTable, numbers: Mapping[str, int], notes: dict[str, int]) -> Table:
    """Models across and devices down; `notes` gets what is alike in a line, by number."""
    measured = ("" if figure is None else f"\n{figure:.1f}" for figure in headline.figures)
    models = (model + figure for model, figure in zip(headline.models, measured, strict=True))
    rows = [
        (
            *(line.gpu, f"[{numbers[line.source]}]", *(cell and cell.text for cell in line.cells), line.text),
            f"({notes.setdefault(line.label, len(notes) + 1)})",
        )
        for line in headline.lines
    ]
    return Table(("Device\nimages/sec here", "Source", *models, headline.over, "Alike"), rows, "ll" + "r" * (len(headline.models) + 1) + "l")


def _uncertain(comparison: Comparison) -> Iterator[str]:
    """A line for each case whose mean is known so badly that its ratios say little."""
    for case, rows in grouped(comparison.rows, lambda row: row.summary.case).items():
        mean, interval = rows[0].summary.mean, rows[0].summary.ci95
        if mean and interval and interval > _UNCERTAIN * mean:
            yield f"Too uncertain to rely on: {case.name}, whose 95 % interval is ± {100 * interval / mean:.0f} % of the mean; repeat it more often"


def _unmatched(unmatched: Sequence[Unmatched]) -> Iterator[str]:
    """A line for each case."""
    for name, of_case in grouped(unmatched, lambda one: one.case.name).items():
        yield f"Nothing to compare {name} with in {', '.join(one.against or 'all published figures' for one in of_case)}"
