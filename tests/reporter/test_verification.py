"""A report against its logs: an honest one holds, and whatever is changed in it afterwards is found."""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from wrapper.comparing import Against, keep_comparison
from wrapper.errors import FatalError
from wrapper.parser.clock import window_throughput
from wrapper.parser.output import parse_file
from wrapper.parser.stderr import read_stderr
from wrapper.parser.verdict import Warning, judge
from wrapper.process import Execution
from wrapper.reporter.report import write_report
from wrapper.reporter.store import append_trial, read_session, read_trials, write_session
from wrapper.reporter.verification import verify
from wrapper.runner.plan import command_line
from wrapper.runner.sweep import Case

CAPTURED = Path(__file__).parents[1] / "data" / "logs"
CASE = Case(model="resnet50", batch_size=64, device="gpu", steps=100)


@pytest.fixture
def report(tmp_path: Path, make_session: Callable[..., Any], make_trial: Callable[..., Any]) -> Path:
    """A report of three trials of real logs, the last of which failed."""
    directory = tmp_path / "report"
    (directory / "logs").mkdir(parents=True)
    session = make_session(release={"tensorflow": "2.21.0", "verified": False}, planned_trials=3)
    write_session(directory, session)
    sources = ("h200-tf2.21-resnet50-b64-fp32-1", "h200-tf2.21-resnet50-b64-fp32-2", "h200-tf2.21-resnet50-oom")
    for index, source in enumerate(sources, start=1):
        stem = directory / "logs" / f"{index:03d}-resnet50-r{index}"
        for ending in (".stdout", ".stderr"):
            shutil.copy(CAPTURED / f"{source}{ending}", f"{stem}{ending}")
        log = stem.with_suffix(".stdout")
        output = parse_file(log)
        stamps = [line * 0.01 for line in range(output.lines)]
        stem.with_suffix(".times.csv").write_text(
            "line,seconds\n" + "".join(f"{line},{at:.6f}\n" for line, at in enumerate(stamps, start=1)), encoding="ascii"
        )
        execution = Execution(exit_code=1 if "oom" in source else 0, started="2026-11-30T20:00:00Z", seconds=60.0)
        clock = window_throughput(output.steps, stamps, 64)
        judgement = judge(
            case=CASE,
            execution=execution,
            output=output,
            stderr=read_stderr(log.with_suffix(".stderr")),
            release_minor="2.21",
            seen_on_devices=frozenset({0}),
            clock=clock,
        )
        sampled = Warning(kind="throttled", detail="by the readings")
        trial = make_trial(
            index,
            1.0,
            repeat=index,
            command=command_line(CASE, python="python", script="tf_cnn_benchmarks.py"),
            log=f"logs/{log.name}",
            execution=execution,
            header=output.header,
            steps=output.steps,
            telemetry={"seen_on": [0], "clock": msgspec.to_builtins(clock)},
            log_hashes={path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(stem.parent.glob(f"{stem.name}.*"))},
        )
        warnings = (*judgement.warnings, sampled)
        append_trial(directory, msgspec.structs.replace(trial, case=CASE, judgement=msgspec.structs.replace(judgement, warnings=warnings)))
    write_report(directory)
    return directory


def edit_record(report: Path, index: int, **changes: Any) -> None:
    """Change a line of trials.jsonl as somebody with an editor would."""
    path = report / "trials.jsonl"
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    for line in lines:
        if line["index"] == index:
            for key, value in changes.items():
                line[key] = line[key] | value if isinstance(value, dict) else value
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


def whats(report: Path) -> list[str]:
    return [finding.what for finding in verify(report).findings]


def test_an_honest_report_holds(report: Path) -> None:
    assert [trial.judgement.verdict for trial in read_trials(report)] == ["ok", "ok", "out_of_memory"]
    verification = verify(report)
    assert (verification.findings, verification.trials, verification.logs) == ((), 3, 9)


def test_an_honest_report_holds_elsewhere(report: Path, tmp_path: Path) -> None:
    assert verify(Path(shutil.move(report, tmp_path / "sent"))).findings == ()


def test_a_log_edited_with_its_record_left(report: Path) -> None:
    total = read_trials(report)[0].judgement.images_per_sec
    log = report / "logs" / "001-resnet50-r1.stdout"
    log.write_bytes(log.read_bytes().replace(f"total images/sec: {total:.2f}".encode(), b"total images/sec: 1999.99"))
    found = verify(report).findings
    assert [finding.what for finding in found][:2] == ["trial 1: SHA-256 of 001-resnet50-r1.stdout", "trial 1: judgement"]
    assert "1999.99" in found[1].recomputed and f"{total}" in found[1].recorded
    assert any(finding.what.startswith("results.csv") for finding in found)


