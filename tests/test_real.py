"""The real upstream on real TensorFlow: the oldest Python and the newest, on the CPU."""

from __future__ import annotations

import csv
import os
import re
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import filelock
import pytest

from wrapper.bootstrapper.address import DEFAULT_ADDRESS
from wrapper.bootstrapper.environment import find_pythons
from wrapper.bootstrapper.release import load_releases, resolve_release
from wrapper.reporter.store import read_trials

OLD, NEWEST = "1.12.0", load_releases()[-1].tensorflow
OUT_OF_REACH = ("could not be fetched", "packages can't be fetched", "uv could not list")


def skip_unless_served(version: str) -> None:
    if not {".".join(python.version.split(".")[:2]) for python in find_pythons()} & set(resolve_release(version, load_releases()).python):
        pytest.skip(f"this machine has no Python for TensorFlow {version}")


@pytest.fixture
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """One at a time, as sweeps on a machine must be, however many processes run the tests. All other sweeps of tests have a lock of their own."""
    with filelock.FileLock(tmp_path_factory.getbasetemp().parent / "real.lock"):
        yield


@pytest.mark.real
@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("version", [OLD, NEWEST])
def test_the_real_thing(version: str, project: Path, tmp_path: Path) -> None:
    skip_unless_served(version)
    sweep = ("--device", "cpu", "--models", "trivial=32,resnet50=2", "--steps", "5", "--warmup-steps", "1", "--repeats", "3")
    places = ("--vendor", str(project / "vendor"), "--reports", str(tmp_path))
    upstream = os.environ.get("TFCNN_UPSTREAM", DEFAULT_ADDRESS)
    done = subprocess.run(
        [sys.executable, "-m", "wrapper", "run", "--tensorflow", version, *sweep, *places, "--upstream", upstream],
        cwd=project,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=1200,
    )
    if any(reason in done.stderr for reason in OUT_OF_REACH):
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stdout + done.stderr
    (directory,) = tmp_path.iterdir()
    trials = read_trials(directory)
    assert [(trial.case.model, trial.repeat) for trial in trials] == [(model, repeat) for repeat in (1, 2, 3) for model in ("trivial", "resnet50")]
    assert {trial.header["TensorFlow"] for trial in trials} == {".".join(version.split(".")[:2])}
    with (directory / "results.csv").open(encoding="utf-8", newline="") as file:
        rows = {row["model"]: row for row in csv.DictReader(file)}
    for model in ("trivial", "resnet50"):
        logs = [(directory / trial.log).read_text(encoding="utf-8") for trial in trials if trial.case.model == model]
        totals = [float(total) for log in logs for total in re.findall(r"^total images/sec: (\d+\.\d\d)$", log, re.MULTILINE)]
        assert len(totals) == 3
        assert float(rows[model]["images_per_sec_mean"]) == pytest.approx(statistics.mean(totals), rel=1e-9)
        assert rows[model]["n"] == "3"
