"""One case against itself."""

from __future__ import annotations

import math
import random

import pytest

from wrapper.errors import FatalError
from wrapper.reporter.noise import noise


def test_by_hand() -> None:
    result = noise([99.0, 101.0], [100.0, 102.0])
    assert (result.mean_a, result.mean_b, result.n) == (100.0, 101.0, 2)
    assert result.ratio == 1.01
    assert math.isclose(result.sd, math.sqrt(2) / 100.5)
    assert math.isclose(result.smallest_difference, 4.303 * math.sqrt(2) / 100.5)


def test_of_noise_alone_about_one_in_twenty_differences_passes_for_real() -> None:
    random.seed(1)
    passed = 0
    for _ in range(1000):
        result = noise([random.gauss(100, 1) for _ in range(5)], [random.gauss(100, 1) for _ in range(5)])
        passed += abs(result.mean_a - result.mean_b) / 100 > result.smallest_difference
    assert 25 <= passed <= 80


def test_too_few_trials_are_refused() -> None:
    with pytest.raises(FatalError, match="too few"):
        noise([100.0], [100.0, 101.0])
