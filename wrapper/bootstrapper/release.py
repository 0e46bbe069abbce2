"""The table of releases: which upstream commit, Python, packages and lock go with a TensorFlow release."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
from packaging.version import InvalidVersion, Version

from wrapper.bootstrapper.wheels import Wheel, load_wheels
from wrapper.errors import FatalError, UsageError
from wrapper.shipped import DATA, read_table

TABLE = DATA / "releases.yaml"


class Release(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One TensorFlow release and all it implies: a row of `data/releases.yaml`, or one derived from it."""

    tensorflow: str
    """The exact version, such as "1.12.0"; "demo" for the demo."""
    upstream_commit: str
    """The full commit of tensorflow/benchmarks that this release was seen to run (40 hex digits)."""
    upstream_ref: str
    """The branch or date that the commit stands for."""
    python: tuple[str, ...]
    """Python versions (major.minor) that have wheels of it; the proven one first."""
    package_cpu: str
    package_gpu: str
    """Requirement names without the version, such as "tensorflow-gpu" or "tensorflow[and-cuda]"."""
    constraints: tuple[str, ...] = ()
    """Further requirements without which the pair does not run, such as "numpy<2" or "tf-keras==2.16.*"."""
    environment: dict[str, str] = {}
    """Environment variables that the trial needs."""
    cuda: str | None = None
    """The CUDA version that its GPU package is built for; None: not known. Read from the wheel, as what follows."""
    cudnn: str | None = None
    """The exact version of the cuDNN in its lock, or where the lock has none the major version that the package loads."""
    wheel: Wheel | None = None
    """What its GPU package holds, by `data/wheels.yaml`; None: not read."""
    cutoff: str | None = None
    """The date (YYYY-MM-DD) up to which packages are considered when a lock is made or a sibling patch is resolved."""
    missing_models: tuple[str, ...] = ()
    """Names of models.yaml that this pair can't run."""
    verified: bool = True
    """False for another patch of a known minor: resolved by date, never run by us."""
    seen: str = ""
    note: str = ""

    @property
    def minor(self) -> tuple[int, ...]:
        """Such as (1, 12)."""
        return Version(self.tensorflow).release[:2]

    def package(self, device: str) -> str:
        """The requirement name for "cpu" or "gpu"."""
        return self.package_gpu if device == "gpu" else self.package_cpu

    def requirements(self, device: str) -> tuple[str, ...]:
        """All that is asked of the package index for "cpu" or "gpu"."""
        return (f"{self.package(device)}=={self.tensorflow}", *self.constraints)


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    releases: tuple[Release, ...]


def load_releases(table: Path = TABLE) -> tuple[Release, ...]:
    """Read the table, oldest release first, and what the wheels of its releases hold.

    Raises:
        FatalError: see `read_table`.
    """
    wheels = load_wheels()
    return tuple(_with_wheel(release, wheels.get(release.tensorflow)) for release in read_table(table, _Table).releases)


def _with_wheel(release: Release, wheel: Wheel | None) -> Release:
    if wheel is None:
        return release
    return msgspec.structs.replace(release, wheel=wheel, cuda=wheel.cuda, cudnn=wheel.locked_cudnn.version if wheel.locked_cudnn else wheel.cudnn)


def resolve_release(text: str, releases: Sequence[Release], best: Callable[[list[Release]], Release] = lambda rows: rows[-1]) -> Release:
    """The release that the user means by "1.12.0", "1.12" (the `best` row of that minor) or "1.12.2" (a patch without a row of its own).

    Args:
        best: chooses among the rows of a minor, which it is given oldest first; without it the newest.

    Returns:
        a row; for a patch without a row the newest row of its minor with `tensorflow` set to that patch and `verified` false.

    Raises:
        UsageError: not a version, a pre-release, or a minor that is not in the table.
    """
    version = _read_version(text)
    if version.is_prerelease or version.is_devrelease or version.local:
        raise UsageError(f"TensorFlow {text} is not a final release", f"Known are {_known_range(releases)}; `tfcnn releases` lists them")
    exact = [row for row in releases if Version(row.tensorflow) == version and len(version.release) == 3]
    if exact:
        return exact[0]
    siblings = _rows_of_minor(version, releases)
    if not siblings or len(version.release) not in (2, 3):
        raise UsageError(
            f"TensorFlow {text} is not a known release", f"The nearest known are {_nearest(version, releases)}; `tfcnn releases` lists all"
        )
    if len(version.release) == 2:
        return best(siblings)
    return msgspec.structs.replace(siblings[-1], tensorflow=str(version), verified=False)


def match_installed(version: str, releases: Sequence[Release]) -> Release:
    """The release for a TensorFlow that was found installed, whatever suffix its build carries ("1.15.5+nv23.3", "2.4.0-rc1").

    Returns:
        the row of that very version; else the newest row of its minor with `tensorflow` set to what is installed and `verified` false.

    Raises:
        FatalError: not a version, or a minor that is not in the table.
    """
    try:
        installed = Version(version)
    except InvalidVersion as error:
        raise FatalError(f"TensorFlow says that its version is {version!r}, which is none", "Name another interpreter with --python") from error
    exact = [row for row in releases if Version(row.tensorflow) == installed]
    if exact:
        return exact[0]
    siblings = _rows_of_minor(installed, releases)
    if not siblings:
        raise FatalError(
            f"no upstream commit is known that runs on the installed TensorFlow {version}; known are {_known_range(releases)}",
            "Name an interpreter that has one of these, or leave --python out to have an environment made",
        )
    return msgspec.structs.replace(siblings[-1], tensorflow=version, verified=False)


def _read_version(text: str) -> Version:
    try:
        return Version(text.strip())
    except InvalidVersion as error:
        raise UsageError(f"{text!r} is not a TensorFlow version", "Write it like 1.12.0 or 1.12") from error


def _rows_of_minor(version: Version, releases: Sequence[Release]) -> list[Release]:
    rows = [row for row in releases if row.minor == (*version.release, 0)[:2]]
    return sorted(rows, key=lambda row: Version(row.tensorflow))


def _known_range(releases: Sequence[Release]) -> str:
    versions = sorted(Version(row.tensorflow) for row in releases)
    return f"{versions[0]} to {versions[-1]}"


def _nearest(version: Version, releases: Sequence[Release]) -> str:
    ordered = sorted(releases, key=lambda row: Version(row.tensorflow))
    before = [row.tensorflow for row in ordered if Version(row.tensorflow) < version]
    after = [row.tensorflow for row in ordered if Version(row.tensorflow) > version]
    return " and ".join(before[-1:] + after[:1])
