"""Gather what the doctor looks at. TensorFlow is imported only where that is asked for."""

from __future__ import annotations

import importlib
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import Distribution
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from wrapper.bootstrapper.conda import find_tools, planned_conda_environment
from wrapper.bootstrapper.doctor import Facts, Finding, Found, Trouble, diagnose
from wrapper.bootstrapper.engine import ASK_LIMIT_S, leftovers
from wrapper.bootstrapper.environment import find_made, find_pythons, planned_environment, run_uv
from wrapper.bootstrapper.host import nvidia_gpus
from wrapper.bootstrapper.inspection import look_again, use_environment
from wrapper.bootstrapper.making import MARKER, losses, read_marker
from wrapper.bootstrapper.placing import check_vendor, existing
from wrapper.bootstrapper.pythons import Interpreter, choose_python, locate
from wrapper.bootstrapper.release import Release, load_releases
from wrapper.bootstrapper.setup import Choice, Wish, decide_release, release_in
from wrapper.bootstrapper.surroundings import another_sweep, gpu_libraries, gpu_states, no_wheel, pci_gpus, python_path, wrong_clock
from wrapper.bootstrapper.upstream import git_version, look_at_upstream
from wrapper.bootstrapper.wheels import this_system
from wrapper.errors import FatalError, UsageError

T = TypeVar("T")

ANSWER_LIMIT_S = 2.0
"""For upstream's server; the doctor is to be done within 3 s."""
ENGINE_LIMIT_S = 1.0
"""For an engine, which is on this machine. Measured: 0.05 s."""

_TENSORFLOWS = ("tensorflow", "tensorflow-gpu", "tensorflow-cpu", "tensorflow-intel", "tensorflow-macos", "tensorflow-rocm")
_PACKAGES = ("lib/python{}/site-packages", "lib64/python{}/site-packages", "lib/python{}/dist-packages", "local/lib/python{}/dist-packages")
"""Where packages lie under an interpreter's prefix, the latter two on Debian; on Windows it is Lib/site-packages."""


def examine(wish: Wish, *, deep: bool = False, other_sweep: str | None = None, nvml: Any = None) -> tuple[Finding, ...]:
    """Look at this machine as far as it concerns a wish; takes 1 to 3 s, and changes nothing.

    Args:
        deep: import each TensorFlow that is found, and see whether it sees the GPU; takes several seconds each.
        other_sweep: whose sweep is running on this machine, in words; None: nobody's.
        nvml: what stands in for the `pynvml` module.

    Returns:
        the worst first.

    Raises:
        UsageError: an unknown release, or an address that is not accepted.
    """
    uv = _attempt(lambda: run_uv(["--version"]).stdout.strip())
    pythons = _attempt(find_pythons) if isinstance(uv, str) else None
    known = pythons if isinstance(pythons, tuple) else None
    facts = _machine(wish, nvml, ENGINE_LIMIT_S)
    found = tuple(_find_tensorflows(wish, known or ()))
    chosen = _attempt(lambda: _release(wish, known, facts, found))
    release, reason = chosen if isinstance(chosen, tuple) else (chosen, "")
    environment, made = _environment(wish, release, facts, lambda: known)
    found = tuple(_look_over(msgspec.structs.replace(one, used=one.used or one.place == made), deep=deep) for one in found)
    damaged = any(one.place == made and one.seen for one in found)
    if damaged and isinstance(release, Release) and known is not None:  # then it is made again
        python = _attempt(lambda: choose_python(release, known))
        environment = python if isinstance(python, Trouble) else environment
    if deep:
        found = tuple(_import(one, "cpu" if facts.device == "cpu" or not facts.gpus else "gpu") for one in found)
    facts = msgspec.structs.replace(
        facts,
        uv=uv,
        pythons=pythons,
        upstream=_upstream(wish, release) if isinstance(release, Release) and isinstance(facts.git, str) else None,
        release=release,
        reason=reason,
        environment=environment,
        to_be_made=made is None or damaged,
        found=found,
    )
    return diagnose(_with_surroundings(facts, wish, other_sweep))


def examine_choice(wish: Wish, choice: Choice | None, *, nvml: Any = None) -> tuple[Finding, ...]:
    """What could stop a sweep, before anything is fetched for it; takes a fraction of a second, and no network.

    Upstream is not asked: fetching its commit comes next, and says itself what is wrong.

    Args:
        choice: None where it can be made only from an image that has still to be fetched.
    """
    facts = _machine(wish, nvml, ASK_LIMIT_S)
    if choice:
        facts = msgspec.structs.replace(facts, package=choice.package, release=choice.release)
    given = choice.environment if choice else None
    environment, made = (given.path, given.python) if given else _environment(wish, facts.release, facts, find_pythons)
    facts = msgspec.structs.replace(facts, environment=environment, to_be_made=made is None)
    return diagnose(_with_surroundings(facts, wish, other_sweep=None))


def check_machine(wish: Wish, choice: Choice | None, say: Callable[[str], None], *, nvml: Any = None) -> None:
    """Let the doctor look before a sweep: doubts are said, once there is a choice, and what is in the way stops it.

    Raises:
        FatalError: naming every fault and its remedy.
    """
    findings = examine_choice(wish, choice, nvml=nvml)
    for finding in findings:
        if finding.status == "warn" and choice:
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


