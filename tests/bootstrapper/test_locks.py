"""The lock files: there for every row and device, hashed line by line, of the row's version, and free of addresses."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from wrapper.bootstrapper.environment import BUILD_TOOLS, LOCKS, OVERRIDES
from wrapper.bootstrapper.release import Release, load_releases

CASES = [pytest.param(release, device, id=f"{release.tensorflow}-{device}") for release in load_releases() for device in ("cpu", "gpu")]
HASH = re.compile(r"sha256:[0-9a-f]{64}")


def read_lock(path: Path) -> dict[str, list[Requirement]]:
    """The pins of a lock by package; fails where one is not exact or has no hash."""
    pins: dict[str, list[Requirement]] = {}
    text = path.read_text(encoding="utf-8").replace("\\\n", " ")
    for line in text.splitlines():
        if line.strip() and not line.startswith("#"):
            wanted, *hashes = line.split(" --hash=")
            requirement = Requirement(wanted)
            assert re.fullmatch(r"==[^*,]+", str(requirement.specifier)), line
            assert hashes, f"{wanted} has no hash"
            assert all(HASH.fullmatch(each.strip()) for each in hashes), line
            pins.setdefault(canonicalize_name(requirement.name), []).append(requirement)
    return pins


@pytest.mark.parametrize(("release", "device"), CASES)
def test_lock_fits_its_row(release: Release, device: str) -> None:
    path = LOCKS / f"{release.tensorflow}-{device}.txt"
    pins = read_lock(path)
    assert path.stat().st_size < 2**20
    for wanted in map(Requirement, release.requirements(device)):
        versions = [Version(str(pin.specifier)[2:]) for pin in pins[canonicalize_name(wanted.name)]]
        assert all(wanted.specifier.contains(version) for version in versions), wanted
    for wanted in map(Requirement, ("numpy", "protobuf", "absl-py", "six")):
        assert wanted.name in pins


@pytest.mark.parametrize(("release", "device"), CASES)
def test_lock_serves_every_python_of_its_row(release: Release, device: str) -> None:
    pins = read_lock(LOCKS / f"{release.tensorflow}-{device}.txt")
    for minor in release.python:
        for system, platform in (("Linux", "linux"), ("Windows", "win32")):
            machine = {"platform_system": system, "sys_platform": platform, "platform_machine": "x86_64", "implementation_name": "cpython"}
            here = {"python_version": minor, "python_full_version": f"{minor}.99", **machine}
            chosen = {name: [pin for pin in each if pin.marker is None or pin.marker.evaluate(here)] for name, each in pins.items()}
            assert all(len(each) <= 1 for each in chosen.values()), "two versions of a package at once"
            assert chosen[canonicalize_name(Requirement(release.package(device)).name)]
            assert chosen["numpy"]


def test_lock_says_from_which_python_on() -> None:
    for release in load_releases():
        for device in ("cpu", "gpu"):
            header = (LOCKS / f"{release.tensorflow}-{device}.txt").read_text(encoding="utf-8").splitlines()[1]
            lowest = re.search(r"--python-version=(\S+)", header)
            assert lowest and Version(lowest[1]) <= min(map(Version, release.python)), release.tensorflow
            assert f"--exclude-newer={release.cutoff} " in header, f"{release.tensorflow}: the row's date changed, make the lock again"


def test_cpu_locks_hold_one_tensorflow() -> None:
    for release in load_releases():
        pins = read_lock(LOCKS / f"{release.tensorflow}-cpu.txt")
        assert len({"tensorflow", "tensorflow-cpu"} & set(pins)) == 1, release.tensorflow


def test_build_tools_are_hashed() -> None:
    assert set(read_lock(LOCKS / BUILD_TOOLS)) == {"setuptools", "wheel"}


def test_no_address_and_no_path() -> None:
    for path in LOCKS.iterdir():
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"://|index-url|find-links|(?<![\w.])/\w|[A-Za-z]:\\", text), path.name


def test_no_file_without_a_row() -> None:
    wanted = {f"{release.tensorflow}-{device}.txt" for release in load_releases() for device in ("cpu", "gpu")}
    assert {path.name for path in LOCKS.iterdir()} == wanted | {BUILD_TOOLS, *OVERRIDES.values()}
