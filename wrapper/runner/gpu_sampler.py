"""Readings of NVIDIA devices by NVML, and the evidence they give that a process worked on a device.

A reading that a device or driver doesn't offer is left out. A device that falls off the bus is noted and no longer read.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import psutil

Value = float | int | str | None

THROTTLE_REASONS = {
    0x1: "gpu_idle",
    0x2: "application_clocks",
    0x4: "sw_power_cap",
    0x8: "hw_slowdown",
    0x10: "sync_boost",
    0x20: "sw_thermal_slowdown",
    0x40: "hw_thermal_slowdown",
    0x80: "hw_power_brake",
    0x100: "display_clocks",
}
"""NVML's bits (nvml.h, nvmlClocksEventReasons)."""

FAST_COLUMNS = ("utilisation_percent", "memory_bytes", "power_w", "sm_mhz", "memory_mhz", "temperature_c", "throttle")
SECOND_COLUMNS = ("pcie_generation", "pcie_width", "energy_j")
"""What changes seldom, and the energy counter, which cost 4 ms of CPU time a reading on an H200: it is read each second, and interpolated."""
TRAFFIC_COLUMNS = ("pcie_rx_kb_per_s", "pcie_tx_kb_per_s")
"""NVML counts for 20 ms in each of these two calls, so they are read seldom."""
COLUMNS = (*FAST_COLUMNS, *SECOND_COLUMNS, *TRAFFIC_COLUMNS)

LEAST_CONTEXT_BYTES = 64 << 20
"""No CUDA context takes less device memory (529 MiB on an H200, over 100 MiB on a GTX 1060): a smaller rise is somebody's window."""


class OtherProcess(msgspec.Struct, frozen=True, kw_only=True):
    """A process on a device that doesn't belong to the trial."""

    pid: int
    name: str | None
    """None for a process that this system doesn't know: it runs outside this container."""
    memory_bytes: int | None
    """The most that it held; None where the driver doesn't tell (Windows, which lists desktop programs here too)."""


class DeviceEvidence(msgspec.Struct, frozen=True, kw_only=True):
    """What was seen of a trial on one device."""

    device: int
    present: bool
    """A process of the trial was on the device, or its memory rose by a CUDA context where processes can't be told."""
    worked: bool | None
    """Utilisation rose above its lowest reading; None where it isn't told, or was high and level because of somebody else."""
    witness: str
    """"process" (NVML lists one of the trial's), "memory" (NVML's process ids mean nothing here, as in a container) or "none"."""
    utilisation_max_percent: float | None = None
    memory_rise_bytes: int = 0
    """The highest reading above the one before the start."""
    process_memory_bytes: int | None = None
    """The most that the trial's processes held together, as NVML accounts it to them."""
    others: tuple[OtherProcess, ...] = ()


class Device:
    """One device, read in three groups that differ in what they cost."""

    def __init__(self, nvml: Any, index: int) -> None:
        """Raises nvml.NVMLError: there is no such device."""
        self.index = index
        self.lost: str | None = None
        self._nvml = nvml
        self._handle = nvml.nvmlDeviceGetHandleByIndex(index)
        self._readers: dict[str, Callable[[Any], Value]] = _readers(nvml)

    def read(self, columns: Iterable[str]) -> dict[str, Value]:
        """The readings of these columns that the device offers; none of a lost device."""
        values: dict[str, Value] = {}
        for column in columns:
            if column in self._readers and self.lost is None:
                value = self._ask(column, self._readers[column])
                if value is not None:
                    values[column] = value
        return values

    def processes(self) -> list[tuple[int, int | None]]:
        """Process id and device memory in bytes of every process with a compute context on the device."""
        listed = self._ask("processes", _running_processes(self._nvml)) if self.lost is None else None
        return [(process.pid, process.usedGpuMemory) for process in listed or ()]

    def _ask(self, column: str, reader: Callable[[Any], Any]) -> Any:
        nvml = self._nvml
        try:
            return reader(self._handle)
        except (nvml.NVMLError_NotSupported, nvml.NVMLError_FunctionNotFound):
            self._readers.pop(column, None)
        except (nvml.NVMLError_GpuIsLost, nvml.NVMLError_ResetRequired) as error:
            self.lost = str(error)
        except nvml.NVMLError:  # a passing trouble, such as a time-out: no reading this time
            pass
        return None


