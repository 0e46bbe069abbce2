"""Gather what the doctor looks at. TensorFlow is imported only where that is asked for."""

from __future__ import annotations

import importlib
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib.metadata import Distribution
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import psutil

from wrapper.bootstrapper.doctor import Facts, Finding, Found, GpuState, Trouble, diagnose
from wrapper.bootstrapper.environment import Interpreter, find_made, find_pythons, planned_environment, run_uv, use_environment
from wrapper.bootstrapper.host import Gpu, answer, nvidia_gpus
from wrapper.bootstrapper.inspection import locate
from wrapper.bootstrapper.making import MARKER, read_marker
from wrapper.bootstrapper.placing import existing
from wrapper.bootstrapper.release import Release, load_releases, resolve_release
from wrapper.bootstrapper.setup import Choice, Wish, newest_fitting, release_in
from wrapper.bootstrapper.upstream import git_version, look_at_upstream
from wrapper.errors import FatalError, UsageError

T = TypeVar("T")

ANSWER_LIMIT_S = 2.0
"""For upstream's server; the doctor is to be done within 3 s."""

_TENSORFLOWS = ("tensorflow", "tensorflow-gpu", "tensorflow-cpu", "tensorflow-intel", "tensorflow-macos", "tensorflow-rocm")
_PACKAGES = ("lib/python{}/site-packages", "lib64/python{}/site-packages", "lib/python{}/dist-packages", "local/lib/python{}/dist-packages")
"""Where packages lie under an interpreter's prefix, the latter two on Debian; on Windows it is Lib/site-packages."""


def examine(wish: Wish, *, deep: bool = False, nvml: Any = None) -> tuple[Finding, ...]:
    """Look at this machine as far as it concerns a wish; takes 1 to 3 s, and changes nothing.

    Args:
        deep: import each TensorFlow that is found, and see whether it sees the GPU; takes several seconds each.
        nvml: what stands in for the `pynvml` module.

    Returns:
        the worst first.

    Raises:
        UsageError: an unknown release, or an address that is not accepted.
    """
    uv = _uv()
    pythons = _attempt(find_pythons) if isinstance(uv, str) else ()
    known = pythons if isinstance(pythons, tuple) else ()
    facts = _machine(wish, nvml)
    found = tuple(_find_tensorflows(wish, known))
    release = _attempt(lambda: _release(wish, known, facts, found))
    environment, made = _environment(wish, release, facts.package, lambda: known)
    found = tuple(msgspec.structs.replace(one, used=one.used or one.place == made) for one in found)
    if deep:
        found = tuple(_import(one, "cpu" if facts.device == "cpu" or not facts.gpus else "gpu") for one in found)
    return diagnose(
        msgspec.structs.replace(
            facts,
            uv=uv,
            pythons=pythons if isinstance(uv, str) else None,
            upstream=_upstream(wish, release) if isinstance(release, Release) else None,
            release=release,
            environment=environment,
            to_be_made=made is None,
            found=found,
        )
    )


def examine_choice(wish: Wish, choice: Choice, *, nvml: Any = None) -> tuple[Finding, ...]:
    """What could stop a sweep, before anything is fetched for it; takes a fraction of a second, and no network.

    Upstream is not asked: fetching its commit comes next, and says itself what is wrong.
    """
    given = choice.environment
    environment, made = (given.path, given.python) if given else _environment(wish, choice.release, choice.package, find_pythons)
    facts = _machine(wish, nvml)
    return diagnose(msgspec.structs.replace(facts, package=choice.package, release=choice.release, environment=environment, to_be_made=made is None))


def check_machine(wish: Wish, choice: Choice, say: Callable[[str], None], *, nvml: Any = None) -> None:
    """Let the doctor look before a sweep: doubts are said, and what is in the way stops it.

    Raises:
        FatalError: naming every fault and its remedy.
    """
    findings = examine_choice(wish, choice, nvml=nvml)
    for finding in findings:
        if finding.status == "warn":
            say(f"{finding.subject}: {finding.text}. {finding.remedy}")
    # an interpreter that the user named is asked itself which GPUs it sees, and they may be of a maker that NVML does not know
    faults = [finding for finding in findings if finding.status == "fail" and not (wish.source.kind == "python" and finding.subject == "driver")]
    if faults:
        raise FatalError("; ".join(fault.text for fault in faults), ". ".join(dict.fromkeys(fault.remedy for fault in faults)))


def installed_tensorflow(python: Path) -> str | None:
    """The version of the TensorFlow that an interpreter has by its packages' metadata, without starting it; None where there is none."""
    real = Path(os.path.realpath(python))
    virtual = (python.parent.parent / "pyvenv.cfg").is_file()  # its interpreter is a link to another
    programs = python.parent if virtual else real.parent
    prefix = programs.parent if programs.name.lower() in ("bin", "scripts") else programs
    minor = re.search(r"\d+\.\d+", real.name)  # several may share a prefix, as under /usr
    patterns = [*(pattern.format(minor[0] if minor else "*") for pattern in _PACKAGES), "Lib/site-packages"]
    prefixes = [prefix] if virtual else [prefix, Path.home() / ".local"]
    places = [str(place) for root in prefixes for pattern in patterns for place in root.glob(pattern)]
    versions = (distribution.version for name in _TENSORFLOWS for distribution in Distribution.discover(name=name, path=places))
    return next(versions, None)


def _attempt(look: Callable[[], T]) -> T | Trouble:
    try:
        return look()
    except UsageError:
        raise
    except FatalError as error:
        return Trouble(error.what, error.remedy)


