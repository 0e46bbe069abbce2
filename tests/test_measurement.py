"""One trial from its planned command line to its record, on a fake upstream."""

from __future__ import annotations

import hashlib
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from e2e_kit import FAKE, alive

from wrapper import measurement
from wrapper.bootstrapper.inspection import Environment
from wrapper.bootstrapper.release import Release
from wrapper.bootstrapper.setup import Setup
from wrapper.bootstrapper.upstream import Checkout
from wrapper.measurement import Bench, measure
from wrapper.parser.output import Event
from wrapper.process import Execution
from wrapper.reporter.store import Trial, append_trial, read_trials
from wrapper.runner.plan import PlannedTrial, plan_trials
from wrapper.runner.sweep import Case
from wrapper.runner.telemetry_summary import TelemetrySummary


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    checkout = Checkout(path=str(tmp_path / "checkout"), commit="0" * 40, address="file:///upstream")
    checkout.script.parent.mkdir(parents=True)
    shutil.copy(FAKE, checkout.script)
    release = Release(
        tensorflow="2.21.0",
        upstream_commit="0" * 40,
        upstream_ref="test",
        python=("3.11",),
        package_cpu="tensorflow",
        package_gpu="tensorflow",
        environment={"TF_USE_LEGACY_KERAS": "1"},
    )
    environment = Environment(kind="locked", path=sys.prefix, python=sys.executable, python_version="3.11.0", tensorflow="2.21.0")
    setup = Setup(release=release, device="cpu", reason="a test", checkout=checkout, environment=environment)
    return Bench(setup=setup, directory=tmp_path / "report", time_limit=20.0)


def trial_of(
    bench: Bench, model: str = "trivial", *, on_event: Callable[[Event, float], None] = lambda event, seconds: None, **changes: object
) -> Trial:
    case = msgspec.structs.replace(Case(model=model, batch_size=4, device="cpu", steps=20, warmup_steps=1), **changes)
    (planned,) = plan_trials([case], rounds=[1], python=bench.setup.environment.python, script=str(bench.setup.checkout.script))
    return measure(planned, bench, on_event)


def test_a_record_holds_what_was_run_and_what_came_of_it(bench: Bench) -> None:
    events: list[tuple[Event, float]] = []
    trial = trial_of(bench, on_event=lambda event, seconds: events.append((event, seconds)))
    log = bench.directory / trial.log
    (total,) = re.findall(r"^total images/sec: (.+)$", log.read_text(encoding="utf-8"), re.MULTILINE)
    assert (trial.judgement.verdict, f"{trial.judgement.images_per_sec:.2f}") == ("ok", total)
    assert trial.command[:2] == (sys.executable, str(bench.setup.checkout.script))
    assert trial.variables["TF_USE_LEGACY_KERAS"] == "1" and trial.variables["CUDA_VISIBLE_DEVICES"] == "-1"
    assert [step.step for step in trial.steps] == [1, 10, 20]
    assert (trial.header["Model"], trial.header["Data format"]) == ("trivial", "NHWC")
    assert {name.rpartition("-r1")[2] for name in trial.log_hashes} == {".stdout", ".stderr", ".times.csv", ".telemetry.csv"}
    for name, digest in trial.log_hashes.items():
        assert hashlib.sha256((log.parent / name).read_bytes()).hexdigest() == digest
    assert [event.step.step for event, _ in events if event.step] == [1, 10, 20]
    assert [seconds for _, seconds in events] == sorted(seconds for _, seconds in events)
    append_trial(bench.directory, trial)
    assert msgspec.json.encode(read_trials(bench.directory)) == msgspec.json.encode([trial])


def test_without_telemetry_nothing_is_sampled(bench: Bench) -> None:
    trial = trial_of(msgspec.structs.replace(bench, telemetry=False))
    assert trial.judgement.verdict == "ok"
    assert not any("telemetry" in name for name in trial.log_hashes)


MISBEHAVED = {
    "crash": ("failed", "the fake was asked to crash"),
    "oom": ("out_of_memory", "OOM when allocating tensor"),
    "no_total": ("no_total", ""),
    "long_line": ("no_total", ""),
    "hang": ("timed_out", "stage reached: warm"),
}


