"""The flow: sweep and release become cases, cases become trials, trials become records, records become a report."""

from __future__ import annotations

import tempfile
from pathlib import Path

import msgspec

from wrapper.batch_search import BatchSearch, SearchBench, resolve, search
from wrapper.bootstrapper.examination import check_machine
from wrapper.bootstrapper.host import read_host
from wrapper.bootstrapper.setup import Setup, Wish, choose, foresee, prepare
from wrapper.errors import EXIT_INVALID_TRIALS, EXIT_OK, Interrupted
from wrapper.measurement import Bench, measure
from wrapper.opening import Request, Watch, check_input, describe, list_cases, nvidia, open_report, see_load, what_was_asked
from wrapper.reporter.analysis import figure
from wrapper.reporter.noise import Noise, noise
from wrapper.reporter.report import Report, write_report
from wrapper.reporter.resuming import own_program, resume_command
from wrapper.reporter.store import Session, Trial, read_trials
from wrapper.rounds import plan_rounds, run_rounds, within_budget
from wrapper.runner.lock import one_sweep_at_a_time
from wrapper.runner.plan import PlannedTrial, expand
from wrapper.runner.preflight import check_devices, check_flags
from wrapper.runner.sweep import load_models


def run(request: Request, watch: Watch) -> int:
    """Bootstrap, run every trial that is not on disk yet, report.

    Returns:
        0 when every trial has a valid figure, 4 when some have none.

    Raises:
        FatalError: before the first trial, for what the user can mend.
        Interrupted: the user stopped it; what was finished is on disk and reported.
    """
    _, report = run_sweep(request, watch)
    return EXIT_INVALID_TRIALS if report.failures else EXIT_OK


def run_sweep(request: Request, watch: Watch) -> tuple[Path, Report]:
    """The whole flow (see `run`); returns the report and its directory."""
    sweep, wish = what_was_asked(request)
    check_input(request, sweep, wish)
    with one_sweep_at_a_time(str(request.resume or request.reports)):
        choice = choose(wish, watch.say)
        sweep, cases = list_cases(request, sweep, choice, watch)
        check_machine(wish, choice, watch.say)
        setup = prepare(choice, wish, watch.say)
        check_flags(cases, setup.checkout.script)
        if not wish.unproven_device:
            check_devices(cases, setup.environment)
        host = read_host(wish.vendor)
        load = see_load(host, request, watch)
        bench = Bench(setup=setup, gpus=nvidia(host), time_limit=sweep.time_limit, telemetry=request.telemetry)
        if not request.resume:
            searches = search_bench(request, wish, describe(request, sweep, setup, host, cases, load), bench, watch)
            cases = expand(sweep, device=setup.device, data_names=load_models(), resolve=lambda case, wanted: resolve(case, wanted, searches))
        if sweep.budget and not request.resume:
            sweep, cases = within_budget(sweep, cases, bench, watch)
        directory = open_report(request, describe(request, sweep, setup, host, cases, load), watch)
        interrupted = run_rounds(sweep, cases, request.retry, msgspec.structs.replace(bench, directory=directory), watch)
        report = write_report(directory)
        watch.show_report(report, directory)
        if interrupted:
            command = resume_command(str(directory), request.command, program=own_program())
            raise Interrupted(f"interrupted; the finished trials are in {directory}", f"Go on with: {command}")
        return directory, report


def dry_run(request: Request, watch: Watch) -> int:
    """Show what `run` would do, and start nothing."""
    sweep, wish = what_was_asked(request)
    check_input(request, sweep, wish)
    with tempfile.TemporaryDirectory(prefix="tfcnn-plan-") as folder:
        # the commit of the demo is known when its repository has been made, somewhere
        choice = choose(msgspec.structs.replace(wish, vendor=Path(folder)), watch.say)
    sweep, cases = list_cases(request, sweep, choice, watch)
    setup = foresee(choice, wish)
    watch.show_plan(setup, sweep, read_host(wish.vendor, ask_cpu=False), plan_rounds(cases, range(1, sweep.repeats + 1), setup))
    return EXIT_OK


def bootstrap(wish: Wish, watch: Watch) -> Setup:
    """Fetch the checkout and make the environment, and no more."""
    return prepare(choose(wish, watch.say), wish, watch.say)


def report_again(directory: Path, watch: Watch) -> int:
    """Make the report again from the records alone."""
    watch.show_report(write_report(directory), directory)
    return EXIT_OK


def find_batch_sizes(request: Request, watch: Watch) -> tuple[BatchSearch, ...]:
    """Find the largest batch size that trains for each case of a sweep whose batch sizes are "max"."""
    sweep, wish = what_was_asked(request)
    check_input(request, sweep, wish)
    with one_sweep_at_a_time(str(request.reports)):
        choice = choose(wish, watch.say)
        sweep, cases = list_cases(request, sweep, choice, watch)
        check_machine(wish, choice, watch.say)
        setup = prepare(choice, wish, watch.say)
        check_devices(cases, setup.environment)
        host = read_host(wish.vendor)
        session = describe(request, sweep, setup, host, cases, see_load(host, request, watch))
        bench = Bench(setup=setup, gpus=nvidia(host), time_limit=sweep.time_limit, telemetry=True)
        searches = search_bench(request, wish, session, bench, watch)
        return tuple(search(case, "max", searches) for case in cases)


def search_bench(request: Request, wish: Wish, session: Session, bench: Bench, watch: Watch) -> SearchBench:
    """What searches for batch sizes run on."""

    def run_one(planned: PlannedTrial, directory: Path) -> Trial:
        watch.trial_started(planned, 0, 0)
        trial = measure(planned, msgspec.structs.replace(bench, directory=directory), watch.line)
        watch.trial_ended(trial)
        return trial

    return SearchBench(
        setup=bench.setup,
        gpus=bench.gpus,
        session=session,
        reports=request.reports,
        cache=wish.vendor / "batch-sizes.json",
        run=run_one,
        say=watch.say,
    )


def measure_noise(request: Request, watch: Watch) -> Noise:
    """Run one case against itself in turn: odd repeats are one side, even ones the other. The records are those of an ordinary sweep."""
    directory, _ = run_sweep(request, watch)
    trials = [trial for trial in read_trials(directory) if figure(trial) is not None]
    sides = [[trial.judgement.images_per_sec or 0.0 for trial in trials if trial.repeat % 2 == side] for side in (1, 0)]
    return noise(*sides)
