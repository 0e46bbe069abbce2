"""Who else computes on this machine before anything of ours runs."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import msgspec
import psutil

from wrapper.runner.gpu_sampler import Gpus, OtherProcess, Witness

PROBE_S = 0.5
"""How long `other_load` watches."""
BUSY_PERCENT = 5.0
"""Utilisation of a device from which it counts as busy."""
BUSY_HOST_PERCENT = 10.0
"""Load of all CPUs together from which the host counts as busy."""


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody else's use of a device or of the host's CPUs."""

    device: int | None
    """None: the host's CPUs."""
    share_percent: float
    """Utilisation of the device, or load of all CPUs together."""
    name: str | None
    """The process that uses most; None where it can't be told."""
    pid: int | None = None
    memory_bytes: int | None = None
    """What the process holds on the device."""

    def __str__(self) -> str:
        who = f"{self.name} (process {self.pid})" if self.name else "a process that this system does not know"
        return f"{who} on {'the CPUs' if self.device is None else f'GPU {self.device}'}, {self.share_percent:.0f} % of it in use"

    @property
    def computing(self) -> bool:
        """Whether it takes computing time now, beyond holding memory."""
        return self.share_percent >= (BUSY_HOST_PERCENT if self.device is None else BUSY_PERCENT)


def other_load(device_indices: Iterable[int], *, nvml: Any = None) -> tuple[Load, ...]:
    """Who uses these devices and the host's CPUs now, before anything of ours runs; watches for half a second.

    Args:
        device_indices: NVML's numbers of the devices that will be used.
        nvml: what stands in for the `pynvml` module.

    Returns:
        for each device every process that holds memory on it, or the busy device alone where the driver names nobody; and the host, where its load
        is high. `Load.computing` tells the busy from those that only hold memory.
    """
    gpus = Gpus(device_indices, nvml)
    try:
        times = _cpu_times()
        psutil.cpu_percent(None)
        time.sleep(PROBE_S)
        host = _host_load(times, psutil.cpu_percent(None))
        return (*(load for device in gpus.devices for load in _device_loads(Witness(device))), *host)
    finally:
        gpus.close()


def _device_loads(witness: Witness) -> list[Load]:
    index = witness.device.index
    witness.note_processes(root=-1)
    found = witness.evidence(ids_mean_something=True)
    share = found.utilisation_max_percent or 0.0
    named = [one for one in found.others if one.memory_bytes is not None]
    if share >= BUSY_PERCENT and not named:
        named = list(found.others) if len(found.others) == 1 else [OtherProcess(pid=0, name=None, memory_bytes=None)]
    return [Load(device=index, share_percent=share, name=one.name, pid=one.pid or None, memory_bytes=one.memory_bytes) for one in named]


def _cpu_times() -> dict[int, float]:
    """CPU seconds of every process but this one."""
    own = psutil.Process().pid
    times = {}
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            spent = process.cpu_times()
            times[process.pid] = spent.user + spent.system
    times.pop(own, None)
    return times


def _host_load(before: dict[int, float], percent: float) -> tuple[Load, ...]:
    if percent < BUSY_HOST_PERCENT:
        return ()
    after = _cpu_times()
    pid = max(after, key=lambda one: after[one] - before.get(one, after[one]), default=None)
    name = None
    if pid is not None:
        with suppress(psutil.Error):
            name = psutil.Process(pid).name()
    return (Load(device=None, share_percent=percent, name=name, pid=pid),)
