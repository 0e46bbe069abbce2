"""The main table as plain text, for the page, the terminal and the picture alike. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from wrapper.parser.verdict import Warning
from wrapper.reporter.analysis import Summary
from wrapper.reporter.paths import short_path
from wrapper.runner.sweep import Case

_MOST_DECIMALS = 3
"""Upstream prints totals with two; the mean of a few is known to about one more."""


class Headline(msgspec.Struct, frozen=True, kw_only=True):
    """A table of the cases: what was measured, and how sure it is."""

    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    align: str
    """A letter for each column, "l" or "r"."""
    common: dict[str, str]
    """Settings that all cases share; the others are columns."""


def headline(summaries: Sequence[Summary], case_warnings: Mapping[Case, Sequence[Warning]]) -> Headline:
    """Make the table; a setting gets a column only where cases differ in it. Warnings on trials are counted, those on a case are named."""
    common, varying = _common_and_varying([summary.case for summary in summaries])
    failed, warned = any(summary.failed for summary in summaries), any(summary.warnings or case_warnings[summary.case] for summary in summaries)
    headers = ["Model", "Batch size per device", *varying, "Images/sec (mean ± 95 % interval)", "n", "Spread (sd)", "Min to max"]
    headers += ["Failed"] if failed else []
    headers += ["Warnings"] if warned else []
    rows = []
    for summary in summaries:
        case = summary.case
        row = [case.model, str(case.batch_size), *(settings(case)[name] for name in varying), mean_text(summary), str(summary.n)]
        row.append("–" if summary.sd_percent is None else f"{significant(summary.sd_percent, 2)} %")
        row.append("–" if summary.min is None or summary.max is None else f"{summary.min:.2f} to {summary.max:.2f}")
        row += [_counts(summary.failed)] if failed else []
        row += [_counts(summary.warnings, [warning.kind for warning in case_warnings[case]])] if warned else []
        rows.append(tuple(row))
    align = "lr" + "l" * len(varying) + "rrrr" + "l" * (failed + warned)
    return Headline(headers=tuple(headers), rows=tuple(rows), align=align, common=common)


def labels(cases: Sequence[Case]) -> dict[Case, str]:
    """A short name for each case that tells it from the others, such as "resnet50, batch 64, fp16"."""
    _, varying = _common_and_varying(cases)
    return {case: ", ".join([case.model, f"batch {case.batch_size}", *(_spoken(name, settings(case)[name]) for name in varying)]) for case in cases}


def settings(case: Case) -> dict[str, str]:
    """What a figure depends on besides model and batch size, in words."""
    return {
        "Mode": case.mode,
        "Devices": f"{case.devices} {case.device.upper()}",
        "Precision": case.precision,
        "XLA": "on" if case.xla else "off",
        "Data": f"real, {short_path(case.data_dir)}" if case.data_dir else "synthetic",
        "Data set": case.data_name or "the model's own",
        "Variable update": case.variable_update,
        "Steps": str(case.steps),
        "Warm-up steps": str(case.warmup_steps),
        "More flags": " ".join(f"--{name}={short_path(value)}" for name, value in case.flags) or "none",
    }


def mean_text(summary: Summary) -> str:
    """The mean with half of its 95 % interval, or why there is none."""
    if summary.mean is None:
        return "no valid figure" if summary.failed else "not run"
    mean = significant(summary.mean, 4)
    return mean if summary.ci95 is None else f"{mean} ± {significant(summary.ci95, 2)}"


def significant(value: float, digits: int) -> str:
    """A number rounded to so many significant digits, but never short of its units, nor finer than the totals bear: 0.123, 130.1, 12346."""
    exponent = int(f"{value:.{digits - 1}e}".partition("e")[2])
    return f"{value:.{min(_MOST_DECIMALS, max(0, digits - 1 - exponent)) if value else 0}f}"


def _common_and_varying(cases: Sequence[Case]) -> tuple[dict[str, str], list[str]]:
    all_settings = [settings(case) for case in cases]
    names = list(all_settings[0]) if all_settings else []
    varying = [name for name in names if len({values[name] for values in all_settings}) > 1]
    return {name: all_settings[0][name] for name in names if name not in varying}, varying


def _spoken(name: str, value: str) -> str:
    return value if name in {"Mode", "Devices", "Precision", "Variable update"} else f"{name} {value}"


def _counts(counted: dict[str, int], named: Sequence[str] = ()) -> str:
    return ", ".join([*(f"{number} {name}" for name, number in counted.items()), *named]) or "–"
