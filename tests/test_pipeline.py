"""Whole sweeps from the command line to the report, on real processes, a real repository and a real environment."""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import json
import os
import re
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from e2e_kit import NEW, OLD, Product, alive, only_report, planned_commands, trials_in, wait_until

from wrapper.reporter.store import read_session

pytest_plugins = ["e2e_kit"]

POSIX = pytest.mark.skipif(sys.platform == "win32", reason="signals")
BEHAVIOURS = {
    "vgg16": ("crash", "failed"),
    "vgg11": ("no_total", "no_total"),
    "alexnet": ("garbage", "ok"),
    "lenet": ("oom", "out_of_memory"),
    "googlenet": ("killed", "killed"),
    "overfeat": ("hang", "timed_out"),
    "trivial": ("run", "ok"),
}
"""What each model of the mixed sweep does, and the verdict on it."""
REPORT = ("report.md", "report.html", "results.csv", "results.json", "throughput.svg")
CONTROL = re.compile(r"[^\n -~\u00a0-\uffff]")


@dataclasses.dataclass(frozen=True)
class Swept:
    """A sweep that a test looks at."""

    done: subprocess.CompletedProcess[str]
    reports: Path
    started: tuple[tuple[str, int, int], ...]
    """For each start of upstream: the model, the trials that were on disk by then, and the length of a broken last line."""


def started(spy: Path) -> tuple[tuple[str, int, int], ...]:
    if not spy.exists():
        return ()
    rows = [line.split() for line in spy.read_text(encoding="utf-8").splitlines()]
    return tuple((model, int(recorded), int(broken)) for model, recorded, broken in rows)


def sweep(product: Product, reports: Path, *arguments: str, release: str = OLD, **variables: str) -> Swept:
    spy = reports.with_name(f"{reports.name}.spy")
    watched = {"FAKE_SPY": str(spy), "FAKE_REPORTS": str(reports), **variables}
    done = product.run(*product.sweep(reports, *arguments, release=release), **watched)
    return Swept(done=done, reports=reports, started=started(spy))


def total_in(log: Path) -> float:
    (total,) = re.findall(r"^total images/sec: (\d+\.\d\d)$", log.read_text(encoding="utf-8", errors="replace"), re.MULTILINE)
    return float(total)


