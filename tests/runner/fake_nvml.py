"""A stand-in for the module `pynvml` that replays a recording of an H200 and can be given other processes, limits and misfortunes."""

import csv
import types
from pathlib import Path

import pynvml

RECORDING = Path(__file__).parents[1] / "data/fake_nvml_h200.csv"


def recorded_rows():
    """The recording (2 Hz) as numbers, in NVML's units: percent, mW, MHz, degrees Celsius, bytes, PCIe generation, bits of reasons."""
    with RECORDING.open(encoding="utf-8") as file:
        rows = list(csv.reader(file, skipinitialspace=True))[1:]
    return [
        {
            "utilisation": int(row[1].split()[0]),
            "power": round(float(row[2].split()[0]) * 1000),
            "sm": int(row[3].split()[0]),
            "temperature": int(row[4]),
            "memory": int(row[5].split()[0]) << 20,
            "generation": int(row[6]),
            "reasons": int(row[7], 16),
        }
        for row in rows
    ]


class FakeNvml:
    """Every reading goes one row further in its own column, and stays at the last row.

    Attributes that tests set: `processes` (pid and bytes or None, listed on every device), `missing` (functions that the device doesn't support),
    `lost_after` (calls until the device is lost), `count` (devices), `init_error`.
    """

    def __init__(self, rows, **attributes):
        self.rows = rows
        self.processes = []
        self.missing = ()
        self.lost_after = None
        self.count = 1
        self.init_error = None
        self.calls = {}
        self.open = 0
        vars(self).update(attributes)
        for name, value in vars(pynvml).items():
            if name.startswith(("NVMLError", "NVML_")):
                setattr(self, name, value)

    def nvmlInit(self):
        if self.init_error:
            raise self.init_error
        self.open += 1

    def nvmlShutdown(self):
        self.open -= 1

    def nvmlDeviceGetHandleByIndex(self, index):
        if index >= self.count:
            raise pynvml.NVMLError_InvalidArgument
        return index

    def _row(self, function):
        assert self.open, "NVML is asked before nvmlInit or after nvmlShutdown"
        self.calls[function] = self.calls.get(function, 0) + 1
        if self.lost_after is not None and sum(self.calls.values()) > self.lost_after:
            raise pynvml.NVMLError_GpuIsLost
        if function in self.missing:
            raise pynvml.NVMLError_NotSupported
        return self.rows[min(self.calls[function], len(self.rows)) - 1]

    def nvmlDeviceGetUtilizationRates(self, handle):
        return types.SimpleNamespace(gpu=self._row("nvmlDeviceGetUtilizationRates")["utilisation"], memory=0)

    def nvmlDeviceGetMemoryInfo(self, handle):
        return types.SimpleNamespace(used=self._row("nvmlDeviceGetMemoryInfo")["memory"])

    def nvmlDeviceGetPowerUsage(self, handle):
        return self._row("nvmlDeviceGetPowerUsage")["power"]

    def nvmlDeviceGetClockInfo(self, handle, kind):
        return self._row("nvmlDeviceGetClockInfo.sm")["sm"] if kind == pynvml.NVML_CLOCK_SM else 3201

    def nvmlDeviceGetTemperature(self, handle, sensor):
        return self._row("nvmlDeviceGetTemperature")["temperature"]

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle):
        return self._row("nvmlDeviceGetCurrentClocksThrottleReasons")["reasons"]

    def nvmlDeviceGetTotalEnergyConsumption(self, handle):
        return self._row("nvmlDeviceGetTotalEnergyConsumption").get("energy", 0)

    def nvmlDeviceGetCurrPcieLinkGeneration(self, handle):
        return self._row("nvmlDeviceGetCurrPcieLinkGeneration")["generation"]

    def nvmlDeviceGetCurrPcieLinkWidth(self, handle):
        return self._row("nvmlDeviceGetCurrPcieLinkWidth").get("width", 16)

    def nvmlDeviceGetPcieThroughput(self, handle, counter):
        self._row("nvmlDeviceGetPcieThroughput")
        return 1000 if counter == pynvml.NVML_PCIE_UTIL_RX_BYTES else 500

    def nvmlDeviceGetComputeRunningProcesses_v2(self, handle):
        self._row("nvmlDeviceGetComputeRunningProcesses_v2")
        return [types.SimpleNamespace(pid=pid, usedGpuMemory=memory) for pid, memory in self.processes]

    def nvmlDeviceGetComputeRunningProcesses(self, handle):
        raise pynvml.NVMLError_FunctionNotFound  # as on drivers before R510
