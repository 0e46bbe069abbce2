"""Fit a sweep into a time: how many steps and repeats. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from wrapper.errors import FatalError

SHORTEST = 10
"""Fewer steps than one of upstream's step lines covers are not worth a trial."""
RESERVE = 0.95
"""Share of the time that is planned; trials differ from each other."""


class TrialTime(msgspec.Struct, frozen=True, kw_only=True):
    """What a trial of a case takes."""

    fixed_s: float
    """Start, graph, warm-up and end."""
    step_s: float


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """A plan that fits."""

    steps: int
    repeats: int
    seconds: float
    """What it is expected to take."""


def fit(times: Sequence[TrialTime], *, seconds: float, steps: int, repeats: int, max_repeats: int) -> Plan:
    """Choose steps and repeats so that all cases fit into a time.

    The repeats asked for come first, at fewer steps where need be (never below `SHORTEST`, or what was asked); then fewer repeats; time that is
    left over goes into more repeats.

    Args:
        times: of each case.
        seconds: for everything.
        steps: timed steps of a trial, at most.
        repeats: of each case, as asked for.
        max_repeats: of each case, at most.

    Raises:
        FatalError: not even one short trial of each case fits; says what would be needed.
    """
    fixed, per_step = sum(one.fixed_s for one in times), sum(one.step_s for one in times)
    available, shortest = RESERVE * seconds, min(SHORTEST, steps)
    for rounds in range(repeats, 0, -1):
        affordable = int((available / rounds - fixed) / per_step) if per_step > 0 else steps
        if affordable >= shortest:
            chosen = min(affordable, steps)
            if chosen == steps:
                rounds = max(rounds, min(max_repeats, int(available / (fixed + steps * per_step))))
            return Plan(steps=chosen, repeats=rounds, seconds=rounds * (fixed + chosen * per_step))
    needed = (fixed + shortest * per_step) / RESERVE
    trials = f"one trial of each of {len(times)} cases at {shortest} steps"
    raise FatalError(
        f"the budget is too short, with {max(seconds, 0):.0f} s of it left: {trials} takes about {needed:.0f} s",
        "Give more, or ask for fewer models",
    )