def cells(reports: Path) -> list[dict[str, str]]:
    with (only_report(reports) / "results.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def good(product: Product, tmp_path_factory: pytest.TempPathFactory) -> Swept:
    """From an empty vendor/: checkout, environment, six valid trials, report."""
    return sweep(product, tmp_path_factory.mktemp("good") / "reports", "--models", "trivial=32,resnet50=2")


@pytest.fixture(scope="module")
def mixed(product: Product, interpreters: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Swept:
    """A sweep in which most models misbehave."""
    models = ",".join(f"{model}=2" for model in BEHAVIOURS)
    reports = tmp_path_factory.mktemp("mixed") / "reports"
    behaviours = ",".join(f"{model}={behaviour}" for model, (behaviour, _) in BEHAVIOURS.items())
    return sweep(product, reports, "--models", models, "--repeats", "1", "--time-limit", "3s", FAKE_BEHAVIOURS=behaviours)


def test_a_whole_sweep(good: Swept) -> None:
    assert (good.done.returncode, good.done.stderr) == (0, "")
    trials = trials_in(good.reports)
    assert [(trial.index, trial.case.model, trial.repeat) for trial in trials] == [
        (1, "trivial", 1),
        (2, "resnet50", 1),
        (3, "trivial", 2),
        (4, "resnet50", 2),
        (5, "trivial", 3),
        (6, "resnet50", 3),
    ]
    assert {trial.judgement.verdict for trial in trials} == {"ok"}


def test_the_means_are_those_of_the_logs(good: Swept) -> None:
    directory = only_report(good.reports)
    page = (directory / "report.md").read_text(encoding="utf-8")
    for model in ("trivial", "resnet50"):
        totals = [total_in(directory / trial.log) for trial in trials_in(good.reports) if trial.case.model == model]
        assert len(totals) == 3
        mean = statistics.mean(totals)
        (row,) = (row for row in cells(good.reports) if row["model"] == model)
        assert float(row["images_per_sec_mean"]) == pytest.approx(mean, rel=1e-9)
        assert [float(total) for total in row["totals"].split()] == totals
        for text in (page, good.done.stdout):
            (shown,) = re.findall(rf"^\|? *{model} [ |]+\d+[ |]+([\d.,]+)", text, re.MULTILINE)
            assert float(shown.replace(",", "")) == pytest.approx(mean, rel=0.01)


def test_a_trial_is_on_disk_before_the_next_starts(good: Swept, mixed: Swept) -> None:
    for swept in (good, mixed):
        assert [(recorded, broken) for _, recorded, broken in swept.started] == [(index, 0) for index in range(len(swept.started))]


def test_repeats_go_round_whatever_fails(good: Swept, mixed: Swept) -> None:
    assert [model for model, _, _ in good.started] == ["trivial", "resnet50"] * 3
    assert [model for model, _, _ in mixed.started] == list(BEHAVIOURS)


def test_failing_trials_are_recorded_with_their_reason_and_never_counted(mixed: Swept) -> None:
    assert mixed.done.returncode == 4
    judgements = {trial.case.model: trial.judgement for trial in trials_in(mixed.reports)}
    assert {model: judgement.verdict for model, judgement in judgements.items()} == {model: verdict for model, (_, verdict) in BEHAVIOURS.items()}
    assert "the fake was asked to crash" in judgements["vgg16"].reason
    assert "stage reached: warm" in judgements["overfeat"].reason
    for row in cells(mixed.reports):
        judgement = judgements[row["model"]]
        assert (judgement.images_per_sec is None) == (judgement.verdict != "ok") == (row["images_per_sec_mean"] == "")
        assert judgement.verdict == "ok" or (judgement.reason and judgement.remedy)
    assert {row["model"] for row in cells(mixed.reports)} == set(BEHAVIOURS)


def test_what_is_printed_names_logs_and_the_command_that_repeats_a_trial(product: Product, mixed: Swept, tmp_path: Path) -> None:
    directory = only_report(mixed.reports)
    printed = re.findall(r"log: (.+?)(?:, line (\d+))?\n +again: (?:\S*/)?tfcnn (.+)$", mixed.done.stdout, re.MULTILINE)
    assert len(printed) == sum(verdict != "ok" for _, verdict in BEHAVIOURS.values())
    assert all(Path(log).is_file() for log, _, _ in printed)
    decided = {Path(log).name.split("-")[1]: Path(log).read_text(encoding="utf-8").splitlines()[int(line) - 1] for log, line, _ in printed if line}
    assert "the fake was asked to crash" in decided["vgg16"] and "OOM" in decided["lenet"]

    copy = tmp_path / directory.name  # other tests look at the original
    shutil.copytree(directory, copy)
    before = (copy / "trials.jsonl").read_bytes()
    arguments = [str(copy) if word == str(directory) else word for word in shlex.split(printed[0][2])]
    spy = tmp_path / "spy"
    again = product.run(*arguments, FAKE_SPY=str(spy), FAKE_REPORTS=str(tmp_path))
    assert again.returncode == 4, again.stderr
    assert [model for model, _, _ in started(spy)] == ["vgg16"]
    after = (copy / "trials.jsonl").read_bytes()
    assert after.startswith(before) and after.count(b"\n") == before.count(b"\n") + 1
    assert [trial.case.model for trial in trials_in(tmp_path) if trial.judgement.verdict == "ok"] == ["vgg16", "alexnet", "trivial"]


def test_output_that_is_no_terminal_is_plain_lines(good: Swept, mixed: Swept) -> None:
    for swept in (good, mixed):
        assert not CONTROL.search(swept.done.stdout), CONTROL.search(swept.done.stdout)


@dataclasses.dataclass(frozen=True)
class Running:
    """A sweep whose second trial hangs, with a child and a grandchild that ignore SIGTERM."""

    process: subprocess.Popen[str]
    reports: Path
    spying: dict[str, str]
    descendants: list[int]


@pytest.fixture
def running(product: Product, interpreters: dict[str, str], tmp_path: Path) -> Iterator[Running]:
    reports, pids = tmp_path / "reports", tmp_path / "pids"
    spying = {"FAKE_SPY": str(tmp_path / "spy"), "FAKE_REPORTS": str(reports)}
    arguments = product.sweep(reports, "--models", "trivial=2,vgg16=2", "--repeats", "2")
    descendants: list[int] = []
    process = product.start(*arguments, FAKE_BEHAVIOURS="vgg16=stubborn", FAKE_PIDS=str(pids), **spying)
    try:
        assert wait_until(lambda: pids.exists() and len(pids.read_text().split()) == 2)
        descendants += [int(pid) for pid in pids.read_text().split()]
        descendants += [child.pid for child in psutil.Process(process.pid).children(recursive=True)]
        yield Running(process=process, reports=reports, spying=spying, descendants=descendants)
    finally:
        process.kill()
        process.communicate()
        end(descendants)


def end(pids: list[int]) -> None:
    for pid in pids:
        with contextlib.suppress(psutil.NoSuchProcess):
            psutil.Process(pid).kill()


def interrupt(running: Running, number: signal.Signals) -> tuple[str, str]:
    """Send the signal, and return what was printed; the whole tree is gone within 5 s."""
    running.process.send_signal(number)
    assert wait_until(lambda: not alive(running.descendants), 5)
    output, errors = running.process.communicate(timeout=30)
    assert running.process.returncode == 130, errors
    return output, errors


@POSIX
@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_ended_by_the_system(running: Running, name: str) -> None:
    _, errors = interrupt(running, getattr(signal, name))
    assert len(errors.splitlines()) == 1
    assert [trial.judgement.verdict for trial in trials_in(running.reports)] == ["ok", "interrupted"]


@POSIX
def test_a_lost_connection_does_not_end_what_was_started_with_nohup(product: Product, interpreters: dict[str, str], tmp_path: Path) -> None:
    spy = tmp_path / "spy"
    arguments = product.sweep(tmp_path / "reports", "--models", "trivial=2", "--repeats", "1", "--steps", "20")
    spying = {"FAKE_SPY": str(spy), "FAKE_REPORTS": str(tmp_path / "reports"), "FAKE_STEP_S": "0.05"}
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # inherited, as from nohup
    try:
        process = product.start(*arguments, **spying)
    finally:
        signal.signal(signal.SIGHUP, before)
    assert wait_until(spy.exists)
    process.send_signal(signal.SIGHUP)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors


@POSIX
def test_interrupted_in_the_middle_and_resumed(product: Product, running: Running) -> None:
    output, errors = interrupt(running, signal.SIGINT)
    directory = only_report(running.reports)
    assert f"tfcnn run --resume {directory}" in errors and len(errors.splitlines()) == 1
    assert str(directory / "report.md") in output and (directory / "report.md").is_file()
    first, second = trials_in(running.reports)
    assert (first.judgement.verdict, second.judgement.verdict, second.judgement.images_per_sec) == ("ok", "interrupted", None)

    Path(running.spying["FAKE_SPY"]).unlink()
    resumed = product.run("run", "--resume", str(directory), "--vendor", str(product.vendor), **running.spying)
    assert resumed.returncode == 0, resumed.stderr
    assert [model for model, _, _ in started(Path(running.spying["FAKE_SPY"]))] == ["vgg16", "trivial", "vgg16"]
    trials = trials_in(running.reports)
    assert trials[0] == first
    assert [trial.judgement.verdict for trial in trials] == ["ok"] * 4


# Runs a command and sends itself a signal where a function of the wrapper's begins or has ended.
SIGNALLED = """
import importlib, os, signal, sys
module, function, when = sys.argv[1:4]
module = importlib.import_module(module)
original = getattr(module, function)
def signalled(*given, **named):
    if when == "before":
        os.kill(os.getpid(), signal.SIGTERM)
    value = original(*given, **named)
    os.kill(os.getpid(), signal.SIGTERM)
    return value
setattr(module, function, signalled)
from wrapper.cli import main
sys.exit(main(sys.argv[4:]))
"""
MOMENTS = {
    "the report was opened": ("wrapper.pipeline", "open_reports", "after", False),
    "a trial is about to start": ("wrapper.rounds", "measure", "before", False),
    "a trial has been recorded": ("wrapper.rounds", "append_trial", "after", False),
    "reports are written": ("wrapper.pipeline", "write_report", "before", False),
    "a resumed sweep is prepared": ("wrapper.lanes", "prepare", "before", True),
    "a resumed sweep looks who else computes": ("wrapper.pipeline", "see_load", "after", True),
}


@POSIX
@pytest.mark.parametrize(("module", "function", "when", "resumed"), MOMENTS.values(), ids=MOMENTS.keys())
def test_stopped_where_no_trial_runs(
    product: Product, interpreters: dict[str, str], module: str, function: str, when: str, resumed: bool, tmp_path: Path
) -> None:
    reports = tmp_path / "reports"
    arguments = product.sweep(reports, "--models", "trivial=2", "--repeats", "1")
    if resumed:
        assert product.run(*arguments).returncode == 0
        arguments = ("run", "--resume", str(only_report(reports)), "--vendor", str(product.vendor))
    signalled = [sys.executable, "-c", SIGNALLED, module, function, when, *arguments]
    done = subprocess.run(signalled, cwd=product.root, env=product.variables(), capture_output=True, encoding="utf-8", check=False, timeout=60)
    assert done.returncode == 130 and len(done.stderr.splitlines()) == 1, done.stderr
    command = shlex.split(done.stderr.partition("Go on with: ")[2])
    assert command[1:4] == ["run", "--resume", str(only_report(reports))], done.stderr
    again = product.run(*command[1:])
    assert again.returncode == 0, again.stderr
    assert [trial.judgement.verdict for trial in trials_in(reports)] == ["ok"]


@POSIX
def test_a_second_sweep_is_refused_and_a_killed_one_resumed(product: Product, running: Running, tmp_path: Path) -> None:
    second = product.run(*product.sweep(tmp_path / "second", "--models", "trivial=2"), FAKE_SPY=str(tmp_path / "second.spy"))
    assert second.returncode == 1
    assert f"process {running.process.pid}," in second.stderr and str(running.reports) in second.stderr
    assert len(second.stderr.splitlines()) == 1
    assert not (tmp_path / "second").exists() and not (tmp_path / "second.spy").exists()
    for mistake in (("--models", "resnet5=1"), ("--data-dir", str(tmp_path / "absent")), ("--tensorflow", "1.99.0")):
        mistaken = product.run(*product.sweep(tmp_path / "second", "--models", "trivial=2", *mistake))
        assert mistaken.returncode == 2 and "another sweep" not in mistaken.stderr, mistaken.stderr

    running.process.kill()
    running.process.communicate()
    end(running.descendants)  # a child that prints nothing outlives a killed wrapper
    (first,) = trials_in(running.reports)
    records = only_report(running.reports) / "trials.jsonl"
    with records.open("ab") as file:
        file.write(b'{"index":2,"case":{"mod')  # as a crash in the middle of writing leaves it

    resumed = product.run("run", "--resume", str(records.parent), "--vendor", str(product.vendor))
    assert resumed.returncode == 0, resumed.stderr
    trials = trials_in(running.reports)
    assert trials[0] == first
    assert [(trial.index, trial.judgement.verdict) for trial in trials] == [(1, "ok"), (2, "ok"), (3, "ok"), (4, "ok")]


@POSIX
def test_upstream_ends_with_a_killed_wrapper(product: Product, interpreters: dict[str, str], tmp_path: Path) -> None:
    spy = tmp_path / "spy"
    spying = {"FAKE_SPY": str(spy), "FAKE_REPORTS": str(tmp_path / "reports"), "FAKE_STEP_S": "0.1"}
    process = product.start(*product.sweep(tmp_path / "reports", "--models", "trivial=2", "--steps", "600"), **spying)
    try:
        assert wait_until(spy.exists)
        family = [child.pid for child in psutil.Process(process.pid).children(recursive=True)]
        assert family
    finally:
        process.kill()
        process.communicate()
    assert wait_until(lambda: not alive(family), 10)


def test_what_changed_since_is_refused_by_name(product: Product, interpreters: dict[str, str], good: Swept, tmp_path: Path) -> None:
    directory = tmp_path / "report"
    shutil.copytree(only_report(good.reports), directory)
    session = json.loads((directory / "session.json").read_text(encoding="utf-8"))
    session["environment"].update(kind="given", python=interpreters[NEW])
    session["environment"]["packages"]["numpy"] = "1.16.0"
    session["host"]["gpus"] = [{"index": 0, "vendor": "AMD", "name": "Radeon VII", "driver": "6.1"}]
    (directory / "session.json").write_text(json.dumps(session), encoding="utf-8")
    spy = tmp_path / "spy"
    done = product.run("run", "--resume", str(directory), "--retry", "1", "--vendor", str(product.vendor), FAKE_SPY=str(spy))
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    commits = product.commits
    for change in (
        f"release was {OLD}, is {NEW}",
        f"upstream commit was {commits[OLD]}, is {commits[NEW]}",
        f"package tensorflow was {OLD}, is {NEW}",
        "package numpy was 1.16.0, is absent",
        "GPU was Radeon VII, is ",
        "GPU driver was 6.1, is ",
    ):
        assert change in done.stderr
    assert not spy.exists()


def test_a_report_is_made_again_from_its_records_alone(product: Product, good: Swept, tmp_path: Path) -> None:
    """Also where the terminal's encoding lacks characters that are printed."""
    directory = tmp_path / only_report(good.reports).name
    shutil.copytree(only_report(good.reports), directory)
    files = {name: (directory / name).read_bytes() for name in REPORT}
    for name in files:
        (directory / name).unlink()
    again = product.run("report", str(directory), PYTHONIOENCODING="ascii")
    assert again.returncode == 0, again.stderr
    assert {name: (directory / name).read_bytes() for name in files} == files


@pytest.mark.parametrize(
    "more",
    [
        ("--retry", "99"),
        ("--retry", "-1"),
        ("--retry", "0"),
        ("--tensorflow", NEW),
        ("--device", "gpu"),
        ("--python", sys.executable),
        ("--environment", "locked"),
        ("--environment", "conda"),
        ("--demo",),
    ],
    ids=" ".join,
)
def test_a_resumed_sweep_refuses_what_it_cannot_follow(product: Product, good: Swept, more: tuple[str, ...]) -> None:
    done = product.run("run", "--resume", str(only_report(good.reports)), "--vendor", str(product.vendor), *more)
    assert done.returncode == 2
    assert more[0] in done.stderr


@pytest.mark.parametrize(("part", "key"), [("environment", "kind"), ("environment", "python"), ("release", "tensorflow")])
def test_a_record_that_lacks_what_resuming_needs_is_refused_by_name(product: Product, good: Swept, part: str, key: str, tmp_path: Path) -> None:
    directory = tmp_path / "report"
    shutil.copytree(only_report(good.reports), directory)
    session = json.loads((directory / "session.json").read_text(encoding="utf-8"))
    if key == "python":
        session["environment"]["kind"] = "given"
    del session[part][key]
    (directory / "session.json").write_text(json.dumps(session), encoding="utf-8")
    done = product.run("run", "--resume", str(directory), "--vendor", str(product.vendor))
    assert done.returncode == 1
    assert f"{part}.{key}" in done.stderr and len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("part", ["sweep", "release", "upstream", "environment", "host", "versions"])
def test_a_record_without_its_facts_is_reported_all_the_same(product: Product, good: Swept, part: str, tmp_path: Path) -> None:
    directory = tmp_path / "report"
    shutil.copytree(only_report(good.reports), directory)
    session = json.loads((directory / "session.json").read_text(encoding="utf-8"))
    session[part] = {}
    (directory / "session.json").write_text(json.dumps(session), encoding="utf-8")
    done = product.run("report", str(directory))
    assert done.returncode == 0, done.stderr


def test_rounds_that_are_added_are_counted_among_all(product: Product, interpreters: dict[str, str], tmp_path: Path) -> None:
    asked = ("--models", "trivial=2", "--repeats", "1", "--until", "0.0001%", "--max-repeats", "3")
    swept = sweep(product, tmp_path / "reports", *asked)
    assert swept.done.returncode == 0, swept.done.stderr
    assert re.findall(r"^trial (\d+) of (\d+): .* images/sec", swept.done.stdout, re.MULTILINE) == [("1", "1"), ("2", "2"), ("3", "3")]
    directory = only_report(tmp_path / "reports")
    again = product.run("run", "--resume", str(directory), "--retry", "3", "--vendor", str(product.vendor))
    assert again.returncode == 0, again.stderr
    assert len((directory / "trials.jsonl").read_text(encoding="utf-8").splitlines()) == 4


@POSIX
def test_the_sweep_goes_on_when_nobody_reads_what_is_printed(product: Product, interpreters: dict[str, str], tmp_path: Path) -> None:
    process = product.start(*product.sweep(tmp_path / "reports", "--models", "trivial=2", "--repeats", "2"))
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    errors = process.stderr.read()
    assert process.wait(timeout=60) == 0, errors
    assert [trial.judgement.verdict for trial in trials_in(tmp_path / "reports")] == ["ok", "ok"]


def test_a_dry_run_prints_the_exact_command_lines_and_starts_nothing(product: Product, good: Swept, tmp_path: Path) -> None:
    arguments = product.sweep(tmp_path / "reports", "--models", "trivial=32,resnet50=2", "--dry-run")
    spy = tmp_path / "spy"
    before = sorted(product.vendor.iterdir())
    done = product.run(*arguments, FAKE_SPY=str(spy))
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(planned_commands(done.stdout)) == [(trial.index, list(trial.command)) for trial in trials_in(good.reports)]
    lines = [line for line in done.stdout.splitlines() if "--model=" in line]
    assert len(lines) == len(set(lines)) == 2, "a line stands once, however many trials have it"
    assert product.commits[OLD] in done.stdout
    assert sorted(product.vendor.iterdir()) == before
    assert not spy.exists() and not (tmp_path / "reports").exists()


@pytest.mark.parametrize("what", [("--tensorflow", NEW, "--device", "cpu"), ("--demo",)])
def test_a_dry_run_makes_nothing_where_nothing_is(product: Product, tmp_path: Path, what: tuple[str, ...]) -> None:
    places = ("--vendor", str(tmp_path / "vendor"), "--reports", str(tmp_path / "reports"))
    done = product.run("run", *what, "--models", "trivial=1", "--dry-run", *places)
    assert done.returncode == 0, done.stderr
    assert "--model=trivial" in done.stdout
    assert re.search(rf"^environment: (demo|to be made), Python {sys.version_info.major}\.{sys.version_info.minor}\.\d+, ", done.stdout, re.MULTILINE)
    assert list(tmp_path.iterdir()) == []


def on_a_gpu(product: Product, interpreters: dict[str, str], reports: Path, *arguments: str) -> Swept:
    """A sweep for a GPU that TensorFlow does not see."""
    wanted = ("--python", interpreters[NEW], "--device", "gpu", "--models", "trivial=2,lenet=2", "--repeats", "1")
    return sweep(product, reports, *wanted, *arguments, release="")


def test_a_gpu_that_tensorflow_does_not_see_is_refused_with_its_reason(product: Product, interpreters: dict[str, str], tmp_path: Path) -> None:
    swept = on_a_gpu(product, interpreters, tmp_path / "reports")
    assert swept.done.returncode == 1
    assert "CUDA_ERROR_NO_DEVICE" in swept.done.stderr and "--unproven-device" in swept.done.stderr
    assert len(swept.done.stderr.splitlines()) == 1
    assert swept.started == () and not swept.reports.exists()


def test_an_unproven_gpu_gives_no_valid_figure_on_the_release_of_the_interpreter(
    product: Product, interpreters: dict[str, str], tmp_path: Path
) -> None:
    swept = on_a_gpu(product, interpreters, tmp_path / "reports", "--unproven-device")
    assert swept.done.returncode == 4, swept.done.stderr
    assert [trial.judgement.verdict for trial in trials_in(swept.reports)] == ["wrong_device"] * 2
    assert [trial.judgement.images_per_sec for trial in trials_in(swept.reports)] == [None, None]
    session = read_session(only_report(swept.reports))
    assert (session.release["tensorflow"], session.upstream["commit"]) == (NEW, product.commits[NEW])
    assert session.environment["kind"] == "given"
    assert {trial.command[0] for trial in trials_in(swept.reports)} == {interpreters[NEW]}
    assert {trial.header["TensorFlow"] for trial in trials_in(swept.reports)} == {"2.21"}


@POSIX
def test_records_that_cannot_be_written_end_the_sweep(product: Product, interpreters: dict[str, str], tmp_path: Path) -> None:
    swept = sweep(product, tmp_path / "reports", "--models", "trivial=2", FAKE_BEHAVIOURS="trivial=squat")
    assert swept.done.returncode == 1
    assert len(swept.started) == 1
    assert "trials.jsonl" in swept.done.stderr and "Traceback" not in swept.done.stderr


def test_the_demo_twice(product: Product, tmp_path: Path) -> None:
    """Offline: no address can be reached, no uv and no TensorFlow is touched."""
    places = ("--vendor", str(tmp_path / "vendor"), "--reports", str(tmp_path / "reports"))
    offline = {"TFCNN_UPSTREAM": "https://127.0.0.1:1/none.git", "UV_FIND_LINKS": os.devnull}
    for number in (1, 2):
        done = product.run("run", "--demo", "--repeats", "1", "--steps", "2", "--models", "alexnet=1", *places, **offline)
        assert done.returncode == 0, done.stderr
        assert done.stdout.count("DEMO") >= 3
        directories = sorted(path for path in (tmp_path / "reports").iterdir())
        assert len(directories) == number
        for directory in directories:
            assert "DEMO" in directory.name
            for name in REPORT:
                assert "DEMO" in (directory / name).read_text(encoding="utf-8"), name
