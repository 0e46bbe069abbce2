"""What the GPU package of each release holds: `data/wheels.yaml`, which `scripts/read_wheels.py` reads out of the wheels themselves."""

from __future__ import annotations

import platform
import sys

import msgspec

from wrapper.shipped import DATA, read_table

WHEELS = DATA / "wheels.yaml"


class GpuCode(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a wheel's libraries hold for GPUs, by compute capabilities such as "8.9", lowest first."""

    wheel: str
    """The file that was read, which names its package and version."""
    code: tuple[str, ...]
    ptx: tuple[str, ...] = ()
    """What the driver compiles for newer GPUs, too."""

    @property
    def version(self) -> str:
        """Of the package, such as "9.3.0.75" (https://packaging.python.org/specifications/binary-distribution-format/#file-name-convention)."""
        return self.wheel.split("-")[1]


class Wheel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What was read of one release."""

    tensorflow: str
    read: str
    """The day, YYYY-MM-DD, UTC."""
    cuda: str
    """The CUDA version that it was built for, such as "12.5"."""
    cudnn: str
    """The major version of cuDNN that it loads."""
    own: GpuCode
    """TensorFlow's."""
    locked_cudnn: GpuCode | None = None
    """That of the cuDNN in the release's lock for the GPU; None where the lock holds none: it is the user's own."""
    systems: dict[str, tuple[str, ...]] = {}
    """By "cpu" and "gpu": the systems for which that package has wheels, as `this_system` names them."""

    def serves(self, package: str, system: str) -> bool:
        """Whether the package "cpu" or "gpu" can be installed on a system; what was not read is no reason against it."""
        return system in self.systems.get(package, (system,))


class WheelTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file."""

    wheels: tuple[Wheel, ...]


def this_system() -> str:
    """Such as "linux-x86_64", "windows-x86_64" or "macos-aarch64"."""
    machine = platform.machine().lower()
    name = {"win32": "windows", "darwin": "macos"}.get(sys.platform, sys.platform)
    return "-".join((name, {"amd64": "x86_64", "arm64": "aarch64"}.get(machine, machine)))


def load_wheels() -> dict[str, Wheel]:
    """What was read, by release."""
    return {wheel.tensorflow: wheel for wheel in read_table(WHEELS, WheelTable).wheels}
