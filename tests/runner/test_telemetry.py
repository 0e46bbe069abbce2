"""The sampler on a real busy child, and on devices that a stand-in for NVML plays."""

import csv
import os
import subprocess
import sys
import time
from itertools import pairwise

import psutil
import pynvml
import pytest
from fake_nvml import FakeNvml, recorded_rows

from wrapper.bootstrapper.host import Gpu
from wrapper.runner.gpu_sampler import Gpus, Witness, throttle_names
from wrapper.runner.load import other_load
from wrapper.runner.telemetry import CPU_SHARE, HOST_COLUMNS, Sampled, sampling
from wrapper.runner.telemetry_summary import DeviceSummary, TelemetrySummary, summarise_window, telemetry_warnings

BUSY = "import time\nend = time.monotonic() + {}\nwhile time.monotonic() < end: pass"
GIB = 1 << 30
IDLE = {"utilisation": 0, "power": 80_000, "sm": 345, "temperature": 36, "memory": 0, "generation": 5, "reasons": 1}
WORKING = {"utilisation": 97, "power": 600_000, "sm": 1980, "temperature": 60, "memory": 40 * GIB, "generation": 5, "reasons": 0}


def start(code):
    return subprocess.Popen([sys.executable, "-c", code])


def sample(path, nvml=None, devices=(), code="import time; time.sleep(0.7)", listed_memory=None):
    """Sample a child to its end; with `listed_memory`, NVML lists it with that much."""
    with sampling(path, devices, nvml=nvml) as sampler:
        started = time.monotonic()
        child = start(code)
        if listed_memory is not None:
            nvml.processes = [*nvml.processes, (child.pid, listed_memory)]
        sampler.start(child.pid, started)
        child.wait()
        return sampler.stop()