def _machine(wish: Wish, nvml: Any, engine_limit_s: float) -> Facts:
    """What needs neither a release nor a search."""
    kind = wish.source.kind
    gpus, cuda_served, gpu_error = nvidia_gpus(nvml)
    device = "cpu" if wish.demo else wish.device
    return Facts(
        device=device,
        package="gpu" if gpus and device != "cpu" else "cpu",
        git=_attempt(lambda: git_version(wish.vendor)),
        left=_attempt(lambda: leftovers(kind, engine_limit_s)) if wish.source.contained else (),
        given=kind == "python",
        unproven_device=wish.unproven_device,
        vendor=str(wish.vendor),
        free_bytes=shutil.disk_usage(existing(wish.vendor)).free,
        gpus=gpu_states(gpus, nvml or importlib.import_module("pynvml")),
        cuda_served=cuda_served,
        gpu_error=gpu_error,
        undriven=() if gpus or gpu_error else pci_gpus(),
    )


def _with_surroundings(facts: Facts, wish: Wish, other_sweep: str | None) -> Facts:
    """What depends on the release and on what has still to be made."""
    release = facts.release if isinstance(facts.release, Release) else None
    locked = wish.source.kind == "locked"
    to_be_fetched = release is not None and not (wish.vendor / f"benchmarks-{release.upstream_commit[:12]}").exists()
    troubles = [
        *another_sweep(other_sweep),
        *wrong_clock(datetime.now(UTC).date(), load_releases()),
        *(python_path(os.environ, wish.source.name) if facts.given else ()),
        *(no_wheel(release, facts.package, this_system()) if release and locked else ()),
        *(gpu_libraries(release, os.environ, facts.gpu_fault) if release and locked and facts.package == "gpu" else ()),
    ]
    place = _attempt(lambda: check_vendor(wish.vendor, writable=facts.to_be_made or to_be_fetched))
    return msgspec.structs.replace(facts, place=place, others=tuple(troubles))


def _release(wish: Wish, pythons: tuple[Interpreter, ...] | None, facts: Facts, found: tuple[Found, ...]) -> tuple[Release, str] | None:
    """The release that a sweep would run, and why; None where it can't be told without starting what a user named, or without uv."""
    if wish.source.kind == "python":
        python = locate(wish.source.name)
        installed = next((one.tensorflow for one in found if one.place == str(python)), "")
        if not installed:
            raise FatalError(f"{python} has no TensorFlow, by the metadata of its packages", "Install it there, or leave --python out")
        return release_in(wish.source.name, installed, wish.tensorflow), f"it is what {python} has"
    if not wish.tensorflow and (wish.source.name or (wish.source.kind == "locked" and pythons is None)):
        return None
    gpus = [state.gpu for state in facts.gpus] if facts.package == "gpu" else []
    return decide_release(wish, gpus, facts.cuda_served, lambda: pythons or ())


def _upstream(wish: Wish, release: Release) -> str | Trouble:
    return _attempt(lambda: look_at_upstream(release.upstream_commit, address=wish.upstream, vendor=wish.vendor, limit_s=ANSWER_LIMIT_S))


def _environment(
    wish: Wish, release: Release | Trouble | None, facts: Facts, pythons: Callable[[], tuple[Interpreter, ...] | None]
) -> tuple[str | Trouble | None, str | None]:
    """Where the sweep's environment is or will be, in words, and its interpreter where it is there.

    Args:
        pythons: looks for those of this machine; called only where the environment has still to be made.
    """
    kind = wish.source.kind
    if kind == "python":
        return f"{wish.source.name}, as asked for", wish.source.name
    if kind == "conda":
        tools = _attempt(lambda: find_tools(os.environ, Path.home()))
        if isinstance(tools, Trouble):
            return tools, None
        by = f"{wish.source.text}, by {tools[0]}"
        if wish.source.name or not isinstance(release, Release):
            return by, wish.source.name or None
        conda = _attempt(lambda: planned_conda_environment(release, facts.package, wish.vendor))
        if isinstance(conda, Trouble):
            return conda, None
        return (f"{by}: {conda.path} is still to be made", None) if conda.kind == "to be made" else (f"{by}: {conda.path}", conda.python)
    if wish.source.contained:
        engine = shutil.which(kind)
        return facts.left if isinstance(facts.left, Trouble) else f"{wish.source.text}, by {engine}", engine
    made = find_made(release, facts.package, wish.vendor) if isinstance(release, Release) else None
    if made:
        return made.path, made.python
    known = pythons() if isinstance(release, Release) else None
    if not isinstance(release, Release) or known is None:
        return None, None
    planned = _attempt(lambda: planned_environment(release, facts.package, wish.vendor, pythons=lambda: known))
    return planned if isinstance(planned, Trouble) else f"{planned.path} is still to be made", None


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
    return Found(place=environment.python, tensorflow=environment.tensorflow, ours=environment)


def _look_over(found: Found, *, deep: bool) -> Found:
    """Whether an environment of ours has lost files: the one that would be used, or any of them if `deep`, which takes 0.1 s each."""
    lost = losses(Path(found.ours.path)) if found.ours and (found.used or deep) else None
    if lost is None:
        return found
    trouble = Trouble(f"the environment of {found.place} is damaged: {lost}", "Nothing, or delete it: the next sweep that needs it makes it again")
    return msgspec.structs.replace(found, used=False, seen=trouble)


def _import(found: Found, device: str) -> Found:
    if found.seen:
        return found
    ours = found.ours
    seen = _attempt(lambda: look_again(ours, device=device) if ours else use_environment(found.place, device=device))
    return msgspec.structs.replace(found, seen=seen)
