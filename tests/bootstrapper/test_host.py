"""The host's facts: real ones of this machine, and GPUs played by a stand-in for NVML."""

import os
import platform
import types

import msgspec
import pynvml
import pytest

from wrapper.bootstrapper.host import gpus_present, read_host


def nvml(**answers):
    """A driver with one laptop GPU: it has no power limit and no persistence mode."""

    def unsupported(*_):
        raise pynvml.NVMLError_NotSupported

    def link(value):
        return lambda handle: value

    module = types.SimpleNamespace(**{name: value for name, value in vars(pynvml).items() if name.startswith("NVMLError")})
    defaults = {
        "nvmlInit": lambda: None,
        "nvmlShutdown": lambda: None,
        "nvmlSystemGetDriverVersion": lambda: "535.54.03",
        "nvmlSystemGetCudaDriverVersion": lambda: 12020,
        "nvmlDeviceGetCount": lambda: 1,
        "nvmlDeviceGetHandleByIndex": lambda index: index,
        "nvmlDeviceGetName": lambda handle: "NVIDIA GeForce RTX 3080 Laptop GPU",
        "nvmlDeviceGetMemoryInfo": lambda handle: types.SimpleNamespace(total=16 << 30, used=0, free=16 << 30),
        "nvmlDeviceGetPciInfo": lambda handle: types.SimpleNamespace(domain=0, bus=0x0A, device=0, busId="00000000:0A:00.0"),
        "nvmlDeviceGetCudaComputeCapability": lambda handle: (8, 6),
        "nvmlDeviceGetCurrPcieLinkGeneration": link(1),
        "nvmlDeviceGetCurrPcieLinkWidth": link(4),
        "nvmlDeviceGetMaxPcieLinkGeneration": link(3),
        "nvmlDeviceGetMaxPcieLinkWidth": link(16),
        "nvmlDeviceGetEnforcedPowerLimit": unsupported,
        "nvmlDeviceGetPersistenceMode": unsupported,
    }
    for name, answer in (defaults | answers).items():
        setattr(module, name, answer)
    return module


def raising(error):
    def call(*_):
        raise error

    return call


def test_this_machine_is_described(tmp_path):
    host = read_host(tmp_path)
    assert host.cpu
    assert host.cores_logical >= 1
    assert host.memory_bytes > 1 << 28
    assert host.os
    assert msgspec.json.decode(msgspec.json.encode(host), type=type(host)) == host


def test_nothing_that_names_the_owner_is_in_it(tmp_path):
    host = msgspec.to_builtins(read_host(tmp_path, nvml=nvml(nvmlDeviceGetUUID=lambda handle: "GPU-1", nvmlDeviceGetSerial=lambda handle: "1")))
    (gpu,) = host["gpus"]
    assert not {"uuid", "serial", "host_name", "hostname", "user"} & (set(host) | set(gpu))
    assert platform.node() not in [*host.values(), *gpu.values()]


def test_facts_of_a_gpu_and_what_it_does_not_tell():
    (gpu,) = gpus_present(nvml=nvml())
    assert gpu.name == "NVIDIA GeForce RTX 3080 Laptop GPU"
    assert gpu.driver == "535.54.03"
    assert gpu.memory_bytes == 16 << 30
    assert (gpu.pcie_generation, gpu.pcie_width, gpu.pcie_generation_max, gpu.pcie_width_max) == (1, 4, 3, 16)
    assert gpu.pci_bus_id == "0000:0a:00.0"
    assert gpu.compute_capability == "8.6"
    assert gpu.power_limit_w is None
    assert gpu.persistence is None


@pytest.mark.parametrize(("version", "text"), [(10010, "10.1"), (12020, "12.2"), (13000, "13.0")])
def test_cuda_version_of_the_driver(tmp_path, version, text):
    assert read_host(tmp_path, nvml=nvml(nvmlSystemGetCudaDriverVersion=lambda: version)).cuda_driver == text


def test_no_driver_is_no_error(tmp_path):
    host = read_host(tmp_path, nvml=nvml(nvmlInit=raising(pynvml.NVMLError_LibraryNotFound())))
    assert (host.gpus, host.cuda_driver, host.gpu_error) == ((), None, None)


