"""What was asked for, what it comes to, and the record that it opens."""

from __future__ import annotations

import datetime
import os
import platform
import time
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, Protocol

import msgspec

import wrapper
from wrapper.batch_search import refuse_cpu
from wrapper.bootstrapper.by_hand import BY_HAND
from wrapper.bootstrapper.host import Gpu, Host, nvidia_gpus
from wrapper.bootstrapper.release import Release, load_releases, resolve_release
from wrapper.bootstrapper.setup import Choice, Setup, Wish, decide_device, decide_release, resolve_asked
from wrapper.bootstrapper.source import Source, parse_source
from wrapper.errors import FatalError, UsageError
from wrapper.parser.output import Event
from wrapper.reporter.axis import is_axis, read_axis, read_part
from wrapper.reporter.content import Report
from wrapper.reporter.side_by_side import SideBySide
from wrapper.reporter.store import SESSION_FILE, Session, Trial, read_session, read_trials
from wrapper.runner.load import other_load
from wrapper.runner.plan import PlannedTrial, expand, recorded_sizes, stand_in
from wrapper.runner.preflight import check_paths, leave_out, why_left_out, without
from wrapper.runner.quoting import shown
from wrapper.runner.sweep import Case, Sweep, check_sweep, load_models, load_sweep

WAIT_S = 30.0
"""Between two looks at who else computes."""


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What `tfcnn run` was asked for."""

    wish: Wish
    sweep: str | None = None
    """A shipped sweep or a file; None: the default for the device."""
    raw: dict[str, Any] | None = None
    """A sweep as plain values, in place of one that has a name or a file."""
    overrides: dict[str, Any] = {}
    """Keys of the sweep that flags set."""
    reports: Path
    resume: Path | None = None
    retry: tuple[int, ...] = ()
    """Indices of trials to run again, with `resume`."""
    telemetry: bool = True
    wait_idle: bool = False
    """Wait until nobody else computes here."""
    command: tuple[str, ...] = ()


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked for of one release."""

    sweep: Sweep
    wish: Wish
    typed: bool = False
    """Whether the user named the models for this very release: then one that it can't run is refused, not left out."""
    resume: Path | None = None
    """The report to go on with."""
    why: str = ""
    """Why this patch, where a minor release was asked for and another one is newer."""


class Watch(Protocol):
    """What the pipeline tells whoever watches it run."""

    def say(self, text: str) -> None: ...
    def show_setup(self, setup: Setup) -> None: ...
    def show_plan(self, setups: Sequence[Setup], sweep: Sweep, host: Host, trials: Sequence[tuple[str, PlannedTrial]]) -> None: ...
    def trial_started(self, planned: PlannedTrial, done: int, total: int, release: str = "") -> None: ...
    def line(self, event: Event, seconds: float) -> None: ...
    def trial_ended(self, trial: Trial) -> None: ...
    def show_report(self, report: Report, directory: Path) -> None: ...
    def show_side_by_side(self, found: SideBySide, directory: Path) -> None: ...


def what_was_asked(request: Request) -> tuple[Asked, ...]:
    """What was asked for, of each release in turn; from the records where a sweep is resumed.

    Raises:
        UsageError: for what can be seen to be wrong before anything is started, fetched, or waited for.
        FatalError: the records are missing or damaged.
    """
    if request.resume is None:
        asked = _asked_anew(request)
    else:
        _check_resume(request)
        asked = _axis_begun(request, request.resume) if is_axis(request.resume) else (_begun(request, request.resume),)
    for one in asked:
        _check_input(request, one)
    return asked


def asked_of_one(request: Request) -> Asked:
    """The same where there can be one release only. Raises UsageError as well where there are several."""
    asked = what_was_asked(request)
    if len(asked) > 1:
        raise UsageError(f"{len(asked)} releases are asked for, where one is looked at", "Name one with --tensorflow")
    return asked[0]


def _asked_anew(request: Request) -> tuple[Asked, ...]:
    wish = request.wish
    default = "demo" if wish.demo else {"gpu": "all", "cpu": "cpu"}[decide_device(wish.device)[0]]
    if request.raw is not None:
        sweep = check_sweep({**request.raw, **request.overrides}, models=load_models())
    else:
        sweep = load_sweep(request.sweep or default, request.overrides)
    named = sweep.device if request.sweep or request.raw is not None else "auto"
    wish = msgspec.structs.replace(wish, device=wish.device if wish.device != "auto" else named)
    releases = tuple(wish.tensorflow.split(",")) if wish.tensorflow else sweep.tensorflow
    if isinstance(releases, tuple) and len(releases) > 1:
        exact = _exact(releases, sweep, wish)
        return tuple(
            Asked(sweep=msgspec.structs.replace(sweep, tensorflow=one), wish=msgspec.structs.replace(wish, tensorflow=one), why=why)
            for one, why in exact
        )
    release = releases[0] if isinstance(releases, tuple) else releases
    return (Asked(sweep=sweep, wish=msgspec.structs.replace(wish, tensorflow=release), typed="models" in request.overrides),)


