"""Whether a release's GPU package fits a GPU and its driver. Pure."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

from packaging.version import Version

from wrapper.bootstrapper.host import Gpu
from wrapper.bootstrapper.release import Release
from wrapper.bootstrapper.wheels import GpuCode


def serves_cuda(served: str, needed: str) -> bool:
    """Whether a driver that serves CUDA up to `served` runs what was built for CUDA `needed`, both such as "12.4".

    A driver runs what is older; from CUDA 11 on also what is of a later minor version of its own major version, but for PTX
    (https://docs.nvidia.com/deploy/cuda-compatibility/, "minor version compatibility").
    """
    driver, build = Version(served), Version(needed)
    return driver >= build or driver.major == build.major >= 11


def is_compiled_at_start(release: Release, gpu: Gpu) -> bool:
    """Whether TensorFlow or its cuDNN is known to hold no code for this GPU, but PTX, which the driver compiles at the first start."""
    capability = gpu.compute_capability
    return bool(capability and any(not has_code(held, capability) and _has_ptx(held, capability) for _, held in _parts(release)))


def unfit(release: Release, gpu: Gpu, cuda_served: str | None, platform: str = sys.platform) -> str | None:
    """Why the release's GPU package can't work on this GPU, or None; what is not known is no reason.

    Args:
        cuda_served: the newest CUDA version that the driver serves.
        platform: as `sys.platform` names it.

    A GPU runs code of its own major version and an equal or lower minor one, and compiles PTX that is not newer than itself
    (https://docs.nvidia.com/cuda/cuda-c-programming-guide/, "binary compatibility" and "PTX compatibility"). TensorFlow uses GPUs on Windows itself
    up to 2.10 (https://www.tensorflow.org/install/pip).
    """
    if platform == "win32" and release.minor > (2, 10):
        return f"TensorFlow {release.tensorflow} uses no GPU on Windows itself (2.10 is the last that does; in WSL 2 all do)"
    if release.wheel is None:
        return None
    cuda = release.wheel.cuda
    if cuda_served and not serves_cuda(cuda_served, cuda):
        return f"TensorFlow {release.tensorflow} is built for CUDA {cuda}, and the driver serves CUDA {cuda_served} at most"
    capability = gpu.compute_capability
    for name, held in _parts(release) if capability else ():
        if has_code(held, capability or ""):
            continue
        what = f"{name} holds no code for compute capability {capability}, only for {', '.join(held.code)}"
        if not _has_ptx(held, capability or ""):
            return f"{what} and no PTX that it could be compiled from"
        if cuda_served and Version(cuda_served) < Version(cuda):
            return f"{what}, and a driver that serves CUDA {cuda_served} can't compile its PTX of CUDA {cuda}"
    return None


def best_patch(patches: Sequence[Release], gpus: Sequence[Gpu], cuda_served: str | None) -> Release:
    """The newest patch that holds code for one of these GPUs; where none does the one whose PTX is the nearest to them; without GPUs the newest.

    Args:
        patches: of one minor release, oldest first.
    """

    def worth(patch: Release) -> tuple[bool, bool, Version]:
        served = [gpu for gpu in gpus if unfit(patch, gpu, cuda_served) is None]
        at_once = any(not is_compiled_at_start(patch, gpu) for gpu in served)
        ptx = patch.wheel.own.ptx if patch.wheel and served and not at_once else ()
        return bool(served), at_once, max(map(Version, ptx), default=Version("0"))

    return max(reversed(patches), key=worth)


def widest_patch(patches: Sequence[Release]) -> Release:
    """The newest patch of those that hold code for the most compute capabilities: for a GPU that is not known.

    Args:
        patches: of one minor release, oldest first.
    """
    return max(reversed(patches), key=lambda patch: len(patch.wheel.own.code) if patch.wheel else 0)


def has_code(held: GpuCode, capability: str) -> bool:
    """Whether a GPU of this compute capability runs some of the code as it is."""
    device = Version(capability)
    return any(code.major == device.major and code <= device for code in map(Version, held.code))


def _parts(release: Release) -> Iterator[tuple[str, GpuCode]]:
    if release.wheel:
        yield f"TensorFlow {release.tensorflow}", release.wheel.own
        if release.wheel.locked_cudnn:
            yield f"the cuDNN in the lock of TensorFlow {release.tensorflow}", release.wheel.locked_cudnn


def _has_ptx(held: GpuCode, capability: str) -> bool:
    return any(Version(ptx) <= Version(capability) for ptx in held.ptx)
