"""Which release and device are chosen, why, and what is made for them."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
import pytest
from e2e_kit import NEW, OLD, Product

from wrapper.bootstrapper.host import gpus_present
from wrapper.bootstrapper.release import Release, load_releases, resolve_release
from wrapper.bootstrapper.setup import Wish, choose, decide_device, foresee, prepare
from wrapper.bootstrapper.source import Source
from wrapper.errors import FatalError, UsageError

pytest_plugins = ["e2e_kit"]


def row(version: str) -> Release:
    return resolve_release(version, load_releases())


def quiet(line: str) -> None:
    pass


def wished(tmp_path: Path, **wishes: object) -> Wish:
    return Wish(**{"device": "cpu", "upstream": "file:///none", "vendor": tmp_path / "vendor", **wishes})


@pytest.fixture
def no_gpu() -> None:
    if gpus_present():
        pytest.skip("this machine has a GPU")


def test_the_device_is_what_was_asked_for_or_what_is_here(no_gpu: None) -> None:
    assert decide_device("gpu") == ("gpu", "GPU as asked for")
    assert decide_device("cpu") == ("cpu", "CPU as asked for")
    assert decide_device("auto") == ("cpu", "no NVIDIA GPU was found")


@pytest.mark.parametrize("version", [OLD, NEW])
def test_the_release_is_read_from_a_given_interpreter(version: str, interpreters: dict[str, str], tmp_path: Path) -> None:
    said: list[str] = []
    choice = choose(wished(tmp_path, source=Source("python", interpreters[version])), said.append)
    assert choice.release == row(version)
    assert choice.environment is not None
    assert (choice.environment.kind, choice.environment.tensorflow) == ("given", version)
    assert choice.environment.variables == row(version).environment
    assert interpreters[version] in choice.reason and interpreters[version] in said[0]
    assert not (tmp_path / "vendor").exists()


def test_another_release_than_the_interpreter_has_is_refused(interpreters: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(FatalError, match=f"has TensorFlow {OLD}, and 2.21 was asked for"):
        choose(wished(tmp_path, source=Source("python", interpreters[OLD]), tensorflow="2.21"), quiet)
    assert choose(wished(tmp_path, source=Source("python", interpreters[OLD]), tensorflow="1.12"), quiet).release.tensorflow in (OLD, "1.12.3")


def test_a_release_that_was_asked_for(tmp_path: Path) -> None:
    choice = choose(wished(tmp_path, tensorflow=OLD), quiet)
    assert (choice.release, choice.reason, choice.environment) == (row(OLD), "asked for; CPU as asked for", None)
    with pytest.raises(UsageError, match="nearest"):
        choose(wished(tmp_path, tensorflow="1.99"), quiet)


def test_the_newest_that_a_python_here_serves_is_chosen_with_its_reason(tmp_path: Path) -> None:
    choice = choose(wished(tmp_path), quiet)
    assert "the newest release that this machine's Pythons" in choice.reason
    minor = f"{sys.version_info.major}.{sys.version_info.minor}"
    versions = [release.tensorflow for release in load_releases()]
    served_here = [release.tensorflow for release in load_releases() if minor in release.python]
    assert not served_here or versions.index(choice.release.tensorflow) >= versions.index(served_here[-1])


def test_a_gpu_that_is_not_here_is_refused_before_anything_is_made(no_gpu: None, tmp_path: Path) -> None:
    with pytest.raises(FatalError, match="no NVIDIA GPU was found") as caught:
        choose(wished(tmp_path, tensorflow=OLD, device="gpu"), quiet)
    assert "--unproven-device" in caught.value.remedy
    choice = choose(wished(tmp_path, tensorflow=OLD, device="gpu", unproven_device=True), quiet)
    assert (choice.device, choice.package) == ("gpu", "cpu")
    assert not (tmp_path / "vendor").exists()


def test_what_is_foreseen_is_what_is_made(product: Product, interpreters: dict[str, str], tmp_path: Path) -> None:
    """With an environment that is there, and a checkout that has to be fetched."""
    here = msgspec.structs.replace(row(OLD), upstream_commit=product.commits[OLD])
    wish = wished(tmp_path, source=Source("python", interpreters[OLD]), upstream=product.upstream)
    choice = msgspec.structs.replace(choose(wish, quiet), release=here)
    foreseen = foresee(choice, wish)
    assert not (tmp_path / "vendor").exists()
    assert prepare(choice, wish, quiet) == foreseen
    assert foreseen.checkout.script.is_file()


@pytest.mark.parametrize("below", [False, True])
def test_a_vendor_that_can_be_no_directory_is_refused_also_in_a_plan(below: bool, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    wish = wished(tmp_path, tensorflow=OLD, vendor=file / "below" if below else file)
    choice = choose(wish, quiet)
    for step in (lambda: foresee(choice, wish), lambda: prepare(choice, wish, quiet)):
        with pytest.raises(FatalError, match=f"--vendor .*: {file} is not a directory"):
            step()


def test_a_commit_given_by_hand_keeps_the_lock_of_its_release(tmp_path: Path) -> None:
    wish = wished(tmp_path, tensorflow=OLD, commit=row(NEW).upstream_commit[:12])
    choice = choose(wish, quiet)
    assert (choice.release.upstream_commit, choice.release.verified) == (row(NEW).upstream_commit, True)
    assert foresee(choice, wish).environment == foresee(choose(wished(tmp_path, tensorflow=OLD), quiet), wish).environment
    assert choose(wished(tmp_path, tensorflow=OLD, commit=row(OLD).upstream_commit), quiet).release == row(OLD)
