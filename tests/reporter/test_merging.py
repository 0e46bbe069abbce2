"""Reports of several machines side by side, those of different conditions apart."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from wrapper.errors import FatalError, UsageError
from wrapper.reporter.merging import MergedTable, merge
from wrapper.reporter.store import append_trial, write_session

Maker = Callable[..., Any]


@pytest.fixture
def make_report(tmp_path: Path, make_session: Maker, make_trial: Maker) -> Callable[..., Path]:
    """Makes a report on a GPU: totals by model, with changes to all its cases."""

    def make(name: str, gpu: str, totals: dict[str, float | None], *, session: dict[str, Any] | None = None, **case: Any) -> Path:
        directory = tmp_path / name
        directory.mkdir()
        write_session(directory, make_session(host={"gpus": [{"name": gpu, "compute_capability": "7.5"}]}, **session or {}))
        for index, (model, total) in enumerate(totals.items(), start=1):
            append_trial(directory, make_trial(index, total, model=model, case=case))
        return directory

    return make


def shown(table: MergedTable) -> dict[str, list[float | None]]:
    return {line.conditions.name: [cell.summary.mean if cell else None for cell in line.cells] for line in table.lines}


def test_machines_side_by_side(make_report: Maker) -> None:
    first = make_report("first", "NVIDIA GeForce RTX 2080 Ti", {"resnet50": 300.0, "vgg16": 180.0})
    second = make_report("second", "NVIDIA TITAN RTX", {"vgg16": 270.0, "alexnet": 5000.0, "resnet50": None})
    (table,) = merge([first, second])
    assert table.columns == (("resnet50", 64), ("vgg16", 64), ("alexnet", 64))
    assert shown(table) == {"first": [300.0, 180.0, None], "second": [None, 270.0, 5000.0]}
    assert [tuple(ratio and ratio.value for ratio in line.ratios) for line in table.lines] == [(1.0, 1.0, None), (None, 1.5, 1.0)]
    assert table.lines[0].conditions.gpu == "GeForce RTX 2080 Ti"


@pytest.mark.parametrize(
    "case", [{"precision": "fp16"}, {"xla": True}, {"devices": 2}, {"forward_only": True}, {"variable_update": "replicated"}, {"data_dir": "d"}]
)
def test_other_conditions_are_apart(make_report: Maker, case: dict[str, Any]) -> None:
    reports = [make_report("one", "A", {"resnet50": 300.0}), make_report("other", "B", {"resnet50": 600.0}, **case)]
    assert [shown(table) for table in merge(reports)] == [{"one": [300.0]}, {"other": [600.0]}]


def test_tf32_is_apart(make_report: Maker) -> None:
    ampere = make_report("ampere", "A", {"resnet50": 300.0}, session={"release": {"tensorflow": "2.21.0"}})
    text = (ampere / "session.json").read_text(encoding="utf-8")
    (ampere / "session.json").write_text(text.replace('"7.5"', '"8.0"'), encoding="utf-8")
    turing = make_report("turing", "B", {"resnet50": 300.0}, session={"release": {"tensorflow": "2.21.0"}})
    assert [list(shown(table)) for table in merge([ampere, turing])] == [["ampere"], ["turing"]]


def test_batch_sizes_are_columns(make_report: Maker) -> None:
    reports = [make_report("one", "A", {"resnet50": 300.0}), make_report("other", "B", {"resnet50": 310.0}, batch_size=128)]
    (table,) = merge(reports)
    assert (table.columns, shown(table)) == ((("resnet50", 64), ("resnet50", 128)), {"one": [300.0, None], "other": [None, 310.0]})


def test_reports_of_one_name_stay_two(make_report: Maker, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    (table,) = merge([make_report("a/report", "A", {"resnet50": 300.0}), make_report("b/report", "A", {"resnet50": 310.0})])
    assert [line.cells[0].summary.mean for line in table.lines if line.cells[0]] == [300.0, 310.0]


@pytest.mark.parametrize(("totals", "stated"), [((300.0, 303.0, 306.0), True), ((100.0, 300.0, 900.0), False)])
def test_a_ratio_has_its_interval_and_is_left_out_where_that_is_wider(
    make_report: Maker, make_trial: Maker, totals: tuple[float, ...], stated: bool
) -> None:
    first, second = make_report("first", "A", {}), make_report("second", "B", {}, session={"planned_trials": 4})
    for index in (1, 2, 3):
        append_trial(first, make_trial(index, 100.0 + index, repeat=index))
        append_trial(second, make_trial(index, totals[index - 1], repeat=index))
    (table,) = merge([first, second])
    (mine,), (other,) = (line.ratios for line in table.lines)
    assert mine and (mine.value, mine.ci95) == (1.0, None)
    assert (other is not None) == stated
    assert other is None or (other.ci95 and other.ci95 * 2 < other.value)
    figure = table.lines[1].cells[0]
    assert figure and ("unstable" in figure.caveats, figure.caveats[-1]) == (not stated, "incomplete")


def test_a_report_without_a_figure_is_in_no_table(make_report: Maker) -> None:
    assert merge([make_report("failed", "A", {"resnet50": None})]) == ()


def test_refused(make_report: Maker, tmp_path: Path) -> None:
    demo = make_report("demo", "A", {"resnet50": 300.0}, session={"demo": True})
    real = make_report("real", "A", {"resnet50": 300.0})
    with pytest.raises(FatalError, match="demo"):
        merge([real, demo])
    with pytest.raises(UsageError, match="twice"):
        merge([real, tmp_path / "." / "real"])
    with pytest.raises(FatalError, match="not a report"):
        merge([tmp_path / "absent"])
