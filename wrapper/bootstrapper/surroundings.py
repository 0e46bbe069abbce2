"""What of this machine's state could spoil a sweep: its clock, its disk, its variables, who else computes, and its GPUs at this moment."""

from __future__ import annotations

import ctypes
import datetime
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

from wrapper.bootstrapper.doctor import Finding, GpuState
from wrapper.bootstrapper.host import Gpu, answer, attribute
from wrapper.bootstrapper.release import Release

_NVIDIA = "0x10de"
_DISPLAY = ("0x0300", "0x0302")
"""PCI classes: VGA and 3D controllers."""


def another_sweep(whose: str | None) -> Iterator[Finding]:
    """Two sweeps would measure each other, and the second is refused."""
    if whose:
        text = f"another sweep is running on this machine ({whose})"
        yield Finding(status="fail", subject="sweep", text=text, remedy="Wait for it to end, or end it with Ctrl-C where it was started")


def wrong_clock(today: datetime.date, releases: Sequence[Release]) -> Iterator[Finding]:
    """A clock that is behind what this program itself has seen."""
    known = max((release.wheel.read for release in releases if release.wheel), default="")
    if known and today < datetime.date.fromisoformat(known) - datetime.timedelta(days=1):
        text = f"the clock says {today}, and this program knows of {known}: servers' certificates are refused, and records get wrong dates"
        yield Finding(status="warn", subject="clock", text=text, remedy="Set it (Linux: timedatectl set-ntp true; Windows: w32tm /resync)")


def no_wheel(release: Release, package: str, system: str) -> Iterator[Finding]:
    """A release that was never published for this system."""
    if release.wheel and not release.wheel.serves(package, system):
        text = f"{release.package(package)} {release.tensorflow} has no wheels for {system}"
        remedy = "Choose another release (`tfcnn releases` lists them), or let a container or conda bring it (--environment docker or conda)"
        yield Finding(status="fail", subject="release", text=text, remedy=remedy)


def python_path(variables: Mapping[str, str], python: str) -> Iterator[Finding]:
    """What goes before the packages of an interpreter that the user named. Environments of ours are started without it."""
    if path := variables.get("PYTHONPATH"):
        text = f"PYTHONPATH is set, and modules in {path} go before the packages of {python}"
        yield Finding(status="warn", subject="variables", text=text, remedy="Unset PYTHONPATH unless that is meant")


def gpu_libraries(release: Release, variables: Mapping[str, str], fault: str) -> Iterator[Finding]:
    """CUDA libraries that a release lacks; from TensorFlow 2.14 on its lock holds them."""
    if lack := lacking_libraries(release, variables):
        remedy = "Let conda bring them (--environment conda), install them (on Linux LD_LIBRARY_PATH names their place), or choose --device cpu"
        yield Finding(status=fault, subject="release", text=lack, remedy=remedy)


def lacking_libraries(release: Release, variables: Mapping[str, str] = os.environ) -> str | None:
    """What a release lacks whose lock holds no CUDA, in words; None where the system has it."""
    if release.wheel is None or release.wheel.locked_cudnn:
        return None
    missing = [name for name in gpu_library_names(release.wheel.cuda, release.wheel.cudnn) if not _loads(name, variables)]
    what = f"TensorFlow {release.tensorflow} takes CUDA {release.cuda} and cuDNN {release.cudnn} from the system"
    return f"{what}, which has no {missing[0]}" if missing else None


def gpu_library_names(cuda: str, cudnn: str, platform: str = sys.platform) -> tuple[str, str]:
    """The files that TensorFlow loads as CUDA's runtime and as cuDNN. All of CUDA 11 calls its runtime 11.0, all of CUDA 12 plainly 12."""
    major, _, minor = cuda.partition(".")
    runtime = {"11": "11.0", "12": "12"}.get(major, cuda)
    if platform == "win32":
        return (f"cudart64_{major}{0 if major == '11' else minor}.dll", f"cudnn64_{cudnn}.dll")
    return (f"libcudart.so.{runtime}", f"libcudnn.so.{cudnn}")


def pci_gpus(sysfs: Path = Path("/sys")) -> tuple[str, ...]:
    """PCI addresses of NVIDIA's GPUs by Linux, which knows them without a driver."""
    devices = (path for path in (sysfs / "bus/pci/devices").glob("*") if attribute(path / "vendor") == _NVIDIA)
    return tuple(sorted(device.name for device in devices if attribute(device / "class").startswith(_DISPLAY)))


def gpu_states(gpus: Sequence[Gpu], nvml: Any) -> tuple[GpuState, ...]:
    """Memory, processes, errors and usual power of each GPU now."""
    if not gpus:
        return ()
    nvml.nvmlInit()
    try:
        return tuple(_state(gpu, nvml) for gpu in gpus)
    finally:
        nvml.nvmlShutdown()


def _state(gpu: Gpu, nvml: Any) -> GpuState:
    handle = nvml.nvmlDeviceGetHandleByIndex(gpu.index)
    memory = answer(nvml, nvml.nvmlDeviceGetMemoryInfo, handle)
    default = answer(nvml, nvml.nvmlDeviceGetPowerManagementDefaultLimit, handle)
    running: Sequence[Any] = ()
    error = None
    try:
        running = nvml.nvmlDeviceGetComputeRunningProcesses(handle)
    except nvml.NVMLError_NotSupported:
        pass  # virtual GPUs and WSL 2 never tell
    except nvml.NVMLError as failure:
        error = str(failure)
    return GpuState(
        gpu=gpu,
        memory_free_bytes=memory.free if memory else None,
        processes=tuple(_name(process.pid) for process in running),
        processes_error=error,
        ecc_errors=answer(nvml, nvml.nvmlDeviceGetTotalEccErrors, handle, nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_VOLATILE_ECC),
        power_default_w=None if default is None else default / 1000,
    )


def _name(pid: int) -> str:
    try:
        return f"{psutil.Process(pid).name()} (process {pid})"
    except psutil.Error:
        return f"process {pid}"


def _loads(library: str, variables: Mapping[str, str]) -> bool:
    """Whether the system finds a library as TensorFlow will ask for it."""
    if sys.platform == "win32":
        return any((Path(place) / library).is_file() for place in variables.get("PATH", "").split(os.pathsep) if place)
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True
