"""The table of releases and what a user's version means in it."""

from __future__ import annotations

import datetime
import re
from pathlib import Path

import msgspec
import pytest
from packaging.version import Version

from wrapper.bootstrapper.address import DEFAULT_ADDRESS
from wrapper.bootstrapper.environment import LOCKS
from wrapper.bootstrapper.release import Release, load_releases, match_installed, resolve_release
from wrapper.errors import FatalError, UsageError
from wrapper.runner.sweep import load_models

RELEASES = load_releases()


@pytest.mark.parametrize("release", RELEASES, ids=lambda release: release.tensorflow)
def test_each_row_is_complete(release: Release) -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+", release.tensorflow)
    assert re.fullmatch(r"[0-9a-f]{40}", release.upstream_commit)
    assert release.upstream_ref
    assert all(re.fullmatch(r"3\.\d+", minor) for minor in release.python)
    assert len(set(release.python)) == len(release.python) > 0
    assert release.package("cpu") in ("tensorflow", "tensorflow-cpu")
    assert release.package("gpu") in ("tensorflow", "tensorflow-gpu", "tensorflow[and-cuda]")
    assert release.verified
    assert "ran:" in release.seen
    datetime.date.fromisoformat(release.cutoff or "")


@pytest.mark.parametrize("release", RELEASES, ids=lambda release: release.tensorflow)
def test_what_each_gpu_wheel_holds_was_read(release: Release) -> None:
    wheel = release.wheel
    assert wheel, "scripts/read_wheels.py reads it"
    datetime.date.fromisoformat(wheel.read)
    assert re.fullmatch(r"\d+\.\d+", wheel.cuda)
    assert release.cuda == wheel.cuda
    name = release.package("gpu").partition("[")[0].replace("-", "_")
    assert wheel.own.wheel.startswith(f"{name}-{release.tensorflow}-cp{release.python[0].replace('.', '')}-")
    locked = re.findall(r"^nvidia-cudnn-(cu\d+)==(\S+)", (LOCKS / f"{release.tensorflow}-gpu.txt").read_text(encoding="utf-8"), re.MULTILINE)
    assert bool(locked) is (release.package("gpu") == "tensorflow[and-cuda]") is bool(wheel.locked_cudnn)
    for held in filter(None, [wheel.own, wheel.locked_cudnn]):
        assert held.code and list(held.code) == sorted(set(held.code), key=Version)
        assert held.ptx and list(held.ptx) == sorted(set(held.ptx), key=Version)
    assert all("linux-x86_64" in wheel.systems[package] for package in ("cpu", "gpu"))
    if wheel.locked_cudnn:
        ((cuda, version),) = locked
        assert wheel.locked_cudnn.wheel.startswith(f"nvidia_cudnn_{cuda}-{version}-")
        assert version.startswith(f"{wheel.cudnn}.")
    assert release.cudnn == (locked[0][1] if locked else wheel.cudnn), "nothing else was read"
    recorded = msgspec.to_builtins(release)
    assert (recorded["cuda"], recorded["cudnn"]) == (release.cuda, release.cudnn), "reports show them"


def test_rows_are_unique_and_in_order() -> None:
    versions = [Version(release.tensorflow) for release in RELEASES]
    assert versions == sorted(set(versions))


def test_the_published_comparison_and_the_newest_release_are_there() -> None:
    assert {"1.12.0", "2.21.0"} <= {release.tensorflow for release in RELEASES}


def test_legacy_keras_is_complete_or_absent() -> None:
    for release in RELEASES:
        needed = Version(release.tensorflow) >= Version("2.16")
        assert (release.environment == {"TF_USE_LEGACY_KERAS": "1"}) is needed
        minor = release.tensorflow.rpartition(".")[0]
        assert (f"tf-keras=={minor}.*" in release.constraints) is needed


def test_models_that_tensorflow_2_lost_are_named() -> None:
    for release in RELEASES:
        assert ("ssd300" in release.missing_models) is not release.tensorflow.startswith("1.12."), "it trains with 1.12's upstream alone"
        assert set(release.missing_models) <= set(load_models())