def _readers(nvml: Any) -> dict[str, Callable[[Any], Value]]:
    """How each column is asked for. Two names will be dropped by CUDA 14 (pynvml says so), and what replaces them is missing before R535."""
    sm, memory, gpu_sensor = nvml.NVML_CLOCK_SM, nvml.NVML_CLOCK_MEM, nvml.NVML_TEMPERATURE_GPU
    temperature = _first_of(nvml, "nvmlDeviceGetTemperature", "nvmlDeviceGetTemperatureV")
    reasons = _first_of(nvml, "nvmlDeviceGetCurrentClocksThrottleReasons", "nvmlDeviceGetCurrentClocksEventReasons")
    return {
        "utilisation_percent": lambda handle: nvml.nvmlDeviceGetUtilizationRates(handle).gpu,
        "memory_bytes": lambda handle: nvml.nvmlDeviceGetMemoryInfo(handle).used,
        "power_w": lambda handle: nvml.nvmlDeviceGetPowerUsage(handle) / 1000,
        "sm_mhz": lambda handle: nvml.nvmlDeviceGetClockInfo(handle, sm),
        "memory_mhz": lambda handle: nvml.nvmlDeviceGetClockInfo(handle, memory),
        "temperature_c": lambda handle: temperature(handle, gpu_sensor),
        "throttle": lambda handle: throttle_names(reasons(handle)),
        "energy_j": lambda handle: nvml.nvmlDeviceGetTotalEnergyConsumption(handle) / 1000,
        "pcie_generation": nvml.nvmlDeviceGetCurrPcieLinkGeneration,
        "pcie_width": nvml.nvmlDeviceGetCurrPcieLinkWidth,
        "pcie_rx_kb_per_s": lambda handle: nvml.nvmlDeviceGetPcieThroughput(handle, nvml.NVML_PCIE_UTIL_RX_BYTES),
        "pcie_tx_kb_per_s": lambda handle: nvml.nvmlDeviceGetPcieThroughput(handle, nvml.NVML_PCIE_UTIL_TX_BYTES),
    }


def _running_processes(nvml: Any) -> Callable[[Any], Any]:
    return _first_of(nvml, "nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetComputeRunningProcesses_v2")


def _first_of(nvml: Any, *names: str) -> Callable[..., Any]:
    """A call to the first of these functions that library and driver both have."""

    def call(*arguments: Any) -> Any:
        for name in names[:-1]:
            try:
                return getattr(nvml, name)(*arguments)
            except (AttributeError, nvml.NVMLError_FunctionNotFound):
                continue
        return getattr(nvml, names[-1])(*arguments)

    return call


def throttle_names(reasons: int) -> str:
    """Why clocks are held down, as names joined by "+"; "none" where they are free."""
    return "+".join(name for bit, name in THROTTLE_REASONS.items() if reasons & bit) or "none"


class Gpus:
    """The devices of a trial while NVML is open."""

    def __init__(self, indices: Iterable[int], nvml: Any = None) -> None:
        """Open NVML and the devices; what doesn't open becomes a note, never an error.

        Args:
            indices: NVML's device numbers (`Gpu.index`).
            nvml: what stands in for the `pynvml` module.
        """
        self.devices: list[Device] = []
        self.notes: list[str] = []
        self._nvml = nvml or importlib.import_module("pynvml")
        self._open = False
        wanted = list(indices)
        if not wanted:
            return
        try:
            self._nvml.nvmlInit()
        except self._nvml.NVMLError as error:
            self.notes.append(f"GPUs are not sampled: {error}")
            return
        self._open = True
        for index in wanted:
            try:
                self.devices.append(Device(self._nvml, index))
            except self._nvml.NVMLError as error:
                self.notes.append(f"GPU {index} is not sampled: {error}")

    def close(self) -> None:
        if self._open:
            self._nvml.nvmlShutdown()
            self._open = False


