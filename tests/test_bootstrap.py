"""`tfcnn bootstrap`, mostly on a machine that is not the one that measures: the login node of a cluster, say."""

from __future__ import annotations

from pathlib import Path

import pytest
from e2e_kit import NEW, OLD, Product

from wrapper.bootstrapper.host import gpus_present

pytest_plugins = ["e2e_kit"]

ELSEWHERE = ("--device", "gpu", "--vendor")
BROKEN = "1.15.5"
"""A release whose packages can't be fetched here."""


@pytest.fixture(autouse=True)
def no_gpu() -> None:
    if gpus_present():
        pytest.skip("this machine has a GPU")


def environments(vendor: Path) -> list[str]:
    return sorted("-".join(path.name.split("-")[:2]) for path in (vendor / "environments").glob("*-*") if path.is_dir())


def test_what_a_gpu_needs_is_made_where_there_is_none(product: Product, tmp_path: Path) -> None:
    made = product.run("bootstrap", "--tensorflow", f"{OLD},{NEW}", *ELSEWHERE, str(tmp_path))
    assert (made.returncode, made.stderr) == (0, "")
    assert environments(tmp_path) == [f"{OLD}-gpu", f"{NEW}-gpu"]
    for release in (OLD, NEW):
        assert f"release:     TensorFlow {release}: asked for, for the GPU of another machine" in made.stdout
    assert made.stdout.count("device:      gpu\n") == 2


def test_what_is_there_is_not_fetched_again_and_measures_nothing_without_a_gpu(product: Product, tmp_path: Path) -> None:
    """The second machine has no network."""
    assert product.run("bootstrap", "--tensorflow", NEW, *ELSEWHERE, str(tmp_path)).returncode == 0
    away = {"UV_FIND_LINKS": str(tmp_path / "none"), "UV_CACHE_DIR": str(tmp_path / "cache"), "TFCNN_UPSTREAM": (tmp_path / "none").as_uri()}
    again = product.run("bootstrap", "--tensorflow", NEW, *ELSEWHERE, str(tmp_path), **away)
    assert again.returncode == 0, again.stderr
    refused = product.run("run", "--tensorflow", NEW, "--models", "trivial=2", *ELSEWHERE, str(tmp_path), **away)
    assert refused.returncode == 1 and "no NVIDIA GPU was found" in refused.stderr


def test_a_minor_release_for_a_gpu_that_is_not_known_is_the_patch_that_serves_the_most(product: Product, tmp_path: Path) -> None:
    made = product.run("bootstrap", "--tensorflow", "1.12", *ELSEWHERE, str(tmp_path))
    assert made.returncode == 0, made.stderr
    assert environments(tmp_path) == ["1.12.0-gpu"], "1.12.3 holds code for one compute capability alone"


@pytest.mark.parametrize("asked", [("--as-published", "tf_org_gce"), ("--models", "trivial=2", "--device", "gpu")], ids=["published", "typed"])
@pytest.mark.parametrize("releases", ["1.12", f"1.12,{NEW}"])
def test_a_plan_for_gpus_is_that_of_a_machine_which_has_them(asked: tuple[str, ...], releases: str, product: Product, tmp_path: Path) -> None:
    places = ("--vendor", str(tmp_path), "--reports", str(tmp_path / "reports"))
    plan = product.run("run", *asked, "--dry-run", "--tensorflow", releases, *places)
    assert (plan.returncode, plan.stderr) == (0, "")
    lines = [line for line in plan.stdout.splitlines() if "tf_cnn_benchmarks.py --" in line]
    assert lines and all("-gpu-py" in line and "--device=gpu" in line for line in lines)
    assert "1.12.0-gpu-" in plan.stdout and "1.12.3" not in plan.stdout
    here = product.run("run", *asked, "--dry-run", "--unproven-device", "--tensorflow", releases, *places)
    assert "-cpu-py" in here.stdout and "-gpu-py" not in here.stdout, "what would start here takes the package for the CPU"


def test_one_release_that_cannot_be_made_does_not_stop_the_others(product: Product, tmp_path: Path) -> None:
    made = product.run("bootstrap", "--tensorflow", f"{BROKEN},{NEW}", "--device", "cpu", "--vendor", str(tmp_path))
    assert made.returncode == 1
    assert f"TensorFlow {BROKEN} is left out: " in made.stdout
    assert environments(tmp_path) == [f"{NEW}-cpu"]