def test_a_log_edited_in_a_line_that_decides_nothing(report: Path) -> None:
    with (report / "logs" / "001-resnet50-r1.stderr").open("a", encoding="utf-8") as file:
        file.write("harmless\n")
    assert whats(report) == ["trial 1: SHA-256 of 001-resnet50-r1.stderr"]


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"judgement": {"images_per_sec": 1999.99}}, "judgement"),
        ({"judgement": {"total_line": 7}}, "judgement"),
        ({"header": {"Model": "vgg16"}}, "header"),
        ({"steps": []}, "steps"),
        ({"telemetry": {"clock": None}}, "telemetry"),
    ],
)
def test_an_edited_record(report: Path, changes: dict[str, Any], what: str) -> None:
    edit_record(report, 1, **changes)
    write_report(report)
    assert f"trial 1: {what}" in whats(report)


def test_a_failure_turned_into_a_figure(report: Path) -> None:
    edit_record(report, 3, judgement={"verdict": "ok", "images_per_sec": 1500.0, "total_line": 31})
    write_report(report)
    found = verify(report).findings
    assert found[0].what == "trial 3: judgement"
    assert any(finding.what.startswith("results.csv") for finding in found)


def test_a_trial_left_out_with_its_report_made_again(report: Path) -> None:
    path = report / "trials.jsonl"
    path.write_text("".join(path.read_text(encoding="utf-8").splitlines(keepends=True)[:2]), encoding="utf-8")
    write_report(report)
    assert whats(report) == ["trial 3", "log 003-resnet50-r3.stdout"]


@pytest.mark.parametrize("index", [1, 3])
def test_a_trial_left_out_with_all_its_trace(report: Path, index: int) -> None:
    write_session(report, msgspec.structs.replace(read_session(report), cases=(CASE,)))
    path = report / "trials.jsonl"
    kept = [line for line in path.read_text(encoding="utf-8").splitlines(keepends=True) if json.loads(line)["index"] != index]
    path.write_text("".join(kept), encoding="utf-8")
    for log in (report / "logs").glob(f"{index:03d}-*"):
        log.unlink()
    write_report(report)
    (missing,) = verify(report).findings
    assert (missing.what, missing.recorded) == (f"trial {index} (resnet50-b64-fp32-gpu1, repeat {index})", "one of 3 planned")


@pytest.mark.parametrize("planned", [30, 10**15])
def test_many_trials_left_out_are_counted(report: Path, planned: int) -> None:
    write_session(report, msgspec.structs.replace(read_session(report), planned_trials=planned))
    write_report(report)
    found = whats(report)
    assert found[:2] == ["trial 4", "trial 5"] and found[-1] == f"{planned - 23} more trials"


def add_record(report: Path, index: int, repeat: int) -> None:
    """Count the first trial once more."""
    path = report / "trials.jsonl"
    first, *others = path.read_text(encoding="utf-8").splitlines(keepends=True)
    path.write_text("".join([first, *others, json.dumps(json.loads(first) | {"index": index, "repeat": repeat}) + "\n"]), encoding="utf-8")


def test_a_trial_counted_twice_with_its_report_made_again(report: Path) -> None:
    add_record(report, 4, 4)
    write_report(report)
    assert whats(report) == ["trial 4: log"]


def test_a_trial_counted_twice_by_a_copy_of_its_log(report: Path) -> None:
    add_record(report, 4, 4)
    for path in list((report / "logs").glob("001-*")):
        shutil.copy(path, path.with_name(path.name.replace("001-", "004-")))
    (first, *_) = read_trials(report)
    hashes = {name.replace("001-", "004-"): digest for name, digest in first.log_hashes.items()}
    path = report / "trials.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines()
    lines[-1] = json.dumps(json.loads(lines[-1]) | {"log": first.log.replace("001-", "004-"), "log_hashes": hashes})
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    write_report(report)
    assert whats(report) == ["trial 4: log"]


@pytest.mark.parametrize("command", [[], ["python", "x.py"], ["python", "x.py", "--model=resnet50", "--batch_size=128"]])
def test_a_command_line_that_is_not_that_of_the_case(report: Path, command: list[str]) -> None:
    edit_record(report, 1, command=command)
    write_report(report)
    assert whats(report) == ["trial 1: command"]


@pytest.mark.parametrize("places", [{1: (2, 1), 2: (1, 2)}, {1: (1, 7)}, {2: (2, -1)}])
def test_trials_that_were_moved_in_the_plan(report: Path, places: dict[int, tuple[int, int]]) -> None:
    session = read_session(report)
    write_session(report, msgspec.structs.replace(session, cases=(CASE,)))
    write_report(report)
    assert whats(report) == []
    path = report / "trials.jsonl"
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    moved = [line | dict(zip(("index", "repeat"), places.get(line["index"], (line["index"], line["repeat"])), strict=True)) for line in lines]
    path.write_text("".join(json.dumps(line) + "\n" for line in moved), encoding="utf-8")
    write_report(report)
    assert whats(report) == [f"trial {index}: place" for index in sorted(place[0] for place in places.values())]


@pytest.fixture
def compared(report: Path) -> Path:
    """The report, compared with published figures and with a baseline of half its speed."""
    half = report.parent / "half"
    shutil.copytree(report, half)
    for index in (1, 2):
        edit_record(half, index, judgement={"images_per_sec": 900.0})
    keep_comparison(report, Against(entries=("V100",), baseline=half))
    write_report(report)
    return report


