"""What this machine is: CPU, memory, disk, operating system and GPUs, as plain data that may be published.

The host's name, the user's name, serial numbers and GPU UUIDs are left out on purpose: a report is there to be shown to others.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import platform
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from wrapper.bootstrapper.placing import existing


class Gpu(msgspec.Struct, frozen=True, kw_only=True):
    """One GPU. None stands for what the driver, the device or the operating system doesn't tell."""

    index: int
    """Position in the vendor's library, which lists by PCI bus; CUDA's own order may differ unless CUDA_DEVICE_ORDER=PCI_BUS_ID is set."""
    vendor: str = "NVIDIA"
    name: str
    driver: str | None = None
    memory_bytes: int | None = None
    pci_bus_id: str | None = None
    """As TensorFlow and Linux write it, such as "0000:3b:00.0"."""
    pcie_generation: int | None = None
    """Of the link now; an idle device lowers it."""
    pcie_width: int | None = None
    """Lanes of the link now."""
    pcie_generation_max: int | None = None
    """The highest that the device and its slot allow together."""
    pcie_width_max: int | None = None
    compute_capability: str | None = None
    """Such as "9.0"."""
    power_limit_w: float | None = None
    persistence: bool | None = None
    """Whether the driver stays loaded without a user (Linux)."""
    external: bool | None = None
    """Behind a removable PCIe port such as Thunderbolt; None where the operating system doesn't say."""


class Host(msgspec.Struct, frozen=True, kw_only=True):
    """The machine that a sweep runs on."""

    cpu: str
    cores_physical: int | None
    cores_logical: int | None
    memory_bytes: int
    disk: str | None
    """Model of the disk that holds the project, where the operating system shows it."""
    os: str
    machine: str | None = None
    """Maker and product, which for a cloud node is the provider's name for it."""
    virtual: bool | None = None
    """Whether the CPU reports a hypervisor; None on a CPU that has no such flag."""
    container: bool = False
    cuda_driver: str | None = None
    """The newest CUDA version that the NVIDIA driver serves, such as "12.4"."""
    gpus: tuple[Gpu, ...] = ()
    gpu_error: str | None = None
    """Why GPUs could not be read although a driver's library is installed."""


def read_host(project: Path, *, ask_cpu: bool = True, nvml: Any = None, amdsmi: Any = None, sysfs: Path = Path("/sys")) -> Host:
    """Describe this machine; takes about 1 s (py-cpuinfo), so call it once per sweep.

    Args:
        project: a path on the disk to describe; it need not exist yet.
        ask_cpu: take the second; without it the CPU is named as Python does, which on Linux may be its kind alone.
        nvml: what stands in for the `pynvml` module.
        amdsmi: what stands in for AMD's module of that name.
        sysfs: where Linux shows its devices.

    Returns:
        the host; what can't be read is None, and no GPU trouble is raised (`gpu_error` says it).
    """
    import psutil

    cpu, virtual = _cpu() if ask_cpu else (platform.processor() or platform.machine(), None)
    gpus, cuda, error = nvidia_gpus(nvml, sysfs)
    amd, amd_error = _amd_gpus(amdsmi, first_index=len(gpus))
    return Host(
        cpu=cpu,
        cores_physical=psutil.cpu_count(logical=False),
        cores_logical=psutil.cpu_count(),
        memory_bytes=psutil.virtual_memory().total,
        disk=_disk_model(project, sysfs),
        os=_operating_system(),
        machine=_machine(sysfs),
        virtual=virtual,
        container=any(Path(mark).exists() for mark in ("/.dockerenv", "/run/.containerenv")) or "KUBERNETES_SERVICE_HOST" in os.environ,
        cuda_driver=cuda,
        gpus=(*gpus, *amd),
        gpu_error=error or amd_error,
    )


def gpus_present(*, nvml: Any = None, sysfs: Path = Path("/sys")) -> tuple[Gpu, ...]:
    """The NVIDIA GPUs of this machine, for the choice of a device; empty without a working driver. Takes a few milliseconds."""
    return nvidia_gpus(nvml, sysfs)[0]


def _cpu() -> tuple[str, bool | None]:
    """The CPU's name as its maker writes it, and whether it reports a hypervisor (a flag of x86 alone)."""
    import cpuinfo

    info = cpuinfo.get_cpu_info()
    name = info.get("brand_raw") or platform.processor() or platform.machine()
    return name, "hypervisor" in info.get("flags", ()) if info.get("arch", "").startswith("X86") else None


def _operating_system() -> str:
    if sys.platform == "linux":
        try:
            distribution = platform.freedesktop_os_release()["PRETTY_NAME"]
        except (OSError, KeyError):
            distribution = "Linux"
        return f"{distribution}, kernel {platform.release()}"
    return platform.platform()


def _machine(sysfs: Path) -> str | None:
    parts = [attribute(sysfs / "class/dmi/id" / name) for name in ("sys_vendor", "product_name")]
    return " ".join(part for part in parts if part) or None


def _disk_model(project: Path, sysfs: Path) -> str | None:
    """The model that Linux shows for the block device under `project`; None elsewhere and for network and overlay file systems."""
    device = existing(project).stat().st_dev
    if sys.platform == "win32":  # without WMI or a raw disk handle there is no way from a drive letter to its model
        return None
    block = (sysfs / f"dev/block/{os.major(device)}:{os.minor(device)}").resolve()
    while slaves := sorted((block / "slaves").glob("*")):  # LVM, LUKS and RAID: down to the first real disk
        block = slaves[0].resolve()
    if (block / "partition").exists():
        block = block.parent
    return attribute(block / "device/model") or attribute(block / "device/name") or None  # SD and eMMC cards have a name instead of a model


