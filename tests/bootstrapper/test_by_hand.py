"""How a commit given by hand is found, and how it stands to its TensorFlow."""

from __future__ import annotations

from pathlib import Path

import pytest

from wrapper.bootstrapper.by_hand import BY_HAND, age, is_of_age, load_dates, with_commit
from wrapper.bootstrapper.release import load_releases, resolve_release
from wrapper.bootstrapper.upstream import known_commit, resolve_commit
from wrapper.errors import FatalError, UsageError

ROWS = load_releases()
COMMITS = {row.upstream_commit for row in ROWS}
NOWHERE = "file:///no/such/repository"


def test_every_commit_of_the_table_has_its_day_and_none_goes_back_from_release_to_release() -> None:
    dates = load_dates()
    assert set(dates) == COMMITS
    days = [dates[row.upstream_commit] for row in ROWS]
    assert days == sorted(days)


@pytest.mark.parametrize(
    ("release", "date", "told"),
    [
        ("2.21", "2018-10-18", "is older than this TensorFlow: 2.21.0 is known to run with 8fb790792659 of 2023-10-05"),
        ("1.12.0", "2020-01-16", "is newer than this TensorFlow: 1.12.0 is known to run with ec056be57f18 of 2018-10-18"),
        ("1.12.2", "2018-10-17", "is older than this TensorFlow: 1.12.2 is known"),
    ],
)
def test_which_is_older(release: str, date: str, told: str) -> None:
    assert told in age(with_commit(resolve_release(release, ROWS), "f" * 40), date)


def test_of_the_same_day_is_neither_and_the_own_commit_is_not_by_hand() -> None:
    row = resolve_release("2.21", ROWS)
    assert age(row, "2023-10-05") == ""
    assert with_commit(row, row.upstream_commit) == row
    assert with_commit(row, "f" * 40).upstream_ref == BY_HAND


@pytest.mark.parametrize(
    ("verdict", "reason", "expected"),
    [
        ("version_mismatch", "ModuleNotFoundError: No module named 'tensorflow.contrib'", True),
        ("bad_flag", "FATAL Flags parsing error: Unknown command line flag 'xla'", True),
        ("unknown_model", "ValueError: Invalid model name", True),
        ("failed", "AttributeError: 'Dimension' object has no attribute 'value'", True),
        ("library_missing", "ModuleNotFoundError: No module named 'absl'", True),
        ("library_missing", "ImportError: libcublas.so.9.0: cannot open shared object file", False),
        ("out_of_memory", "ResourceExhaustedError", False),
        ("failed", "ValueError: a", False),
        ("ok", "", False),
    ],
)
def test_which_failures_it_explains(verdict: str, reason: str, expected: bool) -> None:
    assert is_of_age(verdict, reason) is expected


def test_digits_of_a_known_commit_need_no_answer(tmp_path: Path) -> None:
    for commit in COMMITS:
        for text in (commit, commit.upper(), commit[:7], f" {commit[:20]} "):
            assert known_commit(text, known=COMMITS, vendor=tmp_path / "vendor") == commit
    assert known_commit("F" * 40, known=(), vendor=tmp_path) == "f" * 40
    assert known_commit("1234567", known=COMMITS, vendor=tmp_path) == "1234567"
    assert resolve_commit("f" * 40, address=NOWHERE, vendor=tmp_path) == "f" * 40
    assert not (tmp_path / "vendor").exists()


@pytest.mark.parametrize("text", ["", "HEAD", "abc123", "f" * 41, "--upload-pack=x", "g" * 40, "master"])
def test_what_is_no_commit_is_refused_before_anything_is_asked(text: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is no commit"):
        known_commit(text, known=COMMITS, vendor=tmp_path)


def test_digits_that_mean_several_or_can_not_be_asked_for_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="means several commits: abcdefa0"):
        known_commit("abcdefa", known=["abcdefa" + "0" * 33, "abcdefa" + "1" * 33], vendor=tmp_path)
    with pytest.raises(FatalError, match="can't be asked which commit 1234567 is") as caught:
        resolve_commit("1234567", address=NOWHERE, vendor=tmp_path)
    assert "40 digits" in caught.value.remedy
