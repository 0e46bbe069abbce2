"""Statistics against figures worked out by hand, and failures that never become numbers."""

from __future__ import annotations

import math
from typing import Any

import pytest

from wrapper.parser.verdict import Warning
from wrapper.reporter.analysis import failure, figure, summarise, t_quantile_975


@pytest.mark.parametrize(
    ("degrees_of_freedom", "quantile"),
    # Independent of the module's table: R, qt(0.975, df).
    [
        (1, 12.7062),
        (2, 4.30265),
        (4, 2.77645),
        (9, 2.26216),
        (29, 2.04523),
        (30, 2.04227),
        (31, 2.03951),
        (40, 2.02108),
        (100, 1.98397),
        (1000, 1.96234),
    ],
)
def test_t_quantiles(degrees_of_freedom: int, quantile: float) -> None:
    assert t_quantile_975(degrees_of_freedom) == pytest.approx(quantile, abs=6e-4)


def test_t_quantiles_fall_towards_the_normal_one() -> None:
    quantiles = [t_quantile_975(df) for df in range(1, 200)]
    assert quantiles == sorted(quantiles, reverse=True)
    assert t_quantile_975(10**6) == pytest.approx(1.959964, abs=1e-5)
    with pytest.raises(ValueError, match="at least one"):
        t_quantile_975(0)


def test_three_repeats_by_hand(make_trial: Any) -> None:
    (summary,) = summarise([make_trial(index, total) for index, total in enumerate((100.0, 102.0, 107.0), start=1)])
    assert (summary.n, summary.mean, summary.median, summary.min, summary.max) == (3, 103.0, 102.0, 100.0, 107.0)
    # Deviations -3, -1, 4: squares sum to 26, over n - 1 = 2.
    assert summary.sd == pytest.approx(math.sqrt(13))
    assert summary.ci95 == pytest.approx(4.303 * math.sqrt(13) / math.sqrt(3))
    assert summary.sd_percent == pytest.approx(100 * math.sqrt(13) / 103)


def test_one_repeat_has_no_spread(make_trial: Any) -> None:
    (summary,) = summarise([make_trial(1, 100.0)])
    assert (summary.n, summary.mean, summary.sd, summary.ci95, summary.sd_percent) == (1, 100.0, None, None, None)


@pytest.mark.parametrize(
    ("verdict", "total", "named"),
    [
        ("out_of_memory", None, "out_of_memory"),
        ("out_of_memory", 100.0, "out_of_memory"),
        ("ok", None, "bogus_total"),
        ("ok", math.nan, "bogus_total"),
        ("ok", math.inf, "bogus_total"),
        ("ok", 0.0, "bogus_total"),
        ("ok", -14.31, "bogus_total"),
    ],
)
def test_failure_is_never_a_number(make_trial: Any, verdict: str, total: float | None, named: str) -> None:
    trial = make_trial(2, total, verdict=verdict)
    assert (figure(trial), failure(trial)) == (None, named)
    (summary,) = summarise([make_trial(1, 100.0), trial, make_trial(3, 102.0)])
    assert (summary.n, summary.mean, summary.failed) == (2, 101.0, {named: 1})
    (alone,) = summarise([trial])
    assert (alone.n, alone.mean, alone.median, alone.sd, alone.ci95, alone.min, alone.max) == (0, None, None, None, None, None, None)


def test_cases_keep_their_planned_order(make_trial: Any) -> None:
    trials = [make_trial(index, float(index), model=model) for index, model in enumerate(("vgg16", "alexnet", "vgg16", "alexnet"), start=1)]
    assert [summary.case.model for summary in summarise(trials)] == ["vgg16", "alexnet"]
    never_run = make_trial(9, 1.0, model="inception3").case
    summaries = summarise(trials, (never_run, trials[1].case, trials[0].case))
    assert [(summary.case.model, summary.n) for summary in summaries] == [("inception3", 0), ("alexnet", 2), ("vgg16", 2)]


def test_cases_that_differ_in_any_setting_are_kept_apart(make_trial: Any) -> None:
    changes: list[dict[str, Any]] = [
        {},
        {"batch_size": 32},
        {"devices": 2},
        {"xla": True},
        {"steps": 50},
        {"data_dir": "d"},
        {"flags": (("a", "b"),)},
    ]
    assert len(summarise([make_trial(index, 1.0, case=change) for index, change in enumerate(changes, start=1)])) == len(changes)


def test_warnings_count_trials_that_have_a_figure(make_trial: Any) -> None:
    nan_loss = {"warnings": (Warning(kind="nan_loss", detail="step 10"), Warning(kind="nan_loss", detail="step 20"))}
    (summary,) = summarise([make_trial(1, 1.0, judgement=nan_loss), make_trial(2, 1.0, judgement=nan_loss), make_trial(3, None, judgement=nan_loss)])
    assert summary.warnings == {"nan_loss": 2}
