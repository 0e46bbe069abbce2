"""Whether a case's losses are those that others saw: upstream seeds its generators and its synthetic data, so the printed loss is a fingerprint.

It says that the same was computed, and no more: nothing about speed, and nothing about whether the training is any good.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import msgspec
from packaging.version import InvalidVersion, Version

from wrapper.reporter.analysis import figure
from wrapper.reporter.store import Trial
from wrapper.runner.sweep import Case
from wrapper.shipped import DATA, read_table

TOLERANCE = 0.0025
"""Relative. ResNet-50 at batch 64 on three GPUs, two releases and in both precisions differs by at most 0.0014 over 100 steps: a GPU's sums have no
fixed order. Another batch size is off by 0.018 at the first step."""
LAST_STEP = 100
"""The differences grow from step to step; that of the tolerance was measured up to here."""


class KnownLosses(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A row of known_losses.yaml."""

    case: Case
    tensorflow: tuple[str, str]
    """The first and the last release, major.minor, that printed this series; those between are taken to."""
    losses: dict[int, float | None]
    """By step; None: not a number."""
    source: str
    tolerance: float = TOLERANCE
    """Relative difference up to which a series is as known."""


class Numerics(msgspec.Struct, frozen=True, kw_only=True):
    """What the losses of a case are beside the known series."""

    finding: Literal["as known", "differs", "not known"]
    row: str = ""
    """The source of the series that it was held against."""
    difference: float | None = None
    """The largest, absolute; None where one is not a number and the other is."""
    step: int | None = None
    """Where it is."""
    steps: int = 0
    """How many steps could be compared."""
    tolerance: float = TOLERANCE
    """Relative."""

    def __str__(self) -> str:
        if self.finding == "not known":
            return self.finding
        gap = "a loss that is not a number" if self.difference is None else f"largest difference {self.difference:.3f}"
        compared = f"{gap} at step {self.step}, {self.steps} steps compared, tolerance {100 * self.tolerance:g} % of the loss"
        return f"{self.finding} ({self.row}; {compared})"


def load_known_losses() -> tuple[KnownLosses, ...]:
    """Read the known series."""
    return read_table(DATA / "known_losses.yaml", tuple[KnownLosses, ...])


def numerics(trials: Sequence[Trial], known: Sequence[KnownLosses]) -> Numerics:
    """Hold the losses of one case's valid trials against the known series of the same settings and release.

    Returns:
        of the trial that is furthest off, against the series that shares most steps with it, among equals the nearest.
    """
    compared = [nearest for trial in trials if figure(trial) is not None if (nearest := _nearest(trial, known)) is not None]
    return max(compared, key=_distance, default=Numerics(finding="not known"))


def _nearest(trial: Trial, known: Sequence[KnownLosses]) -> Numerics | None:
    rows = [row for row in known if _computes_the_same(trial.case, row.case) and _includes(row.tensorflow, trial.header.get("TensorFlow", ""))]
    compared = [one for row in rows if (one := _compare(trial, row)) is not None]
    return min(compared, key=lambda one: (-one.steps, _distance(one)), default=None)


def _compare(trial: Trial, row: KnownLosses) -> Numerics | None:
    losses = {step.step: step.loss for step in trial.steps if step.step <= LAST_STEP}
    shared = [step for step in row.losses if step in losses]
    if not shared:
        return None
    worst = max(shared, key=lambda step: _relative(losses[step], row.losses[step]))
    measured, told = losses[worst], row.losses[worst]
    distance = _relative(measured, told)
    return Numerics(
        finding="as known" if distance <= row.tolerance else "differs",
        row=row.source,
        difference=None if math.isinf(distance) else distance * abs(told or 0.0),
        step=worst,
        steps=len(shared),
        tolerance=row.tolerance,
    )


def _relative(measured: float | None, known: float | None) -> float:
    """The difference in parts of the known loss; infinite where just one of them is a number. JSON keeps what is not a number as null."""
    lost = [loss is None or not math.isfinite(loss) for loss in (measured, known)]
    if any(lost) or measured is None or known is None:
        return 0.0 if all(lost) else math.inf
    return abs(measured - known) / abs(known)


def _distance(found: Numerics) -> tuple[bool, float]:
    return found.finding == "differs", math.inf if found.difference is None else found.difference


def _computes_the_same(case: Case, known: Case) -> bool:
    """Whether only what leaves the losses alone is different: the number of steps, and with one device how variables are updated."""
    update = known.variable_update if case.devices == 1 else case.variable_update
    return msgspec.structs.replace(case, steps=known.steps, variable_update=update) == known


def _includes(releases: tuple[str, str], release: str) -> bool:
    try:
        return Version(releases[0]) <= Version(release) <= Version(releases[1])
    except InvalidVersion:
        return False
