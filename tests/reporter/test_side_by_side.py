"""Several releases side by side, from records alone."""

from __future__ import annotations

import html
import io
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console as Terminal

from wrapper.console import Console
from wrapper.parser.remedies import load_words
from wrapper.reporter.axis import Axis, Part, write_axis
from wrapper.reporter.side_by_side import FILES, SideBySide, write_side_by_side
from wrapper.reporter.store import append_trial, write_session

Maker = Callable[..., Any]
Totals = Mapping[str, list[float | None]]
AMPERE = {"gpus": [{"name": "NVIDIA A100-SXM4-40GB", "compute_capability": "8.0"}]}


@pytest.fixture
def make(tmp_path: Path, make_session: Maker, make_trial: Maker) -> Callable[..., SideBySide]:
    """Makes what sets releases side by side: by release the totals of its repeats by model, or why it was left out."""

    def make(releases: Mapping[str, Totals | str], **case: Any) -> SideBySide:
        parts = []
        for release, totals in releases.items():
            reason = totals if isinstance(totals, str) else ""
            parts.append(Part(tensorflow=release, reason=reason, remedy="Mend it" if reason else ""))
            if isinstance(totals, str):
                continue
            (tmp_path / release).mkdir()
            trials = [
                make_trial(index, total, model=model, repeat=repeat, case={"precision": precision, **case})
                for index, (model, precision, repeat, total) in enumerate(
                    (
                        (name.removesuffix("-fp16"), "fp16" if name.endswith("-fp16") else "fp32", repeat, total)
                        for name, values in totals.items()
                        for repeat, total in enumerate(values, start=1)
                    ),
                    start=1,
                )
            ]
            cases = tuple(dict.fromkeys(trial.case for trial in trials))
            release_row = {"tensorflow": release, "cuda": "9.0", "cudnn": "7.1"}
            write_session(tmp_path / release, make_session(release=release_row, host=AMPERE, cases=cases, planned_trials=len(trials)))
            for trial in trials:
                append_trial(tmp_path / release, trial)
        write_axis(tmp_path, Axis(sweep={}, device="gpu", environment="locked", command=("tfcnn", "run"), parts=tuple(parts)))
        return write_side_by_side(tmp_path)

    return make


def shown(found: SideBySide) -> dict[str, list[str]]:
    return {str(row[0]).partition(", batch")[0]: [str(cell) for cell in row[1:]] for row in found.figures.rows}


def ratios(found: SideBySide, label: str) -> list[str]:
    (row,) = (row for row in found.figures.rows if row[0] == label)
    return [str(cell) for cell in row[1:]]


def test_ratios_are_to_the_first_release_that_has_a_figure(make: Maker) -> None:
    found = make({"1.11.0": "it is not there", "1.12.0": {"vgg16": [100.0]}, "1.15.5": {"vgg16": [150.0]}})
    assert "TensorFlow 1.12.0" in found.caption
    (row,) = found.figures.rows
    assert [cell.figure for cell in row[1:]] == ["not measured", "100.0", "150.0"]
    assert [cell.said[:1] for cell in row[1:]] == [(), ("ratio 1",), ("ratio 1.500",)]


def test_a_small_ratio_keeps_its_digits(make: Maker) -> None:
    found = make({"1.12.0": {"vgg16": [5000.0], "alexnet": [5000.0]}, "2.21.0": {"vgg16": [1.0, 1.1], "alexnet": [1.0]}})
    assert [shown(found)[model][1].partition("(")[2].rpartition(")")[0].split(", ")[0] for model in ("vgg16", "alexnet")] == [
        "ratio 0.000210 ± 0.000127",
        "ratio 0.000200",
    ]
    assert ratios(found, "geometric mean of the ratios, 2 models that all have")[1] == "0.000205"