def rows(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_host_part_of_a_busy_child(tmp_path):
    """The CPU time that the readings add up to is what the child itself counted, but for the ends (a busy machine gives it less than one core)."""
    path, own_count = tmp_path / "trial.telemetry.csv", tmp_path / "cpu"
    code = f"{BUSY.format(2.2)}\nfrom pathlib import Path\nPath({str(own_count)!r}).write_text(str(time.process_time()))"
    sampled = sample(path, code=code)
    read = rows(path)
    assert tuple(read[0]) == HOST_COLUMNS
    assert len(read) == sampled.readings
    assert 4 <= len(read) <= 2.2 * 5 + 4
    times = [float(row["seconds"]) for row in read]
    assert all(before < after for before, after in pairwise(times))
    used = sum(float(row["child_cpu_percent"] or 0) / 100 * (at - before) for row, (before, at) in zip(read[1:], pairwise(times), strict=True))
    total = float(own_count.read_text())
    assert total - 0.8 < used < total + 0.1
    assert used > 0.2
    assert sampled.notes == ()


def test_host_readings_are_summarised(tmp_path):
    path = tmp_path / "trial.telemetry.csv"
    sample(path, code=BUSY.format(1.2))
    summary = summarise_window(path, 0.1, 1.1)
    assert set(summary.host) == set(HOST_COLUMNS[1:])
    assert summary.host["cpu_percent"].max > 0
    assert 0 < summary.host["memory_used_bytes"].min <= psutil.virtual_memory().total
    assert summary.devices == ()


def test_descendants_count_for_the_child(tmp_path):
    path = tmp_path / "trial.telemetry.csv"
    sleeper = f"import subprocess, sys, time\nbusy = subprocess.Popen([sys.executable, '-c', {BUSY.format(7)!r}])\ntime.sleep(6.5)\nbusy.kill()"
    sample(path, code=sleeper)
    assert summarise_window(path, 5.5, 6.5).host["child_cpu_percent"].max > 10


def test_the_sampler_costs_under_one_percent_of_a_core(tmp_path):
    nvml = FakeNvml([IDLE, IDLE, *[WORKING] * 100])
    sampled = sample(tmp_path / "t.csv", nvml, devices=[0], code="import time; time.sleep(4)")
    assert sampled.cpu_seconds / sampled.seconds < 0.01
    assert sampled.readings >= 15


def test_a_slow_driver_is_read_less_often(tmp_path):
    class Slow(FakeNvml):
        def nvmlDeviceGetPowerUsage(self, handle):
            end = time.thread_time() + 0.02
            while time.thread_time() < end:
                pass
            return super().nvmlDeviceGetPowerUsage(handle)

    sampled = sample(tmp_path / "t.csv", Slow([IDLE, WORKING]), devices=[0], code="import time; time.sleep(4)")
    assert sampled.readings >= 2
    assert sampled.cpu_seconds < 4 * CPU_SHARE + 3 * 0.022 + 0.02


def test_gpu_columns_hold_what_the_device_said(tmp_path):
    path = tmp_path / "t.csv"
    nvml = FakeNvml([WORKING | {"reasons": 0x44}])
    sample(path, nvml, devices=[0])
    first = rows(path)[0]
    assert first["gpu0_utilisation_percent"] == "97"
    assert first["gpu0_memory_bytes"] == str(40 * GIB)
    assert float(first["gpu0_power_w"]) == 600
    assert (first["gpu0_sm_mhz"], first["gpu0_memory_mhz"], first["gpu0_temperature_c"]) == ("1980", "3201", "60")
    assert first["gpu0_throttle"] == "sw_power_cap+hw_thermal_slowdown"
    assert [first[f"gpu0_pcie_{name}"] for name in ("generation", "width", "rx_kb_per_s", "tx_kb_per_s")] == ["5", "16", "1000", "500"]
    assert nvml.open == 0


def test_calls_that_block_are_made_seldom(tmp_path):
    nvml = FakeNvml([IDLE, WORKING])
    sample(tmp_path / "t.csv", nvml, devices=[0], code="import time; time.sleep(2)")
    assert nvml.calls["nvmlDeviceGetPcieThroughput"] == 2
    assert nvml.calls["nvmlDeviceGetPowerUsage"] > 6


def test_what_a_device_does_not_offer_is_left_empty_and_not_asked_again(tmp_path):
    missing = ("nvmlDeviceGetPowerUsage", "nvmlDeviceGetTotalEnergyConsumption", "nvmlDeviceGetCurrentClocksThrottleReasons")
    nvml = FakeNvml([IDLE, WORKING], missing=missing)
    path = tmp_path / "t.csv"
    sampled = sample(path, nvml, devices=[0])
    assert {nvml.calls[name] for name in missing} == {1}
    assert all(row["gpu0_power_w"] == row["gpu0_energy_j"] == row["gpu0_throttle"] == "" for row in rows(path))
    assert sampled.notes == ()
    (device,) = summarise_window(path, 0.2, 0.6).devices
    assert device.energy_j is None
    assert device.throttled == {}


def test_a_lost_device_is_noted_and_the_host_part_goes_on(tmp_path):
    path = tmp_path / "t.csv"
    sampled = sample(path, FakeNvml([IDLE, WORKING], lost_after=40), devices=[0], code="import time; time.sleep(2)")
    assert len(sampled.notes) == 1
    assert "GPU 0 was lost" in sampled.notes[0]
    assert rows(path)[0]["gpu0_sm_mhz"]
    last = rows(path)[-1]
    assert last["gpu0_sm_mhz"] == ""
    assert float(last["memory_used_bytes"]) > 0


@pytest.mark.parametrize("error", [pynvml.NVMLError_LibraryNotFound(), pynvml.NVMLError_LibRmVersionMismatch()])
def test_without_nvml_the_host_part_is_sampled(tmp_path, error):
    path = tmp_path / "t.csv"
    sampled = sample(path, FakeNvml([IDLE], init_error=error), devices=[0])
    assert str(error) in sampled.notes[0]
    assert tuple(rows(path)[0]) == HOST_COLUMNS
    assert sampled.seen_on == ()


def test_a_missing_device_does_not_hide_the_others(tmp_path):
    sampled = sample(tmp_path / "t.csv", FakeNvml([IDLE, WORKING]), devices=[3, 0])
    assert "GPU 3" in sampled.notes[0]
    assert [one.device for one in sampled.evidence] == [0]


@pytest.mark.parametrize("place", ["missing/t.csv", "/dev/full"])
def test_a_file_that_cannot_be_written_costs_the_readings_but_not_the_proof(tmp_path, place):
    path = tmp_path / place
    if place == "/dev/full" and not path.exists():
        pytest.skip("this system has no file that plays a full disk")
    sampled = sample(path, FakeNvml([IDLE, WORKING]), devices=[0], code="import time; time.sleep(1.5)", listed_memory=GIB)
    assert len(sampled.notes) == 1
    assert "not all readings are on disk" in sampled.notes[0]
    assert sampled.seen_on == (0,)
    assert sampled.readings > 3


def test_a_child_that_has_ended_already_is_no_error(tmp_path):
    child = start("pass")
    child.wait()
    with sampling(tmp_path / "t.csv", []) as sampler:
        sampler.start(child.pid, time.monotonic())
        sampled = sampler.stop()
    assert sampled.notes == ()
    assert rows(tmp_path / "t.csv")[0]["child_cpu_percent"] == ""


def test_the_work_of_a_container_is_found_where_it_is_done(tmp_path):
    """The child is an engine's program there, and what works on the device descends from another process, which is known only after a while."""
    answers, child, worker = iter([None, None]), start("import time; time.sleep(4)"), start(BUSY.format(4))
    nvml = FakeNvml([IDLE, WORKING], processes=[])
    with sampling(tmp_path / "t.csv", [0], nvml=nvml) as sampler:
        nvml.processes = [(worker.pid, GIB)]
        sampler.start(child.pid, time.monotonic(), lambda: next(answers, worker.pid))
        child.wait()
        worker.wait()
        (evidence,) = sampler.stop().evidence
    assert (evidence.present, evidence.witness, evidence.process_memory_bytes, evidence.others) == (True, "process", GIB, ())
    assert max(float(row["child_cpu_percent"] or 0) for row in rows(tmp_path / "t.csv")) > 20


def test_a_container_that_is_never_found_is_judged_by_memory(tmp_path):
    nvml = FakeNvml([IDLE, WORKING], processes=[(4242, GIB)])
    child = start("import time; time.sleep(1.5)")
    with sampling(tmp_path / "t.csv", [0], nvml=nvml) as sampler:
        sampler.start(child.pid, time.monotonic(), lambda: None)
        child.wait()
        (evidence,) = sampler.stop().evidence
    assert (evidence.present, evidence.witness, evidence.others) == (True, "memory", ())


def test_leaving_without_a_start_leaves_nothing(tmp_path):
    nvml = FakeNvml([IDLE])
    with sampling(tmp_path / "t.csv", [0], nvml=nvml):
        pass
    assert not (tmp_path / "t.csv").exists()
    assert nvml.open == 0


# Proof of the device


def test_the_childs_process_on_the_device_is_proof(tmp_path):
    sampled = sample(tmp_path / "t.csv", FakeNvml([IDLE, WORKING]), devices=[0], listed_memory=39 * GIB)
    (evidence,) = sampled.evidence
    assert sampled.seen_on == (0,)
    assert (evidence.present, evidence.worked, evidence.witness) == (True, True, "process")
    assert evidence.process_memory_bytes == 39 * GIB
    assert evidence.memory_rise_bytes == 40 * GIB
    assert evidence.others == ()


def test_memory_without_work_is_no_proof(tmp_path):
    """TensorFlow takes the whole memory of a device that it then leaves idle, with the model on the CPU."""
    sampled = sample(tmp_path / "t.csv", FakeNvml([IDLE, WORKING | {"utilisation": 0}]), devices=[0], listed_memory=39 * GIB)
    (evidence,) = sampled.evidence
    assert (evidence.present, evidence.worked) == (True, False)
    assert sampled.seen_on == ()


def test_a_device_that_tells_no_utilisation_needs_no_more_than_presence(tmp_path):
    nvml = FakeNvml([IDLE, WORKING], missing=("nvmlDeviceGetUtilizationRates",))
    sampled = sample(tmp_path / "t.csv", nvml, devices=[0], listed_memory=GIB)
    assert sampled.evidence[0].worked is None
    assert sampled.seen_on == (0,)


@pytest.fixture
def outsider():
    """A process of this system that is no child of any trial's child."""
    process = start("import time; time.sleep(60)")
    yield process
    process.kill()
    process.wait()


def test_somebody_elses_process_is_no_proof_and_is_named(tmp_path, outsider):
    nvml = FakeNvml([IDLE, WORKING], processes=[(outsider.pid, 39 * GIB)])
    sampled = sample(tmp_path / "t.csv", nvml, devices=[0])
    assert sampled.evidence[0].present
    (other,) = sampled.evidence[0].others
    assert (other.pid, other.memory_bytes) == (outsider.pid, 39 * GIB)
    assert other.name == psutil.Process(outsider.pid).name()


def test_somebody_who_comes_later_is_no_proof(tmp_path, outsider):
    nvml = FakeNvml([IDLE])
    (device,) = Gpus([0], nvml).devices
    witness = Witness(device)
    nvml.rows = [WORKING]
    nvml.processes = [(outsider.pid, 39 * GIB)]
    witness.note_reading(device.read(("memory_bytes", "utilisation_percent")))
    witness.note_processes(root=os.getpid() + 1_000_000)
    evidence = witness.evidence(ids_mean_something=False)
    assert not evidence.present
    assert [other.pid for other in evidence.others] == [outsider.pid]


UNKNOWN_PID = 2**22 + 7
"""Above the highest process id of Linux (2**22)."""


@pytest.mark.parametrize("listed", [[], [(UNKNOWN_PID, 39 * GIB)]], ids=["no process listed", "process ids of the host"])
def test_in_a_container_memory_and_work_above_idle_are_the_witness(tmp_path, listed):
    sampled = sample(tmp_path / "t.csv", FakeNvml([IDLE, WORKING], processes=listed), devices=[0])
    (evidence,) = sampled.evidence
    assert (evidence.witness, evidence.worked, evidence.others) == ("memory", True, ())
    assert sampled.seen_on == (0,)


def test_memory_is_no_witness_where_the_child_is_listed_on_another_device(tmp_path):
    class Two(FakeNvml):
        def nvmlDeviceGetComputeRunningProcesses_v2(self, handle):
            return super().nvmlDeviceGetComputeRunningProcesses_v2(handle) if handle == 0 else []

    sampled = sample(tmp_path / "t.csv", Two([IDLE, IDLE, WORKING], count=2), devices=[0, 1], listed_memory=GIB)
    assert sampled.seen_on == (0,)
    assert sampled.evidence[1].memory_rise_bytes > GIB


def test_a_small_rise_of_memory_is_no_witness(tmp_path):
    sampled = sample(tmp_path / "t.csv", FakeNvml([IDLE, WORKING | {"memory": 20 << 20}]), devices=[0])
    assert sampled.evidence[0].witness == "none"


def test_level_utilisation_of_somebody_else_proves_nothing_either_way(tmp_path, outsider):
    nvml = FakeNvml([WORKING], processes=[(outsider.pid, GIB)])
    sampled = sample(tmp_path / "t.csv", nvml, devices=[0], listed_memory=GIB)
    assert sampled.evidence[0].worked is None


# The timed window


def write_csv(path, times, **columns):
    """A sampler's file of GPU 0 with these columns, the others empty."""
    names = ["utilisation_percent", "memory_bytes", "power_w", "sm_mhz", "memory_mhz", "temperature_c", "throttle", "energy_j"]
    names += ["pcie_generation", "pcie_width", "pcie_rx_kb_per_s", "pcie_tx_kb_per_s"]
    lines = [",".join([*HOST_COLUMNS, *(f"gpu0_{name}" for name in names)])]
    for at, seconds in enumerate(times):
        cells = [str(columns[name][at]) if name in columns else "" for name in names]
        lines.append(",".join([str(seconds), "50.0", "1000", "100.0", *cells]))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def recorded_csv(path):
    recorded = recorded_rows()
    columns = {
        "utilisation_percent": "utilisation",
        "sm_mhz": "sm",
        "temperature_c": "temperature",
        "memory_bytes": "memory",
        "pcie_generation": "generation",
    }
    cells = {column: [row[name] for row in recorded] for column, name in columns.items()}
    cells["power_w"] = [row["power"] / 1000 for row in recorded]
    cells["throttle"] = [throttle_names(row["reasons"]) for row in recorded]
    return write_csv(path, [at / 2 for at in range(len(recorded))], **cells), recorded


def test_summary_of_a_real_recording(tmp_path):
    path, recorded = recorded_csv(tmp_path / "t.csv")
    window = recorded[30:51]  # from 15 s to 25 s
    summary = summarise_window(path, 15, 25)
    (device,) = summary.devices
    assert summary.samples == len(window)
    powers = [row["power"] / 1000 for row in window]
    assert device.readings["power_w"].max == max(powers)
    assert device.readings["power_w"].median == sorted(powers)[10]
    assert device.readings["temperature_c"].min == min(row["temperature"] for row in window)
    assert device.energy_from == "power"
    assert device.energy_j == pytest.approx(sum((a + b) / 2 * 0.5 for a, b in pairwise(powers)))
    assert device.throttled.get("sw_power_cap", 0) == pytest.approx(sum(row["reasons"] == 4 for row in window) / len(window))


def test_the_power_cap_of_a_real_recording_is_warned_with_the_fall_of_the_clock(tmp_path):
    path, recorded = recorded_csv(tmp_path / "t.csv")
    ((kind, detail),) = telemetry_warnings(summarise_window(path, 0, len(recorded) / 2), [], Sampled())
    assert kind == "throttled"
    assert detail == "GPU 0: SM clock fell from 1980 to 1860 MHz, SW power cap, 3% of the timed window (at most 54 °C)"


def test_energy_by_the_counter_between_readings(tmp_path):
    path = write_csv(tmp_path / "t.csv", [0, 1, 2, 3], energy_j=[1000, 1100, 1300, 1600], power_w=[1, 1, 1, 1])
    summary = summarise_window(path, 0.5, 2.5)
    assert summary.devices[0].energy_j == pytest.approx(1450 - 1050)
    assert summary.devices[0].energy_from == "counter"
    assert summary.energy_j == summary.devices[0].energy_j


@pytest.mark.parametrize("counter", [[0, 0, 0, 0], [900, 1000, 3, 100]], ids=["stands still", "was reset"])
def test_a_counter_that_cannot_be_right_gives_way_to_power(tmp_path, counter):
    path = write_csv(tmp_path / "t.csv", [0, 1, 2, 3], energy_j=counter, power_w=[100, 100, 300, 300])
    (device,) = summarise_window(path, 0.5, 2.5).devices
    assert device.energy_j == pytest.approx(0.5 * 100 + 200 + 0.5 * 300)
    assert device.energy_from == "power"


@pytest.mark.parametrize("window", [(-1, 2), (1, 9), (5, 6)])
def test_no_energy_where_the_readings_do_not_cover_the_window(tmp_path, window):
    path = write_csv(tmp_path / "t.csv", [0, 1, 2, 3], power_w=[100] * 4)
    assert summarise_window(path, *window).devices[0].energy_j is None


@pytest.mark.parametrize("keep", [0, 10, -1, -3, -20])
def test_a_file_cut_off_anywhere_is_read_as_far_as_it_goes(tmp_path, keep):
    whole = write_csv(tmp_path / "t.csv", [0, 1, 2], power_w=[100, 101, 102]).read_text(encoding="utf-8")
    cut = tmp_path / "cut.csv"
    cut.write_text(whole[:keep], encoding="utf-8")
    summary = summarise_window(cut, 0, 2)
    assert summary.samples == (2 if keep < 0 else 0)


def test_a_window_without_readings_is_empty(tmp_path):
    summary = summarise_window(write_csv(tmp_path / "t.csv", [0, 1]), 0.1, 0.2)
    assert (summary.samples, summary.host, summary.devices[0].readings) == (0, {}, {})


# Warnings


def test_throttling_is_told_with_its_numbers(tmp_path):
    times = [at / 5 for at in range(100)]
    capped = [at >= 57 for at in range(100)]
    path = write_csv(
        tmp_path / "t.csv",
        times,
        sm_mhz=[1410 if low else 1980 for low in capped],
        throttle=["sw_power_cap" if low else "none" for low in capped],
        temperature_c=[83] * 100,
    )
    ((kind, detail),) = telemetry_warnings(summarise_window(path, 0, 20), [], Sampled())
    assert kind == "throttled"
    assert detail == "GPU 0: SM clock fell from 1980 to 1410 MHz, SW power cap, 43% of the timed window (at most 83 °C)"


def device(**values):
    return TelemetrySummary(start_s=0, end_s=1, samples=5, devices=(DeviceSummary(device=0, **values),))


@pytest.mark.parametrize(
    ("reason", "share", "warned"),
    [
        ("hw_thermal_slowdown", 0.02, True),
        ("sw_thermal_slowdown", 0.02, True),
        ("hw_power_brake", 0.02, True),
        ("hw_slowdown", 0.02, True),
        ("hw_slowdown", 0.01, False),
        ("sw_power_cap", 0.9, False),
        ("gpu_idle", 0.9, False),
        ("application_clocks", 1.0, False),
    ],
)
def test_which_reasons_are_warned(reason, share, warned):
    summary = device(throttled={reason: share}, throttled_sm_mhz={reason: 1980.0}, peak_sm_mhz=1980.0)
    assert bool(telemetry_warnings(summary, [], Sampled())) is warned


def gpu(**values):
    return Gpu(index=0, name="GPU", pcie_generation_max=4, pcie_width_max=16, **values)


@pytest.mark.parametrize(
    ("generation", "width", "said"),
    [(4, 16, None), (4, 8, "lanes 8 of 16"), (1, 16, "generation 1 of 4"), (3, 4, "lanes 4 of 16, generation 3 of 4")],
)
def test_a_link_below_its_best_under_load(tmp_path, generation, width, said):
    path = write_csv(tmp_path / "t.csv", [0, 1], pcie_generation=[1, generation], pcie_width=[width, width])
    warnings = telemetry_warnings(summarise_window(path, 0, 1), [gpu()], Sampled())
    assert [detail for _, detail in warnings] == ([f"GPU 0: PCIe link under load: {said}"] if said else [])


def test_an_external_gpu_is_named(tmp_path):
    path = write_csv(tmp_path / "t.csv", [0, 1], pcie_width=[4, 4])
    ((kind, detail),) = telemetry_warnings(summarise_window(path, 0, 1), [gpu(external=True)], Sampled())
    assert kind == "link_degraded"
    assert "external GPU" in detail


def test_another_process_on_the_device_is_warned_with_name_and_memory(tmp_path, outsider):
    sampled = sample(tmp_path / "t.csv", FakeNvml([IDLE, WORKING], processes=[(outsider.pid, 3 * GIB)]), devices=[0], listed_memory=GIB)
    ((kind, detail),) = telemetry_warnings(device(), [], sampled)
    assert kind == "busy_device"
    assert str(outsider.pid) in detail
    assert "3072 MiB" in detail


# Others at the start


def test_another_process_on_the_device_before_the_start(outsider):
    loads = other_load([0], nvml=FakeNvml([WORKING], processes=[(outsider.pid, 3 * GIB)]))
    (load,) = [one for one in loads if one.device == 0]
    assert (load.pid, load.share_percent, load.memory_bytes, load.computing) == (outsider.pid, 97, 3 * GIB, True)


def test_a_process_that_only_holds_memory_is_not_computing(outsider):
    loads = other_load([0], nvml=FakeNvml([IDLE], processes=[(outsider.pid, GIB)]))
    assert [one.computing for one in loads if one.device == 0] == [False]


def test_windows_desktop_programs_are_no_load(outsider):
    """The display driver model of Windows lists them among the compute processes, without their memory."""
    loads = other_load([0], nvml=FakeNvml([IDLE], processes=[(outsider.pid, None)]))
    assert [one for one in loads if one.device == 0] == []


def test_a_busy_device_whose_user_cannot_be_told():
    (load,) = [one for one in other_load([0], nvml=FakeNvml([WORKING])) if one.device == 0]
    assert (load.name, load.pid, load.computing) == (None, None, True)


def test_load_of_the_host_is_named():
    busy = [start(BUSY.format(30)) for _ in range(max(1, os.cpu_count() // 2))]
    try:
        (load,) = other_load([])
        assert load.device is None
        assert load.share_percent >= 10
        assert load.computing
        assert load.name
    finally:
        for child in busy:
            child.kill()
            child.wait()
