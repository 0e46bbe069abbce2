"""The image that stands for a release where the user names none: data, see `data/images.yaml`."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from packaging.version import Version

from wrapper.bootstrapper.host import Gpu
from wrapper.bootstrapper.release import Release
from wrapper.shipped import DATA, read_table


class NvidiaImage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """NVIDIA's own image of a minor release for GPUs that TensorFlow's own builds do not serve."""

    minor: str
    image: str
    capability: str
    """The least compute capability for which it is taken."""


class Images(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table."""

    repository: str
    tags: dict[str, str]
    """The tag with a GPU for each release of releases.yaml; without one it is the same without "-gpu"."""
    nvidia: NvidiaImage


def load_images() -> Images:
    """The table."""
    return read_table(DATA / "images.yaml", Images)


def official_image(release: Release, device: str, gpus: Sequence[Gpu], images: Images) -> str:
    """The image for a release.

    Args:
        device: "cpu" or "gpu": for which of them it is built.
        gpus: those of this machine.

    Returns:
        TensorFlow's official one of the same minor release; on GPUs that it does not serve, NVIDIA's own where there is one.
    """
    nvidia = images.nvidia
    newer = [gpu for gpu in gpus if Version(gpu.compute_capability or "0") >= Version(nvidia.capability)]
    if device == "gpu" and newer and release.minor == Version(nvidia.minor).release:
        return nvidia.image
    siblings = [each for each in images.tags if Version(each).release[:2] == release.minor]
    tag = images.tags[release.tensorflow if release.tensorflow in siblings else siblings[-1]]
    return f"{images.repository}:{tag if device == 'gpu' else tag.replace('-gpu', '')}"
