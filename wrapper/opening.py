"""What was asked for, what it comes to, and the record that it opens."""

from __future__ import annotations

import datetime
import os
import platform
import time
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any, Protocol

import msgspec

import wrapper
from wrapper.batch_search import refuse_cpu
from wrapper.bootstrapper.host import Gpu, Host
from wrapper.bootstrapper.release import load_releases, resolve_release
from wrapper.bootstrapper.setup import BY_HAND, Choice, Setup, Wish, decide_device
from wrapper.bootstrapper.source import Source, parse_source
from wrapper.errors import FatalError, UsageError
from wrapper.parser.output import Event
from wrapper.reporter.report import Report
from wrapper.reporter.store import (
    SESSION_FILE,
    Session,
    Trial,
    check_resumable,
    create_report_directory,
    read_session,
    read_trials,
    write_session,
)
from wrapper.runner.load import other_load
from wrapper.runner.plan import PlannedTrial, expand, recorded_sizes, stand_in
from wrapper.runner.preflight import check_data_dir, leave_out, without
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


class Watch(Protocol):
    """What the pipeline tells whoever watches it run."""

    def say(self, text: str) -> None: ...
    def show_plan(self, setup: Setup, sweep: Sweep, host: Host, trials: tuple[PlannedTrial, ...]) -> None: ...
    def trial_started(self, planned: PlannedTrial, done: int, total: int) -> None: ...
    def line(self, event: Event, seconds: float) -> None: ...
    def trial_ended(self, trial: Trial) -> None: ...
    def show_report(self, report: Report, directory: Path) -> None: ...


def what_was_asked(request: Request) -> tuple[Sweep, Wish]:
    """The sweep and the wish; from the records where a sweep is resumed."""
    wish = request.wish
    if request.resume is None:
        default = "demo" if wish.demo else {"gpu": "all", "cpu": "cpu"}[decide_device(wish.device)[0]]
        if request.raw is not None:
            sweep = check_sweep({**request.raw, **request.overrides}, models=load_models())
        else:
            sweep = load_sweep(request.sweep or default, request.overrides)
        named = sweep.device if request.sweep or request.raw is not None else "auto"
        device = wish.device if wish.device != "auto" else named
        return sweep, msgspec.structs.replace(wish, tensorflow=wish.tensorflow or sweep.tensorflow, device=device)
    return _what_was_begun(request, request.resume)


def check_input(request: Request, sweep: Sweep, wish: Wish) -> None:
    """Refuse what can be seen to be wrong before anything is started, fetched, or waited for.

    Raises:
        UsageError: an unknown release, data that is not there, or reports that could not be made where they are asked for.
    """
    if wish.tensorflow and not wish.demo:
        resolve_release(wish.tensorflow, load_releases())
    try:
        check_data_dir(expand(sweep, device=decide_device(wish.device)[0], data_names=load_models(), resolve=stand_in))
        place = next(path for path in (request.reports, *request.reports.parents) if path.exists())
    except OSError as error:  # a name too long, a directory that may not be looked into
        raise UsageError(f"{shown(error.filename)} can't be looked at ({error.strerror})", "Name another place") from error
    if request.resume is None and not (place.is_dir() and os.access(place, os.W_OK)):
        raise UsageError(f"--reports {request.reports}: {place} is not a directory that can be written into", "Name another place")


def _what_was_begun(request: Request, directory: Path) -> tuple[Sweep, Wish]:
    """The sweep and the wish of the records in `directory`."""
    wish = request.wish
    if request.sweep or request.overrides:
        raise UsageError("--resume goes on with the sweep as it was", "Leave the sweep and its keys out")
    asked = {
        "tensorflow": wish.tensorflow,
        "python" if wish.source.kind == "python" else "environment": wish.source != Source(),
        "commit": wish.commit,
        "device": wish.device != "auto",
        "demo": wish.demo,
    }
    for flag, given in asked.items():
        if given:
            raise UsageError(f"--{flag} can't be followed: --resume goes on with the sweep as it was", "Leave it out")
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
        wish,
        tensorflow=None if source.name or session.demo else _recorded(session.release, "release", "tensorflow", directory),
        source=source,
        commit=_recorded(session.release, "release", "upstream_commit", directory) if by_hand else None,
        device=session.device,
        demo=session.demo,
    )
    return check_sweep(session.sweep, models=load_models()), wish


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


def list_cases(request: Request, sweep: Sweep, choice: Choice, watch: Watch) -> tuple[Sweep, tuple[Case, ...]]:
    """The cases that this release can run, and the sweep without the others.

    Batch sizes that have still to be found by trials stand in for themselves, so that everything else can be checked before.
    """
    typed = "models" in request.overrides
    absent = leave_out(tuple(sweep.models), choice.release.missing_models, typed=typed, release=choice.release.tensorflow)
    for model in absent:
        watch.say(f"left out: {model}, which upstream can't run with TensorFlow {choice.release.tensorflow}")
    sweep = msgspec.structs.replace(sweep, models=without(sweep.models, absent))
    resolve = recorded_sizes(read_session(request.resume).cases) if request.resume else stand_in
    cases = expand(sweep, device=choice.device, data_names=load_models(), resolve=resolve)
    for case in cases:
        if not isinstance(sweep.models[case.model], tuple):
            refuse_cpu(case)
    return sweep, cases


def open_report(request: Request, session: Session, watch: Watch) -> Path:
    """The report's directory: a new one, or the one to go on with, if nothing that matters has changed since."""
    if request.resume is None:
        directory = create_report_directory(request.reports, session)
        write_session(directory, session)
        return directory
    for note in check_resumable(read_session(request.resume), session):
        watch.say(f"note: {note}")
    return request.resume


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
