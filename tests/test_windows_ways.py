"""What Windows asks of the whole product, as far as another system can show it: odd paths, CRLF output, file names, no links."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from e2e_kit import OLD, Product, only_report, trials_in

pytest_plugins = ["e2e_kit"]

RESERVED = re.compile(r"(con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³])(\..*)?", re.IGNORECASE)
"""Names of devices (https://learn.microsoft.com/windows/win32/fileio/naming-a-file)."""
LONGEST_BELOW_REPORTS = 120
"""Of the 260 characters that a path on Windows may have by default, this leaves 140 for the project's own."""


@pytest.fixture(scope="module")
def odd(product: Product, tmp_path_factory: pytest.TempPathFactory) -> Product:
    """The product in a directory whose name has a space and letters beyond ASCII."""
    root = tmp_path_factory.mktemp("odd") / "ein Prüfstand für 画像"
    root.mkdir()
    for name in ("wrapper", "wheels", "upstream"):
        shutil.copytree(product.root / name, root / name)
    shutil.copy(product.root / "cpuinfo.py", root)
    (root / "tmp").mkdir()
    return Product(root=root, commits=product.commits)


@pytest.fixture(scope="module")
def reports(odd: Product) -> Path:
    """Of a sweep whose upstream writes lines as Python does on Windows."""
    reports = odd.root / "Berichte von heute"
    done = odd.run(*odd.sweep(reports, "--models", "trivial=2,resnet50=2", "--repeats", "2"), FAKE_BEHAVIOURS="trivial=windows,resnet50=windows")
    assert (done.returncode, done.stderr) == (0, "")
    return reports


def below(directory: Path) -> Iterator[Path]:
    """What the product itself wrote: what is in an environment is a matter of its packages and of the Python that made it."""
    for path in sorted(directory.iterdir()):
        yield path
        if path.is_dir() and not path.is_symlink() and path.name not in (".git", "environments"):
            yield from below(path)


def test_output_with_crlf_is_read_and_kept_as_it_was(reports: Path) -> None:
    trials = trials_in(reports)
    assert len(trials) == 4 and all(trial.judgement.verdict == "ok" and trial.judgement.images_per_sec for trial in trials)
    logs = [path.read_bytes() for path in only_report(reports).rglob("*.stdout*")]
    assert len(logs) == 4 and all(log.count(b"\r\n") == log.count(b"\n") > 5 for log in logs)


def test_the_report_is_the_same_when_made_again(odd: Product, reports: Path) -> None:
    before = (only_report(reports) / "report.md").read_bytes()
    done = odd.run("report", str(only_report(reports)))
    assert (done.returncode, done.stderr) == (0, "")
    assert (only_report(reports) / "report.md").read_bytes() == before
    assert odd.run("verify", str(only_report(reports))).returncode == 0


def test_the_doctor_knows_what_the_sweep_made(odd: Product, reports: Path) -> None:
    done = odd.run("doctor", "--device", "cpu", "--tensorflow", OLD, "--vendor", str(odd.vendor))
    assert f"ok    environment: {odd.vendor / 'environments'}" in done.stdout and "is damaged" not in done.stdout


def test_the_demo(odd: Product) -> None:
    done = odd.run("run", "--demo", "--vendor", str(odd.vendor), "--reports", str(odd.root / "Vorführung"), "--repeats", "1")
    assert (done.returncode, done.stderr) == (0, "")
    assert all(trial.judgement.verdict == "ok" for trial in trials_in(odd.root / "Vorführung"))


def test_every_file_has_a_name_that_windows_can_have(odd: Product, reports: Path) -> None:
    written = [*below(reports), *below(odd.vendor)]
    assert len(written) > 20
    for path in written:
        assert not re.search(r'[<>:"|?*\\\x00-\x1f]|[. ]$', path.name), path
        assert not RESERVED.fullmatch(path.name), path
    names = [str(path).casefold() for path in written]
    assert len(set(names)) == len(names), "names that differ in case alone are one file"
    assert max(len(str(path.relative_to(reports))) for path in below(reports)) <= LONGEST_BELOW_REPORTS


def test_nothing_is_linked(odd: Product, reports: Path) -> None:
    assert not [path for path in [*below(reports), *below(odd.vendor)] if path.is_symlink()]


@pytest.mark.skipif(sys.platform == "win32", reason="plays a Windows that has no other Python")
def test_the_py_launcher_is_asked_for_a_python(tmp_path: Path) -> None:
    launcher = tmp_path / "py"
    launcher.write_text(f'#!/bin/sh\n[ "$1" = -3 ] && shift && exec {os.path.realpath(sys.executable)} "$@"\n', encoding="utf-8")
    launcher.chmod(0o755)
    scripts = Path(__file__).parents[1] / "scripts"
    code = f"import os, subprocess, sys; sys.path.insert(0, {str(scripts)!r}); sys.platform = 'win32'; import _pythons\n"
    code += "print(_pythons.find_python('no-such-python', dict(os.environ)))"
    alone = {"PATH": str(tmp_path), "HOME": str(tmp_path)}
    found = subprocess.run([sys.executable, "-I", "-c", code], env=alone, capture_output=True, check=True, encoding="utf-8").stdout.strip()
    assert os.path.realpath(found) == os.path.realpath(sys.executable)
