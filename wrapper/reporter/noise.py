"""How small a difference this machine can tell apart: one case against itself. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

import msgspec

from wrapper.errors import FatalError
from wrapper.reporter.analysis import t_quantile_975

USUAL_REPEATS = 3


class Noise(msgspec.Struct, frozen=True, kw_only=True):
    """What a case does against itself. Shares are relative to the mean."""

    n: int
    """Trials on each side."""
    mean_a: float
    mean_b: float
    """images/sec"""
    ratio: float
    """Of b to a; 1 but for noise."""
    sd: float
    """Pooled standard deviation of a trial."""
    smallest_difference: float
    """Half of the 95 % interval of the difference of two means of n trials: less can't be told apart."""
    smallest_difference_usual: float
    """The same for means of three trials."""


def noise(a: Sequence[float], b: Sequence[float]) -> Noise:
    """Compare the two sides of trials taken in turn (A B A B ...).

    The interval is that of Student's two-sample test with pooled variance: NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.5.3.

    Args:
        a: images/sec of the first side's trials, at least two.
        b: the same of the other side, as many.

    Raises:
        FatalError: fewer than two valid trials on a side.
    """
    n = min(len(a), len(b))
    if n < 2:
        raise FatalError(f"{len(a)} and {len(b)} valid trials are too few to tell noise", "Look at the failures above, or ask for more --pairs")
    mean_a, mean_b = statistics.fmean(a), statistics.fmean(b)
    mean = (mean_a + mean_b) / 2
    sd = math.sqrt((statistics.variance(a) + statistics.variance(b)) / 2) / mean
    quantile = t_quantile_975(len(a) + len(b) - 2)
    return Noise(
        n=n,
        mean_a=mean_a,
        mean_b=mean_b,
        ratio=mean_b / mean_a,
        sd=sd,
        smallest_difference=quantile * sd * math.sqrt(2 / n),
        smallest_difference_usual=quantile * sd * math.sqrt(2 / USUAL_REPEATS),
    )
