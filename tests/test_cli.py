"""What the command line accepts, refuses and costs."""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from e2e_kit import OLD, Product

from wrapper.arguments import parser
from wrapper.bootstrapper.release import load_releases
from wrapper.cli import main
from wrapper.reporter.store import FORMAT

pytest_plugins = ["e2e_kit"]

PROGRAMS = Path(sys.executable).parent
POSIX = pytest.mark.skipif(sys.platform == "win32", reason="names and directories as POSIX has them")
COMMANDS: dict[str, argparse.ArgumentParser] = next(action.choices for action in parser()._actions if isinstance(action, argparse._SubParsersAction))
HELP_BUDGET_S = 0.4
"""Issue 2 asks for 0.15 s on an idle machine; tests also run on busy ones."""


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Commands that run in this process: in sight of no other sweep of this machine, and with the signal handlers put back."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("wrapper.runner.lock.FOLDER", tmp_path / "tmp" / "tfcnn")
    before = {number: signal.getsignal(number) for number in signal.valid_signals()}
    yield
    for number, handler in before.items():
        if signal.getsignal(number) != handler:
            signal.signal(number, handler)


def write(path: Path, text: str) -> str:
    path.write_text(text, encoding="utf-8")
    return str(path)


REFUSED = {
    "an unknown command": (["measure"], "measure"),
    "an unknown flag": (["run", "--batch", "3"], "--batch"),
    "an unknown sweep": (["run", "--sweep", "everything"], "everything"),
    "an unknown model": (["run", "--models", "resnet5=4"], "resnet50"),
    "a batch size that is no number": (["run", "--models", "resnet50=many"], "'many'"),
    "a batch size of nothing": (["run", "--models", "resnet50=0"], "models.resnet50"),
    "a model without a batch size": (["run", "--models", "lenet"], "lenet"),
    "a case twice": (["run", "--models", "trivial=2,trivial=2"], "models.trivial: [2, 2]"),
    "a number of devices twice": (["run", "--models", "trivial=2", "--devices", "1,1"], "devices: [1, 1]"),
    "an empty list of models": (["run", "--models", ""], "--models"),
    "a model without a name": (["run", "--models", ","], "name is missing"),
    "a batch size of 5,000 digits": (["run", "--models", "trivial=" + "9" * 5000], "--models trivial"),
    "a batch size of 4,000 digits": (["run", "--models", "trivial=" + "9" * 4000], "models.trivial"),
    "no repeats": (["run", "--repeats", "0"], "repeats: 0"),
    "negative steps": (["run", "--steps", "-5"], "steps: -5"),
    "devices that are no number": (["run", "--devices", "two"], "'two'"),
    "an unknown precision": (["run", "--precisions", "fp8"], "fp8"),
    "an unknown way to update": (["run", "--variable-update", "horovod"], "horovod"),
    "a time limit that is none": (["run", "--time-limit", "soon"], "soon"),
    "a flag that a key stands for": (["run", "--flag", "num_gpus=2"], "devices"),
    "a flag that changes the total": (["run", "--flag", "eval=true"], "eval"),
    "an unknown release": (["run", "--tensorflow", "1.99.0"], "1.15.5 and 2.0.4"),
    "a release that is no version": (["run", "--tensorflow", "newest"], "'newest'"),
    "a pre-release": (["run", "--tensorflow", "2.4.0rc1"], "2.4.0rc1"),
    "an address that runs programs": (["run", "--upstream", "ext::sh -c touch% x"], "ext::"),
    "an address without safety": (["bootstrap", "--upstream", "http://example.invalid/x.git"], "http://example.invalid"),
    "real data that is not there": (["run", "--data-dir", "absent"], "absent"),
    "a trial of no sweep": (["run", "--retry", "1"], "--resume"),
    "a new sweep to be resumed": (["run", "--resume", ".", "--models", "trivial=1"], "--resume"),
}


@pytest.mark.parametrize(("arguments", "named"), REFUSED.values(), ids=REFUSED.keys())
def test_what_cannot_be_meant_is_refused_before_anything_is_fetched(
    arguments: list[str], named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    places = ["--device", "cpu", "--vendor", "vendor"] if arguments[0] in ("run", "bootstrap") else []
    release = ["--tensorflow", OLD] if places and "--tensorflow" not in arguments else []
    try:
        code = main([*arguments, *places, *release])
    except SystemExit as exit_:
        code = exit_.code
    errors = capsys.readouterr().err
    assert code == 2, errors
    assert named in errors.splitlines()[-1]
    assert "Traceback" not in errors
    if "usage:" not in errors:
        assert len(errors.splitlines()) == 1
    assert not (tmp_path / "vendor").exists() and not (tmp_path / "reports").exists()


OPTIONS = {
    (name, option) for name, command in COMMANDS.items() for action in command._actions if action.nargs != 0 for option in action.option_strings
}


@pytest.mark.parametrize(("command", "option"), sorted(OPTIONS))
def test_two_dashes_are_no_value(command: str, option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, f"{option}=--"]) == 2
    assert f"{option}=-- gives no value" in capsys.readouterr().err


