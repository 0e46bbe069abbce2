"""The doctor on sound and on broken machines: real git, uv and interpreters, and GPUs played by a stand-in for NVML."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import types
from pathlib import Path

import msgspec
import pynvml
import pytest

from wrapper.bootstrapper import examination
from wrapper.bootstrapper.compatibility import is_compiled_at_start, serves_cuda, unfit
from wrapper.bootstrapper.doctor import GB, WORST_FIRST, Facts, Finding, Trouble, diagnose
from wrapper.bootstrapper.environment import find_pythons
from wrapper.bootstrapper.examination import check_machine, examine, installed_tensorflow
from wrapper.bootstrapper.host import Gpu
from wrapper.bootstrapper.inspection import Environment
from wrapper.bootstrapper.making import MARKER
from wrapper.bootstrapper.pythons import Interpreter
from wrapper.bootstrapper.release import Release, load_releases, resolve_release
from wrapper.bootstrapper.setup import Choice, Wish, newest_fitting
from wrapper.bootstrapper.source import Source, parse_source
from wrapper.errors import FatalError

MISMATCH = pynvml.NVMLError_LibRmVersionMismatch


def row(version: str = "2.21.0", **changes: object) -> Release:
    return msgspec.structs.replace(resolve_release(version, load_releases()), **changes)


def nvml(**answers: object) -> types.SimpleNamespace:
    """A driver with one idle and sound RTX 3080; an exception among the answers is raised."""

    def function(answer: object) -> object:
        def call(*_: object) -> object:
            if isinstance(answer, type) and issubclass(answer, Exception):
                raise answer()
            return answer

        return call

    defaults: dict[str, object] = {
        "nvmlInit": None,
        "nvmlShutdown": None,
        "nvmlSystemGetDriverVersion": "570.86.10",
        "nvmlSystemGetCudaDriverVersion": 12080,
        "nvmlDeviceGetCount": 1,
        "nvmlDeviceGetHandleByIndex": 0,
        "nvmlDeviceGetName": "NVIDIA GeForce RTX 3080",
        "nvmlDeviceGetMemoryInfo": types.SimpleNamespace(total=10 * GB, used=GB, free=9 * GB),
        "nvmlDeviceGetPciInfo": types.SimpleNamespace(domain=0, bus=0x0A, device=0),
        "nvmlDeviceGetCudaComputeCapability": (8, 6),
        "nvmlDeviceGetCurrPcieLinkGeneration": 1,
        "nvmlDeviceGetCurrPcieLinkWidth": 16,
        "nvmlDeviceGetMaxPcieLinkGeneration": 4,
        "nvmlDeviceGetMaxPcieLinkWidth": 16,
        "nvmlDeviceGetEnforcedPowerLimit": 320000,
        "nvmlDeviceGetPowerManagementDefaultLimit": 320000,
        "nvmlDeviceGetPersistenceMode": 1,
        "nvmlDeviceGetComputeRunningProcesses": [],
        "nvmlDeviceGetTotalEccErrors": pynvml.NVMLError_NotSupported,
    }
    module = types.SimpleNamespace(**{name: value for name, value in vars(pynvml).items() if name.startswith(("NVMLError", "NVML_"))})
    for name, answer in (defaults | answers).items():
        setattr(module, name, function(answer))
    return module


NO_DRIVER = nvml(nvmlInit=pynvml.NVMLError_LibraryNotFound)


@pytest.fixture(scope="module")
def upstream(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An upstream that answers."""
    folder = tmp_path_factory.mktemp("upstream")
    subprocess.run(["git", "init", "--quiet", "--bare", str(folder)], check=True)
    return str(folder)


