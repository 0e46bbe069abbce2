"""The interpreter that runs upstream: a locked one that we make, or one that the user names. uv is used here and nowhere else."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from wrapper.bootstrapper.inspection import Inspection, SeenDevice, inspect
from wrapper.bootstrapper.pythons import Interpreter, choose_python, newest_servable, search_path
from wrapper.bootstrapper.release import Release
from wrapper.errors import FatalError
from wrapper.process import Captured, run_captured, scrubbed_environment

__all__ = [
    "Environment",
    "Interpreter",
    "SeenDevice",
    "find_pythons",
    "fit_to_release",
    "make_environment",
    "newest_servable",
    "planned_environment",
    "resolution_options",
    "run_uv",
    "use_environment",
]

LOCKS = Path(__file__).parent.parent / "data" / "locks"
MARKER = "tfcnn-environment.json"
"""Written last: a directory without it is half made."""
INSTALL_LIMIT_S = 3600.0
"""A GPU environment of several GB over a slow line."""
BUILD_TOOLS = "build-tools.txt"
"""In the directory of the locks: what source packages are built with, pinned by hash."""
CPU_OVERRIDES = "tensorflow-cpu-overrides.txt"
"""In the directory of the locks: keeps the package tensorflow out where tensorflow-cpu is in."""
BUILD_TOOLS_DATE = "2024-06-01"
"""setuptools of this day still has pkg_resources, which TensorFlow 1 and the packages of its time import."""
PROGRAMS = "Scripts" if sys.platform == "win32" else "bin"
PYTHON = "python.exe" if sys.platform == "win32" else "python"

Say = Callable[[str], None]


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


class _ListedPython(msgspec.Struct, frozen=True):
    """One entry of `uv python list --output-format json`, as far as it is used."""

    path: str | None
    version: str
    implementation: str
    variant: str
    arch: str


def find_pythons() -> tuple[Interpreter, ...]:
    """Every 64-bit CPython of this machine that uv can make an environment from, newest first.

    Looked for on PATH, behind pyenv's shims, in conda's environments, among those that uv installed, and on Windows in the registry (py launcher).
    """
    path = os.pathsep.join(search_path(os.environ, Path.home(), programs="" if sys.platform == "win32" else "bin"))
    captured = run_uv(["python", "list", "--only-installed", "--output-format", "json"], {"PATH": path})
    if captured.exit_code != 0:
        raise FatalError(
            f"uv could not list this machine's Pythons: {_tail(captured.stderr)}", "Name an environment that has TensorFlow with --python PATH"
        )
    listed = msgspec.json.decode(captured.stdout, type=list[_ListedPython])
    fitting = [each for each in listed if each.path and each.implementation == "cpython" and each.variant == "default" and each.arch != "x86"]
    found: dict[str, Interpreter] = {}
    for each in fitting:
        found.setdefault(os.path.realpath(each.path or ""), Interpreter(path=os.path.realpath(each.path or ""), version=each.version))
    return tuple(found.values())


def planned_environment(release: Release, device: str, pythons: Sequence[Interpreter], vendor: Path, *, locks: Path = LOCKS) -> tuple[str, bool]:
    """The directory of the environment for a release, and whether it is there already.

    Args:
        device: "cpu" or "gpu".
        pythons: those of this machine, looked at only where it has still to be made.

    Raises:
        FatalError: it is not there, and no Python of this machine fits.
    """
    made = _find_made(release, device, vendor, locks)
    if made:
        return made.path, True
    return str(_directory(release, device, choose_python(release, pythons).minor, vendor, locks)), False


def make_environment(
    release: Release,
    device: str,
    *,
    vendor: Path,
    say: Say,
    pythons: Sequence[Interpreter] | None = None,
    locks: Path = LOCKS,
) -> Environment:
    """The environment for a release, made from its lock and checked, or as it was left by an earlier call.

    Args:
        device: "cpu" or "gpu".
        vendor: the directory that holds all environments; made where it is missing.
        say: told in a line what takes long.
        pythons: those of this machine; None looks for them.
        locks: the directory of the lock files.

    Raises:
        FatalError: no fitting Python, no network, a full disk, a package that is not what the lock says, a TensorFlow that does not import. Nothing
            half-made is left.
    """
    from filelock import FileLock

    made = _find_made(release, device, vendor, locks)
    if made:
        return made
    interpreter = choose_python(release, find_pythons() if pythons is None else pythons)
    directory = _directory(release, device, interpreter.minor, vendor, locks)
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(directory.with_name(f".{directory.name}.lock")):
            return _find_made(release, device, vendor, locks) or _make(release, device, interpreter, directory, locks, say)
    except OSError as error:
        raise FatalError(f"the environment {directory} can't be made: {error}", "Mend that and start again") from error


def use_environment(python: str, *, device: str) -> Environment:
    """An environment that the user names, checked like one of ours and never installed into.

    Args:
        python: an interpreter, an environment's directory, or a command.
        device: "cpu" hides the GPUs during the check, "gpu" shows them.

    Raises:
        FatalError: not there, not a Python, without TensorFlow, or with one that does not import.
    """
    interpreter = _locate(python)
    seen = inspect(str(interpreter), device=device, variables=scrubbed_environment(os.environ, {}, keep_pythonpath=True))
    return _environment("given", interpreter, seen, {})


def fit_to_release(environment: Environment, release: Release) -> Environment:
    """A given environment with the variables that the release's trials need.

    Raises:
        FatalError: it lacks a package that upstream needs beside TensorFlow (tf-keras, from TensorFlow 2.16 on).
    """
    installed = {name.lower().replace("_", "-") for name in environment.packages}
    missing = [each for each in release.constraints if each.startswith("tf-keras") and "tf-keras" not in installed]
    if missing:
        raise FatalError(
            f"{environment.python} has TensorFlow {environment.tensorflow} without tf-keras, and upstream does not run without it",
            f'Install it there: "{environment.python}" -m pip install "{missing[0]}"',
        )
    return msgspec.structs.replace(environment, variables=release.environment)


def resolution_options(release: Release, device: str, *, locks: Path = LOCKS) -> list[str]:
    """The options that make uv resolve a release as of its date.

    TensorFlow itself is exempt: a sibling patch may be younger than the row's date. So are the tools that build old source packages: those of
    that time don't work with uv, those of today no longer build them.
    """
    tensorflow = re.sub(r"\[.*", "", release.package(device))
    exempt = [(tensorflow, "2100-01-01"), ("setuptools", BUILD_TOOLS_DATE), ("wheel", BUILD_TOOLS_DATE)]
    dates = [f"--exclude-newer={release.cutoff}", *(f"--exclude-newer-package={name}={date}" for name, date in exempt)]
    overrides = [f"--overrides={locks / CPU_OVERRIDES}"] if tensorflow == "tensorflow-cpu" else []
    return [*dates, f"--build-constraints={locks / BUILD_TOOLS}", *overrides]


def run_uv(arguments: Sequence[str], variables: Mapping[str, str] | None = None) -> Captured:
    """Run uv without its progress bars. What it was configured with (UV_*, uv.toml: a mirror of the package index) holds.

    Python is never downloaded: what is found is used, and what is missing is said. The wrapper's own environment is left out of it.
    """
    from uv import find_uv_bin

    settings = {"UV_PYTHON_DOWNLOADS": "never", "UV_NO_PROGRESS": "1", "NO_COLOR": "1", **(variables or {})}
    environment = {name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME")}
    return run_captured([find_uv_bin(), *arguments], environment={**environment, **settings}, time_limit_s=INSTALL_LIMIT_S)


def _lock(release: Release, device: str, locks: Path) -> Path:
    return locks / f"{release.tensorflow}-{device}.txt"


def _directory(release: Release, device: str, minor: str, vendor: Path, locks: Path) -> Path:
    """Named by all that decides what is in it: another row or lock is another environment, and the old one stays as it is."""
    lock = _lock(release, device, locks).read_bytes() if release.verified else str(release.cutoff).encode()
    row = msgspec.json.encode((release.requirements(device), release.environment))
    digest = hashlib.sha256(b"\0".join((row, lock, (locks / BUILD_TOOLS).read_bytes()))).hexdigest()[:10]
    return vendor.resolve() / "environments" / f"{release.tensorflow}-{device}-py{minor}-{digest}"


def _find_made(release: Release, device: str, vendor: Path, locks: Path) -> Environment | None:
    for minor in release.python:
        marker = _directory(release, device, minor, vendor, locks) / MARKER
        with suppress(OSError, msgspec.DecodeError):  # not there, or of another version of the wrapper: made anew
            environment = msgspec.json.decode(marker.read_bytes(), type=Environment)
            if Path(environment.python).exists() and Path(environment.path) == marker.parent:
                return environment
    return None


def _make(release: Release, device: str, interpreter: Interpreter, directory: Path, locks: Path, say: Say) -> Environment:
    _remove(directory)
    say(
        f"making the environment for TensorFlow {release.tensorflow} ({device.upper()}, Python {interpreter.version}); this downloads what is not cached"
    )
    try:
        _check(run_uv(["venv", "--no-project", "--no-config", "--python", interpreter.path, str(directory)]), f"making {directory}")
        python = directory / PROGRAMS / PYTHON
        _install(release, device, python, locks)
        say(f"importing TensorFlow {release.tensorflow} and looking at its devices")
        variables = scrubbed_environment(os.environ, release.environment, keep_pythonpath=False)
        environment = _environment("locked", python, inspect(str(python), device=device, variables=variables), release.environment)
        temporary = directory / f"{MARKER}.new"
        temporary.write_bytes(msgspec.json.format(msgspec.json.encode(environment)))
        temporary.replace(directory / MARKER)
        return environment
    finally:
        if not (directory / MARKER).exists():
            _remove(directory)


def _install(release: Release, device: str, python: Path, locks: Path) -> None:
    what = f"installing TensorFlow {release.tensorflow}"
    if release.verified:
        wanted = ["--require-hashes", "--no-deps", f"--build-constraints={locks / BUILD_TOOLS}", "-r", str(_lock(release, device, locks))]
    else:
        wanted = [*resolution_options(release, device, locks=locks), *release.requirements(device)]
    _check(run_uv(["pip", "install", "--python", str(python), *wanted]), what)


_TROUBLES = (
    (
        r"No space left on device|os error 28|os error 112",
        "the disk is full",
        "Make room (a GPU environment takes up to 10 GB, and uv's cache as much)",
    ),
    (
        r"[Hh]ash mismatch",
        "a package is not what the lock says",
        "The index served another file: use another index or empty uv's cache (uv cache clean)",
    ),
    (
        r"error sending request|dns error|[Ff]ailed to (fetch|download)|[Cc]onnection|timed out|network (was|connectivity is) disabled",
        "the packages can't be fetched",
        "Check the network, or name a mirror with UV_DEFAULT_INDEX, or an environment that has TensorFlow with --python PATH, or try --demo",
    ),
)


def _check(captured: Captured, what: str) -> None:
    """Raise what uv complains of. uv has one exit code for everything, so its text is read."""
    if captured.exit_code == 0:
        return
    for pattern, trouble, remedy in _TROUBLES:
        if re.search(pattern, captured.stderr):
            raise FatalError(f"{trouble} while {what}: {_tail(captured.stderr)}", remedy)
    raise FatalError(f"uv failed while {what}: {_tail(captured.stderr)}", "Mend that, or name an environment that has TensorFlow with --python PATH")


def _tail(stderr: str, lines: int = 12) -> str:
    return " | ".join([" ".join(line.split()) for line in stderr.splitlines() if line.strip()][-lines:])


def _environment(kind: str, python: Path, seen: Inspection, variables: dict[str, str]) -> Environment:
    return Environment(
        kind=kind,
        path=seen.prefix,
        python=str(python),
        python_version=seen.python_version,
        tensorflow=seen.tensorflow,
        packages=seen.packages,
        devices=seen.devices,
        variables=variables,
        cuda_built=seen.cuda_built,
        diagnosis=seen.diagnosis,
    )


def _locate(python: str) -> Path:
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


def _remove(directory: Path) -> None:
    if directory.exists():
        shutil.rmtree(directory)
