"""The search for a batch size, against models of a device's memory."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wrapper.runner.batch_size import CEILING, Fit, Outcome, Wanted, found, largest, next_batch, too_large, unrelated

Verdict = Callable[[int], str]


def run_search(verdict: Verdict, wanted: Wanted = "max", *, known: tuple[Outcome, ...] = ()) -> tuple[Outcome, ...]:
    outcomes = known
    while (batch := next_batch(outcomes, wanted)) is not None:
        assert all(batch != outcome.batch for outcome in outcomes), "the same trial twice"
        outcomes = (*outcomes, Outcome(batch=batch, verdict=verdict(batch)))
        assert len(outcomes) - len(known) <= 15
    return outcomes


def memory(limit: int) -> Verdict:
    return lambda batch: "ok" if batch <= limit else "out_of_memory"


@given(st.integers(1, CEILING - 1))
def test_the_largest_is_found_within_the_granularity_in_few_trials(limit: int) -> None:
    outcomes = run_search(memory(limit))
    size = found(outcomes, "max")
    assert size is not None and size <= limit
    assert limit - size < max(1, 0.02 * limit)
    assert too_large(outcomes) == min(outcome.batch for outcome in outcomes if outcome.batch > limit)


@pytest.mark.parametrize(("limit", "tried"), [(5, [32, 16, 8, 4, 6, 5]), (99, [32, 64, 128, 96, 112, 104, 100, 98, 99])])
def test_small_batches_are_found_exactly(limit: int, tried: list[int]) -> None:
    outcomes = run_search(memory(limit))
    assert [outcome.batch for outcome in outcomes] == tried
    assert found(outcomes, "max") == limit


def test_where_nothing_fits_nothing_is_found() -> None:
    outcomes = run_search(memory(0))
    assert (found(outcomes, "max"), too_large(outcomes)) == (None, 1)


def test_the_ceiling_is_no_limit() -> None:
    outcomes = run_search(memory(10**9))
    assert (found(outcomes, "max"), too_large(outcomes)) == (CEILING, None)
    assert next_batch((), ceiling=10) == 10
    assert next_batch((Outcome(batch=64, verdict="ok"),), ceiling=100) == 100


@given(st.integers(1, CEILING), st.floats(0, 0.5), st.randoms(use_true_random=False))
def test_what_is_found_ran_and_has_a_failure_just_above_it_whatever_the_noise(limit: int, noise: float, random: object) -> None:
    """Fragmentation and other processes let a batch fit that is larger than one that did not."""
    wobble: Callable[[float, float], float] = random.uniform  # type: ignore[attr-defined]
    outcomes = run_search(lambda batch: memory(limit)(round(batch * wobble(1 - noise, 1 + noise))))
    size, above = found(outcomes, "max"), too_large(outcomes)
    ran = {outcome.batch for outcome in outcomes if outcome.verdict == "ok"}
    assert size == max(ran, default=None)
    if above is None:
        assert size == CEILING
    else:
        assert above - (size or 0) <= max(1, 0.02 * (size or 0))


def test_contradicting_outcomes_of_earlier_searches_count_as_what_fitted() -> None:
    outcomes = (Outcome(batch=96, verdict="out_of_memory"), Outcome(batch=104, verdict="ok"), Outcome(batch=128, verdict="out_of_memory"))
    assert (largest(outcomes), too_large(outcomes), next_batch(outcomes)) == (104, 128, 116)


@given(st.integers(1, CEILING), st.integers(1, CEILING), st.sampled_from(["killed", "timed_out", "cudnn", "bogus_total", "interrupted", "failed"]))
def test_an_unrelated_failure_ends_the_search_and_is_never_a_limit(limit: int, from_batch: int, verdict: str) -> None:
    outcomes = run_search(lambda batch: verdict if batch >= from_batch else memory(limit)(batch))
    ended = unrelated(outcomes)
    if ended is None:
        assert all(outcome.batch < from_batch for outcome in outcomes)
    else:
        assert ended is outcomes[-1]
        assert found(outcomes, "max") is None and found(outcomes, Fit((1,))) is None
        assert all(outcome.verdict == "out_of_memory" for outcome in outcomes if outcome.batch == too_large(outcomes))


@pytest.mark.parametrize(
    ("limit", "tried", "size"),
    [(100, [64], 64), (64, [64], 64), (50, [64, 48], 48), (32, [64, 48, 32], 32), (31, [64, 48, 32], None)],
)
def test_the_first_of_a_list_that_fits(limit: int, tried: list[int], size: int | None) -> None:
    wanted = Fit((64, 48, 32))
    outcomes = run_search(memory(limit), wanted)
    assert [outcome.batch for outcome in outcomes] == tried
    assert found(outcomes, wanted) == size


def test_what_is_known_is_not_tried_again() -> None:
    known = run_search(memory(50))
    assert run_search(memory(50), known=known) == known
    assert run_search(memory(50), Fit((64, 48)), known=known) == known
    assert found(known, Fit((64, 48))) == 48
    half = known[:3]
    assert run_search(memory(50), known=half) == known