def _machine(wish: Wish, nvml: Any) -> Facts:
    """What needs neither a release nor a search."""
    gpus, cuda_served, gpu_error = nvidia_gpus(nvml)
    device = "cpu" if wish.demo else wish.device
    return Facts(
        device=device,
        package="gpu" if gpus and device != "cpu" else "cpu",
        git=_attempt(lambda: git_version(wish.vendor)),
        given=wish.source.kind == "python",
        unproven_device=wish.unproven_device,
        vendor=str(wish.vendor),
        free_bytes=shutil.disk_usage(existing(wish.vendor)).free,
        gpus=_states(gpus, nvml or importlib.import_module("pynvml")),
        cuda_served=cuda_served,
        gpu_error=gpu_error,
    )


def _uv() -> str | Trouble:
    try:
        return run_uv(["--version"]).stdout.strip()
    except (FatalError, ImportError, OSError) as error:
        return Trouble(f"uv, which makes the environments, can't be started: {error}", "Install it beside the wrapper: python -m pip install uv")


def _release(wish: Wish, pythons: tuple[Interpreter, ...], facts: Facts, found: tuple[Found, ...]) -> Release:
    if wish.source.kind == "python":
        python = locate(wish.source.name)
        installed = next((one.tensorflow for one in found if one.place == str(python)), "")
        if not installed:
            raise FatalError(f"{python} has no TensorFlow, by the metadata of its packages", "Install it there, or leave --python out")
        return release_in(wish.source.name, installed, wish.tensorflow)
    if wish.tensorflow:
        return resolve_release(wish.tensorflow, load_releases())
    gpus = [state.gpu for state in facts.gpus] if facts.package == "gpu" else []
    return newest_fitting(pythons, gpus, facts.cuda_served)[0]


def _upstream(wish: Wish, release: Release) -> str | Trouble:
    return _attempt(lambda: look_at_upstream(release.upstream_commit, address=wish.upstream, vendor=wish.vendor, limit_s=ANSWER_LIMIT_S))


def _environment(
    wish: Wish, release: Release | Trouble, package: str, pythons: Callable[[], tuple[Interpreter, ...]]
) -> tuple[str | Trouble, str | None]:
    """Where the sweep's environment is or will be, in words, and its interpreter where it is there.

    Args:
        pythons: looks for those of this machine; called only where the environment has still to be made.
    """
    if wish.source.kind == "python":
        return f"{wish.source.name}, as asked for", wish.source.name
    if isinstance(release, Trouble):
        return "none can be planned without a release", None
    made = find_made(release, package, wish.vendor)
    if made:
        return made.path, made.python
    planned = _attempt(lambda: planned_environment(release, package, pythons(), wish.vendor))
    return planned if isinstance(planned, Trouble) else f"{planned[0]} is still to be made", None


def _find_tensorflows(wish: Wish, pythons: tuple[Interpreter, ...]) -> Iterator[Found]:
    """Those that a user named or activated, those in `vendor`, and those of this machine's Pythons."""
    if wish.source.kind == "python":
        with suppress(FatalError):  # `_release` raises it again
            python = locate(wish.source.name)
            if version := installed_tensorflow(python):
                yield Found(place=str(python), tensorflow=version, used=True)
    for directory in sorted((wish.vendor.resolve() / "environments").glob("[!.]*")):
        yield _made_here(directory)
    others = [python.path for python in pythons]
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        with suppress(FatalError, KeyError):
            others.append(str(locate(os.environ[name])))
    for path in dict.fromkeys(others):
        if version := installed_tensorflow(Path(path)):
            yield Found(place=path, tensorflow=version)


def _made_here(directory: Path) -> Found:
    environment = read_marker(directory)
    if environment is None and (directory / MARKER).exists():
        what = f"{directory} was moved, or the Python that it was made from has gone"
        return Found(place=str(directory), seen=Trouble(what, "Delete it; it is made again when it is needed"))
    if environment is None:
        what = f"{directory} is half made, or being made at this moment"
        return Found(place=str(directory), seen=Trouble(what, "If nothing is making it, delete it; it is made again when it is needed"))
    return Found(place=environment.python, tensorflow=environment.tensorflow)


def _import(found: Found, device: str) -> Found:
    return found if found.seen else msgspec.structs.replace(found, seen=_attempt(lambda: use_environment(found.place, device=device)))


def _states(gpus: tuple[Gpu, ...], nvml: Any) -> tuple[GpuState, ...]:
    if not gpus:
        return ()
    nvml.nvmlInit()
    try:
        return tuple(_state(gpu, nvml) for gpu in gpus)
    finally:
        nvml.nvmlShutdown()


def _state(gpu: Gpu, nvml: Any) -> GpuState:
    handle = nvml.nvmlDeviceGetHandleByIndex(gpu.index)
    memory = answer(nvml, nvml.nvmlDeviceGetMemoryInfo, handle)
    running = answer(nvml, nvml.nvmlDeviceGetComputeRunningProcesses, handle) or ()
    default = answer(nvml, nvml.nvmlDeviceGetPowerManagementDefaultLimit, handle)
    return GpuState(
        gpu=gpu,
        memory_free_bytes=memory.free if memory else None,
        processes=tuple(_name(process.pid) for process in running),
        ecc_errors=answer(nvml, nvml.nvmlDeviceGetTotalEccErrors, handle, nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_VOLATILE_ECC),
        power_default_w=None if default is None else default / 1000,
    )


def _name(pid: int) -> str:
    try:
        return f"{psutil.Process(pid).name()} (process {pid})"
    except psutil.Error:
        return f"process {pid}"