def _exact(releases: tuple[str, ...], sweep: Sweep, wish: Wish) -> tuple[tuple[str, str], ...]:
    """The exact versions of several releases that are to be set side by side, each with why it is that patch, see `resolve_asked`."""
    gpus, cuda_served, _ = nvidia_gpus() if decide_device(wish.device)[0] == "gpu" else ((), None, None)
    resolved = [_meant(release, wish, gpus, cuda_served) for release in releases]
    exact = [release.tensorflow for release, _ in resolved]
    several = f"{len(releases)} releases are asked for"
    if len(set(exact)) < len(exact):
        raise UsageError(f"tensorflow: {shown(', '.join(releases))} means {', '.join(exact)}, and one stands twice", "Name each release once")
    if wish.demo:
        raise UsageError(f"{several}, and --demo has none", "Leave one of --tensorflow and --demo out")
    if wish.source.name:
        raise UsageError(f"{several}, and --environment {wish.source.text} has one", "Leave it out, or measure that release by itself")
    sought = [model for model, sizes in sweep.models.items() if not isinstance(sizes, tuple)]
    if sought:
        remedy = "Write the batch size; `tfcnn batch-size` finds it for one release"
        raise UsageError(f"models.{sought[0]}: {several}, and each could find another batch size to fit", remedy)
    return tuple((release.tensorflow, why) for release, why in resolved)


def _meant(text: str, wish: Wish, gpus: Sequence[Gpu], cuda_served: str | None) -> tuple[Release, str]:
    try:
        if wish.elsewhere and wish.device == "gpu" and not gpus:
            return decide_release(msgspec.structs.replace(wish, tensorflow=text), gpus, cuda_served)[0], ""
        return resolve_asked(text, wish.source, gpus, cuda_served)
    except UsageError:
        raise
    except FatalError:  # conda has none: this release is left out when its turn comes, and does not stop the others
        return resolve_release(text, load_releases()), ""


def _check_input(request: Request, asked: Asked) -> None:
    sweep, wish = asked.sweep, asked.wish
    if wish.tensorflow and not wish.demo:
        resolve_release(wish.tensorflow, load_releases())
    try:
        check_paths(expand(sweep, device=decide_device(wish.device)[0], data_names=load_models(), resolve=stand_in), wish.source.contained)
        place = next(path for path in (request.reports, *request.reports.parents) if path.exists())
    except OSError as error:  # a name too long, a directory that may not be looked into
        raise UsageError(f"{shown(error.filename)} can't be looked at ({error.strerror})", "Name another place") from error
    if request.resume is None and not (place.is_dir() and os.access(place, os.W_OK)):
        raise UsageError(f"--reports {request.reports}: {place} is not a directory that can be written into", "Name another place")


def _check_resume(request: Request) -> None:
    wish = request.wish
    if request.sweep or request.overrides:
        raise UsageError("--resume goes on with the sweep as it was", "Leave the sweep and its keys out")
    asked = {"tensorflow": wish.tensorflow, "commit": wish.commit, "device": wish.device != "auto", "demo": wish.demo}
    for flag, given in asked.items():
        if given:
            raise UsageError(f"--{flag} can't be followed: --resume goes on with the sweep as it was", "Leave it out")


def _axis_begun(request: Request, directory: Path) -> tuple[Asked, ...]:
    """What was asked for of the releases whose reports lie in `directory`; one that has none is begun now."""
    if request.retry:
        raise UsageError(f"--retry: {directory} has trials of several releases", f"Say which with --resume {directory / 'RELEASE'}")
    axis = read_axis(directory)
    wish = msgspec.structs.replace(request.wish, source=parse_source(axis.environment), commit=axis.commit, device=axis.device)
    begun = {part.tensorflow: directory / part.tensorflow for part in axis.parts if read_part(directory, part)}
    return tuple(
        _begun(request, begun[release])
        if release in begun
        else Asked(
            sweep=check_sweep({**axis.sweep, "tensorflow": release}, models=load_models()), wish=msgspec.structs.replace(wish, tensorflow=release)
        )
        for release in (part.tensorflow for part in axis.parts)
    )


