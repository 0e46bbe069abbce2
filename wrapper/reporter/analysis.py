"""Statistics of the cases. Pure: trials in, summaries out."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Iterable
from typing import TypeVar

import msgspec

from wrapper.reporter.store import Trial
from wrapper.runner.sweep import Case
from wrapper.runner.telemetry_summary import TelemetrySummary

K = TypeVar("K")
T = TypeVar("T")

_T_975 = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
    2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
"""Student's t, 97.5 % quantile, 1 to 30 degrees of freedom: NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.6.7.2."""


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """Statistics of one case over its ok trials, in images/sec of the whole case; None is never a number that was not measured."""

    case: Case
    n: int
    """Trials with a valid figure."""
    mean: float | None = None
    median: float | None = None
    sd: float | None = None
    """Sample standard deviation between trials; None below two trials."""
    ci95: float | None = None
    """Half the width of the 95 % confidence interval of the mean; None below two trials."""
    min: float | None = None
    max: float | None = None
    failed: dict[str, int] = {}
    """Trials without a valid figure, by verdict."""
    warnings: dict[str, int] = {}
    """Trials with a valid figure and a warning, by kind of warning."""

    @property
    def sd_percent(self) -> float | None:
        """The standard deviation in per cent of the mean."""
        return None if self.sd is None or self.mean is None else 100 * self.sd / self.mean


def figure(trial: Trial) -> float | None:
    """The trial's throughput in images/sec, or None where it has no valid one."""
    value = trial.judgement.images_per_sec
    return value if trial.judgement.verdict == "ok" and value is not None and math.isfinite(value) and value > 0 else None


def figures(trials: Iterable[Trial]) -> tuple[float, ...]:
    """The valid figures, in the order of the trials."""
    return tuple(value for trial in trials if (value := figure(trial)) is not None)


def readings_of(trial: Trial) -> TelemetrySummary | None:
    """The trial's readings over its timed window; None where there are none."""
    try:
        return msgspec.convert(trial.telemetry, TelemetrySummary)
    except msgspec.ValidationError:
        return None


def failure(trial: Trial) -> str | None:
    """The verdict of a trial without a valid figure, None for one that has it. An "ok" without a figure is a bogus total."""
    if figure(trial) is not None:
        return None
    return trial.judgement.verdict if trial.judgement.verdict != "ok" else "bogus_total"


def by_case(trials: Iterable[Trial], cases: Iterable[Case] = ()) -> dict[Case, list[Trial]]:
    """The trials of each case of `cases`, in their order, then of each other case in the order of its first trial."""
    return {case: [] for case in cases} | grouped(trials, lambda trial: trial.case)


def grouped(items: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    """The items by their key, in the order in which they come."""
    groups: dict[K, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def summarise(trials: Iterable[Trial], cases: Iterable[Case] = ()) -> tuple[Summary, ...]:
    """Summarise each case over its trials' totals (never over step lines, which are running means).

    Args:
        trials: in the order planned.
        cases: all cases planned, in order; those without a trial get a summary with n = 0.

    Returns:
        a summary for each case of `by_case`, in its order.
    """
    return tuple(_summary(case, of_case) for case, of_case in by_case(trials, cases).items())


def t_quantile_975(degrees_of_freedom: int) -> float:
    """The 97.5 % quantile of Student's t, for two-sided 95 % intervals.

    Above 30 degrees of freedom it is the normal quantile with two terms of its expansion: Abramowitz and Stegun, 26.7.5 (error below 0.0001).
    """
    if degrees_of_freedom < 1:
        raise ValueError("a t quantile needs at least one degree of freedom")
    if degrees_of_freedom <= len(_T_975):
        return _T_975[degrees_of_freedom - 1]
    z = statistics.NormalDist().inv_cdf(0.975)
    return z + (z**3 + z) / (4 * degrees_of_freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * degrees_of_freedom**2)


def half_interval(sd: float, n: int) -> float:
    """Half the width of the 95 % interval of the mean of `n` values, at least two, in the unit of their standard deviation."""
    return t_quantile_975(n - 1) * sd / math.sqrt(n)


def _summary(case: Case, trials: list[Trial]) -> Summary:
    valid = [(trial, value) for trial in trials if (value := figure(trial)) is not None]
    values = [value for _, value in valid]
    n = len(values)
    sd = statistics.stdev(values) if n > 1 else None
    return Summary(
        case=case,
        n=n,
        mean=statistics.fmean(values) if values else None,
        median=statistics.median(values) if values else None,
        sd=sd,
        ci95=None if sd is None else half_interval(sd, n),
        min=min(values, default=None),
        max=max(values, default=None),
        failed=_counted(name for trial in trials if (name := failure(trial)) is not None),
        warnings=_counted(kind for trial, _ in valid for kind in {warning.kind for warning in trial.judgement.warnings}),
    )


def _counted(names: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(names).items()))
