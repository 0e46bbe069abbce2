"""Text for a terminal."""

from __future__ import annotations

import pytest

from wrapper.tables import counted


@pytest.mark.parametrize(
    ("number", "noun", "text"), [(0, "trial", "0 trials"), (1, "trial", "1 trial"), (2, "other file", "2 other files"), (3, "hash", "3 hashes")]
)
def test_a_number_of_things(number: int, noun: str, text: str) -> None:
    assert counted(number, noun) == text
