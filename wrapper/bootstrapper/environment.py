"""The interpreter that runs upstream: a locked one that we make, or one that the user names. uv is used here and nowhere else."""

from __future__ import annotations

import hashlib
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from wrapper.bootstrapper.inspection import Environment, inspect
from wrapper.bootstrapper.making import INSTALL_LIMIT_S, aside_of, check_complete, check_installed, losses, make_whole, read_marker, tail
from wrapper.bootstrapper.placing import Say
from wrapper.bootstrapper.pythons import PROGRAMS, PYTHON, Interpreter, choose_python, search_path
from wrapper.bootstrapper.release import Release
from wrapper.errors import FatalError
from wrapper.process import Captured, run_captured, scrubbed_environment
from wrapper.shipped import DATA

LOCKS = DATA / "locks"
BUILD_TOOLS = "build-tools.txt"
"""In the directory of the locks: what source packages are built with, pinned by hash."""
OVERRIDES = {"tensorflow-cpu": "tensorflow-cpu-overrides.txt", "tensorflow[and-cuda]": "and-cuda-overrides.txt"}
"""In the directory of the locks, by package: what is kept out though others ask for it, each with its reason."""
BUILD_TOOLS_DATE = "2024-06-01"
"""setuptools of this day still has pkg_resources, which TensorFlow 1 and the packages of its time import."""
_LACKS_CUDA = re.compile(r"lib(cu\w+|nccl|nvidia\S*)\.so\S*: cannot open shared object|DLL load failed|Could not find '(cu|nv)\w+\.dll'")
"""Why a GPU build up to 1.13, which is linked to CUDA and the driver, does not import on a machine without them."""


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
    captured = run_uv(["python", "list", "--only-installed", "--output-format", "json"], variables={"PATH": path})
    if captured.exit_code != 0:
        raise FatalError(
            f"uv could not list this machine's Pythons: {tail(captured.stderr)}", "Name an environment that has TensorFlow with --python PATH"
        )
    listed = msgspec.json.decode(captured.stdout, type=list[_ListedPython])
    fitting = [each for each in listed if each.path and each.implementation == "cpython" and each.variant == "default" and each.arch != "x86"]
    found: dict[str, Interpreter] = {}
    for each in fitting:
        found.setdefault(os.path.realpath(each.path or ""), Interpreter(path=os.path.realpath(each.path or ""), version=each.version))
    return tuple(found.values())


def planned_environment(
    release: Release, device: str, vendor: Path, *, pythons: Callable[[], Sequence[Interpreter]] = find_pythons, locks: Path = LOCKS
) -> Environment:
    """The environment for a release as it is there already, or as far as it is known before it is made.

    Args:
        device: "cpu" or "gpu".
        pythons: looks for those of this machine; called only where it has still to be made.

    Raises:
        FatalError: it is not there, and no Python of this machine fits.
    """
    if made := find_made(release, device, vendor, locks):
        return made
    interpreter = choose_python(release, pythons())
    return _unseen(release, interpreter, _directory(release, device, interpreter.minor, vendor, locks), "to be made")


def make_environment(
    release: Release,
    device: str,
    *,
    vendor: Path,
    say: Say,
    elsewhere: bool = False,
    pythons: Sequence[Interpreter] | None = None,
    locks: Path = LOCKS,
) -> Environment:
    """The environment for a release, made from its lock and checked, or as it was left by an earlier call.

    Args:
        device: "cpu" or "gpu".
        vendor: the directory that holds all environments; made where it is missing.
        say: told in a line what takes long.
        elsewhere: whether it is for the GPU of another machine, and may not import on this one.
        pythons: those of this machine; None looks for them.
        locks: the directory of the lock files.

    Raises:
        FatalError: no fitting Python, no network, a full disk, a package that is not what the lock says, a TensorFlow that does not import. Nothing
            half-made is left.
    """
    made = find_made(release, device, vendor, locks)
    if made and not losses(Path(made.path)) and not aside_of(Path(made.path)).exists():
        return made
    interpreter = choose_python(release, find_pythons() if pythons is None else pythons)
    directory = _directory(release, device, interpreter.minor, vendor, locks)
    return make_whole(directory, lambda: _fill(release, device, interpreter, directory, locks, elsewhere, say), say)


def resolution_options(release: Release, device: str) -> list[str]:
    """The options that make uv, started in the directory of the locks, resolve a release as of its date.

    TensorFlow itself is exempt: a sibling patch may be younger than the row's date. So are the tools that build old source packages: those of
    that time don't work with uv, those of today no longer build them.
    """
    tensorflow = re.sub(r"\[.*", "", release.package(device))
    exempt = [(tensorflow, "2100-01-01"), ("setuptools", BUILD_TOOLS_DATE), ("wheel", BUILD_TOOLS_DATE)]
    dates = [f"--exclude-newer={release.cutoff}", *(f"--exclude-newer-package={name}={date}" for name, date in exempt)]
    package = release.package(device)
    overrides = [f"--overrides={OVERRIDES[package]}"] if package in OVERRIDES else []
    return [*dates, f"--build-constraints={BUILD_TOOLS}", *overrides]