@pytest.mark.real
def test_every_commit_is_in_the_real_upstream_with_the_models_that_the_row_says(tmp_path: Path) -> None:
    import git

    try:
        upstream = git.Repo.clone_from(DEFAULT_ADDRESS, tmp_path / "benchmarks", bare=True, kill_after_timeout=120)
    except git.GitCommandError as error:
        pytest.skip(f"the real upstream can't be reached: {error.stderr.strip()}")
    for release in RELEASES:
        assert upstream.commit(release.upstream_commit).hexsha == release.upstream_commit
        models = f"{release.upstream_commit}:scripts/tf_cnn_benchmarks/models"
        config = upstream.git.show(f"{models}/model_config.py")
        absent = {model for model in load_models() if f"'{model}'" not in config}
        needs_tensorflow_1 = {"mobilenet", "nasnet", "nasnetlarge"} if release.tensorflow.startswith("2.") else set()
        lacks_its_inputs = set() if release.tensorflow.startswith("1.12.") else {"ssd300"}
        wrongly_called = "](params=params)" in config and "def create_densenet40_k12_model():" in upstream.git.show(f"{models}/densenet_model.py")
        densenets = {model for model in load_models() if model.startswith("densenet") and wrongly_called}
        resnets = upstream.git.show(f"{models}/resnet_model.py")
        other = {"resnet32"} if re.search(r"def create_resnet32_cifar_model\(.*\n  return ResnetCifar10Model\('resnet32_v2'", resnets) else set()
        assert set(release.missing_models) == absent | needs_tensorflow_1 | lacks_its_inputs | densenets | other, release.tensorflow


@pytest.mark.parametrize(
    ("text", "tensorflow", "verified"),
    [
        ("1.12.0", "1.12.0", True),
        ("1.12", "1.12.3", True),
        ("1.12.3", "1.12.3", True),
        ("1.12.2", "1.12.2", False),
        (" 1.12.0 ", "1.12.0", True),
        ("1.10", "1.10.1", True),
        ("2.21", "2.21.0", True),
        ("2.15.0.post1", "2.15.0.post1", False),
    ],
)
def test_resolve(text: str, tensorflow: str, verified: bool) -> None:
    release = resolve_release(text, RELEASES)
    assert (release.tensorflow, release.verified) == (tensorflow, verified)
    assert Version(release.tensorflow).release[:2] == Version(text).release[:2]


def test_an_unverified_patch_keeps_the_row_of_its_minor() -> None:
    row, patch = resolve_release("1.12.3", RELEASES), resolve_release("1.12.2", RELEASES)
    assert (patch.upstream_commit, patch.cutoff, patch.python) == (row.upstream_commit, row.cutoff, row.python)
    assert patch.requirements("gpu") == ("tensorflow-gpu==1.12.2",)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1.4.1", "nearest known are 1.5.0"),
        ("2.99.0", "nearest known are 2.21.0"),
        ("1.16", "nearest known are 1.15.5 and 2.0.4"),
        ("2", "not a known release"),
        ("1.12.0.1", "not a known release"),
        ("2.4.0rc1", "not a final release"),
        ("2.4.0.dev3", "not a final release"),
        ("1.15.5+nv23.3", "not a final release"),
        ("newest", "not a TensorFlow version"),
        ("", "not a TensorFlow version"),
        ("1.12.0; rm -rf", "not a TensorFlow version"),
    ],
)
def test_refused(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=re.escape(said)):
        resolve_release(text, RELEASES)


@pytest.mark.parametrize(
    ("version", "row", "verified"),
    [
        ("1.12.0", "1.12.0", True),
        ("1.12.2", "1.12.3", False),
        ("1.15.5+nv23.3", "1.15.5", False),
        ("2.4.0-rc1", "2.4.4", False),
        ("2.21.0.dev20260101", "2.21.0", False),
    ],
)
def test_installed(version: str, row: str, verified: bool) -> None:
    release = match_installed(version, RELEASES)
    assert (release.tensorflow, release.verified) == (version, verified)
    assert release.upstream_commit == resolve_release(row, RELEASES).upstream_commit


@pytest.mark.parametrize("version", ["1.4.0", "2.99.0", "unknown"])
def test_installed_but_unknown(version: str) -> None:
    with pytest.raises(FatalError, match="--python"):
        match_installed(version, RELEASES)


@pytest.mark.parametrize(
    "row",
    [
        "tensorflow: 1.10",
        'tensorflow: "1.10.1"\n    colour: blue',
        'tensorflow: "1.10.1"\n    python: "3.6"',
        "tensorflow: [",
    ],
)
def test_a_wrong_table_is_refused(tmp_path: Path, row: str) -> None:
    table = tmp_path / "releases.yaml"
    rest = "upstream_commit: a\n    upstream_ref: b\n    package_cpu: tensorflow\n    package_gpu: tensorflow-gpu"
    python = "" if "python" in row else '\n    python: ["3.6"]'
    table.write_text(f"releases:\n  - {row}\n    {rest}{python}\n", encoding="utf-8")
    with pytest.raises(FatalError, match=r"releases\.yaml is wrong"):
        load_releases(table)
