"""Whether a release's GPU package fits a GPU and its driver. Pure."""

from __future__ import annotations

from packaging.version import Version

from wrapper.bootstrapper.host import Gpu
from wrapper.bootstrapper.release import Release


def serves_cuda(served: str, needed: str) -> bool:
    """Whether a driver that serves CUDA up to `served` runs what was built for CUDA `needed`, both such as "12.4".

    A driver runs what is older; from CUDA 11 on also what is of a later minor version of its own major version, but for PTX
    (https://docs.nvidia.com/deploy/cuda-compatibility/, "minor version compatibility").
    """
    driver, build = Version(served), Version(needed)
    return driver >= build or driver.major == build.major >= 11


def is_compiled_at_start(release: Release, gpu: Gpu) -> bool:
    """Whether the release's wheel is known to hold no code for this GPU, but PTX, which the driver compiles at the first start."""
    return bool(release.gpu_code and gpu.compute_capability and not _has_code(release, gpu.compute_capability) and _has_ptx(release, gpu))


def unfit(release: Release, gpu: Gpu, cuda_served: str | None) -> str | None:
    """Why the release's GPU package can't work on this GPU, or None; what is not known is no reason.

    Args:
        cuda_served: the newest CUDA version that the driver serves.

    A GPU runs code of its own major version and an equal or lower minor one, and compiles PTX that is not newer than itself
    (https://docs.nvidia.com/cuda/cuda-c-programming-guide/, "binary compatibility" and "PTX compatibility").
    """
    if cuda_served and release.cuda and not serves_cuda(cuda_served, release.cuda):
        return f"TensorFlow {release.tensorflow} is built for CUDA {release.cuda}, and the driver serves CUDA {cuda_served} at most"
    capability = gpu.compute_capability
    if not release.gpu_code or not capability or _has_code(release, capability):
        return None
    what = f"TensorFlow {release.tensorflow} or its cuDNN holds no code for compute capability {capability}"
    if not _has_ptx(release, gpu):
        return f"{what}, and no PTX that it could be compiled from"
    if cuda_served and release.cuda and Version(cuda_served) < Version(release.cuda):
        return f"{what}, and a driver that serves CUDA {cuda_served} can't compile its PTX of CUDA {release.cuda}"
    return None


def _has_code(release: Release, capability: str) -> bool:
    device = Version(capability)
    return any(code.major == device.major and code <= device for code in map(Version, release.gpu_code))


def _has_ptx(release: Release, gpu: Gpu) -> bool:
    return bool(release.gpu_ptx and gpu.compute_capability and Version(release.gpu_ptx) <= Version(gpu.compute_capability))
