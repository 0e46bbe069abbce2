"""A report against published figures or another report, like with like. Pure, but for the table of GPU names."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence

import msgspec

from wrapper.errors import UsageError
from wrapper.reporter.analysis import Summary, grouped
from wrapper.reporter.matching import ORDER, Conditions, Match, match, measures_the_same, obstacles, refuse_demo
from wrapper.reporter.reference import Reference, gpu_names, names_with_figures, nearest
from wrapper.runner.sweep import Case


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One case beside one reference."""

    summary: Summary
    match: Match
    ratio: float
    """Measured / reference: above 1 is faster than the reference."""
    ci95: float | None
    """Half the width of the ratio's 95 % interval, from the measured interval and, where it is known, the reference's; None with fewer than
    two trials."""
    spread: str
    """What is known of the reference's own spread, in words."""

    @property
    def reference(self) -> Reference:
        return self.match.reference

    @property
    def ratio_text(self) -> str:
        return ratio_text(self.ratio, self.ci95)

    @property
    def text(self) -> str:
        """The ratio with its interval, and in per cent."""
        return f"{self.ratio_text} ({percent_text(self.ratio)})"


class Unmatched(msgspec.Struct, frozen=True, kw_only=True):
    """A case for which an asked-for source or GPU has nothing comparable."""

    case: Case
    against: str
    """As asked; "" where everything was."""
    nearest: Match | None
    """None where the model has no figure at all."""
    reason: str


class Overall(msgspec.Struct, frozen=True, kw_only=True):
    """The geometric mean of the ratios to one GPU of one source, over the models that both have; each model counts once."""

    conditions: str
    """What the measured cases have in common."""
    source: str
    gpu: str
    ratio: float
    models: tuple[str, ...]
    only_measured: tuple[str, ...]
    only_reference: tuple[str, ...]
    differing: tuple[str, ...]
    """Conditions in which at least one row differs."""
    unstated: tuple[str, ...] = ()
    """Conditions that at least one row's reference or report doesn't state."""

    @property
    def text(self) -> str:
        return f"{ratio_text(self.ratio)} ({percent_text(self.ratio)})"


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """A report beside references."""

    conditions: Conditions
    strict: bool
    rows: tuple[Row, ...]
    unmatched: tuple[Unmatched, ...]
    missing: tuple[Case, ...]
    """Cases without a valid figure: nothing is said about them."""
    overall: tuple[Overall, ...]


def ratio_text(ratio: float, ci95: float | None = None) -> str:
    """A ratio, with half the width of its interval where it has one, to three decimals, or three digits where it is small."""
    decimals = max(3, 2 - math.floor(math.log10(ratio)))
    return f"{ratio:.{decimals}f}" + ("" if ci95 is None else f" ± {ci95:.{decimals}f}")


def percent_text(ratio: float) -> str:
    """The ratio in per cent, as precise as `ratio_text`."""
    return f"{100 * ratio:.{max(1, -math.floor(math.log10(ratio)))}f} %"


def compare(
    summaries: Sequence[Summary], conditions: Conditions, references: Sequence[Reference], *, against: Sequence[str] = (), strict: bool = False
) -> Comparison:
    """Set each case beside the references of its model.

    Of each GPU of each source the nearest references are taken: all that are equally near, none averaged, nothing extrapolated.

    Args:
        summaries: of the report's cases; one without a mean is listed as missing.
        conditions: of the report.
        references: published ones, or those of `references_from`.
        against: sources, and names of GPUs and CPUs that `gpu_names` knows, to compare with; empty: all references.
        strict: keep only references whose `STRICT` conditions are stated and equal.

    Raises:
        FatalError: the report is a demo.
        UsageError: an entry of `against` is neither a source nor such a name.
    """
    refuse_demo(conditions)
    chosen = _chosen(references, against)
    rows: list[Row] = []
    unmatched: list[Unmatched] = []
    for summary in summaries:
        for entry, candidates in chosen.items() if summary.mean is not None else ():
            matches = _matches(summary, conditions, candidates)
            kept = _nearest_by_gpu(found for found in matches if not obstacles(found, strict))
            rows += [_row(summary, found) for found in kept]
            if not kept:
                unmatched.append(_unmatched(summary.case, entry, matches, strict))
    rows = list({(row.summary.case, row.reference.source, row.reference.row): row for row in rows}.values())  # entries may overlap
    return Comparison(
        conditions=conditions,
        strict=strict,
        rows=tuple(rows),
        unmatched=tuple(unmatched),
        missing=tuple(summary.case for summary in summaries if summary.mean is None),
        overall=_overall(rows, summaries, [reference for candidates in chosen.values() for reference in candidates]),
    )


def shared_conditions(case: Case) -> str:
    """What the cases have in common that are gathered in one geometric mean or one headline table."""
    parts = [case.mode, case.precision, f"{case.devices} {case.device.upper()}{'s' if case.devices > 1 else ''}", f"{case.data} data"]
    return ", ".join(parts + (["XLA"] if case.xla else []))