def attribute(path: Path) -> str:
    """What a one-line attribute file of sysfs holds; empty where it is absent or unreadable."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _external(pci_bus_id: str, sysfs: Path) -> bool | None:
    """Whether the kernel (5.14 and later) calls a PCI device removable: it stands behind an external port, which for a GPU is Thunderbolt or USB4."""
    return {"removable": True, "fixed": False}.get(attribute(sysfs / "bus/pci/devices" / pci_bus_id / "removable"))


def nvidia_gpus(nvml: Any = None, sysfs: Path = Path("/sys")) -> tuple[tuple[Gpu, ...], str | None, str | None]:
    """The GPUs, the CUDA version served, and what went wrong. A missing library is no error: the machine has no NVIDIA driver."""
    nvml = nvml or importlib.import_module("pynvml")
    try:
        nvml.nvmlInit()
    except nvml.NVMLError_LibraryNotFound:
        return (), None, _damage()
    except nvml.NVMLError as error:
        return (), None, f"the NVIDIA driver can't be used: {error}"
    gpus: list[Gpu] = []
    errors: list[str] = []
    try:
        driver, cuda = answer(nvml, nvml.nvmlSystemGetDriverVersion), answer(nvml, nvml.nvmlSystemGetCudaDriverVersion)
        for index in range(nvml.nvmlDeviceGetCount()):
            try:
                gpus.append(_nvidia_gpu(nvml, index, driver, sysfs))
            except nvml.NVMLError as error:
                errors.append(f"GPU {index} can't be read: {error}")
    except nvml.NVMLError as error:
        errors.append(f"the GPUs can't be counted: {error}")
    finally:
        nvml.nvmlShutdown()
    return tuple(gpus), f"{cuda // 1000}.{cuda % 1000 // 10}" if cuda else None, "; ".join(errors) or None


def _damage() -> str | None:
    """Why the driver's library does not load although it is there; NVML's own answer is the same as without a driver. Linux alone."""
    if sys.platform != "linux":
        return None
    try:
        ctypes.CDLL("libnvidia-ml.so.1")
    except OSError as error:
        return None if "No such file" in str(error) else f"the NVIDIA driver's library can't be loaded: {error}"
    return None


def _nvidia_gpu(nvml: Any, index: int, driver: str | None, sysfs: Path) -> Gpu:
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    memory = answer(nvml, nvml.nvmlDeviceGetMemoryInfo, handle)
    pci = answer(nvml, nvml.nvmlDeviceGetPciInfo, handle)
    # NVML writes the PCI domain with eight digits, Linux and TensorFlow with four
    bus_id = f"{pci.domain:04x}:{pci.bus:02x}:{pci.device:02x}.0" if pci else None
    capability = answer(nvml, nvml.nvmlDeviceGetCudaComputeCapability, handle)
    limit = answer(nvml, nvml.nvmlDeviceGetEnforcedPowerLimit, handle)
    persistence = answer(nvml, nvml.nvmlDeviceGetPersistenceMode, handle)
    return Gpu(
        index=index,
        name=nvml.nvmlDeviceGetName(handle),
        driver=driver,
        memory_bytes=memory.total if memory else None,
        pci_bus_id=bus_id,
        pcie_generation=answer(nvml, nvml.nvmlDeviceGetCurrPcieLinkGeneration, handle),
        pcie_width=answer(nvml, nvml.nvmlDeviceGetCurrPcieLinkWidth, handle),
        pcie_generation_max=answer(nvml, nvml.nvmlDeviceGetMaxPcieLinkGeneration, handle),
        pcie_width_max=answer(nvml, nvml.nvmlDeviceGetMaxPcieLinkWidth, handle),
        compute_capability=f"{capability[0]}.{capability[1]}" if capability else None,
        power_limit_w=limit / 1000 if limit is not None else None,
        persistence=bool(persistence) if persistence is not None else None,
        external=_external(bus_id, sysfs) if bus_id else None,
    )


def answer(nvml: Any, call: Callable[..., Any], *arguments: Any) -> Any:
    """What NVML answers, or None where this device or driver doesn't tell (laptops lack the power limit, for one)."""
    try:
        return call(*arguments)
    except nvml.NVMLError:
        return None


def _amd_gpus(amdsmi: Any, first_index: int) -> tuple[tuple[Gpu, ...], str | None]:
    """AMD GPUs by amdsmi, which comes with ROCm; none where it isn't installed."""
    try:
        amdsmi = amdsmi or importlib.import_module("amdsmi")
    except (ImportError, OSError, KeyError):  # without its shared library amdsmi raises one of the latter two, by version
        return (), None
    try:
        amdsmi.amdsmi_init()
        try:
            handles = amdsmi.amdsmi_get_processor_handles()
            return tuple(_amd_gpu(amdsmi, handle, first_index + at) for at, handle in enumerate(handles)), None
        finally:
            amdsmi.amdsmi_shut_down()
    except amdsmi.AmdSmiException as error:
        return (), f"the AMD driver can't be used: {error}"


def _amd_gpu(amdsmi: Any, handle: Any, index: int) -> Gpu:
    return Gpu(
        index=index,
        vendor="AMD",
        name=amdsmi.amdsmi_get_gpu_asic_info(handle)["market_name"],
        driver=amdsmi.amdsmi_get_gpu_driver_info(handle)["driver_version"],
        memory_bytes=amdsmi.amdsmi_get_gpu_memory_total(handle, amdsmi.AmdSmiMemoryType.VRAM),
        pci_bus_id=amdsmi.amdsmi_get_gpu_device_bdf(handle),
    )