class Witness:
    """Gathers evidence on one device, from before the trial's start to its end."""

    def __init__(self, device: Device) -> None:
        self.device = device
        idle = device.read(("memory_bytes", "utilisation_percent"))
        self._idle_memory = self._memory = _number(idle.get("memory_bytes")) or 0
        self._least = self._most = _number(idle.get("utilisation_percent"))
        self._before = {pid for pid, _ in device.processes()}
        self._belongs: dict[int, bool | None] = {}
        self._names: dict[int, str | None] = {}
        self._held: dict[int, int | None] = {}
        self._ours_held: int | None = None

    def note_reading(self, reading: dict[str, Value]) -> None:
        """Take in a reading of memory and utilisation."""
        self._memory = max(self._memory, _number(reading.get("memory_bytes")) or 0)
        utilisation = _number(reading.get("utilisation_percent"))
        if utilisation is not None:
            self._least = min(utilisation, utilisation if self._least is None else self._least)
            self._most = max(utilisation, utilisation if self._most is None else self._most)

    def note_processes(self, root: int) -> None:
        """Take in who is on the device now; `root` is the trial's process."""
        ours: list[int | None] = []
        for pid, memory in self.device.processes():
            if self._belongs.get(pid) is None:  # also asked again while unknown
                self._belongs[pid], self._names[pid] = _descends(pid, root)
            self._held[pid] = max(filter(None, (memory, self._held.get(pid))), default=memory)
            if self._belongs[pid]:
                ours.append(memory)
        known = [memory for memory in ours if memory is not None]
        if known:
            self._ours_held = max(sum(known), self._ours_held or 0)

    def sees_processes(self) -> bool:
        """Whether a process of the trial was listed here."""
        return any(self._belongs.values())

    def evidence(self, *, ids_mean_something: bool) -> DeviceEvidence:
        """Conclude. `ids_mean_something`: one of the trial's processes was listed on any device, so a missing one is really not there."""
        listed = self.sees_processes()
        rise = int(self._memory - self._idle_memory)
        someone_came = any(known is False and pid not in self._before for pid, known in self._belongs.items())
        by_memory = rise >= LEAST_CONTEXT_BYTES and not ids_mean_something and not someone_came
        return DeviceEvidence(
            device=self.device.index,
            present=listed or by_memory,
            worked=_worked(self._least, self._most),
            witness="process" if listed else "memory" if by_memory else "none",
            utilisation_max_percent=self._most,
            memory_rise_bytes=max(0, rise),
            process_memory_bytes=self._ours_held,
            others=tuple(
                OtherProcess(pid=pid, name=self._names[pid], memory_bytes=self._held[pid])
                for pid, belongs in self._belongs.items()
                if belongs is False or (belongs is None and not by_memory)
            ),
        )


def _worked(least: float | None, most: float | None) -> bool | None:
    if least is None or most is None:
        return None
    if most > least:
        return True
    return False if most == 0 else None


def _descends(pid: int, root: int) -> tuple[bool | None, str | None]:
    """Whether `pid` is `root` or descends from it, and its name; (None, None) where this system knows no such process."""
    try:
        process = psutil.Process(pid)
        return pid == root or any(parent.pid == root for parent in process.parents()), process.name()
    except psutil.AccessDenied:
        return False, None
    except psutil.Error:
        return None, None


def _number(value: Value) -> float | None:
    return value if isinstance(value, int | float) else None
