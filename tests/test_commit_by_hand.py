"""`--commit` from the command line to the report, with a commit that does not import beside its TensorFlow."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from e2e_kit import NEW, Product, git, only_report, trials_in

pytest_plugins = ["e2e_kit"]


@pytest.fixture
def old(product: Product, tmp_path: Path) -> tuple[Path, str]:
    """A clone of the fake upstream with a commit that is not in the table, older than those that are, and needs what no TensorFlow here has."""
    clone = tmp_path / "clone of upstream"
    subprocess.run(["git", "clone", "--quiet", product.upstream, str(clone)], check=True, capture_output=True)
    script = clone / "scripts" / "tf_cnn_benchmarks" / "tf_cnn_benchmarks.py"
    script.write_text("from tensorflow.contrib import slim\n" + script.read_text(encoding="utf-8"), encoding="utf-8")
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.invalid")
    git(clone, *identity, "commit", "--quiet", "--all", "--message", "Use contrib", "--date", "2017-01-02T12:00:00+0000")
    commit = git(clone, "rev-parse", "HEAD")
    git(clone, *identity, "commit", "--quiet", "--allow-empty", "--message", "Go on")  # so that it is no tip
    days = dict.fromkeys(product.commits.values(), "2023-10-05")
    (product.root / "wrapper" / "data" / "commits.yaml").write_text(yaml.safe_dump(days), encoding="utf-8")
    return clone, commit


def test_a_commit_of_another_time_is_said_and_resumed(product: Product, old: tuple[Path, str], tmp_path: Path) -> None:
    clone, commit = old
    asked = product.sweep(
        tmp_path / "reports", "--models", "trivial=2", "--repeats", "1", "--commit", commit[:9], "--upstream", str(clone), release=NEW
    )
    done = product.run(*asked)
    assert done.returncode == 4, done.stderr
    directory = only_report(tmp_path / "reports")
    session = json.loads((directory / "session.json").read_text(encoding="utf-8"))
    assert session["upstream"]["commit"] == commit and "--commit" in session["upstream"]["ref"]
    (trial,) = trials_in(tmp_path / "reports")
    kinds = {warning.kind: warning.detail for warning in trial.judgement.warnings}
    assert set(kinds) == {"unverified_release", "commit_of_another_time"}
    told = f"This commit, of 2017-01-02, is older than this TensorFlow: {NEW} is known to run with"
    assert told in kinds["commit_of_another_time"]
    assert told in (directory / "report.md").read_text(encoding="utf-8")
    again = product.run("run", "--resume", str(directory), "--retry", "1", "--vendor", str(product.vendor), "--upstream", str(clone))
    assert again.returncode == 4, again.stderr
    assert commit in json.dumps(session) and len(trials_in(tmp_path / "reports")) == 1
    verified = product.run("verify", str(directory))
    assert verified.returncode == 0, verified.stdout


def test_a_commit_that_is_nowhere_is_refused_before_anything_is_made(product: Product, tmp_path: Path) -> None:
    asked = product.sweep(tmp_path / "reports", "--models", "trivial=2", "--commit", "1234567", release=NEW)
    vendor = tmp_path / "vendor"
    done = product.run(*asked, "--vendor", str(vendor))
    assert done.returncode == 2 and "--commit 1234567 means no commit" in done.stderr
    assert not vendor.exists()


def test_a_machine_that_is_not_fit_is_told_before_upstream_is_asked(product: Product, tmp_path: Path) -> None:
    (tmp_path / "git").symlink_to(shutil.which("git") or "")
    nowhere = ("--upstream", (tmp_path / "nowhere").as_uri(), "--commit", "1234567", "--environment", "docker")
    done = product.run(*product.sweep(tmp_path / "reports", "--models", "trivial=2", *nowhere, release=NEW), PATH=str(tmp_path))
    assert done.returncode == 1 and "docker was asked for, and is not on the PATH" in done.stderr, done.stderr


def test_a_commit_whose_checkout_is_here_is_known_by_its_first_digits(product: Product, old: tuple[Path, str], tmp_path: Path) -> None:
    clone, commit = old
    asked = product.sweep(tmp_path / "reports", "--models", "trivial=2", "--repeats", "1", "--upstream", str(clone), release=NEW)
    for commit_as_written in (commit, commit[:8]):
        done = product.run(*asked, "--commit", commit_as_written)
        assert done.returncode == 4, done.stderr
        shutil.rmtree(clone, ignore_errors=True)


@pytest.mark.parametrize("option", [("--commit", "f" * 40), ("--tensorflow", NEW), ("--environment", "locked"), ("--python", "python3")])
def test_the_demo_has_no_other_commit_or_tensorflow(product: Product, option: tuple[str, str]) -> None:
    for command in ("run", "bootstrap"):
        done = product.run(command, "--demo", *option)
        assert done.returncode == 2 and option[0] in done.stderr and "--demo" in done.stderr