def test_what_has_no_figure_is_words(make: Maker) -> None:
    found = make({"1.12.0": {"vgg16": [None, None], "alexnet": [5.0, 5.0]}, "2.21.0": {"vgg16": [1.0, None], "lenet": [7.0]}})
    assert shown(found)["vgg16"][0] == "no valid figure (2 failed: out of memory)"
    assert shown(found)["vgg16"][1].startswith("1.000 (1 failed: out of memory, warning: too_few")
    assert shown(found)["alexnet"][1] == "upstream can't run it" == shown(found)["lenet"][0]
    assert shown(found)["lenet"][1].startswith("7.000 (") and "ratio" not in shown(found)["lenet"][1], "a ratio to nothing"


def test_each_warning_that_is_named_is_explained_on_the_page_in_the_text_and_on_the_terminal(make: Maker, tmp_path: Path) -> None:
    found = make({"1.12.0": {"vgg16": [100.0, 130.0, 90.0], "lenet": [None]}, "1.15.5": {"vgg16": [150.0], "lenet": [None]}})
    named = {said.removeprefix("warning: ") for row in found.figures.rows for cell in row[1:] for said in cell.said if said.startswith("warning: ")}
    assert {"too_few", "unstable"} <= named == {kind for kind, _ in found.meanings}
    terminal = io.StringIO()
    Console(Terminal(file=terminal, width=200)).show_side_by_side(found, tmp_path)
    texts = [terminal.getvalue(), *((tmp_path / name).read_text(encoding="utf-8") for name in FILES)]
    assert all(load_words().warnings[kind] in html.unescape(text) for kind in named for text in texts)
    assert all(load_words().warnings["drift"] not in text for text in texts)


def test_the_geometric_mean_is_over_what_all_have(make: Maker) -> None:
    found = make(
        {
            "1.12.0": {"vgg16": [100.0], "alexnet": [10.0], "lenet": [1.0]},
            "1.15.5": {"vgg16": [200.0], "alexnet": [80.0], "lenet": [None]},
            "2.21.0": {"vgg16": [None], "alexnet": [None], "lenet": [None]},
        }
    )
    assert ratios(found, "geometric mean of the ratios, 2 models that all have") == ["1", "4.000", "no valid figure"]


def test_conditions_have_a_geometric_mean_each(make: Maker) -> None:
    totals = {"vgg16": [100.0], "alexnet": [10.0], "vgg16-fp16": [100.0], "alexnet-fp16": [10.0]}
    found = make({"1.12.0": totals, "2.21.0": {**totals, "vgg16": [400.0], "alexnet": [40.0]}})
    label = "geometric mean of the ratios, 2 models that all have, training, {}, 1 GPU, synthetic data"
    assert [ratios(found, label.format(precision))[1] for precision in ("fp32", "fp16")] == ["4.000", "1.000"]


def test_a_condition_that_may_differ_is_said(make: Maker) -> None:
    """A package older than the first with TF32 may be somebody's own build for this GPU."""
    assert not any("TF32" in note for note in make({"2.20.0": {"vgg16": [100.0]}, "2.21.0": {"vgg16": [300.0]}}).notes)
    found = make({"2.3.4": {"vgg16": [100.0]}, "2.19.0": {"vgg16": [300.0]}})
    assert "TensorFlow 2.19.0 beside the first: TF32 is not known of one of them." in found.notes


def test_where_nothing_was_measured_the_reasons_stand_alone(make: Maker, tmp_path: Path) -> None:
    found = make({"1.12.0": "no Python", "1.15.5": "no lock"})
    assert found.figures.rows == () and [row[1] for row in found.left_out.rows] == ["no Python", "no lock"]
    assert "no lock" in (tmp_path / FILES[0]).read_text(encoding="utf-8")


def test_a_reason_is_text_and_nothing_more(make: Maker, tmp_path: Path) -> None:
    hostile = "<script>alert(1)</script> | x | [a](javascript:b) \x1b]0;owned\x07 /home/someone/secret/file.txt"
    make({"1.12.0": {"vgg16": [1.0]}, "2.21.0": hostile})
    page, text = ((tmp_path / name).read_text(encoding="utf-8") for name in reversed(FILES))
    assert "<script" not in page and "\x1b" not in page + text and "someone" not in page + text
    (line,) = (line for line in text.splitlines() if "alert" in line)
    assert line.count(" | ") == 2, "the reason broke out of its cell"