@pytest.fixture
def sound(tmp_path: Path, upstream: str, monkeypatch: pytest.MonkeyPatch) -> Wish:
    """A machine whose only Python is the one that runs the tests, and a wish that it can grant. Its vendor/ is not there yet."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("git", "python3"):
        (programs / name).symlink_to(Path(shutil.which("git") if name == "git" else os.path.realpath(sys.executable)))
    home = tmp_path / "home"
    home.mkdir()
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX", "PYENV_ROOT"):
        monkeypatch.delenv(name, raising=False)
    git_settings = Path("~/.gitconfig").expanduser()
    for name, value in {"PATH": programs, "HOME": home, "UV_PYTHON_INSTALL_DIR": home, "GIT_CONFIG_GLOBAL": git_settings}.items():
        monkeypatch.setenv(name, str(value))
    monkeypatch.setattr(shutil, "disk_usage", lambda path: types.SimpleNamespace(free=100 * GB))
    return Wish(upstream=upstream, vendor=tmp_path / "vendor", tensorflow="2.21.0")


def with_(wish: Wish, **changes: object) -> Wish:
    return msgspec.structs.replace(wish, **changes)


def virtual_environment(place: Path, init: str) -> Path:
    """An interpreter with a TensorFlow 2.21.0 whose module is `init`."""
    subprocess.run([os.path.realpath(sys.executable), "-m", "venv", "--without-pip", str(place)], check=True)
    packages = next(place.glob("lib/python*/site-packages"), place / "Lib/site-packages")
    (packages / "tensorflow").mkdir()
    (packages / "tensorflow/__init__.py").write_text(init, encoding="utf-8")
    info = packages / "tensorflow-2.21.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tensorflow\nVersion: 2.21.0\n", encoding="utf-8")
    return next(path for path in (place / "bin/python", place / "Scripts/python.exe") if path.exists())


def told(findings: tuple[Finding, ...], status: str) -> str:
    """The findings of a status, as a user reads them."""
    return "\n".join(f"{one.subject}: {one.text} -> {one.remedy}" for one in findings if one.status == status)


def test_a_sound_machine_without_a_gpu(sound: Wish) -> None:
    findings = examine(sound, nvml=NO_DRIVER)
    assert {one.status for one in findings} == {"ok"}, findings
    assert [one.subject for one in findings] == ["git", "uv", "Python", "upstream", "release", "environment", "disk", "driver"]
    assert not sound.vendor.exists()


def test_a_sound_machine_with_a_gpu(sound: Wish) -> None:
    findings = examine(sound, nvml=nvml())
    assert {one.status for one in findings} == {"ok"}, findings
    ok = told(findings, "ok")
    assert "NVIDIA 570.86.10, serves CUDA 12.8" in ok
    assert "RTX 3080, compute capability 8.6, 9.0 of 10.0 GB free, PCIe 1 x16 now, 4 x16 at most, power limit 320.0 W, persistence on" in ok


# what is broken -> the words that name the fault, and those of its remedy


def test_no_git(sound: Wish, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "programs/git").unlink()
    fail = told(examine(sound, nvml=NO_DRIVER), "fail")
    assert "git: this machine has no git" in fail and "Install it" in fail


def test_no_fitting_python(sound: Wish, tmp_path: Path) -> None:
    fail = told(examine(with_(sound, tensorflow="1.12.0"), nvml=NO_DRIVER), "fail")
    version = ".".join(map(str, sys.version_info[:3]))
    assert f"environment: TensorFlow 1.12.0 needs Python 3.6, and this machine has {version}" in fail and "pyenv install 3.6" in fail
    (tmp_path / "programs/python3").unlink()
    fail = told(examine(with_(sound, tensorflow=None), nvml=NO_DRIVER), "fail")
    assert "release: no known TensorFlow release runs on this machine's Pythons (none)" in fail and "Python: no 64-bit CPython was found" in fail


def test_upstream_out_of_reach_and_nothing_in_vendor(sound: Wish, tmp_path: Path) -> None:
    fail = told(examine(with_(sound, upstream=str(tmp_path / "nowhere")), nvml=NO_DRIVER), "fail")
    assert "upstream: upstream can't be reached at" in fail and "--upstream PATH_OR_URL" in fail


def test_upstream_that_does_not_answer(sound: Wish, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examination, "ANSWER_LIMIT_S", 0.3)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"https://127.0.0.1:{silent.getsockname()[1]}/benchmarks.git"
        fail = told(examine(with_(sound, upstream=address), nvml=NO_DRIVER), "fail")
    assert f"upstream can't be reached at {address}" in fail and "no answer within 0.3 s" in fail


def test_a_release_without_wheels_for_this_system(sound: Wish, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("examination", "setup"):
        monkeypatch.setattr(f"wrapper.bootstrapper.{module}.this_system", lambda: "macos-x86_64")
    fail = told(examine(sound, nvml=NO_DRIVER), "fail")
    assert "release: tensorflow-cpu 2.21.0 has no wheels for macos-x86_64" in fail and "--environment docker" in fail
    assert "TensorFlow 2.16.2 for the CPU" in told(examine(with_(sound, tensorflow=None), nvml=NO_DRIVER), "ok")


def test_a_damaged_checkout(sound: Wish) -> None:
    (sound.vendor / f"benchmarks-{row().upstream_commit[:12]}").mkdir(parents=True)
    fail = told(examine(sound, nvml=NO_DRIVER), "fail")
    assert "is not a sound checkout" in fail and "Delete it" in fail


NO_TENSORFLOW = {
    "an interpreter that is not there": ("nowhere", "there is no interpreter at nowhere"),
    "an interpreter without TensorFlow": (os.path.realpath(sys.executable), "has no TensorFlow"),
}


@pytest.mark.parametrize(("python", "fault"), NO_TENSORFLOW.values(), ids=NO_TENSORFLOW.keys())
def test_an_interpreter_was_named(sound: Wish, python: str, fault: str) -> None:
    fail = told(examine(with_(sound, tensorflow=None, source=Source("python", python)), nvml=NO_DRIVER), "fail")
    assert "release: " in fail and fault in fail and not fail.endswith("-> ")


def test_an_interpreter_with_another_release_than_the_one_asked_for(sound: Wish, tmp_path: Path) -> None:
    python = virtual_environment(tmp_path / "other", "raise SystemExit('imported')\n")
    fail = told(examine(with_(sound, tensorflow="1.12", source=Source("python", str(python))), nvml=NO_DRIVER), "fail")
    assert "has TensorFlow 2.21.0, and 1.12 was asked for" in fail


def test_a_disk_without_room(sound: Wish, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: types.SimpleNamespace(free=5 * GB))
    assert told(examine(sound, nvml=NO_DRIVER), "fail") == ""
    fail = told(examine(sound, nvml=nvml()), "fail")
    assert "disk: 5.0 GB free" in fail and "the environment for the GPU can take 8.2 GB" in fail and "--vendor DIR" in fail


def test_an_environment_that_is_half_made_and_one_that_was_moved(sound: Wish) -> None:
    half, moved = (sound.vendor / "environments" / name for name in ("1.12.0-cpu-half", "2.21.0-cpu-moved"))
    half.mkdir(parents=True)
    moved.mkdir()
    elsewhere = Environment(kind="locked", path="elsewhere", python=sys.executable, python_version="3.11.7", tensorflow="2.21.0")
    (moved / MARKER).write_bytes(msgspec.json.encode(elsewhere))
    warn = told(examine(sound, nvml=NO_DRIVER), "warn")
    assert f"{half} is half made" in warn and f"{moved} was moved" in warn and warn.count("elete it") == 2


def test_a_tensorflow_that_does_not_import(sound: Wish, tmp_path: Path) -> None:
    mark = tmp_path / "imported"
    broken = f"open({str(mark)!r}, 'w').close()\nraise ImportError('libcudart.so.9.0: cannot open shared object file')\n"
    wish = with_(sound, tensorflow=None, source=Source("python", str(virtual_environment(tmp_path / "broken one", broken))))
    findings = examine(wish, nvml=NO_DRIVER)
    assert {one.status for one in findings} == {"ok"}, findings
    assert "TensorFlow: TensorFlow 2.21.0 in" in told(findings, "ok")
    assert not mark.exists()
    fail = told(examine(wish, deep=True, nvml=NO_DRIVER), "fail")
    assert "does not import: ImportError: libcudart.so.9.0: cannot open shared object file" in fail and "packages don't fit" in fail
    assert mark.exists()


def test_a_tensorflow_of_no_use_that_nobody_asked_for_is_a_doubt(sound: Wish, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    virtual_environment(tmp_path / "active", "raise ImportError('numpy 2')\n")
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path / "active"))
    findings = examine(sound, deep=True, nvml=NO_DRIVER)
    assert "ImportError: numpy 2" in told(findings, "warn") and told(findings, "fail") == ""


@pytest.mark.parametrize("device", ["auto", "gpu", "cpu"])
def test_a_driver_whose_library_and_kernel_module_differ(sound: Wish, device: str) -> None:
    said = told(examine(with_(sound, device=device), nvml=nvml(nvmlInit=MISMATCH)), "warn" if device == "cpu" else "fail")
    assert "driver: the NVIDIA driver can't be used" in said and str(MISMATCH()) in said and "restart the machine" in said


def test_a_gpu_that_was_asked_for_and_is_not_here(sound: Wish) -> None:
    fail = told(examine(with_(sound, device="gpu"), nvml=NO_DRIVER), "fail")
    assert "no NVIDIA GPU was found" in fail and "--device cpu" in fail


def test_a_release_whose_cuda_the_driver_does_not_serve(sound: Wish) -> None:
    old = nvml(nvmlSystemGetCudaDriverVersion=11080)
    fail = told(examine(sound, nvml=old), "fail")
    assert "TensorFlow 2.21.0 is built for CUDA 12.5, and the driver serves CUDA 11.8 at most: GPU 0 (NVIDIA GeForce RTX 3080)" in fail
    assert "Install a newer driver" in fail
    assert told(examine(with_(sound, device="cpu"), nvml=old), "fail") == ""
    assert "CUDA 11.8" in told(examine(with_(sound, unproven_device=True), nvml=old), "warn")
    assert "TensorFlow 2.21.0 for the GPU" not in told(examine(with_(sound, tensorflow=None), nvml=old), "ok")


GPU_DOUBTS = {
    "in use": ({"nvmlDeviceGetComputeRunningProcesses": [types.SimpleNamespace(pid=os.getpid())]}, f"(process {os.getpid()})", "--wait-idle"),
    "of another container": ({"nvmlDeviceGetComputeRunningProcesses": [types.SimpleNamespace(pid=2**22 + 1)]}, "in use by process", "--wait-idle"),
    "with memory errors": ({"nvmlDeviceGetTotalEccErrors": 3}, "3 memory errors", "Reset the GPU"),
    "on a narrow link": ({"nvmlDeviceGetCurrPcieLinkWidth": 4}, "PCIe 1 x4, and 4 x16 at most", "Seat the card again"),
    "with less power": ({"nvmlDeviceGetEnforcedPowerLimit": 220000}, "220 W, below the usual 320 W", "nvidia-smi -i 0 -pl 320"),
    "without persistence": ({"nvmlDeviceGetPersistenceMode": 0}, "persistence is off", "nvidia-smi -i 0 -pm 1"),
    "that is compiled for at the start": ({"nvmlDeviceGetCudaComputeCapability": (12, 0)}, "holds only PTX", "CUDA_CACHE_MAXSIZE"),
}


@pytest.mark.parametrize(("answers", "fault", "remedy"), GPU_DOUBTS.values(), ids=GPU_DOUBTS.keys())
def test_a_gpu(sound: Wish, answers: dict[str, object], fault: str, remedy: str) -> None:
    findings = examine(sound, nvml=nvml(**answers))
    warn = told(findings, "warn")
    assert len(warn.splitlines()) == 1 and fault in warn and remedy in warn
    assert findings[0].status == "warn"


def test_a_gpu_that_tells_nothing(sound: Wish) -> None:
    silent = {
        name: pynvml.NVMLError_NotSupported
        for name in vars(nvml())
        if name.startswith("nvmlDeviceGet") and name not in ("nvmlDeviceGetCount", "nvmlDeviceGetHandleByIndex", "nvmlDeviceGetName")
    }
    findings = examine(sound, nvml=nvml(**silent))
    assert {one.status for one in findings} == {"ok"}, findings
    assert "GPU 0: NVIDIA GeForce RTX 3080 -> " in told(findings, "ok")


def test_everything_broken_at_once_has_a_remedy_for_each_and_the_worst_first() -> None:
    trouble = Trouble("broken", "mend it")
    facts = Facts(
        device="gpu",
        package="gpu",
        git=trouble,
        uv=trouble,
        pythons=(),
        upstream=trouble,
        release=row(verified=False),
        environment=trouble,
        to_be_made=True,
        vendor="vendor",
        free_bytes=0,
        gpu_error="Driver Not Loaded",
    )
    findings = diagnose(facts)
    assert [one.status for one in findings] == sorted((one.status for one in findings), key=WORST_FIRST.index)
    assert all(one.remedy for one in findings if one.status != "ok")
    assert {one.subject for one in findings if one.status == "fail"} == {"git", "uv", "Python", "upstream", "environment", "disk", "driver"}


def test_before_a_sweep_faults_stop_it_and_doubts_are_said(sound: Wish, tmp_path: Path) -> None:
    choice = Choice(release=row(), device="gpu", package="gpu", reason="")
    said: list[str] = []
    check_machine(with_(sound, upstream=str(tmp_path / "nowhere")), choice, said.append, nvml=nvml(nvmlDeviceGetPersistenceMode=0))
    assert len(said) == 1 and "persistence is off" in said[0] and "-pm 1" in said[0]
    (tmp_path / "programs/git").unlink()
    with pytest.raises(FatalError) as caught:
        check_machine(sound, choice, said.append, nvml=nvml(nvmlSystemGetCudaDriverVersion=11080))
    assert "no git" in caught.value.what and "CUDA 11.8" in caught.value.what
    assert "Install it" in caught.value.remedy and "newer driver" in caught.value.remedy
    assert not sound.vendor.exists()


def test_a_slow_start_is_said_before_a_sweep(sound: Wish) -> None:
    said: list[str] = []
    check_machine(
        sound, Choice(release=row(), device="gpu", package="gpu", reason=""), said.append, nvml=nvml(nvmlDeviceGetCudaComputeCapability=(12, 0))
    )
    assert len(said) == 1 and "compiles at the first start, for minutes to an hour" in said[0]


@pytest.mark.parametrize(("capability", "chosen"), [((7, 0), "2.19.1"), ((7, 5), "2.21.0"), ((5, 2), "2.16.2"), ((12, 0), "2.21.0")])
def test_the_newest_release_with_code_for_the_gpu_is_chosen(capability: tuple[int, int], chosen: str) -> None:
    pythons = [Interpreter(path="x", version="3.11.7")]
    release, reason = newest_fitting(pythons, [gpu(".".join(map(str, capability)))], "12.8")
    assert release.tensorflow == chosen
    assert ("GPU and driver" in reason) is (chosen != "2.21.0")


def test_tensorflow_is_found_by_its_metadata_alone(tmp_path: Path) -> None:
    python = virtual_environment(tmp_path / "with", "raise SystemExit('imported')\n")
    assert installed_tensorflow(python) == "2.21.0"
    subprocess.run([os.path.realpath(sys.executable), "-m", "venv", "--without-pip", str(tmp_path / "without")], check=True)
    assert installed_tensorflow(tmp_path / "without" / python.relative_to(tmp_path / "with")) is None


SERVED = [("12.8", "12.5", True), ("13.0", "12.5", True), ("12.2", "12.5", True), ("11.8", "12.5", False), ("9.0", "10.0", False)]


@pytest.mark.parametrize(("served", "needed", "serves"), [*SERVED, ("10.0", "10.1", False), ("9.10", "9.9", True)])
def test_what_a_driver_serves(served: str, needed: str, serves: bool) -> None:
    assert serves_cuda(served, needed) is serves


def gpu(capability: str | None) -> Gpu:
    return Gpu(index=0, name="GPU", compute_capability=capability)


RUNS, IS_COMPILED = (None, False), (None, True)
FITS = {
    # release, compute capability, CUDA served: why it does not fit, and whether it is compiled at the start
    ("1.12.0", "7.5", "9.0"): RUNS,  # code for 7.0
    ("1.12.0", "6.1", "8.0"): ("built for CUDA 9.0", False),
    ("1.12.0", "8.6", "12.8"): IS_COMPILED,
    ("1.12.0", "9.0", "12.8"): IS_COMPILED,
    ("1.12.3", "7.5", "9.0"): IS_COMPILED,  # code for 3.7 alone
    ("1.15.5", "7.5", "10.0"): RUNS,
    ("1.15.5", "8.9", "12.8"): IS_COMPILED,
    ("1.15.5", "3.0", "10.0"): ("TensorFlow 1.15.5 holds no code for compute capability 3.0", False),
    ("2.4.4", "8.6", "11.2"): RUNS,  # code for 8.0
    ("2.11.1", "8.9", "12.8"): RUNS,
    ("2.11.1", "9.0", "12.8"): IS_COMPILED,
    ("2.11.1", "12.0", "13.0"): IS_COMPILED,
    ("2.15.1", "6.1", "12.2"): RUNS,
    ("2.21.0", "8.0", "12.8"): RUNS,
    ("2.21.0", "8.6", "12.2"): RUNS,
    ("2.21.0", "8.9", "12.8"): RUNS,
    ("2.21.0", "7.5", "12.8"): RUNS,
    ("2.21.0", "9.0", "12.2"): RUNS,
    ("2.21.0", "12.0", "13.0"): IS_COMPILED,
    ("2.21.0", "12.0", "12.2"): ("can't compile its PTX", True),
    ("2.21.0", "7.0", "12.8"): ("the cuDNN in the lock of TensorFlow 2.21.0 holds no code for compute capability 7.0", False),
    ("2.21.0", "5.2", "12.8"): ("no PTX", False),
    ("2.21.0", "8.0", "11.8"): ("built for CUDA 12.5", False),
    ("2.21.0", "12.0", None): IS_COMPILED,
}


@pytest.mark.parametrize(("machine", "expected"), FITS.items())
def test_which_gpus_a_release_fits(machine: tuple[str, str, str | None], expected: tuple[str | None, bool]) -> None:
    release, capability, served = machine
    why = unfit(row(release), gpu(capability), served, "linux")
    assert (why is None) if expected[0] is None else (why is not None and expected[0] in why)
    assert is_compiled_at_start(row(release), gpu(capability)) is expected[1]


@pytest.mark.parametrize(("release", "word"), [("2.10.1", None), ("2.11.1", "no GPU on Windows"), ("2.21.0", "no GPU on Windows")])
def test_the_last_release_that_uses_gpus_on_windows(release: str, word: str | None) -> None:
    why = unfit(row(release), gpu("7.5"), "12.8", "win32")
    assert why is None if word is None else word in (why or "")


def test_what_is_not_known_is_no_reason_against_a_release() -> None:
    assert unfit(row(wheel=None), gpu("3.0"), "8.0", "linux") is None
    assert unfit(row(), gpu(None), None, "linux") is None
    assert not is_compiled_at_start(row(), gpu(None))


def test_a_gpu_that_no_release_fits() -> None:
    with pytest.raises(FatalError, match="fits this machine's GPUs and driver"):
        newest_fitting([Interpreter(path="x", version="3.11.7")], [gpu("9.0")], "8.0")


def test_without_uv_no_python_is_said_to_be_missing(sound: Wish, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uv", None)
    for wish in (sound, with_(sound, tensorflow=None)):
        faults = [one for one in examine(wish, nvml=NO_DRIVER) if one.status != "ok"]
        assert [one.subject for one in faults] == ["uv"] and "-m pip install uv" in faults[0].remedy
    with pytest.raises(FatalError, match="uv, which makes the environments"):
        find_pythons()


@pytest.mark.parametrize(("source", "engine"), [("docker", "docker"), ("podman:image", "podman")])
def test_a_container_engine_that_is_not_here(sound: Wish, source: str, engine: str) -> None:
    wish = with_(sound, source=parse_source(source), tensorflow=None)
    (fault,) = [one for one in examine(wish, nvml=NO_DRIVER) if one.status == "fail"]
    assert fault.subject == "environment" and f"{engine} was asked for" in fault.text and f"Install {engine}" in fault.remedy
    program = program_called(engine, sound, exit_code=0)
    assert f"{source}, by {program}" in told(examine(wish, nvml=NO_DRIVER), "ok")


def test_conda_is_found_where_it_says_it_is(sound: Wish, monkeypatch: pytest.MonkeyPatch) -> None:
    program = program_called("own conda", sound)
    monkeypatch.setenv("CONDA_EXE", str(program))
    monkeypatch.delenv("MAMBA_EXE", raising=False)
    assert f"conda, by {program}" in told(examine(with_(sound, source=parse_source("conda")), nvml=NO_DRIVER), "ok")


def program_called(name: str, sound: Wish, exit_code: int = 1) -> Path:
    """A program on the PATH."""
    program = sound.vendor.parent / "programs" / name
    program.write_text(f"#!/bin/sh\nexit {exit_code}\n", encoding="utf-8")
    program.chmod(0o755)
    return program
