"""The environment in a container: an image that the user names, or the one that stands for a release."""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from pathlib import Path

import msgspec

from wrapper.bootstrapper.engine import plan_container, use_image
from wrapper.bootstrapper.environment import LOCKS, run_uv
from wrapper.bootstrapper.host import gpus_present, nvidia_gpus
from wrapper.bootstrapper.images import load_images, official_image
from wrapper.bootstrapper.inspection import Environment, fit_to_release
from wrapper.bootstrapper.making import check_installed
from wrapper.bootstrapper.placing import Say
from wrapper.bootstrapper.release import Release, load_releases, match_installed
from wrapper.bootstrapper.source import Source
from wrapper.errors import FatalError


def planned_container(source: Source, release: Release, package: str) -> Environment:
    """The environment in a release's own image for "cpu" or "gpu", as far as it is known before the image has been fetched."""
    return Environment(
        kind="container",
        path="",
        python="python",
        source=source.text,
        python_version="of the image",
        tensorflow=release.tensorflow,
        container=plan_container(source.kind, _image_of(release, package), gpus=package == "gpu"),
    )


def use_container(source: Source, release: Release | None, *, device: str, package: str, vendor: Path, say: Say) -> tuple[Environment, Release]:
    """Get the image, look at the TensorFlow in it, and lay beside it what upstream needs and it lacks.

    Args:
        source: says the engine, and perhaps the image.
        release: what is wanted, in its own image; None takes what the image has that `source` names.
        device: where the trials run, "cpu" or "gpu".
        package: "cpu" or "gpu": for which of them the image is to be, and whether the container is given the GPUs.
        vendor: the directory for the packages that it lacks.
        say: told in a line what takes long.

    Returns:
        the environment, and the release that the image has: of a release's own image perhaps another patch of the same minor.

    Raises:
        FatalError: the image can't be had or used, or has another release.
    """
    image = source.name if release is None else _image_of(release, package)
    environment = use_image(source.kind, image, device=device, gpus=package == "gpu" and bool(gpus_present()), source=source.text, say=say)
    found = match_installed(environment.tensorflow, load_releases())
    if release and found.minor != release.minor:
        raise FatalError(f"{image} has TensorFlow {environment.tensorflow}, and {release.tensorflow} was asked for", "Name another image or release")
    return fit_to_release(_with_packages(environment, found, vendor, say), found), found


def _image_of(release: Release, package: str) -> str:
    return official_image(release, package, nvidia_gpus()[0] if package == "gpu" else (), load_images())


def _with_packages(environment: Environment, release: Release, vendor: Path, say: Say) -> Environment:
    """The environment with tf-keras, which upstream needs from TensorFlow 2.16 on and no official image has, in a directory that is mounted."""
    wanted = [each for each in release.constraints if each.startswith("tf-keras")]
    if not wanted or environment.has("tf-keras") or environment.container is None:
        return environment
    row = next(row for row in load_releases() if row.minor == release.minor)
    entry = _locked((LOCKS / f"{row.tensorflow}-cpu.txt").read_text(encoding="utf-8"), "tf-keras")
    version = entry.split()[0].partition("==")[2]
    directory = vendor.resolve() / "packages" / f"tf-keras-{version}"
    if not directory.exists():
        say(f"fetching tf-keras {version}, which the image lacks")
        _install(entry, directory)
    container = msgspec.structs.replace(environment.container, packages=str(directory))
    return msgspec.structs.replace(environment, packages={**environment.packages, "tf-keras": version}, container=container)


def _locked(lock: str, name: str) -> str:
    """The entry of a package in a lock, with its hashes."""
    entry = re.search(rf"^{name}==.*(?:\n    .*)*", lock, re.MULTILINE)
    if entry is None:
        raise FatalError(f"the lock has no {name}", "Restore the package, or name an image that has it")
    return entry[0]


def _install(entry: str, directory: Path) -> None:
    """Whole or not at all. It is pure Python: which interpreter installs it doesn't matter."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=directory.parent) as folder:
        requirements, target = Path(folder) / "requirements.txt", Path(folder) / "target"
        requirements.write_text(entry, encoding="utf-8")
        options = ["--require-hashes", "--no-deps", "--only-binary=:all:", "--python", sys.executable]
        check_installed(
            run_uv(["pip", "install", *options, "--target", str(target), "--requirements", str(requirements)]), f"installing {entry.split()[0]}", "uv"
        )
        shutil.move(target, directory)
        directory.chmod(0o755)  # the container's user may be another one
