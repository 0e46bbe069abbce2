"""Verifying releases with the real script, on the fake upstream and fake TensorFlow of the end-to-end tests."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import psutil
import pytest
from e2e_kit import NEW, OLD, Product, wait_until

from wrapper.bootstrapper.proven import NO_ENVIRONMENT, OK, load_proven

pytest_plugins = ["e2e_kit"]

SCRIPT = Path(__file__).parents[2] / "scripts" / "verify_releases.py"


def today() -> str:
    return datetime.now(UTC).date().isoformat()


class Verifier:
    """The script beside the copy of the product, with a table of proofs that begins empty."""

    def __init__(self, product: Product, scratch: Path) -> None:
        self.product = product
        self.table = product.root / "wrapper" / "data" / "proven.yaml"
        self.spy = scratch / "started.txt"
        self.table.unlink(missing_ok=True)

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, str(SCRIPT), *arguments]

    def variables(self, behaviours: str, **more: str) -> dict[str, str]:
        return self.product.variables(FAKE_BEHAVIOURS=behaviours, FAKE_SPY=str(self.spy), FAKE_REPORTS=str(self.spy.parent), **more)

    def run(self, *arguments: str, behaviours: str = "", **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*arguments),
            cwd=self.product.root,
            env=self.variables(behaviours, **more),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            check=False,
            timeout=120,
        )

    def outcomes(self, release: str) -> dict[str, str]:
        proofs = load_proven(self.table)
        return {model: outcome.outcome for model, outcome in proofs[release].models.items()} if release in proofs else {}

    def started(self) -> list[str]:
        """The models that were started, in their order."""
        return [line.split()[0] for line in self.spy.read_text(encoding="utf-8").splitlines()] if self.spy.exists() else []


@pytest.fixture
def verifier(product: Product, tmp_path: Path) -> Verifier:
    return Verifier(product, tmp_path)


def test_each_outcome_is_kept_with_its_reason_and_nothing_is_left_behind(verifier: Verifier) -> None:
    done = verifier.run(OLD, NEW, "--models", "trivial,vgg16,ssd300", behaviours="vgg16=crash")
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert verifier.outcomes(OLD) == {"trivial": OK, "vgg16": "failed", "ssd300": OK}
    assert verifier.outcomes(NEW) == {"trivial": OK, "vgg16": "failed"}, "the row lists ssd300 as missing"
    proof = load_proven(verifier.table)[OLD]
    assert proof.models["vgg16"].reason == "ValueError: the fake was asked to crash"
    assert proof.environment.startswith(f"{OLD}-cpu-py{proof.python.rpartition('.')[0]}-")
    assert not (verifier.product.root / "vendor" / "verification").exists()


def test_what_is_settled_today_is_not_run_again_unless_asked_for(verifier: Verifier) -> None:
    for extra in ([], [], ["--again"]):
        assert verifier.run(OLD, "--models", "trivial,vgg16", *extra, behaviours="vgg16=crash").returncode == 0
    assert verifier.started() == ["trivial", "vgg16"] * 2


def test_a_table_of_many_days_is_gone_on_with_from_the_day_that_is_named(verifier: Verifier) -> None:
    """All models of all releases take longer than a day's work."""
    assert verifier.run(OLD, "--models", "trivial,vgg16", behaviours="vgg16=crash").returncode == 0
    table = verifier.table.read_text(encoding="utf-8")
    verifier.table.write_text(table.replace(today(), "2026-01-31"), encoding="utf-8")
    assert verifier.run(OLD, "--models", "trivial,vgg16,lenet", "--since", "2026-01-31").returncode == 0
    assert verifier.started() == ["trivial", "vgg16", "lenet"]
    assert verifier.run(OLD, "--models", "trivial", "--since", "2026-02-01").returncode == 0
    assert verifier.started() == ["trivial", "vgg16", "lenet", "trivial"]


