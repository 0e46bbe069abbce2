"""Sweeps on several releases that end where no trial runs, or where the disk is full: what was begun can be gone on with."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from e2e_kit import NEW, OLD, Product, only_report

from wrapper.reporter.store import read_trials

pytest_plugins = ["e2e_kit"]
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals and mounts")

BOTH = f"{OLD},{NEW}"
Disk = Callable[[str], Path]

# Runs a command and sends itself a signal where a function of the wrapper's is called for the n-th time, or has returned.
SIGNALLED = """
import importlib, os, signal, sys
module, function, when, number = sys.argv[1:5]
module = importlib.import_module(module)
original, calls = getattr(module, function), []
def signalled(*given, **named):
    calls.append(1)
    def strike(now):
        if now == when and len(calls) == int(number):
            os.kill(os.getpid(), signal.SIGINT)
    strike("before")
    value = original(*given, **named)
    strike("after")
    return value
setattr(module, function, signalled)
from wrapper.cli import main
sys.exit(main(sys.argv[5:]))
"""
NOT_BEGUN = {
    "the second release is chosen": ("wrapper.lanes", "choose", "before", "2"),
    "the doctor looks for the second": ("wrapper.lanes", "check_machine", "after", "2"),
    "the second is being prepared": ("wrapper.lanes", "prepare", "before", "2"),
    "the second is ready": ("wrapper.lanes", "check_flags", "after", "2"),
}
BEGUN = {
    "the second report is opened": ("wrapper.lanes", "create_part_directory", "after", "2"),
    "a round has ended": ("wrapper.rounds", "append_trial", "after", "2"),
    "a round begins": ("wrapper.rounds", "measure", "before", "3"),
    "the second report is written": ("wrapper.pipeline", "write_report", "before", "2"),
    "they are set side by side": ("wrapper.pipeline", "write_side_by_side", "before", "1"),
}


def stopped(product: Product, moment: tuple[str, str, str, str], arguments: tuple[str, ...]) -> str:
    """What is said where Ctrl-C is pressed at that moment."""
    command = [sys.executable, "-c", SIGNALLED, *moment, *arguments]
    done = subprocess.run(command, cwd=product.root, env=product.variables(), capture_output=True, encoding="utf-8", check=False, timeout=60)
    assert done.returncode == 130 and len(done.stderr.splitlines()) == 1, done.stderr
    return done.stderr


def assert_whole(reports: Path, repeats: int) -> None:
    for release in (OLD, NEW):
        assert [trial.judgement.verdict for trial in read_trials(only_report(reports) / release)] == ["ok"] * repeats


@pytest.mark.parametrize("moment", NOT_BEGUN.values(), ids=NOT_BEGUN.keys())
def test_stopped_before_anything_is_begun(product: Product, interpreters: dict[str, str], moment: tuple[str, str, str, str], tmp_path: Path) -> None:
    said = stopped(product, moment, product.sweep(tmp_path / "reports", "--models", "trivial=2", "--repeats", "1", release=BOTH))
    assert "interrupted" in said and "--resume" not in said
    assert not list(tmp_path.glob("reports/*"))


@pytest.mark.parametrize("moment", BEGUN.values(), ids=BEGUN.keys())
def test_stopped_between_trials(product: Product, interpreters: dict[str, str], moment: tuple[str, str, str, str], tmp_path: Path) -> None:
    reports = tmp_path / "reports"
    said = stopped(product, moment, product.sweep(reports, "--models", "trivial=2", "--repeats", "2", release=BOTH))
    again = product.run(*shlex.split(said.partition("Go on with: ")[2])[1:])
    assert again.returncode == 0, again.stderr
    assert_whole(reports, 2)
    assert (only_report(reports) / "releases.md").is_file()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    """Makes a small disk of a size that `mount` understands."""
    place = tmp_path / "disk"
    place.mkdir()

    def make(size: str) -> Path:
        if subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)], capture_output=True).returncode != 0:
            pytest.skip("mounting is not allowed here")
        return place

    yield make
    if os.path.ismount(place):
        subprocess.run(["umount", str(place)], check=True)


def test_a_disk_without_room_for_the_second_environment_leaves_that_release_out(product: Product, disk: Disk, tmp_path: Path) -> None:
    vendor, reports = disk("1g"), tmp_path / "reports"
    assert product.run("bootstrap", "--tensorflow", OLD, "--device", "cpu", "--vendor", str(vendor)).returncode == 0
    done = product.run(*product.sweep(reports, "--models", "trivial=2", "--repeats", "1", release=BOTH), "--vendor", str(vendor))
    assert done.returncode == 4, done.stderr
    assert f"TensorFlow {NEW} is left out: " in done.stdout and "GB free for" in done.stdout
    assert "the environment for the CPU can take" in (only_report(reports) / "releases.md").read_text(encoding="utf-8")
    assert read_trials(only_report(reports) / OLD)[0].judgement.verdict == "ok"


@pytest.mark.parametrize("room", [8, 24, 48, 72, 96, 128])
def test_a_disk_that_fills_is_said_and_the_sweep_gone_on_with(product: Product, interpreters: dict[str, str], disk: Disk, room: int) -> None:
    reports = disk("1m") / "reports"
    filler = reports.with_name("filler")
    filler.write_bytes(bytes((1024 - room) * 1024))
    done = product.run(*product.sweep(reports, "--models", "trivial=2", "--repeats", "2", release=BOTH))
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1 and re.search("disk is full|No space left", done.stderr), done.stderr
    filler.unlink()
    if begun := list(reports.glob("*/releases.json")):
        again = product.run("run", "--resume", str(begun[0].parent), "--vendor", str(product.vendor))
        assert again.returncode == 0, again.stderr
        assert_whole(reports, 2)
        assert product.run("verify", str(begun[0].parent)).returncode == 0
