"""Decide release and device, then bring checkout and environment: what a sweep stands on."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path

import msgspec
from packaging.version import Version

from wrapper.bootstrapper.by_hand import BY_HAND, age, with_commit
from wrapper.bootstrapper.compatibility import best_patch, unfit, widest_patch
from wrapper.bootstrapper.conda import make_conda_environment, packages_for, planned_conda_environment, use_conda_environment
from wrapper.bootstrapper.contained import planned_container, use_container
from wrapper.bootstrapper.environment import find_pythons, make_environment, planned_environment
from wrapper.bootstrapper.host import Gpu, gpus_present, nvidia_gpus
from wrapper.bootstrapper.inspection import Environment, fit_to_release, look_again, use_environment
from wrapper.bootstrapper.placing import Say, check_vendor
from wrapper.bootstrapper.pythons import Interpreter, listed, served_by
from wrapper.bootstrapper.release import Release, load_releases, match_installed, resolve_release
from wrapper.bootstrapper.source import Source
from wrapper.bootstrapper.upstream import Checkout, commit_date, demo_repository, fetch_checkout, known_commit, resolve_commit
from wrapper.bootstrapper.wheels import this_system
from wrapper.errors import FatalError

_NO_GPU = "Mend the driver (the GPU must be listed by NVML), leave --device out, or start all the same with --unproven-device"


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """What the user asked for, as far as it concerns the bootstrapper; None is for us to decide."""

    tensorflow: str | None = None
    source: Source = Source()
    """Where TensorFlow comes from."""
    commit: str | None = None
    """A commit of upstream in place of the release's own; 40 hex digits, or an abbreviation."""
    device: str = "auto"
    upstream: str
    """Address of the upstream repository."""
    vendor: Path
    demo: bool = False
    unproven_device: bool = False
    """Go on where a GPU is asked for and none is found; the trials are judged all the same."""
    elsewhere: bool = False
    """What is brought or planned may be for another machine, such as a node of a cluster: a GPU may be asked for where there is none."""


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """What was decided, before anything is fetched or made."""

    release: Release
    device: str
    """"cpu" or "gpu"."""
    reason: str
    """Why this release and this device, for people."""
    package: str = "cpu"
    """"cpu" or "gpu": which of the release's packages. That for the CPU where there is no GPU that the other could use."""
    environment: Environment | None = None
    """Already known where the user named an interpreter, and in the demo."""