@pytest.mark.parametrize(("model", "verdict", "reason"), [(model, *expected) for model, expected in MISBEHAVED.items()])
def test_a_trial_that_fails_has_a_verdict_a_reason_and_no_figure(
    bench: Bench, model: str, verdict: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_LONG_LINE_BYTES", "3000000")
    trial = trial_of(msgspec.structs.replace(bench, time_limit=1.5 if verdict == "timed_out" else 20.0), model)
    assert (trial.judgement.verdict, trial.judgement.images_per_sec) == (verdict, None)
    assert reason in trial.judgement.reason
    assert trial.judgement.reason and trial.judgement.remedy
    append_trial(bench.directory, trial)
    assert msgspec.json.encode(read_trials(bench.directory)) == msgspec.json.encode([trial])


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_a_killed_trial_names_the_signal(bench: Bench) -> None:
    judgement = trial_of(bench, "killed").judgement
    assert (judgement.verdict, judgement.images_per_sec) == ("killed", None)
    assert "SIGKILL" in judgement.reason and "memory" in judgement.reason


@pytest.mark.skipif(sys.platform == "win32", reason="sessions of processes")
def test_a_descendant_that_stays_is_ended_and_counted(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The descendant prints too: where its line falls into one of upstream's, the figure is refused."""
    monkeypatch.setenv("FAKE_PIDS", str(tmp_path / "pids"))
    trial = trial_of(bench, "orphan")
    assert (trial.execution.ended_by, trial.execution.leftovers) == ("exit", 1)
    assert not alive([int(pid) for pid in (tmp_path / "pids").read_text().split()])
    (total,) = re.findall(r"total images/sec: (\d+\.\d\d)", (bench.directory / trial.log).read_text(encoding="utf-8"))
    assert trial.judgement.images_per_sec in (None, float(total))


def test_garbage_before_a_valid_log_does_not_hide_it(bench: Bench) -> None:
    assert trial_of(bench, "garbage").judgement.verdict == "ok"


@pytest.mark.parametrize("exit_code", ["1", "3"])
def test_a_failure_after_the_total_keeps_the_figure_and_warns(bench: Bench, exit_code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_EXIT_CODE", exit_code)
    judgement = trial_of(bench).judgement
    assert judgement.verdict == "ok"
    assert {"unclean_exit"} <= {warning.kind for warning in judgement.warnings}


@pytest.mark.parametrize("kept", ["total images/sec: 1", "total images/sec:", "-" * 64, "Step\tImg/sec"])
def test_output_that_is_cut_off_gives_no_figure(bench: Bench, kept: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = (bench.directory / trial_of(bench).log).read_text(encoding="utf-8")
    (tmp_path / "cut.log").write_text(log[: re.search(re.escape(kept[:-1]), log).end() + 2], encoding="utf-8")
    monkeypatch.setenv("FAKE_REPLAY", str(tmp_path / "cut.log"))
    shutil.move(bench.setup.checkout.script, bench.setup.checkout.script.with_name("fake_upstream.py"))
    bench.setup.checkout.script.write_text("import fake_upstream as fake\nfake.BEHAVIOURS['trivial'] = fake.replay\nfake.main()\n", encoding="utf-8")
    judgement = trial_of(bench).judgement
    assert judgement.verdict in ("no_total", "bogus_total") and judgement.images_per_sec is None


def test_another_speed_than_the_clock_saw_is_no_figure(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_TOTALS", "9999999.00")
    monkeypatch.setenv("FAKE_STEP_S", "0.02")
    judgement = trial_of(bench, steps=40).judgement
    assert (judgement.verdict, judgement.images_per_sec) == ("bogus_total", None)


def test_a_speed_that_one_step_line_alone_tells_nothing_about_is_held_against_the_time_that_the_loop_took(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_TOTALS", "9999999.00")
    monkeypatch.setenv("FAKE_STEP_S", "0.05")
    trial = trial_of(bench, flags=(("display_every", "100"),))
    assert [step.step for step in trial.steps] == [1] and trial.telemetry["clock"] is None
    assert (trial.judgement.verdict, trial.judgement.images_per_sec) == ("bogus_total", None)


def test_another_release_than_asked_for_is_no_figure(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_TENSORFLOW", "2.4")
    judgement = trial_of(bench).judgement
    assert judgement.images_per_sec is None and "2.4" in judgement.reason


def test_a_gpu_trial_without_proof_of_a_gpu_is_no_figure(bench: Bench) -> None:
    judgement = trial_of(bench, device="gpu").judgement
    assert (judgement.verdict, judgement.images_per_sec) == ("wrong_device", None)


def test_a_release_that_we_never_ran_is_warned_of(bench: Bench) -> None:
    other = msgspec.structs.replace(bench.setup.release, tensorflow="2.21.7", verified=False)
    trial = trial_of(msgspec.structs.replace(bench, setup=msgspec.structs.replace(bench.setup, release=other)))
    assert trial.judgement.verdict == "ok"
    assert [warning.kind for warning in trial.judgement.warnings].count("unverified_release") == 1


def test_an_interpreter_that_has_gone_is_a_failed_trial_also_where_it_ran_before(bench: Bench, tmp_path: Path) -> None:
    assert trial_of(bench).judgement.verdict == "ok"
    gone = msgspec.structs.replace(bench.setup.environment, python=str(tmp_path / "gone" / "python"))
    trial = trial_of(msgspec.structs.replace(bench, setup=msgspec.structs.replace(bench.setup, environment=gone)))
    assert (trial.judgement.verdict, trial.judgement.images_per_sec) == ("failed", None)
    assert "gone" in trial.judgement.reason
    assert trial.steps == ()


LOSSES: dict[str, tuple[str, Callable[[Path], object]]] = {
    "deleted": (".stdout", Path.unlink),
    "replaced": (".stdout", lambda log: (log.unlink(), log.mkdir())),
    "errors deleted": (".stderr", Path.unlink),
    "damaged": (".times.csv", lambda stamps: stamps.write_bytes(b"line,seconds\n1,soon\n\xff\n")),
}


@pytest.mark.skipif(sys.platform == "win32", reason="Windows keeps a file that is open")
@pytest.mark.parametrize(("ending", "lose"), LOSSES.values(), ids=LOSSES.keys())
def test_a_log_that_is_lost_while_the_trial_runs_is_a_failed_trial_that_names_it(
    bench: Bench, ending: str, lose: Callable[[Path], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    run_trial = measurement.run_trial

    def run_and_lose(planned: PlannedTrial, **rest: Any) -> Execution:
        execution = run_trial(planned, **rest)
        lose(bench.directory / "logs" / f"{planned.log_name}{ending}")
        return execution

    monkeypatch.setattr(measurement, "run_trial", run_and_lose)
    trial = trial_of(bench)
    assert (trial.judgement.verdict, trial.judgement.images_per_sec) == ("failed", None)
    assert f"{ending} can't be read back" in trial.judgement.reason and str(bench.directory) not in trial.judgement.reason
    assert set(trial.log_hashes) == {path.name for path in (bench.directory / "logs").iterdir() if path.is_file()}
    append_trial(bench.directory, trial)
    assert msgspec.json.encode(read_trials(bench.directory)) == msgspec.json.encode([trial])


@pytest.mark.parametrize("kept", [None, b"seconds,cpu_percent\nsoon,1\n"])
def test_telemetry_that_is_lost_is_warned_of_and_the_figure_kept(bench: Bench, kept: bytes | None, monkeypatch: pytest.MonkeyPatch) -> None:
    summarise_window = measurement.summarise_window

    def lose_and_summarise(path: Path, *window: float) -> TelemetrySummary:
        path.unlink() if kept is None else path.write_bytes(kept)
        return summarise_window(path, *window)

    monkeypatch.setattr(measurement, "summarise_window", lose_and_summarise)
    judgement = trial_of(bench).judgement
    assert judgement.verdict == "ok"
    (lost,) = [warning for warning in judgement.warnings if warning.kind == "telemetry_lost"]
    assert ".telemetry.csv can't be read back" in lost.detail
