"""`tfcnn doctor` from the command line, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest


def doctor(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "wrapper", "doctor", "--device", "cpu", *arguments]
    return subprocess.run(command, env={**os.environ, **variables}, capture_output=True, text=True, encoding="utf-8", timeout=60)


@pytest.fixture
def upstream(tmp_path: Path) -> str:
    """An upstream that answers."""
    subprocess.run(["git", "init", "--quiet", "--bare", str(tmp_path / "upstream")], check=True)
    return str(tmp_path / "upstream")


def places(tmp_path: Path, upstream: str) -> list[str]:
    return ["--vendor", str(tmp_path / "vendor"), "--upstream", upstream]


def test_faults_come_first_each_with_its_remedy_and_the_exit_code_is_1(tmp_path: Path, upstream: str) -> None:
    half_made = tmp_path / "vendor/environments/1.5.0-cpu"
    half_made.mkdir(parents=True)
    (tmp_path / "empty").mkdir()
    ended = doctor(*places(tmp_path, upstream), PATH=str(tmp_path / "empty"))
    assert (ended.returncode, ended.stderr) == (1, "")
    lines = ended.stdout.splitlines()
    assert lines[0].startswith("fail  git: this machine has no git") and "Install it" in lines[1]
    warned = next(number for number, line in enumerate(lines) if line.startswith("warn") and str(half_made) in line)
    assert "delete it" in lines[warned + 1]
    states = [line.split(" ")[0] for line in lines if not line.startswith(" ")]
    assert states == sorted(states, key=["fail", "warn", "ok"].index)


def test_json_says_the_same(tmp_path: Path, upstream: str) -> None:
    ended = doctor("--json", "--tensorflow", "2.21", *places(tmp_path, str(tmp_path / "nowhere")))
    content = json.loads(ended.stdout)
    assert (ended.returncode, content["status"]) == (1, "fail")
    (fault,) = [one for one in content["findings"] if one["subject"] == "upstream"]
    assert fault["status"] == "fail" and "--upstream" in fault["remedy"]
    sound = doctor("--json", *places(tmp_path, upstream))
    failed = [one for one in json.loads(sound.stdout)["findings"] if one["status"] == "fail"]
    assert sound.returncode == (1 if failed else 0)


def test_what_cannot_be_meant_is_refused(tmp_path: Path, upstream: str) -> None:
    unknown = doctor("--tensorflow", "1.99", *places(tmp_path, upstream))
    assert unknown.returncode == 2 and "not a known release" in unknown.stderr
    assert doctor("--demo").returncode == 2
