"""`tfcnn doctor` on machines that are broken on purpose, each in one way: the fault is named with its remedy, first, and in time."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from wrapper.bootstrapper.environment import find_pythons
from wrapper.bootstrapper.inspection import Environment
from wrapper.bootstrapper.making import MARKER
from wrapper.bootstrapper.release import load_releases
from wrapper.cli import main
from wrapper.runner.lock import one_sweep_at_a_time

LIMIT_S = 6.0
"""Issue 5 asks for 3 s on an idle machine; tests also run on busy ones."""
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="breaks Linux")

# A driver of one GPU. What it does not define, it does not tell.
NVML = """
#include <string.h>
int nvmlInitWithFlags(unsigned f) { return INIT; }
int nvmlInit_v2(void) { return INIT; }
int nvmlShutdown(void) { return 0; }
const char *nvmlErrorString(int e) { return e == 4 ? "Insufficient Permissions" : "Driver/library version mismatch"; }
int nvmlSystemGetCudaDriverVersion_v2(int *v) { *v = 12080; return 0; }
int nvmlSystemGetCudaDriverVersion(int *v) { *v = 12080; return 0; }
int nvmlDeviceGetCount_v2(unsigned *n) { *n = 1; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **h) { *h = (void *)1; return 0; }
int nvmlDeviceGetName(void *h, char *b, unsigned n) { strcpy(b, "NVIDIA A100"); return 0; }
int nvmlDeviceGetCudaComputeCapability(void *h, int *a, int *b) { *a = 8; *b = 0; return 0; }
int nvmlDeviceGetComputeRunningProcesses_v3(void *h, unsigned *n, void *p) { return 4; }
"""
CLOCK = """
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t clock, struct timespec *time) {
    int failed = syscall(SYS_clock_gettime, clock, time);
    if (clock == CLOCK_REALTIME) time->tv_sec -= 8L * 365 * 86400;
    return failed;
}
"""


class Machine:
    """A sound machine for the CPU, to be broken: its own home, vendor/ and upstream."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.vendor = folder / "vendor"
        self.arguments = ["--upstream", str(folder / "upstream"), "--vendor", str(self.vendor)]
        kept = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy") and name != "VIRTUAL_ENV"}
        self.variables = {**kept, "GIT_CONFIG_GLOBAL": str(folder / "gitconfig"), "no_proxy": ""}
        (folder / "gitconfig").touch()
        subprocess.run(["git", "init", "--quiet", "--bare", str(folder / "upstream")], check=True)

    def ask(self, *more: str) -> list[dict[str, str]]:
        """What the doctor finds, but for another sweep on the machine that the tests run on: that is not theirs to say."""
        command = [sys.executable, "-m", "wrapper", "doctor", "--json", *self.arguments, *more]
        done = subprocess.run(command, env=self.variables, capture_output=True, encoding="utf-8", timeout=60)
        assert done.stderr == ""
        findings: list[dict[str, str]] = json.loads(done.stdout)["findings"]
        assert [one["status"] for one in findings] == sorted((one["status"] for one in findings), key=["fail", "warn", "ok"].index)
        assert done.returncode == (1 if findings[0]["status"] == "fail" else 0)
        assert all(one["remedy"] for one in findings if one["status"] != "ok")
        return [one for one in findings if one["subject"] != "sweep"]

    def faults(self, *more: str) -> list[dict[str, str]]:
        return [one for one in self.ask(*more) if one["status"] != "ok"]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def no_python(machine: Machine) -> None:
    programs = machine.folder / "programs"
    programs.mkdir()
    (programs / "git").symlink_to(shutil.which("git") or "")
    machine.variables |= {
        "PATH": str(programs),
        "HOME": str(machine.folder),
        "PYENV_ROOT": str(machine.folder),
        "UV_PYTHON_INSTALL_DIR": str(programs),
    }


def no_git(machine: Machine) -> None:
    machine.variables["PATH"] = str(machine.folder)


def broken_git_settings(machine: Machine) -> None:
    (machine.folder / "gitconfig").write_text("[user\nname = nobody\n", encoding="utf-8")


def upstream_gone(machine: Machine) -> None:
    shutil.rmtree(machine.folder / "upstream")


def proxy_that_leads_nowhere(machine: Machine) -> None:
    machine.arguments[1] = "https://example.invalid/benchmarks.git"
    machine.variables |= {"https_proxy": "http://user:secret@127.0.0.1:9", "HTTPS_PROXY": ""}


def no_directory(machine: Machine) -> None:
    machine.vendor.write_text("a file", encoding="utf-8")


