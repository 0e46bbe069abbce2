"""The search for a batch size with real trials of a fake upstream whose memory is small."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from wrapper.batch_search import SearchBench, resolve, search
from wrapper.bootstrapper.host import Gpu
from wrapper.bootstrapper.inspection import Environment
from wrapper.bootstrapper.release import load_releases
from wrapper.bootstrapper.setup import Setup
from wrapper.bootstrapper.upstream import Checkout
from wrapper.errors import FatalError, Interrupted, UsageError
from wrapper.measurement import Bench, measure
from wrapper.reporter.store import Session, Trial, read_session, read_trials
from wrapper.runner.batch_size import Fit
from wrapper.runner.plan import PlannedTrial
from wrapper.runner.sweep import Case

FAKE = Path(__file__).parent / "data" / "fake_upstream.py"
CASE = Case(model="resnet50", batch_size=64, device="gpu", steps=100)
RELEASE = next(release for release in load_releases() if release.tensorflow.startswith("2.21"))


def make_bench(folder: Path, said: list[str], *, max_batch: int, source: str = "'allow_growth'", totals: str = "") -> SearchBench:
    script = folder / "scripts" / "tf_cnn_benchmarks" / "tf_cnn_benchmarks.py"
    script.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(FAKE, script)
    script.with_name("benchmark_cnn.py").write_text(source, encoding="utf-8")
    variables = {"FAKE_MAX_BATCH": str(max_batch), "FAKE_GPUS": "1", "FAKE_TOTALS": totals, "FAKE_COUNTER": str(folder / "calls")}
    setup = Setup(
        release=RELEASE,
        device="gpu",
        reason="",
        checkout=Checkout(path=str(folder), commit="c" * 40, address="a"),
        environment=Environment(kind="locked", path="", python=sys.executable, python_version="3.11", tensorflow="2.21.0", variables=variables),
    )
    bench = Bench(setup=setup, directory=folder, time_limit=60)

    def run(planned: PlannedTrial, directory: Path) -> Trial:
        return measure(planned, msgspec.structs.replace(bench, directory=directory), lambda event, seconds: None)

    session = Session(created="2024-05-06T00:00:00+00:00", sweep={}, release={}, upstream={}, environment={}, host={}, versions={}, cases=(CASE,))
    gpus = (Gpu(index=0, name="NVIDIA H200", driver="570.1", memory_bytes=2**37),)
    return SearchBench(setup=setup, gpus=gpus, session=session, reports=folder / "reports", cache=folder / "v" / "b.json", run=run, say=said.append)


def counting(bench: SearchBench, run: Callable[[PlannedTrial, Path], Trial] | None = None) -> tuple[SearchBench, list[int]]:
    """The same bench, and the batch sizes that it ran."""
    batches: list[int] = []

    def counted(planned: PlannedTrial, directory: Path) -> Trial:
        batches.append(planned.case.batch_size)
        return (run or bench.run)(planned, directory)

    return msgspec.structs.replace(bench, run=counted), batches


def test_the_largest_is_found_recorded_and_remembered(tmp_path: Path) -> None:
    said: list[str] = []
    bench, batches = counting(make_bench(tmp_path, said, max_batch=50))
    result = search(CASE, "max", bench)
    assert result.size == 50
    assert batches == [32, 64, 48, 56, 52, 50, 51]
    assert result.conclusion == "resnet50-fp32-gpu1: the largest batch size that fits is 50 (51 does not)"
    assert [(row.batch, row.verdict) for row in result.rows] == [(size, "ok" if size <= 50 else "out_of_memory") for size in sorted(batches)]

    directory = Path(result.directory or "")
    assert directory.name == f"2024-05-06-batch-size-resnet50-{RELEASE.tensorflow}-nvidia-h200"
    trials = {trial.case.batch_size: trial for trial in read_trials(directory)}
    assert read_session(directory).cases == ()
    for row in result.rows:
        trial = trials[row.batch]
        assert (trial.judgement.verdict, trial.judgement.images_per_sec) == (row.verdict, row.images_per_sec)
        assert Path(row.log).is_file()
        assert "--num_batches=10" in trial.command and "--allow_growth=true" in trial.command

    again = search(msgspec.structs.replace(CASE, batch_size=1, steps=7), "max", bench)
    assert (again.rows, again.directory, len(batches)) == (result.rows, None, 7)
    other_driver = msgspec.structs.replace(bench, gpus=(msgspec.structs.replace(bench.gpus[0], driver="580.1"),))
    search(CASE, "max", other_driver)
    assert len(batches) == 14
    assert said == []


def test_a_fallback_is_said(tmp_path: Path) -> None:
    said: list[str] = []
    bench, batches = counting(make_bench(tmp_path, said, max_batch=40))
    assert resolve(CASE, Fit((64, 48, 32)), bench) == (32,)
    assert (batches, said) == ([64, 48, 32], ["resnet50-fp32-gpu1: 64 and 48 do not fit, measured at 32"])
    assert resolve(CASE, Fit((32, 16)), bench) == (32,)
    assert (len(batches), said[1:]) == (3, ["resnet50-fp32-gpu1: measured at 32"])
    with pytest.raises(FatalError, match="64 and 48 do not fit"):
        resolve(CASE, Fit((64, 48)), bench)


def test_an_unrelated_failure_ends_the_search_with_its_reason_and_is_not_remembered(tmp_path: Path) -> None:
    plain = make_bench(tmp_path, [], max_batch=100)

    def crash_from_64(planned: PlannedTrial, directory: Path) -> Trial:
        crashing = tuple("--model=crash" if part.startswith("--model=") else part for part in planned.command)
        return plain.run(msgspec.structs.replace(planned, command=crashing) if planned.case.batch_size >= 64 else planned, directory)

    bench, batches = counting(plain, crash_from_64)
    with pytest.raises(FatalError, match=r"not known: the trial at batch size 64 ended with failed \(ValueError: .*the largest that ran is 32"):
        resolve(CASE, "max", bench)
    assert batches == [32, 64]
    assert search(CASE, "max", plain).size == 100


def test_what_was_found_before_an_interrupt_is_said_and_kept(tmp_path: Path) -> None:
    plain = make_bench(tmp_path, [], max_batch=100)

    def stop_at_64(planned: PlannedTrial, directory: Path) -> Trial:
        trial = plain.run(planned, directory)
        judgement = msgspec.structs.replace(trial.judgement, verdict="interrupted", images_per_sec=None, reason="Ctrl-C")
        return msgspec.structs.replace(trial, judgement=judgement) if planned.case.batch_size == 64 else trial

    with pytest.raises(Interrupted, match="the largest that ran is 32"):
        resolve(CASE, "max", counting(plain, stop_at_64)[0])
    bench, batches = counting(plain)
    resolve(CASE, "max", bench)
    assert batches[0] == 64


def test_best_memory_and_pressure(tmp_path: Path) -> None:
    plain = make_bench(tmp_path, [], max_batch=45, totals="100.00,120.00,90.00,80.00")

    def with_readings(planned: PlannedTrial, directory: Path) -> Trial:
        trial = plain.run(planned, directory)
        batch = planned.case.batch_size
        evidence = [{"present": True, "memory_rise_bytes": batch << 20}, {"present": False, "memory_rise_bytes": 1 << 40}]
        warnings = [{"kind": "memory_pressure", "detail": ""}] if batch >= 44 and trial.judgement.verdict == "ok" else []
        judgement = msgspec.convert({**msgspec.to_builtins(trial.judgement), "warnings": warnings}, type(trial.judgement))
        return msgspec.structs.replace(trial, judgement=judgement, telemetry={"sampler": {"evidence": evidence}})

    result = search(CASE, "max", msgspec.structs.replace(plain, run=with_readings))
    assert result.size == 45
    assert result.pressure_from == 44
    assert result.best is not None
    assert (result.best.batch, result.best.images_per_sec) == (40, 120.0)
    assert all(row.memory_bytes == row.batch << 20 for row in result.rows)


def test_without_the_flag_for_growth_memory_is_not_known(tmp_path: Path) -> None:
    result = search(CASE, Fit((8,)), make_bench(tmp_path, [], max_batch=45, source="'batch_size'"))
    assert [row.memory_bytes for row in result.rows] == [None]
    assert "--allow_growth=true" not in read_trials(Path(result.directory or ""))[0].command


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"x": [{"batch": "y"}]}', b"\xff\xfe"])
def test_a_damaged_cache_is_ignored_with_a_note(tmp_path: Path, content: bytes) -> None:
    said: list[str] = []
    bench = make_bench(tmp_path, said, max_batch=8)
    bench.cache.parent.mkdir()
    bench.cache.write_bytes(content)
    assert search(CASE, Fit((8,)), bench).size == 8
    assert len(said) == 1 and "searched for anew" in said[0]
    assert search(CASE, Fit((8,)), bench).directory is None


def test_nothing_is_searched_for_on_a_cpu(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="host's memory"):
        search(msgspec.structs.replace(CASE, device="cpu"), "max", make_bench(tmp_path, [], max_batch=8))
    assert not (tmp_path / "reports").exists()