@pytest.mark.parametrize("value", ["", " "])
@pytest.mark.parametrize(
    "option", ["--data-dir", "--python", "--tensorflow", "--reports", "--resume", "--vendor", "--upstream", "--sweep", "--models", "--as-published"]
)
def test_an_option_with_nothing_in_it_is_not_taken_for_one_left_out(option: str, value: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["run", option, value])
    assert ended.value.code == 2
    assert re.search(rf"argument {option}: nothing is given", capsys.readouterr().err)


@POSIX
@pytest.mark.parametrize("option", ["--data-dir", "--python", "--reports", "--resume", "--vendor"])
def test_a_name_that_is_too_long_is_refused(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["run", option, "x" * 4000])
    assert ended.value.code == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert f"argument {option}: 'xxx" in last and "too long" in last and len(last) < 200


def test_help_names_no_default_that_a_sweep_may_change(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["run", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert "timed steps of a trial (default: the sweep's)" in text and "before the timed ones (default: the sweep's)" in text


FILES = {
    "an unknown key": ("models: {trivial: 32}\nrepeat: 3\n", "did you mean repeats?"),
    "a version without quotes": ("models: {trivial: 32}\ntensorflow: 1.10\n", 'tensorflow: "1.10"'),
    "no YAML": ("models: [trivial\n", "not valid YAML"),
    "data under a name that is too long": (f"models: {{trivial: 32}}\ndata_dir: {'x' * 4000}\n", "can't be looked at"),
    "a key twice": ("models: {trivial: 32}\nsteps: 1\nsteps: 2\n", "'steps' stands twice"),
    "no keys": ("- trivial\n", "holds no keys"),
    "no models": ("steps: 5\n", "models"),
    "text for a number": ("models: {trivial: many}\n", "models.trivial[0]: 'many'"),
    "a wrong entry of a list": ("models: {trivial: 32}\ndevices: [1, 0]\n", "devices[1]: 0"),
}
HOSTILE_FILES = {
    "a path that nothing can open": ('models: {trivial: 32}\ndata_dir: "a\\0b"\n', "data_dir: 'a\\x00b' holds"),
    "a flag that is no text": ('models: {trivial: 32}\nflags: {num_intra_threads: "\\ud800"}\n', "flags.num_intra_threads: '\\ud800' holds"),
    "aliases that multiply": ("a: &a [1, 1]\nb: &b [*a, *a]\nmodels: {trivial: *b}\n", "aliases are not read"),
    "text that steers the terminal": ('models: {"\\e]0;owned\\a\\e[2J": 32}\n', "control character"),
    "text of two lines": ('models: {"trivial\\nresnet": 32}\n', "control character"),
}


@pytest.mark.parametrize(
    ("text", "named"),
    [*FILES.values(), *HOSTILE_FILES.values()],
    ids=[*FILES, *HOSTILE_FILES],
)
def test_a_mistake_in_a_sweep_file_is_refused_in_one_line(text: str, named: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write(tmp_path / "sweep.yaml", text)
    assert main(["run", "--device", "cpu", "--sweep", file, "--vendor", str(tmp_path / "vendor"), "--tensorflow", OLD]) == 2
    errors = capsys.readouterr().err
    assert named in errors
    assert len(errors.splitlines()) == 1 and "\x1b" not in errors and "\a" not in errors
    assert not (tmp_path / "vendor").exists()


def test_real_data_without_the_files_that_upstream_reads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "data").mkdir()
    write(tmp_path / "data" / "readme", "")
    arguments = ["run", "--device", "cpu", "--tensorflow", OLD, "--models", "resnet50=2", "--data-dir", str(tmp_path / "data")]
    assert main([*arguments, "--vendor", str(tmp_path / "vendor")]) == 2
    assert "train-*-of-*" in capsys.readouterr().err
    assert not (tmp_path / "vendor").exists()


MENDABLE = {
    "an interpreter that is not there": (["run", "--python", "absent/python"], "absent/python"),
    "an interpreter without TensorFlow": (["run", "--python", sys.executable], "has no TensorFlow"),
    "a sweep that never was": (["run", "--resume", "."], "session.json"),
    "a report of nothing": (["report", "."], "session.json"),
    "a directory that is a file": (["bootstrap", "--tensorflow", OLD, "--device", "cpu", "--vendor", "file"], "file"),
}


@pytest.mark.parametrize(("arguments", "named"), MENDABLE.values(), ids=MENDABLE.keys())
def test_what_the_user_can_mend_is_said_in_one_line(
    arguments: list[str], named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    where = [] if arguments[0] == "report" or "--vendor" in arguments else ["--vendor", "vendor"]
    assert main([*arguments, *where]) == 1
    errors = capsys.readouterr().err
    assert named in errors and len(errors.splitlines()) == 1
    assert not (tmp_path / "vendor").exists()


@POSIX
@pytest.mark.parametrize(
    "facts", ["x", "{}", '{"type": "python", "facts": 5}', "[" * 5000, "\\377"], ids=["no JSON", "no kind", "no facts", "deep", "no UTF-8"]
)
def test_a_program_that_answers_as_no_python_does(facts: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [f"tfcnn-inspection:{facts}", 'tfcnn-inspection:{"type": "tensorflow", "facts": 5}']
    program = Path(write(tmp_path / "python", "#!/bin/sh\n" + "".join(f"printf '{line}\\n'\n" for line in lines)))
    program.chmod(0o755)
    assert main(["run", "--device", "cpu", "--models", "trivial=1", "--python", str(program), "--vendor", str(tmp_path / "vendor")]) == 1
    errors = capsys.readouterr().err
    assert f"{program} " in errors and len(errors.splitlines()) == 1 and "a bug" not in errors


SESSION: dict[str, Any] = {
    "created": "2026-01-01T00:00:00+00:00",
    "sweep": {"models": {"trivial": [1]}},
    "release": {"tensorflow": OLD},
    "upstream": {"address": "", "commit": "", "ref": ""},
    "environment": {"kind": "locked"},
    "host": {},
    "versions": {},
}
DAMAGED: dict[str, tuple[dict[str, Any], str, int]] = {
    "a device that no sweep has": ({"device": "tpu"}, "its device is 'tpu'", 1),
    "a release that is no text": ({"release": {"tensorflow": 5}}, "no release.tensorflow", 1),
    "data that nothing can open": ({"sweep": {"models": {"trivial": [1]}, "data_dir": "a\0b"}}, "data_dir: 'a\\x00b'", 2),
}


@pytest.mark.parametrize(("change", "named", "code"), DAMAGED.values(), ids=DAMAGED.keys())
def test_records_that_cannot_be_gone_on_with(
    change: dict[str, Any], named: str, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "session.json", json.dumps({"format": FORMAT, **SESSION, **change}))
    assert main(["run", "--resume", str(tmp_path), "--vendor", str(tmp_path / "vendor")]) == code
    errors = capsys.readouterr().err
    assert named in errors and len(errors.splitlines()) == 1


@POSIX
@pytest.mark.parametrize("arguments", [["run", "--reports"], ["run", "--vendor"], ["run", "--resume"], ["report"]], ids=" ".join)
def test_a_path_that_records_cannot_hold_is_refused_in_one_line(product: Product, arguments: list[str], tmp_path: Path) -> None:
    done = product.run(*arguments, os.fsdecode(bytes(tmp_path) + b"/b\xff"))
    assert done.returncode == 2, done.stderr
    assert "UTF-8" in done.stderr and len(done.stderr.splitlines()) == 1


@POSIX
@pytest.mark.parametrize(("arguments", "code"), [(["--help"], 0), (["run", "--dry-run"], 1), (["report", "x"], 1)])
def test_a_current_directory_that_is_gone_is_said_in_one_line(product: Product, arguments: list[str], code: int, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    script = 'cd "$1" && rmdir "$1" && shift && exec "$@"'
    command = ["sh", "-c", script, "sh", str(gone), *product.command(*arguments)]
    done = subprocess.run(command, env=product.variables(), capture_output=True, encoding="utf-8", check=False, timeout=60)
    assert done.returncode == code, done.stderr
    assert code == 0 or ("current directory" in done.stderr and len(done.stderr.splitlines()) == 1)


@pytest.mark.parametrize("place", ["file", "file/below"])
def test_reports_that_cannot_be_made_are_refused_before_anything_is_fetched(place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    vendor = tmp_path / "vendor"
    where = ["--vendor", str(vendor), "--reports", str(tmp_path / place)]
    assert main(["run", "--device", "cpu", "--tensorflow", OLD, "--models", "trivial=1", *where]) == 2
    errors = capsys.readouterr().err
    assert str(tmp_path / place) in errors and "--resume" not in errors and len(errors.splitlines()) == 1
    assert not vendor.exists()


def test_the_demo_needs_no_upstream_that_the_environment_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFCNN_UPSTREAM", "http://example.invalid/x.git")
    assert main(["run", "--demo", "--dry-run", "--vendor", str(tmp_path / "vendor")]) == 0
    assert main(["run", "--dry-run", "--device", "cpu", "--tensorflow", OLD, "--vendor", str(tmp_path / "vendor")]) == 2


def test_without_a_network_the_ways_out_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    address = "https://127.0.0.1:1/tensorflow/benchmarks.git"
    arguments = ["run", "--device", "cpu", "--tensorflow", OLD, "--models", "trivial=1", "--reports", str(tmp_path / "reports")]
    assert main([*arguments, "--vendor", str(tmp_path / "vendor"), "--upstream", address]) == 1
    errors = capsys.readouterr().err
    assert len(errors.splitlines()) == 1
    assert all(named in errors for named in (address, "--upstream", "TFCNN_UPSTREAM", "--demo"))
    assert not [path for path in (tmp_path / "vendor").iterdir() if not path.name.startswith(".")]
    assert not (tmp_path / "reports").exists()


def test_a_bug_ends_in_one_line_that_names_its_log(product: Product, tmp_path: Path) -> None:
    shutil.copytree(product.root / "wrapper", tmp_path / "wrapper")
    (tmp_path / "wrapper" / "data" / "releases.yaml").unlink()
    done = product.run("releases", cwd=tmp_path, PYTHONPATH=str(tmp_path), TMPDIR=str(tmp_path))
    assert done.returncode == 3
    (log,) = tmp_path.glob("tfcnn-bug-*.log")
    assert str(log) in done.stderr and len(done.stderr.splitlines()) == 1
    assert "Traceback" in log.read_text(encoding="utf-8")


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["run", "--help"], ["run", "--retry", "1"]])
def test_python_m_wrapper_is_tfcnn(arguments: list[str], tmp_path: Path) -> None:
    script = shutil.which("tfcnn", path=str(PROGRAMS))
    if not script:
        pytest.skip("the project is not installed beside this Python")
    both = [
        subprocess.run([*program, *arguments], cwd=tmp_path, capture_output=True, encoding="utf-8", check=False)
        for program in ([script], [sys.executable, "-m", "wrapper"])
    ]
    assert (both[0].returncode, both[0].stdout, both[0].stderr) == (both[1].returncode, both[1].stdout, both[1].stderr)
    assert both[0].stdout or both[0].stderr


def test_help_is_quick() -> None:
    seconds = []
    for _ in range(5):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-m", "wrapper", "--help"], capture_output=True, check=True)
        seconds.append(time.perf_counter() - start)
    assert statistics.median(seconds) < HELP_BUDGET_S


@pytest.mark.parametrize("arguments", [["--help"], ["run", "--help"], ["--version"]])
def test_nothing_heavy_is_imported_on_the_way_to_help(arguments: list[str]) -> None:
    command = [sys.executable, "-X", "importtime", "-m", "wrapper", *arguments]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", check=True)
    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.splitlines()}
    assert "argparse" in imported
    assert not imported & {"pandas", "numpy", "git", "jinja2", "rich", "cpuinfo", "pynvml", "uv", "yaml", "psutil"}


def test_every_argument_of_every_command_is_explained() -> None:
    assert [(name, action.dest) for name, command in COMMANDS.items() for action in command._actions if not action.help] == []


def test_the_releases_are_listed(product: Product) -> None:
    done = product.run("releases")
    assert (done.returncode, done.stderr) == (0, "")
    rows = [line for line in done.stdout.splitlines() if re.match(r"\d+\.\d+\.\d+ ", line)]
    assert len(rows) == len(load_releases()) and max(map(len, rows)) <= 80, "a row for each release, on one line of a usual terminal"
    assert rows[0].startswith("1.5.0 ") and any(row.startswith(OLD) for row in rows)
    assert all(f"PU, Python {sys.version_info.major}.{sys.version_info.minor} " in row for row in rows)
    listed = json.loads(product.run("releases", "--json").stdout)["releases"]
    assert [one["release"]["tensorflow"] for one in listed] == [row.split()[0] for row in rows]
    assert all(one["release"]["wheel"]["cuda"] and one["proven"]["models"] for one in listed)