def _begun(request: Request, directory: Path) -> Asked:
    """What was asked for by the records in `directory`."""
    session = read_session(directory)
    last = max(session.planned_trials, *(trial.index for trial in read_trials(directory)), 0)
    for index in request.retry:
        if not 1 <= index <= last:
            raise UsageError(f"--retry {index}: {directory} has trials from 1 to {last}", "Name one of them")
    if session.device not in ("cpu", "gpu"):
        raise _damaged(f"its device is {shown(session.device)}", directory)
    source = _recorded_source(session.environment, directory)
    by_hand = session.release.get("upstream_ref") == BY_HAND
    wish = msgspec.structs.replace(
        request.wish,
        tensorflow=None if source.name or session.demo else _recorded(session.release, "release", "tensorflow", directory),
        source=source,
        commit=_recorded(session.release, "release", "upstream_commit", directory) if by_hand else None,
        device=session.device,
        demo=session.demo,
    )
    return Asked(sweep=check_sweep(session.sweep, models=load_models()), wish=wish, resume=directory)


def _recorded_source(environment: Mapping[str, Any], directory: Path) -> Source:
    if text := environment.get("source"):
        return parse_source(str(text))
    given = _recorded(environment, "environment", "kind", directory) == "given"
    return Source("python", _recorded(environment, "environment", "python", directory)) if given else Source()


def _recorded(facts: Mapping[str, Any], part: str, key: str, directory: Path) -> str:
    value = facts.get(key)
    if not isinstance(value, str):
        raise _damaged(f"it has no {part}.{key}", directory)
    return value


def _damaged(how: str, directory: Path) -> FatalError:
    return FatalError(f"{directory / SESSION_FILE} is damaged: {how}", "Restore it from a copy, or start a new sweep")


def list_cases(asked: Asked, choice: Choice, watch: Watch) -> tuple[Sweep, tuple[Case, ...]]:
    """The cases that this release can run, and the sweep without the others.

    Batch sizes that have still to be found by trials stand in for themselves, so that everything else can be checked before.
    """
    sweep = asked.sweep
    if asked.why:
        watch.say(f"taken: {asked.why}")
    absent = leave_out(tuple(sweep.models), choice.release, typed=asked.typed)
    for model in absent:
        watch.say(f"left out: {model}: {why_left_out(choice.release)}")
    sweep = msgspec.structs.replace(sweep, models=without(sweep.models, absent))
    resolve = recorded_sizes(read_session(asked.resume).cases) if asked.resume else stand_in
    cases = expand(sweep, device=choice.device, data_names=load_models(), resolve=resolve)
    for case in cases:
        if not isinstance(sweep.models[case.model], tuple):
            refuse_cpu(case)
    return sweep, cases


def see_load(host: Host, request: Request, watch: Watch) -> tuple[str, ...]:
    """Who else computes on the devices and the host before the first trial, said and kept; with `wait_idle` waited for."""
    devices = [gpu.index for gpu in nvidia(host)]
    while True:
        load = tuple(str(one) for one in other_load(devices) if one.computing)
        for one in load:
            watch.say(f"busy: {one}")
        if not load or not request.wait_idle:
            return load
        watch.say("waiting until that ends (Ctrl-C to give up)")
        time.sleep(WAIT_S)


def nvidia(host: Host) -> tuple[Gpu, ...]:
    """The GPUs that NVML can watch."""
    return tuple(gpu for gpu in host.gpus if gpu.vendor == "NVIDIA")


def describe(request: Request, sweep: Sweep, setup: Setup, host: Host, cases: tuple[Case, ...], load: tuple[str, ...]) -> Session:
    """Everything that holds for the whole sweep, for session.json."""
    return Session(
        demo=setup.environment.kind == "demo",
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        sweep=msgspec.to_builtins(sweep),
        release=msgspec.to_builtins(setup.release),
        upstream={"address": setup.checkout.address, "commit": setup.checkout.commit, "ref": setup.release.upstream_ref},
        environment=msgspec.to_builtins(setup.environment),
        host=msgspec.to_builtins(host),
        versions={"tfcnn": wrapper.__version__, "python": platform.python_version()}
        | {name: metadata.version(name) for name in ("GitPython", "pandas", "PyYAML", "msgspec", "psutil", "nvidia-ml-py", "uv")},
        command=request.command,
        choice=setup.reason,
        device=setup.device,
        cases=cases,
        planned_trials=len(cases) * sweep.repeats,
        load=load,
    )