@pytest.mark.parametrize("error", [pynvml.NVMLError_LibRmVersionMismatch(), pynvml.NVMLError_DriverNotLoaded()])
def test_a_broken_driver_is_said(tmp_path, error):
    host = read_host(tmp_path, nvml=nvml(nvmlInit=raising(error)))
    assert host.gpus == ()
    assert str(error) in host.gpu_error


def test_one_lost_gpu_does_not_hide_the_other(tmp_path):
    def handle(index):
        if index == 0:
            raise pynvml.NVMLError_GpuIsLost
        return index

    host = read_host(tmp_path, nvml=nvml(nvmlDeviceGetCount=lambda: 2, nvmlDeviceGetHandleByIndex=handle))
    assert [gpu.index for gpu in host.gpus] == [1]
    assert "GPU 0" in host.gpu_error
    assert "lost" in host.gpu_error


@pytest.mark.parametrize(("attribute", "external"), [("removable\n", True), ("fixed\n", False), ("unknown\n", None), (None, None)])
def test_external_gpu_from_the_kernels_attribute(tmp_path, attribute, external):
    device = tmp_path / "bus/pci/devices/0000:0a:00.0"
    device.mkdir(parents=True)
    if attribute is not None:
        (device / "removable").write_text(attribute)
    (gpu,) = gpus_present(nvml=nvml(), sysfs=tmp_path)
    assert gpu.external is external


@pytest.fixture
def sysfs(tmp_path):
    """A sysfs tree in which the disk of tmp_path is a partition of an NVMe drive under LUKS."""
    device = tmp_path.stat().st_dev
    disk = tmp_path / "sys/devices/nvme0n1"
    partition = disk / "nvme0n1p3"
    (disk / "device").mkdir(parents=True)
    (disk / "device/model").write_text("Samsung SSD 970 EVO Plus 1TB            \n")
    partition.mkdir()
    (partition / "partition").write_text("3\n")
    mapped = tmp_path / "sys/devices/dm-0"
    (mapped / "slaves").mkdir(parents=True)
    (mapped / "slaves/nvme0n1p3").symlink_to(partition)
    (tmp_path / "sys/dev/block").mkdir(parents=True)
    (tmp_path / f"sys/dev/block/{os.major(device)}:{os.minor(device)}").symlink_to(mapped)
    return tmp_path / "sys"


@pytest.mark.skipif("sys.platform != 'linux'", reason="sysfs is Linux's")
def test_disk_model_is_found_under_a_partition_and_a_mapped_device(tmp_path, sysfs):
    assert read_host(tmp_path / "not/yet/made", sysfs=sysfs).disk == "Samsung SSD 970 EVO Plus 1TB"


class AmdError(Exception):
    pass


def amdsmi(**answers):
    defaults = {
        "AmdSmiException": AmdError,
        "AmdSmiMemoryType": types.SimpleNamespace(VRAM=0),
        "amdsmi_init": lambda: None,
        "amdsmi_shut_down": lambda: None,
        "amdsmi_get_processor_handles": lambda: ["handle"],
        "amdsmi_get_gpu_asic_info": lambda handle: {"market_name": "AMD Instinct MI210"},
        "amdsmi_get_gpu_driver_info": lambda handle: {"driver_version": "6.3.6"},
        "amdsmi_get_gpu_memory_total": lambda handle, kind: 64 << 30,
        "amdsmi_get_gpu_device_bdf": lambda handle: "0000:43:00.0",
    }
    return types.SimpleNamespace(**(defaults | answers))


def test_amd_gpus_follow_the_nvidia_ones(tmp_path):
    host = read_host(tmp_path, nvml=nvml(), amdsmi=amdsmi())
    assert [(gpu.index, gpu.vendor) for gpu in host.gpus] == [(0, "NVIDIA"), (1, "AMD")]
    assert host.gpus[1].name == "AMD Instinct MI210"
    assert host.gpus[1].memory_bytes == 64 << 30


def test_a_broken_amd_driver_is_said(tmp_path):
    broken = amdsmi(amdsmi_init=raising(AmdError("no amdgpu")))
    host = read_host(tmp_path, nvml=nvml(nvmlDeviceGetCount=lambda: 0), amdsmi=broken)
    assert host.gpus == ()
    assert "no amdgpu" in host.gpu_error
