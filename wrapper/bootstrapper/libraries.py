"""The CUDA libraries that the packages of an environment hold."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

PACKAGES = ("lib/python*/site-packages", "Lib/site-packages")
"""Where an environment's packages lie in its directory."""


def library_path(directory: Path, inherited: Mapping[str, str] = os.environ, *, first: bool = True) -> dict[str, str]:
    """The variable that lets TensorFlow find the CUDA libraries that pip put into an environment; empty where there are none.

    TensorFlow finds them by itself from 2.14 on, but 2.21.0 does not: it opens all of them from libtensorflow_framework.so.2, and the RUNPATH of that
    names the places of all but cuSOLVER (readelf -d, tensorflow-2.21.0-cp311-cp311-manylinux_2_27_x86_64.whl), so that it uses no GPU.

    Args:
        directory: the environment's.
        first: before what the user has there: an environment of ours is what its lock says. Else behind it.
    """
    if sys.platform != "linux":
        return {}
    places = sorted(str(place) for pattern in PACKAGES for place in directory.glob(f"{pattern}/nvidia/*/lib"))
    users = list(filter(None, [inherited.get("LD_LIBRARY_PATH")]))
    return {"LD_LIBRARY_PATH": os.pathsep.join([*places, *users] if first else [*users, *places])} if places else {}
