"""Fitting a sweep into a time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wrapper.errors import FatalError
from wrapper.runner.budget import RESERVE, TrialTime, fit

SECONDS = st.floats(min_value=0.001, max_value=100)


def test_time_left_over_goes_into_repeats() -> None:
    plan = fit([TrialTime(fixed_s=5, step_s=0.05)], seconds=200, steps=100, repeats=3, max_repeats=20)
    assert (plan.steps, plan.repeats, plan.seconds) == (100, 19, 190)


def test_a_short_time_costs_steps_first_and_then_repeats() -> None:
    costs = [TrialTime(fixed_s=5, step_s=0.5), TrialTime(fixed_s=5, step_s=0.5)]
    assert fit(costs, seconds=200, steps=100, repeats=3, max_repeats=20).repeats == 3
    few = fit(costs, seconds=50, steps=100, repeats=3, max_repeats=20)
    assert (few.repeats, few.steps) == (2, 13)


def test_too_short_a_time_is_refused_with_what_is_needed() -> None:
    with pytest.raises(FatalError, match=r"10 steps takes about 16 s"):
        fit([TrialTime(fixed_s=5, step_s=1)], seconds=10, steps=100, repeats=3, max_repeats=20)


@given(
    st.lists(st.builds(TrialTime, fixed_s=SECONDS, step_s=SECONDS), min_size=1, max_size=5),
    st.floats(min_value=1, max_value=100_000),
    st.integers(1, 500),
    st.integers(1, 10),
    st.integers(1, 30),
)
def test_a_plan_fits_or_is_refused(costs: list[TrialTime], seconds: float, steps: int, repeats: int, max_repeats: int) -> None:
    try:
        plan = fit(costs, seconds=seconds, steps=steps, repeats=repeats, max_repeats=max_repeats)
    except FatalError:
        return
    spent = plan.repeats * sum(cost.fixed_s + plan.steps * cost.step_s for cost in costs)
    assert spent <= seconds * RESERVE * 1.000001
    assert 1 <= plan.steps <= steps and 1 <= plan.repeats <= max(repeats, max_repeats)
