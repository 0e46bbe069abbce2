"""What the repeats of one case say together beside the figure, in the manner of pyperf, with the likely cause from the readings. Pure.

`pyperf check` doubts a result whose standard deviation is above 10 % of its mean, or whose extremes are 50 % off it
(https://pyperf.readthedocs.io/en/latest/cli.html#check-cmd). A training step repeats better than the microseconds that it was made for: three
repeats on an H200 lay within 0.5 %. The bounds here are nearer for that reason.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from wrapper.parser.verdict import Warning
from wrapper.reporter.analysis import figure, half_interval, readings_of, t_quantile_975
from wrapper.reporter.store import Trial
from wrapper.runner.telemetry_summary import CLOCK_FALL, HARMFUL_REASONS, THROTTLED_SHARE

FEW = 3
"""Repeats below which nothing can be said about spread; the headline is the average of three."""
EFFECT = 0.02
"""Of the mean: a smaller effect is not told, however sure. Four standard deviations of a quiet machine (0.5 %)."""
FIRST_APART = 3
"""Standard deviations of the others by which a first repeat is slower. Pure noise of 4 % does that in 12 of 100 cases of three, and in 1 of ten."""
GROUPS_APART = 2
"""Widths of the wider one by which two groups are apart. Pure noise of 4 % does that in 5 of 100 cases of six, in 22 at one width."""
UNSTABLE = 0.05
"""Of the mean, for the standard deviation and for half of the 95 % interval. Half of pyperf's 10 %: differences between GPUs are of this size."""
BIMODAL_REPEATS = 6
"""Fewer fall into two groups by chance: of three, always."""
WANTED = 0.01
"""Of the mean: the interval to which `repeats_for` is told."""
FIRST_LOSS_TOLERANCE = 0.01
"""Relative. A GPU's sums have no fixed order, and ten warm-up steps carry that on: four runs on one H200 differ by 0.0003 with ResNet-50, 0.0073 with
Inception-v4."""
DIVERGED = 15.0
"""A loss beyond it says that the training diverges, which carries every rounding on: upstream's models begin between 7 and 10."""
WARMER_C, BUSIER_PERCENT, STARVED = 5.0, 10.0, 0.9
"""From when on a temperature, the host's CPU load, and the child's share of the CPU (relative) are named as a cause."""

_Point = tuple[int, float]
"""Round and images/sec."""


def check_case(trials: Sequence[Trial]) -> tuple[Warning, ...]:
    """Check the repeats of one case; those without a valid figure are passed over.

    Returns:
        warnings of the kinds too_few, slow_first_repeat, drift, unstable and numerics. Without a valid trial there is nothing to check.
    """
    valid = sorted((trial for trial in trials if figure(trial) is not None), key=lambda trial: trial.repeat)
    points = [(trial.repeat, value) for trial in valid if (value := figure(trial)) is not None]
    if not points:
        return ()
    found = list(_too_few(points) if len(points) < FEW else _by_figures(points))
    cause = _likely_cause(valid, points) if found and len(points) > 1 else ""
    warnings = [Warning(kind=kind, detail=f"{detail}; likely cause: {cause}" if cause else detail) for kind, detail in found]
    if different := _first_losses(valid):
        warnings.append(Warning(kind="numerics", detail=different))
    return tuple(warnings)


def repeats_for(relative_sd: float, within: float) -> int:
    """How many repeats bring half of the 95 % interval to `within` (of the mean) at this standard deviation (of the mean)."""
    n = max(2, math.floor((1.96 * relative_sd / within) ** 2))
    while half_interval(relative_sd, n) > within:
        n += 1
    return n


def _too_few(points: Sequence[_Point]) -> Iterator[tuple[str, str]]:
    values = [value for _, value in points]
    reached = f": {_interval(values)}" if len(values) > 1 else ", so that nothing is known of the spread"
    yield "too_few", f"{len(values)} of at least {FEW} repeats{reached}"


def _by_figures(points: Sequence[_Point]) -> Iterator[tuple[str, str]]:
    values = [value for _, value in points]
    checks = (("slow_first_repeat", _slow_first(points)), ("drift", _drift(points)), ("unstable", _groups(values) or _noise(values)))
    return ((kind, detail) for kind, detail in checks if detail)


def _slow_first(points: Sequence[_Point]) -> str:
    (first_round, first), others = points[0], [value for _, value in points[1:]]
    mean = statistics.fmean(others)
    if first_round != 1 or mean - first <= EFFECT * mean or mean - first <= FIRST_APART * statistics.stdev(others):
        return ""
    rest = f"{min(others):.2f} to {max(others):.2f} in the others"
    return f"{first:.2f} images/sec in round 1, {rest}: {_percent(1 - first / mean)} slower than their mean"


def _drift(points: Sequence[_Point]) -> str:
    """A straight line through the rounds that changes by more than the smallest effect, and whose slope is not zero by Student's t (95 %)."""
    rounds, values = zip(*points, strict=True)
    if len(set(rounds)) < len(rounds):  # records that were put together by hand: rounds that were the same tell no course
        return ""
    slope, intercept = statistics.linear_regression(rounds, values)
    change = slope * (rounds[-1] - rounds[0])
    freedom = len(points) - 2
    residuals = sum((value - intercept - slope * at) ** 2 for at, value in points)
    explained = slope**2 * sum((at - statistics.fmean(rounds)) ** 2 for at in rounds)
    mean = statistics.fmean(values)
    if abs(change) <= EFFECT * mean or explained * freedom <= t_quantile_975(freedom) ** 2 * residuals:
        return ""
    return f"from {values[0]:.2f} to {values[-1]:.2f} images/sec over rounds {rounds[0]} to {rounds[-1]}, a trend of {_percent(change / mean)}"


