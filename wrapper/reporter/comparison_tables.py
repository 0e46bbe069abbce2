"""Comparisons in sentences and tables, the same on a terminal and in report.md, as text that is not escaped yet. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from wrapper.reporter.analysis import grouped
from wrapper.reporter.comparison import Comparison, Overall, Row, Unmatched, shared_conditions
from wrapper.reporter.comparison_grid import Cell, HeadlineTable, headline_tables
from wrapper.reporter.headline import Table, mean_text
from wrapper.reporter.matching import not_stated
from wrapper.reporter.reference import Source

Parts = Iterator[str | Table]


def comparison_tables(comparisons: Sequence[Comparison], sources: Mapping[str, Source]) -> Parts:
    """Models across and devices down, what the overall figures rest on, each case beside each reference, then the sources."""
    numbers = numbered(row.reference.source for comparison in comparisons for row in comparison.rows)
    for comparison in comparisons:
        conditions = comparison.conditions
        yield str(conditions)
        for headline in headline_tables(comparison):
            yield f"{conditions.name}: {headline.gpu} / the other device in per cent; {headline.conditions}"
            yield "b64:32 is batch size 64 per device here and 32 there (? not stated)"
            yield "* other conditions differ, † are not stated there or here; which ones is said below"
            yield _headline(headline, numbers)
        if comparison.overall:
            yield "Overall: geometric mean over the models that each row names; rows with different models can't be compared"
            yield _overall(comparison.overall, numbers)
        if comparison.unmatched:
            yield "Nothing to compare with"
            yield _unmatched(comparison.unmatched)
        if comparison.missing:
            yield f"No valid figure: {', '.join(case.name for case in comparison.missing)}"
        yield from _case_parts(comparison, numbers)
    yield from source_lines(numbers, sources)


def numbered(names: Iterable[str]) -> dict[str, int]:
    """Sources numbered as they first come."""
    return {name: number for number, name in enumerate(dict.fromkeys(names), start=1)}


def source_lines(numbers: Mapping[str, int], sources: Mapping[str, Source]) -> Iterator[str]:
    """A line for each source that was numbered."""
    if numbers:
        yield "Sources"
    for name, number in numbers.items():
        source = sources.get(name)
        described = f"{source.title}, {source.published or 'no date'}, {source.url or 'no address kept'}" if source else "the baseline given"
        yield f"[{number}] {name}: {described}"


def _case_parts(comparison: Comparison, numbers: Mapping[str, int]) -> Parts:
    for case, rows in grouped(comparison.rows, lambda row: row.summary.case).items():
        summary = rows[0].summary
        what = f"{case.model}, batch size {case.batch_size} per device, {shared_conditions(case)}"
        yield f"{what}: {mean_text(summary)} images/sec, n {summary.n}"
        lines = [_row(row, numbers) for row in sorted(rows, key=lambda row: -row.ratio)]
        yield Table(("Device", "Images/sec", "This / that", "Like with like", "Source"), lines, "lrrll")


def _row(row: Row, numbers: Mapping[str, int]) -> tuple[str, ...]:
    reference = row.reference
    caution = f"; caution: {reference.caution}" if reference.caution else ""
    return reference.gpu, reference.published, row.text, f"{row.match.label}; {row.spread}{caution}", f"[{numbers[reference.source]}]"


def _headline(headline: HeadlineTable, numbers: Mapping[str, int]) -> Table:
    measured = ("" if figure is None else f"\n{figure:.1f}" for figure in headline.figures)
    headers = ("Device\nimages/sec here", "Source", *(model + figure for model, figure in zip(headline.models, measured, strict=True)), headline.over)
    rows = [(line.gpu, f"[{numbers[line.source]}]", *map(_cell, line.cells), line.text) for line in headline.lines]
    return Table(headers, rows, "ll" + "r" * (len(headers) - 2))


def _cell(cell: Cell | None) -> str | None:
    if cell is None:
        return None
    sizes = ",".join(str(here) if here == there else f"{here}:{'?' if there is None else there}" for here, there in cell.batch_sizes)
    marks = [mark for mark, conditions in (("*", cell.differing), ("†", cell.unstated)) if set(conditions) - {"batch size"}]
    return f"{cell.text} b{sizes}{''.join(marks)}"


def _overall(overall: Sequence[Overall], numbers: Mapping[str, int]) -> Table:
    rows = [
        (
            *(one.gpu, f"[{numbers[one.source]}]", one.text, ", ".join(one.models)),
            *(", ".join(names) or None for names in (one.only_measured, one.only_reference)),
            "; ".join([*filter(None, [", ".join(one.differing)]), *not_stated(one.unstated)]) or None,
        )
        for one in overall
    ]
    return Table(("Device", "Source", "This / that", "Over the models", "Only here", "Only there", "Differing"), rows, "llrllll")


def _unmatched(unmatched: Sequence[Unmatched]) -> Table:
    rows = [
        (
            *(one.case.name, one.against or None, one.reason),
            f"{one.nearest.reference.gpu}, {one.nearest.reference.source}, {one.nearest.reference.row}" if one.nearest else None,
        )
        for one in unmatched
    ]
    return Table(("Case", "Asked for", "Because", "Nearest figure"), rows, "llll")