def geometric_mean_by_model(rows: Iterable[Row]) -> dict[str, float]:
    """The geometric mean of the ratios of each model, in the rows' order of models."""
    of_model = grouped(rows, lambda row: row.summary.case.model)
    return {model: geometric_mean(row.ratio for row in found) for model, found in of_model.items()}


def _matches(summary: Summary, conditions: Conditions, references: Iterable[Reference]) -> list[Match]:
    """The references of the case's model that a ratio can be formed with, or, where there is none, all of that model."""
    of_model = [reference for reference in references if reference.model == summary.case.model]
    comparable = [reference for reference in of_model if measures_the_same(summary.case, reference)]
    return [match(summary, conditions, reference) for reference in comparable or of_model]


def _nearest_by_gpu(matches: Iterable[Match]) -> tuple[Match, ...]:
    nearest_first = sorted(matches, key=lambda found: (found.reference.source, found.reference.gpu, found.distance, found.reference.row))
    groups = grouped(nearest_first, lambda found: (found.reference.source, found.reference.gpu))
    return tuple(found for group in groups.values() for found in group if found.distance == group[0].distance)


def _row(summary: Summary, found: Match) -> Row:
    assert summary.mean is not None
    reference = found.reference
    ratio = summary.mean / reference.images_per_sec
    relative = None if summary.ci95 is None else math.hypot(summary.ci95 / summary.mean, (reference.ci95 or 0.0) / reference.images_per_sec)
    return Row(summary=summary, match=found, ratio=ratio, ci95=None if relative is None else ratio * relative, spread=_spread(reference))


def _spread(reference: Reference) -> str:
    if reference.ci95 is not None:
        return f"mean of {reference.repeats}, its interval included"
    if reference.repeats is None:
        return "number of runs not stated, spread unknown"
    return "one run, spread unknown" if reference.repeats == 1 else f"mean of {reference.repeats}, spread not published"


def _unmatched(case: Case, entry: str, matches: Sequence[Match], strict: bool) -> Unmatched:
    nearest = min(matches, key=lambda found: (found.distance, found.reference.source, found.reference.row), default=None)
    lack = f"{entry} has no published figure of {case.model}" if entry else f"there is no published figure of {case.model}"
    reason = lack if nearest is None else "; ".join(obstacles(nearest, strict))
    return Unmatched(case=case, against=entry, nearest=nearest, reason=reason)


def _chosen(references: Sequence[Reference], against: Sequence[str]) -> dict[str, tuple[Reference, ...]]:
    if not against:
        return {"": tuple(references)}
    sources = {reference.source for reference in references}
    present = {reference.gpu for reference in references}
    chosen = {}
    for entry in against:
        if entry in sources:
            chosen[entry] = tuple(reference for reference in references if reference.source == entry)
            continue
        try:
            names = frozenset({entry}) if entry in present else gpu_names(entry, present)
        except UsageError as error:
            known = (*sources, *present, *names_with_figures(present))
            raise UsageError(f"{entry!r} is neither a source nor a GPU or CPU of the references", nearest(entry, known)) from error
        chosen[entry] = tuple(reference for reference in references if reference.gpu in names)
    return chosen


def _overall(rows: Sequence[Row], summaries: Sequence[Summary], references: Sequence[Reference]) -> tuple[Overall, ...]:
    groups = grouped(rows, lambda row: (shared_conditions(row.summary.case), row.reference.source, row.reference.gpu))
    result = []
    for (shared, source, gpu), group in sorted(groups.items()):
        case = group[0].summary.case
        by_model = geometric_mean_by_model(group)
        measured = {summary.case.model for summary in summaries if summary.mean is not None and shared_conditions(summary.case) == shared}
        published = {
            reference.model for reference in references if (reference.source, reference.gpu) == (source, gpu) and measures_the_same(case, reference)
        }
        result.append(
            Overall(
                conditions=shared,
                source=source,
                gpu=gpu,
                ratio=geometric_mean(by_model.values()),
                models=tuple(sorted(by_model)),
                only_measured=tuple(sorted(measured - set(by_model))),
                only_reference=tuple(sorted(published - set(by_model))),
                differing=differing(group),
                unstated=unstated(group),
            )
        )
    return tuple(result)


def differing(rows: Iterable[Row]) -> tuple[str, ...]:
    """The conditions in which at least one row differs, in `ORDER`."""
    return _in_order(difference.what for row in rows for difference in row.match.differences)


def unstated(rows: Iterable[Row]) -> tuple[str, ...]:
    """The conditions that at least one row's reference or report doesn't state, in `ORDER`."""
    return _in_order(what for row in rows for what in row.match.unstated)


def _in_order(conditions: Iterable[str]) -> tuple[str, ...]:
    found = set(conditions)
    return tuple(what for what in ORDER if what in found)


def geometric_mean(ratios: Iterable[float]) -> float:
    """Of at least one ratio above zero."""
    return math.exp(statistics.fmean(map(math.log, ratios)))