class Setup(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that the trials of a sweep stand on."""

    release: Release
    device: str
    reason: str
    checkout: Checkout
    environment: Environment
    commit_age: str = ""
    """How a commit given by hand stands to this TensorFlow, as a sentence; empty where it is the release's own."""


def decide_device(asked: str) -> tuple[str, str]:
    """ "cpu" or "gpu" for "auto", "cpu" or "gpu", and why."""
    if asked != "auto":
        return asked, f"{asked.upper()} as asked for"
    count = len(gpus_present())
    if count:
        return "gpu", f"this machine has {count} NVIDIA GPU{'s' if count > 1 else ''}"
    return "cpu", "no NVIDIA GPU was found"


def choose(wish: Wish, say: Say) -> Choice:
    """Decide the device and the release, and say why.

    Raises:
        UsageError: an unknown release.
        FatalError: no Python for it, an environment without TensorFlow, or one with another release than the one asked for.
    """
    if wish.demo:
        _, commit = demo_repository(wish.vendor)
        return Choice(release=_demo_release(commit), device="cpu", reason="DEMO, as asked for", environment=_demo_environment())
    device, why_device = decide_device(wish.device)
    package = device
    if device == "gpu" and wish.source.kind != "python" and not wish.elsewhere and not gpus_present():
        if not wish.unproven_device:
            raise FatalError("a GPU was asked for, and no NVIDIA GPU was found on this machine", _NO_GPU)
        package = "cpu"
    if wish.source.name:
        environment, release = _look_at_named(wish, device, package, say)
        why = f"it is what {wish.source.name if environment.container else environment.python} has"
    else:
        environment = None
        release, why = decide_release(wish, *(nvidia_gpus()[:2] if package == "gpu" else ((), None)))
    if wish.commit:
        known = {row.upstream_commit for row in load_releases()}
        release = with_commit(release, known_commit(wish.commit, known=known, vendor=wish.vendor))
    return Choice(release=release, device=device, package=package, reason=f"{why}; {why_device}", environment=environment)


def _look_at_named(wish: Wish, device: str, package: str, say: Say) -> tuple[Environment, Release]:
    name = wish.source.name
    if wish.source.contained:
        environment, release = use_container(wish.source, None, device=device, package=package, vendor=wish.vendor, say=say)
        release_in(name, environment.tensorflow, wish.tensorflow)
        return environment, release
    say(f"looking at the TensorFlow of {name}")
    environment = (use_conda_environment if wish.source.kind == "conda" else use_environment)(name, device=device)
    release = release_in(name, environment.tensorflow, wish.tensorflow)
    return fit_to_release(environment, release), release


def decide_release(
    wish: Wish, gpus: Sequence[Gpu], cuda_served: str | None, pythons: Callable[[], Sequence[Interpreter]] = find_pythons
) -> tuple[Release, str]:
    """The release that was asked for, or the newest that this machine and the source can serve; and the reason in words.

    Args:
        wish: whose source is made for the release, not named.
        gpus: those to be used; none where the package for the CPU is taken.
        pythons: looks for those of this machine; called only where they decide.

    Raises:
        UsageError: an unknown release.
        FatalError: there is none that fits.
    """
    if wish.tensorflow and wish.elsewhere and wish.device == "gpu" and not gpus:
        return resolve_release(wish.tensorflow, load_releases(), best=widest_patch), "asked for, for the GPU of another machine"
    if wish.tensorflow:
        release, why = resolve_asked(wish.tensorflow, wish.source, gpus, cuda_served)
        return release, f"asked for{why and f' ({why})'}"
    if wish.source.kind == "conda":
        releases = load_releases()
        built = [resolve_release(each.tensorflow, releases) for each in packages_for(None, "gpu" if gpus else "cpu")]
        return newest_served(built, gpus, cuda_served), "the newest that conda is known to have for this machine"
    if wish.source.contained:  # an image brings its Python
        return newest_served(load_releases(), gpus, cuda_served), "the newest for this machine"
    return newest_fitting(pythons(), gpus, cuda_served)


def resolve_asked(text: str, source: Source, gpus: Sequence[Gpu], cuda_served: str | None) -> tuple[Release, str]:
    """The release that a version asked for means on this machine, and why, where a minor such as "1.12" does not mean its newest known patch.

    Raises:
        UsageError: an unknown release.
        FatalError: conda is to make the environment, and has no such release.
    """
    releases = load_releases()
    newest = resolve_release(text, releases)
    if source == Source("conda"):
        release = resolve_release(packages_for(text, "gpu" if gpus else "cpu")[-1].tensorflow, releases)
        why = f"conda has no {newest.tensorflow}"
    else:
        release = resolve_release(text, releases, best=lambda patches: best_patch(patches, gpus, cuda_served))
        held = ", ".join(newest.wheel.own.code) if newest.wheel else "none"
        why = f"{newest.tensorflow} holds code for compute capability {held} alone"
    return release, "" if release == newest else why


def release_in(python: str, installed: str, asked: str | None) -> Release:
    """The release of the TensorFlow that was found `installed` in an interpreter.

    Raises:
        UsageError: the one asked for is unknown.
        FatalError: none is known for it, or another one was asked for.
    """
    release = match_installed(installed, load_releases())
    if asked and not _names(asked, release):
        raise FatalError(f"{python} has TensorFlow {installed}, and {asked} was asked for", "Leave one of --environment and --tensorflow out")
    return release


def newest_served(releases: Sequence[Release], gpus: Sequence[Gpu], cuda_served: str | None) -> Release:
    """The newest release, where GPUs are to be used the newest that can work with one of them.

    Args:
        releases: those that can be had, oldest first.

    Raises:
        FatalError: there is none.
    """
    fitting = [row for row in releases if not gpus or any(unfit(row, gpu, cuda_served) is None for gpu in gpus)]
    if not fitting:
        raise FatalError("no release that can be had here fits this machine's GPUs and driver", "Install a newer driver, or ask for --device cpu")
    return fitting[-1]


def newest_fitting(pythons: Sequence[Interpreter], gpus: Sequence[Gpu], cuda_served: str | None) -> tuple[Release, str]:
    """The newest release that can work with these Pythons and, where GPUs are to be used, with one of them; and the reason in words."""
    package, system = "gpu" if gpus else "cpu", this_system()
    served = served_by(pythons, [row for row in load_releases() if row.wheel is None or row.wheel.serves(package, system)])
    release = newest_served(served, gpus, cuda_served)
    by = "" if release is served[-1] else ", GPU and driver"
    return release, f"the newest release that this machine's Pythons ({listed(pythons)}){by} can serve"


def prepare(choice: Choice, wish: Wish, say: Say) -> Setup:
    """Fetch the checkout and make the environment that were chosen; both are reused when they are there.

    Raises:
        FatalError: with what to do about it.
    """
    check_vendor(wish.vendor)
    address = demo_repository(wish.vendor)[0] if wish.demo else wish.upstream
    release = with_commit(choice.release, resolve_commit(choice.release.upstream_commit, address=wish.upstream, vendor=wish.vendor))
    elsewhere = wish.elsewhere and not gpus_present()
    checkout = fetch_checkout(release.upstream_commit, address=address, vendor=wish.vendor, say=say)
    if choice.environment:
        environment = choice.environment
    elif wish.source.contained:
        environment, found = use_container(wish.source, release, device=choice.device, package=choice.package, vendor=wish.vendor, say=say)
        release = with_commit(found, release.upstream_commit)
    elif wish.source.kind == "conda":
        environment = make_conda_environment(release, choice.package, vendor=wish.vendor, say=say)
    else:
        environment = make_environment(release, choice.package, vendor=wish.vendor, say=say, elsewhere=elsewhere)
    if choice.device == "gpu" and environment.kind in ("locked", "conda") and not elsewhere:
        say("asking TensorFlow which devices it sees")
        environment = look_again(environment)
    by_hand = release.upstream_ref == BY_HAND
    return Setup(
        # only now: an environment is made from the release's lock, whatever the commit
        release=msgspec.structs.replace(release, verified=release.verified and not by_hand),
        device=choice.device,
        reason=choice.reason,
        checkout=checkout,
        environment=environment,
        commit_age=age(release, commit_date(checkout)) if by_hand else "",
    )


def foresee(choice: Choice, wish: Wish) -> Setup:
    """The same without fetching or making anything: where checkout and environment will lie. For `--dry-run`."""
    check_vendor(wish.vendor)
    commit = resolve_commit(choice.release.upstream_commit, address=wish.upstream, vendor=wish.vendor)
    release = with_commit(choice.release, commit)
    checkout = Checkout(path=str(wish.vendor.resolve() / f"benchmarks-{commit[:12]}"), commit=commit, address=wish.upstream)
    environment = choice.environment
    if environment is None and wish.source.contained:
        environment = planned_container(wish.source, choice.release, choice.package)
    elif environment is None and wish.source.kind == "conda":
        environment = planned_conda_environment(choice.release, choice.package, wish.vendor)
    elif environment is None:
        environment = planned_environment(choice.release, choice.package, wish.vendor)
    return Setup(release=release, device=choice.device, reason=choice.reason, checkout=checkout, environment=environment)


def _names(asked: str, installed: Release) -> bool:
    """Whether "1.12.0", or "1.12" for any patch of it, means what is installed. Raises UsageError for what is no known release."""
    known, found = Version(resolve_release(asked, load_releases()).tensorflow), Version(installed.tensorflow)
    return found.release[:2] == known.release[:2] if len(Version(asked).release) == 2 else found == known


def _demo_release(commit: str) -> Release:
    return Release(
        tensorflow="DEMO",
        upstream_commit=commit,
        upstream_ref="DEMO, a script of the wrapper's own",
        python=(f"{sys.version_info.major}.{sys.version_info.minor}",),
        package_cpu="numpy",
        package_gpu="numpy",
        note="DEMO: not TensorFlow; its figures can't be compared with anything",
    )


def _demo_environment() -> Environment:
    return Environment(
        kind="demo",
        path=sys.prefix,
        python=sys.executable,
        python_version=".".join(map(str, sys.version_info[:3])),
        tensorflow="DEMO",
        packages={"numpy": metadata.version("numpy")},
    )
