"""The main table as plain text, for the page, the terminal and the picture alike. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from wrapper.parser.verdict import Warning
from wrapper.reporter.analysis import Summary
from wrapper.reporter.paths import short_path
from wrapper.runner.sweep import Case

_MOST_DECIMALS = 3
"""Upstream prints totals with two; the mean of a few is known to about one more."""


class Table(msgspec.Struct, frozen=True):
    """Text that is not escaped yet."""

    headers: Sequence[str]
    rows: Sequence[Sequence[object]]
    """None is shown as a dash."""
    align: str
    """A letter for each column, "l" or "r"."""


def headline(summaries: Sequence[Summary], case_warnings: Mapping[Case, Sequence[Warning]]) -> Table:
    """What was measured of each case, and how sure it is; a setting gets a column only where cases differ in it. Warnings on trials are counted,
    those on a case are named."""
    varying = _varying([settings(summary.case) for summary in summaries])
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
    return Table(tuple(headers), tuple(rows), align)


def common_settings(cases: Iterable[Case]) -> dict[str, str]:
    """The settings that all cases share; the others are columns of the headline."""
    all_settings = [settings(case) for case in cases]
    varying = _varying(all_settings)
    return {name: value for name, value in all_settings[0].items() if name not in varying} if all_settings else {}


def labels(cases: Sequence[Case]) -> dict[Case, str]:
    """A short name for each case that tells it from the others, such as "resnet50, batch 64, fp16"."""
    varying = _varying([settings(case) for case in cases])
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


def _varying(all_settings: Sequence[Mapping[str, str]]) -> list[str]:
    return [name for name, value in all_settings[0].items() if any(values[name] != value for values in all_settings)] if all_settings else []


def _spoken(name: str, value: str) -> str:
    return value if name in {"Mode", "Devices", "Precision", "Variable update"} else f"{name} {value}"


def _counts(counted: dict[str, int], named: Sequence[str] = ()) -> str:
    return ", ".join([*(f"{number} {name}" for name, number in counted.items()), *named]) or "–"
