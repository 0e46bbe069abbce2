"""One planned trial becomes a process with its logs in the report's folder."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from wrapper.runner.plan import PlannedTrial, plan_trials
from wrapper.runner.sweep import Case
from wrapper.runner.trial import run_trial

FAKE = Path(__file__).parents[1] / "data" / "fake_upstream.py"


@pytest.fixture
def planned() -> PlannedTrial:
    case = Case(model="resnet50", batch_size=4, device="cpu", devices=2, steps=20)
    (trial,) = plan_trials([case], rounds=[1], python=sys.executable, script=str(FAKE))
    return trial


def test_the_logs_stand_beside_each_other(tmp_path: Path, planned: PlannedTrial) -> None:
    execution = run_trial(planned, directory=tmp_path, environment_variables={"FAKE_TOTALS": "12.34"}, keep_pythonpath=False, time_limit_s=30)
    assert execution.exit_code == 0
    log = tmp_path / "logs" / planned.log_name
    assert {path.name for path in log.parent.iterdir()} == {f"{log.name}.stdout", f"{log.name}.stderr", f"{log.name}.times.csv"}
    text = log.with_name(f"{log.name}.stdout").read_text(encoding="utf-8")
    assert "Batch size:  8 global" in text
    assert "total images/sec: 12.34\n" in text
    assert len(log.with_name(f"{log.name}.times.csv").read_text(encoding="ascii").splitlines()) == text.count("\n") + 1


def test_lines_come_while_it_runs_and_the_process_is_named(tmp_path: Path, planned: PlannedTrial) -> None:
    lines: list[bytes] = []
    pids: list[int] = []
    run_trial(
        planned,
        directory=tmp_path,
        environment_variables={},
        keep_pythonpath=False,
        time_limit_s=30,
        on_line=lambda line, _: lines.append(line),
        on_start=pids.append,
    )
    assert lines[0].startswith(b"TensorFlow:")
    assert len(pids) == 1


def test_a_second_run_of_the_same_trial_starts_its_logs_anew(tmp_path: Path, planned: PlannedTrial) -> None:
    for total in ("1.00", "2.00"):
        run_trial(planned, directory=tmp_path, environment_variables={"FAKE_TOTALS": total}, keep_pythonpath=False, time_limit_s=30)
    text = (tmp_path / "logs" / f"{planned.log_name}.stdout").read_text(encoding="utf-8")
    assert "total images/sec: 2.00" in text
    assert "total images/sec: 1.00" not in text
