"""The interpreter that runs upstream: a locked one that we make, or one that the user names. uv is used here and nowhere else."""

from __future__ import annotations

import msgspec


class SeenDevice(msgspec.Struct, frozen=True, kw_only=True):
    """A device as TensorFlow itself lists it."""

    kind: str
    """"CPU" or "GPU"."""
    name: str
    """TensorFlow's name, such as "/device:GPU:0"."""
    description: str = ""
    """TensorFlow's own words: "device: 0, name: NVIDIA H200, pci bus id: ..., compute capability: 9.0"."""
    memory_bytes: int = 0


class Environment(msgspec.Struct, frozen=True, kw_only=True):
    """An interpreter with TensorFlow in it, checked by importing it."""

    kind: str
    """"locked" (made by us), "given" (named by the user) or "demo"."""
    path: str
    """The environment's directory (sys.prefix), absolute."""
    python: str
    """The interpreter, absolute."""
    python_version: str
    tensorflow: str
    """As TensorFlow says it."""
    packages: dict[str, str] = {}
    """Installed distributions and their versions."""
    devices: tuple[SeenDevice, ...] = ()
    variables: dict[str, str] = {}
    """Environment variables that a trial in it needs."""
    cuda_built: str | None = None
    """The CUDA version that TensorFlow was built for, where it says so; None for a CPU build."""
    diagnosis: tuple[str, ...] = ()
    """What TensorFlow said on standard error about devices that it could not use, e.g. a missing library."""
