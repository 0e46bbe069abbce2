"""What the readings of a trial say about its timed window, and what of that is worth a warning."""

from __future__ import annotations

import csv
import statistics
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path

import msgspec

from wrapper.bootstrapper.host import Gpu
from wrapper.runner.gpu_sampler import COLUMNS
from wrapper.runner.telemetry import HOST_COLUMNS, Sampled

THROTTLED_SHARE = 0.01
"""Share of the timed window from which a held-down clock is worth a warning."""
CLOCK_FALL = 0.97
"""A power cap alone is how a GPU is meant to run; it is worth a warning when the SM clock falls below this share of its peak."""

HARMFUL_REASONS = {
    "sw_power_cap": "SW power cap",
    "hw_slowdown": "HW slowdown",
    "sw_thermal_slowdown": "SW thermal slowdown",
    "hw_thermal_slowdown": "HW thermal slowdown",
    "hw_power_brake": "HW power brake",
}
"""Reasons that lower a figure, in NVIDIA's words. The others are idleness and clocks that somebody chose."""

Series = list[tuple[float, float]]
"""Seconds and value."""


class Spread(msgspec.Struct, frozen=True):
    """Of one column over the window."""

    median: float
    min: float
    max: float


class DeviceSummary(msgspec.Struct, frozen=True, kw_only=True):
    """One device over the window."""

    device: int
    readings: dict[str, Spread] = {}
    """By column name, which ends in the unit."""
    throttled: dict[str, float] = {}
    """Reason and the share (0 to 1) of the window's readings that give it; "none" left out."""
    throttled_sm_mhz: dict[str, float] = {}
    """Reason and the lowest SM clock while it held."""
    peak_sm_mhz: float | None = None
    """The highest SM clock of the whole trial."""
    energy_j: float | None = None
    """None where the readings don't cover the window or the device tells neither energy nor power."""
    energy_from: str | None = None
    """"counter" (the device's own) or "power" (readings of power, integrated)."""


class TelemetrySummary(msgspec.Struct, frozen=True, kw_only=True):
    """A trial's readings over its timed window."""

    start_s: float
    end_s: float
    """Since the child's start."""
    samples: int
    host: dict[str, Spread] = {}
    """By column name: CPU load of the host, memory in use, CPU share of the child (100 is one core)."""
    devices: tuple[DeviceSummary, ...] = ()

    @property
    def energy_j(self) -> float | None:
        """Of all devices together; None unless every one told."""
        energies = [device.energy_j for device in self.devices if device.energy_j is not None]
        return sum(energies) if energies and len(energies) == len(self.devices) else None


def summarise_window(path: Path, start_s: float, end_s: float) -> TelemetrySummary:
    """Summarise the readings between two times.

    Args:
        path: the sampler's CSV; a cut-off last line is passed over.
        start_s: seconds since the child's start, of the first step.
        end_s: the same of the total.

    Raises:
        OSError: the file can't be read.
    """
    columns = read_columns(path)
    times = [float(cell) for cell in columns.get("seconds", [])]
    devices = dict.fromkeys(name.partition("_")[0] for name in columns if name.startswith("gpu"))
    return TelemetrySummary(
        start_s=start_s,
        end_s=end_s,
        samples=sum(start_s <= at <= end_s for at in times),
        host=_spreads(times, {name: columns.get(name, []) for name in HOST_COLUMNS[1:]}, start_s, end_s),
        devices=tuple(
            _device(int(gpu.removeprefix("gpu")), times, {name: columns[f"{gpu}_{name}"] for name in COLUMNS}, start_s, end_s) for gpu in devices
        ),
    )


