"""Choose among the Pythons of a machine, or find the one that the user names. Finding them all is uv's work, in `environment.py`."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from packaging.version import Version

from wrapper.bootstrapper.release import Release
from wrapper.errors import FatalError

PROGRAMS = "Scripts" if sys.platform == "win32" else "bin"
PYTHON = "python.exe" if sys.platform == "win32" else "python"
"""Where the interpreter of a virtual environment lies in it."""


class Interpreter(msgspec.Struct, frozen=True, kw_only=True):
    """A CPython that was found on this machine."""

    path: str
    version: str
    """All three parts, such as "3.6.15"."""

    @property
    def minor(self) -> str:
        """Such as "3.6"."""
        return ".".join(self.version.split(".")[:2])


def locate(python: str) -> Path:
    """The interpreter that the user means, absolute; links are not followed, because an environment's interpreter is one."""
    path = Path(python).expanduser().absolute()
    candidates = [path / PROGRAMS / PYTHON, path / PYTHON] if path.is_dir() else [path]
    for candidate in candidates:
        if candidate.is_file():
            return candidate
    command = shutil.which(python)
    if command:
        return Path(command).absolute()
    raise FatalError(f"there is no interpreter at {python}", "Name one with --python, or the directory of an environment")


def choose_python(release: Release, pythons: Sequence[Interpreter]) -> Interpreter:
    """The interpreter for a release: of the first of its Python versions that the machine has, the newest patch.

    Raises:
        FatalError: none fits; names those that would, those that were found, and the ways to get one.
    """
    for minor in release.python:
        fitting = [python for python in pythons if python.minor == minor]
        if fitting:
            return max(fitting, key=lambda python: Version(python.version))
    raise FatalError(
        f"TensorFlow {release.tensorflow} needs Python {' or '.join(release.python)}, and this machine has {listed(pythons)}",
        _ways_to_get(release.python),
    )


def served_by(pythons: Sequence[Interpreter], releases: Sequence[Release]) -> list[Release]:
    """The releases that some Python of a machine can serve. Raises FatalError where there is none."""
    minors = {python.minor for python in pythons}
    served = [release for release in releases if minors & set(release.python)]
    if not served:
        raise FatalError(f"no known TensorFlow release runs on this machine's Pythons ({listed(pythons)})", _ways_to_get(releases[-1].python))
    return served


def search_path(variables: Mapping[str, str], home: Path, *, programs: str) -> list[str]:
    """Where interpreters may lie: PATH without pyenv's shims, then pyenv's versions and conda's environments.

    A shim runs nothing unless its version is activated, and uv of some versions stops at one that is not. The interpreters lie behind the shims.

    Args:
        variables: PATH, PYENV_ROOT.
        home: the user's home directory.
        programs: the folder of an environment that holds the interpreter: "bin", on Windows "".
    """
    roots = [Path(variables["PYENV_ROOT"])] if variables.get("PYENV_ROOT") else [home / ".pyenv", home / ".pyenv" / "pyenv-win"]
    versions = [version / programs for root in roots if (root / "versions").is_dir() for version in sorted((root / "versions").iterdir())]
    conda = home / ".conda" / "environments.txt"
    environments = conda.read_text(encoding="utf-8", errors="replace").splitlines() if conda.is_file() else []
    entries = [entry for entry in variables.get("PATH", "").split(os.pathsep) if entry and Path(entry).name != "shims"]
    return [*entries, *map(str, versions), *(str(Path(environment.strip()) / programs) for environment in environments if environment.strip())]


def listed(pythons: Sequence[Interpreter]) -> str:
    """Their versions in words."""
    versions = sorted({python.version for python in pythons}, key=Version)
    return ", ".join(versions) or "none"


def _ways_to_get(minors: Sequence[str]) -> str:
    proven = minors[0]
    ways = [
        f"pyenv install {proven}",
        f"conda create -n py{proven.replace('.', '')} python={proven}",
        "an installer of python.org (on Windows the py launcher then finds it)",
    ]
    downloadable = [minor for minor in minors if Version(minor) >= Version("3.8")]
    if downloadable:
        ways.insert(0, f"{sys.executable} -m uv python install {downloadable[0]}")
    return f"Get one ({'; '.join(ways)}), or name an environment that has TensorFlow with --python PATH"