@pytest.mark.parametrize("arguments", [("--since", "yesterday"), ("--since", "2026-01-31", "--again")])
def test_a_day_that_is_none_is_refused_before_anything_runs(verifier: Verifier, arguments: tuple[str, ...]) -> None:
    assert verifier.run(OLD, "--models", "trivial", *arguments).returncode == 2
    assert verifier.started() == []


def test_a_model_that_no_longer_runs_is_loud_until_it_runs(verifier: Verifier) -> None:
    assert verifier.run(OLD, "--models", "trivial,vgg16").returncode == 0
    broken = verifier.run(OLD, "--models", "trivial,vgg16", "--again", behaviours="vgg16=crash")
    reminded = verifier.run(OLD, "--models", "trivial,vgg16")
    for done in (broken, reminded):
        assert done.returncode == 1
        assert "No longer runs:" in done.stderr and f"{OLD} vgg16 (ok on " in done.stderr and "the fake was asked to crash" in done.stderr
        assert "trivial" not in done.stderr
    assert verifier.run(OLD, "--models", "vgg16", "--again").returncode == 0


def test_a_run_that_is_killed_goes_on_where_it_was(verifier: Verifier) -> None:
    arguments = (OLD, "--models", "trivial,vgg16")
    child = subprocess.Popen(verifier.command(*arguments), cwd=verifier.product.root, env=verifier.variables("vgg16=hang"), stdout=subprocess.DEVNULL)
    try:
        assert wait_until(lambda: verifier.started() == ["trivial", "vgg16"])
        descendants = psutil.Process(child.pid).children(recursive=True)
    finally:
        child.kill()
        child.wait()
    for each in descendants:  # this fake would never print again, which is what ends a real one
        each.kill()
    assert verifier.outcomes(OLD) == {"trivial": OK}
    assert verifier.run(*arguments).returncode == 0
    assert verifier.outcomes(OLD) == {"trivial": OK, "vgg16": OK}
    assert verifier.started() == ["trivial", "vgg16", "vgg16"]


def test_a_model_that_takes_too_long_is_tried_again_the_next_time(verifier: Verifier) -> None:
    assert verifier.run(OLD, "--models", "vgg16", "--time-limit", "2", behaviours="vgg16=hang").returncode == 0
    assert verifier.outcomes(OLD) == {"vgg16": "timed_out"}
    assert verifier.run(OLD, "--models", "vgg16").returncode == 0
    assert verifier.outcomes(OLD) == {"vgg16": OK}


def test_a_run_too_short_for_upstreams_clock_is_repeated_with_more_steps(verifier: Verifier) -> None:
    verifier.run(OLD, "--models", "trivial", FAKE_TOTALS="0.00")
    assert verifier.outcomes(OLD) == {"trivial": "bogus_total"}
    assert verifier.started() == ["trivial"] * 3


def test_a_release_whose_environment_cannot_be_made_says_why_and_the_others_run(verifier: Verifier) -> None:
    done = verifier.run("1.13.2", OLD, "--models", "trivial")
    assert done.returncode == 0
    failure = load_proven(verifier.table)["1.13.2"].failure
    assert failure is not None and failure.outcome == NO_ENVIRONMENT and "1.13.2" in failure.reason
    assert verifier.outcomes(OLD) == {"trivial": OK}


def test_what_a_row_lists_as_missing_is_run_when_asked_for(verifier: Verifier) -> None:
    assert verifier.run(NEW, "--models", "trivial,ssd300", "--missing", behaviours="ssd300=crash").returncode == 0
    assert verifier.outcomes(NEW) == {"ssd300": "failed"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(["--models", "vgg17"], "no model of this name: vgg17"), (["1.12.2"], "no row of their own: 1.12.2"), (["1.4"], "nearest known")],
)
def test_what_cannot_be_meant_is_refused(verifier: Verifier, arguments: list[str], said: str) -> None:
    done = verifier.run(*arguments)
    assert done.returncode != 0 and said in done.stderr
    assert not verifier.table.exists()