def read_columns(path: Path) -> dict[str, list[str]]:
    """The cells of the sampler's CSV by column, of whole rows alone. Raises OSError, UnicodeDecodeError or csv.Error where it can't be read."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = csv.reader(line for line in file if line.endswith("\n"))
        header = next(rows, [])
        whole = [row for row in rows if len(row) == len(header)]
    return {name: [row[at] for row in whole] for at, name in enumerate(header)}


def _device(index: int, times: Sequence[float], columns: dict[str, list[str]], start_s: float, end_s: float) -> DeviceSummary:
    reasons = columns["throttle"]
    inside = [at for at, time in enumerate(times) if start_s <= time <= end_s and reasons[at]]
    throttled: dict[str, list[int]] = {}
    for at in inside:
        for reason in reasons[at].split("+"):
            throttled.setdefault(reason, []).append(at)
    throttled.pop("none", None)
    clocks = columns["sm_mhz"]
    energy, source = _energy(_series(times, columns["energy_j"]), _series(times, columns["power_w"]), start_s, end_s)
    return DeviceSummary(
        device=index,
        readings=_spreads(times, {name: cells for name, cells in columns.items() if name not in ("throttle", "energy_j")}, start_s, end_s),
        throttled={reason: len(held) / len(inside) for reason, held in throttled.items()},
        throttled_sm_mhz={reason: min(seen) for reason, held in throttled.items() if (seen := [float(clocks[at]) for at in held if clocks[at]])},
        peak_sm_mhz=max((float(cell) for cell in clocks if cell), default=None),
        energy_j=energy,
        energy_from=source,
    )


def _series(times: Sequence[float], cells: Sequence[str]) -> Series:
    return [(at, float(cell)) for at, cell in zip(times, cells, strict=True) if cell]


def _spreads(times: Sequence[float], columns: dict[str, list[str]], start_s: float, end_s: float) -> dict[str, Spread]:
    spreads = {}
    for name, cells in columns.items():
        values = [value for at, value in _series(times, cells) if start_s <= at <= end_s]
        if values:
            spreads[name] = Spread(statistics.median(values), min(values), max(values))
    return spreads


def _energy(counter: Series, power: Series, start_s: float, end_s: float) -> tuple[float | None, str | None]:
    """Joules used in the window, by the device's counter where it has one, else as the integral of its power; and which of the two."""
    counted = _clip(counter, start_s, end_s)
    if counted and counted[-1][1] > counted[0][1]:  # some devices offer a counter that stays at zero
        return counted[-1][1] - counted[0][1], "counter"
    drawn = _clip(power, start_s, end_s)
    if drawn:
        return sum((later - at) * (watts + later_watts) / 2 for (at, watts), (later, later_watts) in pairwise(drawn)), "power"
    return None, None


def _clip(series: Series, start_s: float, end_s: float) -> Series:
    """The series from `start_s` to `end_s`, its ends interpolated; empty where the readings don't reach both ends."""
    if not series or series[0][0] > start_s or series[-1][0] < end_s:
        return []
    inside = [(at, value) for at, value in series if start_s < at < end_s]
    return [(start_s, _at(series, start_s)), *inside, (end_s, _at(series, end_s))]


def _at(series: Series, time: float) -> float:
    for (before, low), (after, high) in pairwise(series):
        if before <= time <= after:
            return low if after == before else low + (high - low) * (time - before) / (after - before)
    return series[-1][1]


def telemetry_warnings(summary: TelemetrySummary, gpus: Iterable[Gpu], sampled: Sampled) -> list[tuple[str, str]]:
    """What a reader of the figure should know, as (kind, detail); kinds: throttled, link_degraded, busy_device.

    Args:
        summary: of the timed window.
        gpus: facts of the machine's GPUs, for what their links could do.
        sampled: what the sampler left, for other processes on the devices.
    """
    facts = {gpu.index: gpu for gpu in gpus}
    warnings = [("throttled", detail) for device in summary.devices if (detail := _throttled(device))]
    warnings += [("link_degraded", detail) for device in summary.devices if (detail := _degraded(device, facts.get(device.device)))]
    for evidence in sampled.evidence:
        for other in evidence.others:
            if other.memory_bytes is not None:
                who = f"{other.name} (process {other.pid})" if other.name else "a process that this system does not know"
                warnings.append(("busy_device", f"GPU {evidence.device}: {who} held {other.memory_bytes / 2**20:.0f} MiB on it during the trial"))
    return warnings


def _throttled(device: DeviceSummary) -> str:
    parts = []
    for reason, words in HARMFUL_REASONS.items():
        share, peak, low = device.throttled.get(reason, 0.0), device.peak_sm_mhz, device.throttled_sm_mhz.get(reason)
        fell = peak is not None and low is not None and low < CLOCK_FALL * peak
        if share <= THROTTLED_SHARE or (reason == "sw_power_cap" and not fell):
            continue
        clock = f"SM clock fell from {peak:.0f} to {low:.0f} MHz, " if fell else ""
        parts.append(f"{clock}{words}, {share:.0%} of the timed window")
    if not parts:
        return ""
    temperature = device.readings.get("temperature_c")
    heat = f" (at most {temperature.max:.0f} °C)" if temperature else ""
    return f"GPU {device.device}: {'; '.join(parts)}{heat}"


def _degraded(device: DeviceSummary, gpu: Gpu | None) -> str:
    if gpu is None:
        return ""
    parts = []
    for column, best, words in (("pcie_width", gpu.pcie_width_max, "lanes"), ("pcie_generation", gpu.pcie_generation_max, "generation")):
        seen = device.readings.get(column)
        if seen and best and seen.max < best:
            parts.append(f"{words} {seen.max:.0f} of {best}")
    if not parts:
        return ""
    external = ", an external GPU (Thunderbolt or USB4)" if gpu.external else ""
    return f"GPU {device.device}: PCIe link under load: {', '.join(parts)}{external}"
