"""What a report was compared with is kept beside it, shown in both pages, and made again with them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from wrapper.comparing import Against, compare_reports, keep_comparison
from wrapper.errors import FatalError, UsageError
from wrapper.reporter.kept import COMPARISON_FILE, read_asked
from wrapper.reporter.reference import load_sources
from wrapper.reporter.report import write_report
from wrapper.reporter.store import append_trial, write_session

PAGES = ("report.md", "report.html")
ENTRIES = ("lambda_blog_2019_03", "CPU")


@pytest.fixture
def report(tmp_path: Path, make_session: Callable[..., Any], make_trial: Callable[..., Any]) -> Callable[..., Path]:
    """Writes a report of three trials."""

    def write(name: str, total: float = 147.0, **session: Any) -> Path:
        directory = tmp_path / name
        (directory / "logs").mkdir(parents=True)
        write_session(directory, make_session(**session))
        for index in (1, 2, 3):
            append_trial(directory, make_trial(index, total, repeat=index))
        return directory

    return write


def texts(directory: Path) -> dict[str, str]:
    return {name: (directory / name).read_text(encoding="utf-8") for name in (*PAGES, COMPARISON_FILE)}


def test_the_pages_show_it_and_a_report_made_again_keeps_it(report: Callable[..., Path]) -> None:
    mine = report("mine")
    write_report(mine)
    before = (mine / "report.md").read_text(encoding="utf-8")
    comparison = keep_comparison(mine, Against(entries=ENTRIES))
    write_report(mine)
    first = texts(mine)
    assert "0.500" not in before and not read_asked(mine.parent)
    for row in comparison.rows:
        assert all(row.text in first[name] and row.match.label in first[name] for name in PAGES)
    assert {"0.500 ± 0.000 (50.0 %)"} <= {row.text for row in comparison.rows}
    assert all(str(load_sources()["lambda_blog_2019_03"].url) in first[name] for name in PAGES)
    write_report(mine)
    assert texts(mine) == first


def test_it_does_not_depend_on_where_the_report_lies(report: Callable[..., Path], tmp_path: Path) -> None:
    mine, other = report("mine"), report("other", 294.0)
    keep_comparison(mine, Against(baseline=other, entries=ENTRIES))
    write_report(mine)
    first = texts(mine)
    other.rename(tmp_path / "gone")
    write_report(mine.rename(tmp_path / "sent"))
    assert texts(tmp_path / "sent") == first
    assert "other: the baseline given" in first["report.md"]


def test_the_file_says_for_each_ratio_what_it_rests_on(report: Callable[..., Path]) -> None:
    mine = report("mine")
    comparison = keep_comparison(mine, Against(entries=ENTRIES))
    content = json.loads((mine / COMPARISON_FILE).read_text(encoding="utf-8"))
    assert content["against"] == list(ENTRIES) and content["baseline"] == []
    for row, kept in zip(comparison.rows, content["rows"], strict=True):
        assert kept["ratio"] == pytest.approx(kept["images_per_sec"] / kept["reference"]["images_per_sec"])
        assert (kept["conditions"], kept["reference"]["row"]) == (row.match.label, row.reference.row)


def test_what_was_compared_last_is_what_is_kept(report: Callable[..., Path]) -> None:
    mine = report("mine")
    for entry in ("lambda_blog_2019_03", "tf_org_dgx1"):
        keep_comparison(mine, Against(entries=(entry,)))
    asked = read_asked(mine)
    assert asked and asked.against == ("tf_org_dgx1",)


def test_a_baseline_that_bears_the_name_of_a_source_is_refused(report: Callable[..., Path]) -> None:
    mine, false = report("mine"), report("tf_org_dgx1")
    with pytest.raises(UsageError, match="the name of a published source"):
        keep_comparison(mine, Against(baseline=false))
    with pytest.raises(UsageError, match="the name of a published source"):
        compare_reports([mine], Against(baseline=false))


def test_a_demo_is_not_compared(report: Callable[..., Path]) -> None:
    mine = report("mine", demo=True)
    with pytest.raises(FatalError, match="demo"):
        keep_comparison(mine, Against(entries=ENTRIES))
    assert not (mine / COMPARISON_FILE).exists()


@pytest.mark.parametrize("change", [{"images_per_sec": 0.0}, {"images_per_sec": -1.0}, {"batch_size": 0}, {"ci95": -1.0}, {"gpu": None}])
def test_a_damaged_file_is_named(report: Callable[..., Path], change: dict[str, Any]) -> None:
    mine = report("mine")
    keep_comparison(mine, Against(baseline=report("other")))
    path = mine / COMPARISON_FILE
    content = json.loads(path.read_text(encoding="utf-8"))
    content["baseline"][0] |= change
    path.write_bytes(msgspec.json.encode(content))
    with pytest.raises(FatalError, match=r"comparison\.json is damaged"):
        write_report(mine)


def test_a_file_of_a_newer_version_is_not_called_damaged_alone(report: Callable[..., Path]) -> None:
    mine = report("mine")
    keep_comparison(mine, Against(entries=ENTRIES))
    path = mine / COMPARISON_FILE
    path.write_text(path.read_text(encoding="utf-8").replace('"format": 1', '"format": 2'), encoding="utf-8")
    with pytest.raises(FatalError, match="newer version"):
        write_report(mine)
