"""Batch sizes that are found by short trials: the largest that fits, or the first of a list that does. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec

FIRST = 32
"""Where doubling begins. Most models fit at it on most GPUs; starting at 1 would cost five trials everywhere."""
CEILING = 8192
"""Where doubling ends: 15 trials at most. In large models feature maps reach 2**31 elements earlier, where kernels fail that count in 32 bits."""

BatchSize = Annotated[int, msgspec.Meta(ge=1, le=10_000_000)]
BatchSizes = Annotated[tuple[BatchSize, ...], msgspec.Meta(min_length=1)]


class Fit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The first of these batch sizes that fits."""

    fit: BatchSizes


Wanted = Fit | Literal["max"]


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What a trial at one batch size showed."""

    batch: int
    """Per device."""
    verdict: str
    images_per_sec: float | None = None
    memory_bytes: int | None = None
    """The most that it took of any one device; None where that is not known."""
    memory_pressure: bool = False
    reason: str = ""
    """What decided the verdict, as text."""
    log: str = ""
    """Standard output log, absolute."""

    @property
    def fits(self) -> bool:
        return self.verdict == "ok"

    @property
    def too_large(self) -> bool:
        """Out of memory alone. A killed trial is not: SIGKILL comes from people and schedulers too."""
        return self.verdict == "out_of_memory"


def next_batch(outcomes: Sequence[Outcome], wanted: Wanted = "max", *, ceiling: int = CEILING) -> int | None:
    """The batch size to try next.

    The largest is found by doubling from `FIRST`, then by bisection until the smallest that is too large is at most 1, or 2 %, above the largest
    that fits. Midpoints between powers of two are multiples of 8 for as long as that is possible, which tensor cores want.

    Args:
        outcomes: of the trials so far, in any order; where they contradict each other, what fitted counts.
        wanted: the largest, or the first of a list.
        ceiling: the largest batch size to try.

    Returns:
        None when it is found, when nothing fits, and after a failure that says nothing about memory.
    """
    if unrelated(outcomes):
        return None
    low, high = largest(outcomes) or 0, too_large(outcomes)
    if wanted != "max":
        candidate = next((size for size in wanted.fit if high is None or size < high), 0)
        return candidate if candidate > low else None
    if high is None:
        return None if low >= ceiling else min(max(2 * low, FIRST), ceiling)
    return None if high - low <= max(1, low // 50) else (low + high) // 2


def found(outcomes: Sequence[Outcome], wanted: Wanted) -> int | None:
    """The batch size wanted, once `next_batch` has no more to try; None where there is none."""
    low = largest(outcomes)
    if low is None or unrelated(outcomes):
        return None
    return low if wanted == "max" else next((size for size in wanted.fit if size <= low), None)


def largest(outcomes: Sequence[Outcome]) -> int | None:
    """The largest that fitted."""
    return max((outcome.batch for outcome in outcomes if outcome.fits), default=None)


def too_large(outcomes: Sequence[Outcome]) -> int | None:
    """The smallest, above all that fitted, that did not."""
    low = largest(outcomes) or 0
    return min((outcome.batch for outcome in outcomes if outcome.too_large and outcome.batch > low), default=None)


def unrelated(outcomes: Sequence[Outcome]) -> Outcome | None:
    """The first failure that says nothing about memory."""
    return next((outcome for outcome in outcomes if not outcome.fits and not outcome.too_large), None)