def mounted(machine: Machine, options: str) -> None:
    machine.vendor.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(machine.vendor)], capture_output=True).returncode != 0:
        pytest.skip("mounting is not allowed here")


def full_disk(machine: Machine) -> None:
    mounted(machine, "size=64k")


def read_only_disk(machine: Machine) -> None:
    mounted(machine, "ro")


def half_made(machine: Machine) -> None:
    (machine.vendor / "environments" / "1.12.0-cpu-half").mkdir(parents=True)


def compiled(machine: Machine, name: str, source: str, *options: str) -> Path:
    if not shutil.which("gcc"):
        pytest.skip("no gcc")
    library = machine.folder / "libraries" / name
    library.parent.mkdir(exist_ok=True)
    (machine.folder / "source.c").write_text(source, encoding="utf-8")
    subprocess.run(["gcc", "-shared", "-fPIC", *options, "-o", str(library), str(machine.folder / "source.c")], check=True)
    machine.variables["LD_LIBRARY_PATH"] = str(library.parent)
    return library


def driver_of_another_version(machine: Machine) -> None:
    compiled(machine, "libnvidia-ml.so.1", NVML, "-DINIT=18")


def driver_library_cut_short(machine: Machine) -> None:
    compiled(machine, "libnvidia-ml.so.1", NVML, "-DINIT=0").write_bytes(b"\x7fELF")


def processes_not_told(machine: Machine) -> None:
    compiled(machine, "libnvidia-ml.so.1", NVML, "-DINIT=0")


def engine_down(machine: Machine, kind: str, script: str) -> None:
    program = machine.folder / "programs" / kind
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    program.chmod(0o755)
    machine.variables["PATH"] = f"{program.parent}{os.pathsep}{machine.variables['PATH']}"
    machine.arguments += ["--environment", kind]


def docker_without_daemon(machine: Machine) -> None:
    engine_down(machine, "docker", "echo 'Cannot connect to the Docker daemon at unix:///var/run/docker.sock.' >&2; exit 1")


def docker_of_others(machine: Machine) -> None:
    engine_down(machine, "docker", "echo 'permission denied while trying to connect to the Docker daemon socket' >&2; exit 1")


def podman_that_cannot_start(machine: Machine) -> None:
    engine_down(machine, "podman", "echo 'Error: default OCI runtime \"crun\" not found: invalid argument' >&2; exit 125")


def engine_that_hangs(machine: Machine) -> None:
    engine_down(machine, "podman", "exec cat /dev/zero > /dev/null")


def clock_behind(machine: Machine) -> None:
    machine.variables["LD_PRELOAD"] = str(compiled(machine, "clock.so", CLOCK))


BROKEN: dict[Callable[[Machine], None], tuple[str, str, str, str]] = {
    # how: status, subject, words of the fault, words of the remedy
    no_python: ("fail", "Python", "no 64-bit CPython was found", "Install one"),
    no_git: ("fail", "git", "this machine has no git", "Install it"),
    broken_git_settings: ("fail", "git", "bad config line 1 in file", "Mend the file"),
    upstream_gone: ("fail", "upstream", "can't be reached", "--upstream PATH_OR_URL"),
    proxy_that_leads_nowhere: ("fail", "upstream", "https_proxy is http://***@127.0.0.1:9: if no proxy answers there, unset it", "--upstream"),
    no_directory: ("fail", "disk", "is not a directory", "--vendor DIR"),
    full_disk: ("fail", "disk", "0.0 GB free", "Make room"),
    read_only_disk: ("fail", "disk", "can't be written (it is read-only", "--vendor DIR"),
    half_made: ("warn", "TensorFlow", "is half made", "delete it"),
    driver_of_another_version: ("fail", "driver", "mismatch", "restart the machine"),
    driver_library_cut_short: ("fail", "driver", "library can't be loaded", "install the driver again"),
    processes_not_told: ("warn", "GPU 0", "who computes on it can't be read: Insufficient Permissions", "nvidia-smi"),
    docker_without_daemon: ("fail", "environment", "docker does not answer: Cannot connect to the Docker daemon", "Start it"),
    docker_of_others: ("fail", "environment", "docker does not answer: permission denied", "group docker"),
    podman_that_cannot_start: ("fail", "environment", 'podman does not answer: Error: default OCI runtime "crun" not found', "containers.conf"),
    engine_that_hangs: ("fail", "environment", "podman gives no answer: ", "podman ps must work"),
    clock_behind: ("warn", "clock", "the clock says 20", "Set it"),
}