def test_an_honest_comparison_holds(compared: Path) -> None:
    verification = verify(compared)
    assert (verification.findings, verification.taken) == ((), ("half",))


@pytest.mark.parametrize("name", ["comparison.json", "report.md"])
def test_an_edited_ratio(compared: Path, name: str) -> None:
    path = compared / name
    text = path.read_text(encoding="utf-8")
    ratio = f"{json.loads((compared / 'comparison.json').read_text(encoding='utf-8'))['rows'][0]['ratio']:.3f}"
    assert ratio in text
    path.write_text(text.replace(ratio, "9.999"), encoding="utf-8")
    found = verify(compared).findings
    assert found
    assert all(finding.what.startswith(f"{name}, line") and "9.999" in finding.recorded and ratio in finding.recomputed for finding in found)


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ('"strict": false', '"strict": true', "comparison.json, line"),
        ('"V100"', '"V1OO"', "comparison.json"),
        ('"images_per_sec": 900.0', '"images_per_sec": 90.0', "comparison.json, line"),
        ('"images_per_sec": 900.0', '"images_per_sec": 0', "comparison.json"),
        ('"source": "half"', '"source": "tf_org_dgx1"', "comparison.json"),
        ("{", "", "comparison.json"),
    ],
)
def test_an_edited_comparison(compared: Path, old: str, new: str, what: str) -> None:
    path = compared / "comparison.json"
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")
    found = whats(compared)
    assert any(name.startswith(what) for name in found) and any(name.startswith("report.md") for name in found)


def test_a_comparison_left_out(compared: Path) -> None:
    (compared / "comparison.json").unlink()
    assert {name.partition(",")[0] for name in whats(compared)} == {"report.md"}


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights on Windows")
def test_a_comparison_elsewhere_is_not_read(compared: Path) -> None:
    path = compared / "comparison.json"
    path.rename(compared.parent / "elsewhere.json")
    path.symlink_to(compared.parent / "elsewhere.json")
    first = verify(compared).findings[0]
    assert (first.what, first.recorded) == ("comparison.json", "outside the report's directory, and not read")


@pytest.mark.parametrize(("name", "digits"), [("results.csv", "{:.4f}"), ("results.json", "{:.4f}"), ("report.md", "{:.0f}")])
def test_an_edited_mean(report: Path, name: str, digits: str) -> None:
    first, second = (trial.judgement.images_per_sec for trial in read_trials(report)[:2])
    assert first and second
    shown = digits.format((first + second) / 2).rstrip("0").rstrip(".")
    path = report / name
    text = path.read_text(encoding="utf-8")
    assert shown in text
    path.write_text(text.replace(shown, "9999"), encoding="utf-8")
    found = verify(report).findings
    assert found
    assert all(finding.what.startswith(f"{name}, line") and "9999" in finding.recorded and shown in finding.recomputed for finding in found)


def test_missing_files(report: Path) -> None:
    (report / "logs" / "001-resnet50-r1.stdout").unlink()
    (report / "results.csv").unlink()
    assert whats(report) == ["trial 1: SHA-256 of 001-resnet50-r1.stdout", "trial 1: judgement", "results.csv"]


def test_hashes_left_out(report: Path) -> None:
    path = report / "trials.jsonl"
    lines = [json.loads(line) | {"log_hashes": {}} for line in path.read_text(encoding="utf-8").splitlines()]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    write_report(report)
    assert whats(report) == [f"trial {index}: SHA-256 of logs/00{index}-resnet50-r{index}.stdout" for index in (1, 2, 3)]


@pytest.mark.parametrize("name", ["../../secret.stdout", "logs/../../secret.stdout", "{absolute}", "logs/\x00", "", ".", "logs/link.stdout"])
def test_no_file_outside_is_read(report: Path, name: str) -> None:
    secret = report.parent / "secret.stdout"
    for ending in (".stdout", ".stderr", ".times.csv"):
        shutil.copy(report / "logs" / f"001-resnet50-r1{ending}", secret.with_name(f"secret{ending}"))
    if sys.platform != "win32":
        (report / "logs" / "link.stdout").symlink_to(secret)
    edit_record(report, 1, log=name.format(absolute=secret), log_hashes={"../../secret.stdout": hashlib.sha256(secret.read_bytes()).hexdigest()})
    found = {finding.what: finding.recomputed for finding in verify(report).findings}
    assert "can't be read" in found["trial 1: judgement"]
    assert "can't be read" in found["trial 1: SHA-256 of ../../secret.stdout"]


@pytest.mark.parametrize("changes", [{"case": {"steps": 0}}, {"case": {"batch_size": 0}}, {"telemetry": {"seen_on": [{}]}}])
def test_a_record_that_says_nonsense(report: Path, changes: dict[str, Any]) -> None:
    edit_record(report, 1, **changes)
    assert "trial 1: judgement" in whats(report)


def test_a_damaged_record_is_named(report: Path) -> None:
    path = report / "trials.jsonl"
    path.write_text("{\n" + path.read_text(encoding="utf-8"), encoding="utf-8")
    with pytest.raises(FatalError, match="line 1"):
        verify(report)
