"""The flow: sweep and release become cases, cases become trials, trials become records, records become a report."""

from __future__ import annotations

import datetime
import platform
import time
from importlib import metadata
from pathlib import Path
from typing import Any, Protocol

import msgspec

import wrapper
from wrapper.bootstrapper.host import Gpu, Host, read_host
from wrapper.bootstrapper.setup import Choice, Setup, Wish, choose, decide_device, foresee, prepare
from wrapper.errors import EXIT_INVALID_TRIALS, EXIT_OK, Interrupted, UsageError
from wrapper.measurement import Bench, measure
from wrapper.parser.output import Event
from wrapper.reporter.report import Report, write_report
from wrapper.reporter.store import (
    Session,
    Trial,
    append_trial,
    check_resumable,
    create_report_directory,
    read_session,
    read_trials,
    write_session,
)
from wrapper.runner.load import other_load
from wrapper.runner.lock import one_sweep_at_a_time
from wrapper.runner.plan import PlannedTrial, expand, plan_trials
from wrapper.runner.preflight import check_data_dir, check_devices, check_flags, leave_out, without
from wrapper.runner.sweep import Case, Sweep, check_sweep, load_models, load_sweep

WAIT_S = 30.0
"""Between two looks at who else computes."""


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What `tfcnn run` was asked for."""

    wish: Wish
    sweep: str | None = None
    """A shipped sweep or a file; None: the default for the device."""
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


def run(request: Request, watch: Watch) -> int:
    """Bootstrap, run every trial that is not on disk yet, report.

    Returns:
        0 when every trial has a valid figure, 4 when some have none.

    Raises:
        FatalError: before the first trial, for what the user can mend.
        Interrupted: the user stopped it; what was finished is on disk and reported.
    """
    with one_sweep_at_a_time(str(request.resume or request.reports)):
        sweep, wish = what_was_asked(request)
        choice = choose(wish, watch.say)
        sweep, cases = list_cases(request, sweep, choice, watch)
        setup = prepare(choice, wish, watch.say)
        check_flags(cases, setup.checkout.script)
        if not wish.unproven_device:
            check_devices(cases, setup.environment)
        trials = plan(sweep, cases, setup)
        host = read_host(wish.vendor)
        load = see_load(host, request, watch)
        directory = open_report(request, describe(request, sweep, setup, host, cases, len(trials), load), watch)
        bench = Bench(setup=setup, directory=directory, time_limit=sweep.time_limit, gpus=nvidia(host), telemetry=request.telemetry)
        interrupted = run_trials(trials, request.retry, bench, watch)
        report = write_report(directory)
        watch.show_report(report, directory)
        if interrupted:
            raise Interrupted(f"interrupted; the finished trials are in {directory}", f"Go on with: tfcnn run --resume {directory}")
        return EXIT_INVALID_TRIALS if report.failures else EXIT_OK


def dry_run(request: Request, watch: Watch) -> int:
    """Show what `run` would do, and start nothing."""
    sweep, wish = what_was_asked(request)
    choice = choose(wish, watch.say)
    sweep, cases = list_cases(request, sweep, choice, watch)
    setup = foresee(choice, wish)
    watch.show_plan(setup, sweep, read_host(wish.vendor), plan(sweep, cases, setup))
    return EXIT_OK


def bootstrap(wish: Wish, watch: Watch) -> Setup:
    """Fetch the checkout and make the environment, and no more."""
    return prepare(choose(wish, watch.say), wish, watch.say)


def report_again(directory: Path, watch: Watch) -> int:
    """Make the report again from the records alone."""
    watch.show_report(write_report(directory), directory)
    return EXIT_OK


def what_was_asked(request: Request) -> tuple[Sweep, Wish]:
    """The sweep and the wish; from the records where a sweep is resumed."""
    wish = request.wish
    if request.resume is None:
        default = "demo" if wish.demo else {"gpu": "all", "cpu": "cpu"}[decide_device(wish.device)[0]]
        sweep = load_sweep(request.sweep or default, request.overrides)
        named = sweep.device if request.sweep else "auto"
        device = wish.device if wish.device != "auto" else named
        return sweep, msgspec.structs.replace(wish, tensorflow=wish.tensorflow or sweep.tensorflow, device=device)
    if request.sweep or request.overrides:
        raise UsageError("--resume goes on with the sweep as it was", "Leave the sweep and its keys out")
    session = read_session(request.resume)
    given = session.environment["kind"] == "given"
    wish = msgspec.structs.replace(
        wish,
        tensorflow=None if given or session.demo else session.release["tensorflow"],
        python=session.environment["python"] if given else None,
        device=session.device,
        demo=session.demo,
    )
    return check_sweep(session.sweep, models=load_models()), wish


def list_cases(request: Request, sweep: Sweep, choice: Choice, watch: Watch) -> tuple[Sweep, tuple[Case, ...]]:
    """The cases that this release can run, and the sweep without the others."""
    typed = "models" in request.overrides
    absent = leave_out(tuple(sweep.models), choice.release.missing_models, typed=typed, release=choice.release.tensorflow)
    for model in absent:
        watch.say(f"left out: {model}, which upstream can't run with TensorFlow {choice.release.tensorflow}")
    sweep = msgspec.structs.replace(sweep, models=without(sweep.models, absent))
    cases = expand(sweep, device=choice.device, data_names=load_models())
    check_data_dir(cases)
    return sweep, cases


def plan(sweep: Sweep, cases: tuple[Case, ...], setup: Setup) -> tuple[PlannedTrial, ...]:
    """Every trial of the sweep, in order."""
    return plan_trials(cases, rounds=range(1, sweep.repeats + 1), python=setup.environment.python, script=str(setup.checkout.script))


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


def run_trials(trials: tuple[PlannedTrial, ...], retry: tuple[int, ...], bench: Bench, watch: Watch) -> bool:
    """Run what is not on disk yet, each on disk before the next starts. Returns whether it was interrupted."""
    done = {trial.index for trial in read_trials(bench.directory) if trial.judgement.verdict != "interrupted"} - set(retry)
    for planned in trials:
        if planned.index in done:
            continue
        watch.trial_started(planned, len(done), len(trials))
        trial = measure(planned, bench, watch.line)
        append_trial(bench.directory, trial)
        done.add(planned.index)
        watch.trial_ended(trial)
        if trial.judgement.verdict == "interrupted":
            return True
    return False


def describe(request: Request, sweep: Sweep, setup: Setup, host: Host, cases: tuple[Case, ...], count: int, load: tuple[str, ...]) -> Session:
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
        planned_trials=count,
        load=load,
    )