@pytest.fixture(autouse=True)
def unmounted(tmp_path: Path) -> Iterator[None]:
    yield
    if os.path.ismount(tmp_path / "vendor"):
        subprocess.run(["umount", str(tmp_path / "vendor")], check=True)


def test_a_sound_machine_has_no_fault(machine: Machine) -> None:
    assert machine.faults("--device", "cpu") == []


@LINUX
@pytest.mark.parametrize("break_it", BROKEN, ids=lambda one: one.__name__)
def test_a_fault_is_named_with_its_remedy(machine: Machine, break_it: Callable[[Machine], None]) -> None:
    status, subject, words, remedy = BROKEN[break_it]
    break_it(machine)
    start = time.perf_counter()
    faults = machine.faults()
    assert time.perf_counter() - start < LIMIT_S
    assert any(one["subject"] == subject and one["status"] == status and words in one["text"] and remedy in one["remedy"] for one in faults), faults
    assert "secret" not in str(faults)


def test_a_release_without_its_python(machine: Machine) -> None:
    minors = {python.minor for python in find_pythons()}
    lacking = next((release.tensorflow for release in load_releases() if not minors & set(release.python)), None)
    if lacking is None:
        no_python(machine)
    (fault,) = [one for one in machine.faults("--tensorflow", lacking or "1.12.0", "--device", "cpu") if one["subject"] == "environment"]
    assert fault["status"] == "fail" and "needs Python 3." in fault["text"] and "pyenv install 3." in fault["remedy"]


def test_an_environment_that_is_damaged_and_one_whose_tensorflow_does_not_import(machine: Machine) -> None:
    asked = ("--device", "cpu", "--tensorflow", "2.21.0")
    (planned,) = [one["text"] for one in machine.ask(*asked) if one["subject"] == "environment"]
    place = Path(planned.removesuffix(" is still to be made"))
    subprocess.run([os.path.realpath(sys.executable), "-m", "venv", "--without-pip", str(place)], check=True)
    packages = next(place.glob("lib/python*/site-packages"), place / "Lib/site-packages")
    module = packages / "tensorflow" / "__init__.py"
    module.parent.mkdir()
    module.write_text("raise ImportError('libstdc++.so.6: version not found')\n", encoding="utf-8")
    (packages / "tensorflow-2.21.0.dist-info").mkdir()
    (packages / "tensorflow-2.21.0.dist-info" / "RECORD").write_text(f"tensorflow/__init__.py,,{module.stat().st_size}\n", encoding="utf-8")
    python = next(path for path in (place / "bin/python", place / "Scripts/python.exe") if path.exists())
    made = Environment(kind="locked", path=str(place), python=str(python), python_version="3.11.7", tensorflow="2.21.0")
    (place / MARKER).write_bytes(msgspec.json.encode(made))
    assert machine.faults(*asked) == []
    (fault,) = machine.faults(*asked, "--deep")
    assert fault["status"] == "fail" and "ImportError: libstdc++.so.6: version not found" in fault["text"] and "delete" in fault["remedy"]
    module.unlink()
    (fault,) = machine.faults(*asked)
    assert fault["status"] == "warn" and "is damaged: " in fault["text"] and "makes it again" in fault["remedy"]


def test_another_sweep(machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("wrapper.runner.lock.FOLDER", machine.folder / "locks")
    asked = ["doctor", "--device", "cpu", *machine.arguments]
    main(asked)
    assert "another sweep" not in capsys.readouterr().out
    with one_sweep_at_a_time("/reports/of/somebody"):
        assert main(asked) == 1
    said = capsys.readouterr().out.splitlines()
    at = next(number for number, line in enumerate(said) if line.startswith("fail  sweep: another sweep is running on this machine"))
    assert "/reports/of/somebody" in said[at] and "Wait for it to end" in said[at + 1]


@LINUX
def test_a_release_that_takes_cuda_from_a_system_that_has_none(machine: Machine) -> None:
    processes_not_told(machine)
    faults = machine.faults("--tensorflow", "1.12.0")
    (fault,) = [one for one in faults if "from the system" in one["text"]]
    assert fault["status"] == "fail" and "has no libcudart.so.9.0" in fault["text"] and "--environment conda" in fault["remedy"]
    assert any("holds only PTX for GPU 0" in one["text"] and "minutes to an hour" in one["text"] for one in faults)
    for name in ("libcudart.so.9.0", "libcudnn.so.7"):
        compiled(machine, name, "int here;")
    assert not [one for one in machine.faults("--tensorflow", "1.12.0") if "from the system" in one["text"]]