def run_uv(arguments: Sequence[str], *, cwd: Path = LOCKS, variables: Mapping[str, str] | None = None) -> Captured:
    """Run uv without its progress bars. What it was configured with (UV_*, uv.toml: a mirror of the package index) holds.

    Python is never downloaded: what is found is used, and what is missing is said. The wrapper's own environment is left out of it, and so is the
    user's current directory, whose pyproject.toml may hold settings for uv.

    Raises:
        FatalError: the wrapper was installed without uv, or it does not start.
    """
    try:
        from uv import find_uv_bin

        program = find_uv_bin()
    except (ImportError, FileNotFoundError) as error:
        what = f"uv, which makes the environments, can't be started: {error}"
        raise FatalError(what, f'Install it beside the wrapper: "{sys.executable}" -m pip install uv') from error
    settings = {"UV_PYTHON_DOWNLOADS": "never", "UV_NO_PROGRESS": "1", "NO_COLOR": "1", **(variables or {})}
    environment = {name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME")}
    return run_captured([program, *arguments], cwd=cwd, environment={**environment, **settings}, time_limit_s=INSTALL_LIMIT_S)


def _lock(release: Release, device: str) -> str:
    return f"{release.tensorflow}-{device}.txt"


def _directory(release: Release, device: str, minor: str, vendor: Path, locks: Path) -> Path:
    """Named by all that decides what is in it: another row or lock is another environment, and the old one stays as it is."""
    lock = (locks / _lock(release, device)).read_bytes() if release.verified else str(release.cutoff).encode()
    row = msgspec.json.encode((release.requirements(device), release.environment))
    digest = hashlib.sha256(b"\0".join((row, lock, (locks / BUILD_TOOLS).read_bytes()))).hexdigest()[:10]
    return vendor.resolve() / "environments" / f"{release.tensorflow}-{device}-py{minor}-{digest}"


def find_made(release: Release, device: str, vendor: Path, locks: Path = LOCKS) -> Environment | None:
    """The environment for a release as its marker records it, or None where there is none, or no whole one."""
    directories = (_directory(release, device, minor, vendor, locks) for minor in release.python)
    return next(filter(None, map(read_marker, directories)), None)


def _fill(release: Release, device: str, interpreter: Interpreter, directory: Path, locks: Path, elsewhere: bool, say: Say) -> Environment:
    say(f"making the environment for TensorFlow {release.tensorflow} on Python {interpreter.version}, downloading what is not cached")
    check_installed(run_uv(["venv", "--no-project", "--python", interpreter.path, str(directory)], cwd=locks), f"making {directory}", "uv")
    python = directory / PROGRAMS / PYTHON
    _install(release, device, python, locks)
    check_complete(directory)
    _compile(python, directory)
    say(f"importing TensorFlow {release.tensorflow} and looking at its devices")
    inherited = scrubbed_environment(os.environ, {}, keep_pythonpath=False)

    def look() -> Environment:
        return inspect(python, kind="locked", device=device, inherited=inherited, variables=release.environment)

    unseen = _unseen(release, interpreter, directory, "locked")
    return _look_if_it_imports(look, unseen, say) if elsewhere else look()


def _look_if_it_imports(look: Callable[[], Environment], unseen: Environment, say: Say) -> Environment:
    """An environment for the GPU of another machine, as far as it can be seen on this one.

    Args:
        look: imports its TensorFlow.
        unseen: is returned where that fails for lack of CUDA or of the driver.
        say: told so.

    Raises:
        FatalError: it fails for another reason.
    """
    try:
        return look()
    except FatalError as error:
        if not _LACKS_CUDA.search(error.what):
            raise
        say(f"{error.what}. This machine lacks what the other must have; it is imported there, before a sweep")
        return unseen


def _unseen(release: Release, interpreter: Interpreter, directory: Path, kind: str) -> Environment:
    return Environment(
        kind=kind,
        path=str(directory),
        python=str(directory / PROGRAMS / PYTHON),
        python_version=interpreter.version,
        tensorflow=release.tensorflow,
        variables=release.environment,
    )


def _install(release: Release, device: str, python: Path, locks: Path) -> None:
    what = f"installing TensorFlow {release.tensorflow}"
    if release.verified:
        wanted = ["--require-hashes", "--no-deps", f"--build-constraints={BUILD_TOOLS}", "--requirements", _lock(release, device)]
    else:
        wanted = [*resolution_options(release, device), *release.requirements(device)]
    check_installed(run_uv(["pip", "install", "--python", str(python), *wanted], cwd=locks), what, "uv")


def _compile(python: Path, directory: Path) -> None:
    """Trials may not write byte code, so that the checkout stays clean: without this each of them would compile TensorFlow again.

    uv's own --compile-bytecode does not work on Python 3.6. Files that don't compile (some packages hold samples for other Pythons) don't matter.
    """
    command = [str(python), "-m", "compileall", "-q", "-j", "0", str(directory)]
    run_captured(command, cwd=directory, environment=scrubbed_environment(os.environ, {}, keep_pythonpath=False), time_limit_s=INSTALL_LIMIT_S)