def _groups(values: Sequence[float]) -> str:
    """Two groups of at least two, well apart."""
    ordered = sorted(values)
    if len(ordered) < BIMODAL_REPEATS:
        return ""
    gap, at = max((above - below, number) for number, (below, above) in enumerate(pairwise(ordered), start=1))
    low, high = ordered[:at], ordered[at:]
    widest = max(low[-1] - low[0], high[-1] - high[0])
    if min(len(low), len(high)) < 2 or gap <= max(GROUPS_APART * widest, EFFECT * statistics.fmean(values)):
        return ""
    groups = " and ".join(f"{len(group)} repeats at {group[0]:.2f} to {group[-1]:.2f}" for group in (low, high))
    return f"two groups, {groups} images/sec: their mean is the speed of neither"


def _noise(values: Sequence[float]) -> str:
    sd = statistics.stdev(values) / statistics.fmean(values)
    if max(sd, _half_interval(values)) <= UNSTABLE:
        return ""
    return f"too few or too noisy: {_interval(values)}, standard deviation {_percent(sd)}"


def _interval(values: Sequence[float]) -> str:
    relative_sd = statistics.stdev(values) / statistics.fmean(values)
    needed = f"; for ± {_percent(WANTED)} about {repeats_for(relative_sd, WANTED)} would be needed" if _half_interval(values) > WANTED else ""
    return f"95 % interval ± {_percent(_half_interval(values))} of the mean with {len(values)} repeats{needed}"


def _half_interval(values: Sequence[float]) -> float:
    return half_interval(statistics.stdev(values), len(values)) / statistics.fmean(values)


def _first_losses(trials: Sequence[Trial]) -> str:
    """How the losses at step 1 differ; nothing where they agree, where training diverges, or where real data come in another order each time."""
    if trials[0].case.data_dir:
        return ""
    losses = [(step.loss, trial.repeat) for trial in trials for step in trial.steps[:1] if step.step == 1]
    finite = [(loss, at) for loss, at in losses if loss is not None and math.isfinite(loss)]
    lost = [at for loss, at in losses if loss is None or not math.isfinite(loss)]
    if any(loss > DIVERGED for loss, _ in finite):
        return ""
    if finite and lost:
        return f"the loss at step 1 is not a number in {_rounds(lost)}, {finite[0][0]:.3f} in round {finite[0][1]}"
    if finite and max(finite)[0] - min(finite)[0] > FIRST_LOSS_TOLERANCE * abs(max(finite)[0]):
        (low, low_at), (high, high_at) = min(finite), max(finite)
        return f"the loss at step 1 is {low:.3f} in round {low_at} and {high:.3f} in round {high_at}: the repeats did not compute the same"
    return ""


def _likely_cause(trials: Sequence[Trial], points: Sequence[_Point]) -> str:
    """What was different in the slower repeats, those below the middle of the extremes; nothing where it can't be told."""
    middle = (min(value for _, value in points) + max(value for _, value in points)) / 2
    slow = [trial for trial, (_, value) in zip(trials, points, strict=True) if value < middle]
    rest = [trial for trial, (_, value) in zip(trials, points, strict=True) if value >= middle]
    signs = list(_signs([_readings(trial) for trial in slow], [_readings(trial) for trial in rest], on_cpu=trials[0].case.device == "cpu"))
    return f"{', '.join(signs)}, in {_rounds(trial.repeat for trial in slow)}" if signs else ""


def _signs(slow: Sequence[dict[str, float]], rest: Sequence[dict[str, float]], *, on_cpu: bool) -> Iterator[str]:
    def typical(name: str) -> tuple[float, float]:
        """Of the slow repeats and of the others; not a number, which compares with nothing, where one of them was not read."""
        seen = [[readings[name] for readings in group if name in readings] for group in (slow, rest)]
        return (statistics.median(seen[0]), statistics.median(seen[1])) if all(seen) else (math.nan, math.nan)

    now, before = typical("sm_mhz")
    if now < CLOCK_FALL * before:
        yield f"SM clock fell from {before:.0f} to {now:.0f} MHz"
    for reason, words in HARMFUL_REASONS.items():
        now, before = typical(reason)
        if now > before + THROTTLED_SHARE:
            yield words
    now, before = typical("temperature_c")
    if now > before + WARMER_C:
        yield f"GPU at {now:.0f} instead of {before:.0f} degrees Celsius"
    now, before = typical("cpu_percent")
    if now > before + BUSIER_PERCENT:
        yield f"host CPU load {now:.0f} % instead of {before:.0f} %"
    now, before = typical("child_cpu_percent")
    if on_cpu and now < STARVED * before:
        yield f"the benchmark got {now:.0f} % of a core instead of {before:.0f} %"


def _readings(trial: Trial) -> dict[str, float]:
    """Those that explain a slow trial: of the slowest and of the hottest of its devices. Empty where nothing was sampled."""
    summary = readings_of(trial)
    if summary is None:
        return {}
    readings = {name: spread.median for name, spread in summary.host.items()}
    for name, extreme in (("sm_mhz", min), ("temperature_c", max)):
        if seen := [device.readings[name].median for device in summary.devices if name in device.readings]:
            readings[name] = extreme(seen)
    if summary.devices:
        readings |= {reason: max(device.throttled.get(reason, 0.0) for device in summary.devices) for reason in HARMFUL_REASONS}
    return readings


def _percent(part: float) -> str:
    return f"{100 * part:.1f} %"


def _rounds(repeats: Iterable[int]) -> str:
    *most, last = map(str, repeats)
    return f"rounds {', '.join(most)} and {last}" if most else f"round {last}"
