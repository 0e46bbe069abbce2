"""Which patch a minor release such as "1.12" means: by the GPU, and by where TensorFlow comes from."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from test_doctor import nvml, told

from wrapper.bootstrapper import conda
from wrapper.bootstrapper.compatibility import best_patch, has_code
from wrapper.bootstrapper.examination import examine
from wrapper.bootstrapper.host import Gpu
from wrapper.bootstrapper.release import Release, load_releases
from wrapper.bootstrapper.setup import Wish, choose
from wrapper.bootstrapper.source import Source
from wrapper.errors import FatalError, UsageError
from wrapper.opening import Request, what_was_asked

PASCAL = nvml(nvmlDeviceGetCudaComputeCapability=(6, 1), nvmlDeviceGetName="NVIDIA GeForce GTX 1080")
ROWS = load_releases()
ONLY_37 = "1.12.3 holds code for compute capability 3.7 alone"


def gpus(*capabilities: str | None) -> list[Gpu]:
    return [Gpu(index=index, name="GPU", compute_capability=capability) for index, capability in enumerate(capabilities)]


def patches(minor: str) -> list[Release]:
    return [row for row in ROWS if row.tensorflow.startswith(f"{minor}.")]


def wish(tmp_path: Path, **wishes: object) -> Wish:
    return Wish(**{"tensorflow": "1.12", "upstream": "file:///none", "vendor": tmp_path / "vendor", **wishes})


@pytest.mark.parametrize(
    ("here", "patch"),
    [
        ([], "1.12.3"),
        (gpus("3.7"), "1.12.3"),
        (gpus("5.2"), "1.12.0"),
        (gpus("6.1"), "1.12.0"),
        (gpus("7.0"), "1.12.0"),
        (gpus("3.7", "6.1"), "1.12.3"),
        # neither holds code for it: that of the nearest PTX
        (gpus("8.6"), "1.12.0"),
        # neither can work with it, or nobody knows
        (gpus("3.0"), "1.12.3"),
        (gpus(None), "1.12.3"),
    ],
)
def test_the_patch_by_the_gpu(here: list[Gpu], patch: str) -> None:
    assert best_patch(patches("1.12"), here, "12.8").tensorflow == patch


@pytest.mark.parametrize("capability", ["3.5", "3.7", "5.2", "6.0", "7.0", "7.5", "8.0", "8.6", "9.0", "12.0"])
def test_no_patch_without_code_is_taken_where_another_has_some(capability: str) -> None:
    for minor in dict.fromkeys(row.tensorflow.rpartition(".")[0] for row in ROWS):
        rows = patches(minor)
        coded = [row for row in rows if row.wheel and has_code(row.wheel.own, capability)]
        assert best_patch(rows, gpus(capability), "13.0") == (coded or rows)[-1] or not coded


@pytest.fixture
def pascal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", PASCAL)


def test_it_is_chosen_and_said_on_a_gpu_and_not_on_the_cpu(pascal: None, tmp_path: Path) -> None:
    on_gpu, on_cpu = (choose(wish(tmp_path, device=device), print) for device in ("auto", "cpu"))
    assert (on_gpu.release.tensorflow, on_gpu.reason) == ("1.12.0", f"asked for ({ONLY_37}); this machine has 1 NVIDIA GPU")
    assert (on_cpu.release.tensorflow, on_cpu.reason) == ("1.12.3", "asked for; CPU as asked for")
    assert choose(wish(tmp_path, tensorflow="1.12.3"), print).release.tensorflow == "1.12.3", "a patch is what it says"


def test_the_doctor_says_the_same(pascal: None, tmp_path: Path) -> None:
    for device, patch, why in (("auto", "1.12.0", f"asked for ({ONLY_37})"), ("cpu", "1.12.3", "asked for")):
        asked = wish(tmp_path, device=device)
        (line,) = [one for one in told(examine(asked, nvml=PASCAL), "ok").splitlines() if one.startswith("release:")]
        assert f"TensorFlow {patch} for the" in line and f": {why} ->" in line


def asked_of(wish: Wish, reports: Path) -> list[tuple[str | None, str]]:
    return [(one.wish.tensorflow, one.why) for one in what_was_asked(Request(wish=wish, reports=reports))]


def test_several_releases_on_a_gpu(pascal: None, tmp_path: Path) -> None:
    assert asked_of(wish(tmp_path, tensorflow="1.12,2.21"), tmp_path) == [("1.12.0", ONLY_37), ("2.21.0", "")]
    assert asked_of(wish(tmp_path, tensorflow="1.12,2.21", device="cpu"), tmp_path) == [("1.12.3", ""), ("2.21.0", "")]
    assert [one for one, _ in asked_of(wish(tmp_path, tensorflow="1.12,1.12.0", device="cpu"), tmp_path)] == ["1.12.3", "1.12.0"]
    with pytest.raises(UsageError, match=r"means 1\.12\.0, 1\.12\.0, and one stands twice"):
        asked_of(wish(tmp_path, tensorflow="1.12,1.12.0"), tmp_path)


@pytest.fixture
def conda_on_linux(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "conda"
    program.touch(0o755)
    monkeypatch.setenv("CONDA_EXE", str(program))
    monkeypatch.setattr(conda, "conda_system", lambda: "linux-64")


@pytest.mark.parametrize("device", ["cpu", "auto"])
def test_with_conda_a_minor_is_the_newest_patch_that_conda_has(conda_on_linux: None, pascal: None, device: str, tmp_path: Path) -> None:
    """Alone, in the doctor, and among several."""
    built = {one.tensorflow.rpartition(".")[0]: one.tensorflow for one in conda.packages_for(None, "gpu" if device == "auto" else "cpu", "linux-64")}
    built = dict(list(built.items())[::6])
    asked = [wish(tmp_path, tensorflow=minor, source=Source("conda"), device=device) for minor in built]
    assert [choose(one, print).release.tensorflow for one in asked] == list(built.values())
    assert [one for one, _ in asked_of(wish(tmp_path, tensorflow=",".join(built), source=Source("conda"), device=device), tmp_path)] == list(
        built.values()
    )
    for one in asked[:2]:
        assert f"release: TensorFlow {built[str(one.tensorflow)]} for the" in told(examine(one, nvml=PASCAL), "ok")


def test_what_conda_does_not_have(conda_on_linux: None, tmp_path: Path) -> None:
    """It is refused alone and faulted by the doctor, and does not stop other releases."""
    alone, several = (wish(tmp_path, tensorflow=text, source=Source("conda"), device="cpu") for text in ("1.5", "1.5,1.12"))
    with pytest.raises(FatalError, match=r"no conda package of TensorFlow 1\.5"):
        choose(alone, print)
    assert "no conda package of TensorFlow 1.5" in told(examine(alone, nvml=PASCAL), "fail")
    assert asked_of(several, tmp_path) == [("1.5.0", ""), ("1.12.0", "conda has no 1.12.3")]


def test_the_newest_that_conda_has_where_no_release_is_asked_for(conda_on_linux: None, tmp_path: Path) -> None:
    asked = wish(tmp_path, tensorflow=None, source=Source("conda"), device="cpu")
    newest = choose(asked, print).release.tensorflow
    assert f"release: TensorFlow {newest} for the CPU" in told(examine(asked, nvml=PASCAL), "ok")
