"""The flow: sweep and release become cases, cases become trials, trials become records, records become a report."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from wrapper.batch_search import BatchSearch, search
from wrapper.bootstrapper.host import read_host
from wrapper.bootstrapper.setup import Wish, choose, prepare
from wrapper.errors import EXIT_INVALID_TRIALS, EXIT_OK, FatalError, Interrupted
from wrapper.lanes import each, imagine, make_ready, open_reports, search_bench, with_batch_sizes
from wrapper.measurement import as_started
from wrapper.opening import Asked, Request, Watch, asked_of_one, see_load, what_was_asked
from wrapper.reporter.analysis import figure
from wrapper.reporter.axis import is_axis, parts_with_report
from wrapper.reporter.content import Report
from wrapper.reporter.noise import Noise, noise
from wrapper.reporter.report import write_report
from wrapper.reporter.resuming import own_program, resume_command
from wrapper.reporter.side_by_side import write_side_by_side
from wrapper.reporter.store import read_trials
from wrapper.rounds import plan_rounds, run_rounds, within_budget
from wrapper.runner.lock import one_sweep_at_a_time
from wrapper.shielding import shielded


def run(request: Request, watch: Watch) -> int:
    """Bootstrap, run every trial that is not on disk yet, report; on each release where several are asked for.

    Returns:
        0 when every trial has a valid figure, 4 when some have none, or a release could not be measured at all.

    Raises:
        FatalError: before the first trial, for what the user can mend.
        Interrupted: the user stopped it; what was finished is on disk and reported.
    """
    return run_sweep(request, watch)[1]


def run_sweep(request: Request, watch: Watch) -> tuple[Path, int]:
    """The whole flow (see `run`); returns the directory of what it made, and the exit code."""
    asked = what_was_asked(request)
    with one_sweep_at_a_time(str(request.resume or request.reports)), _resumable(request.resume, request):
        host = read_host(request.wish.vendor)
        lanes, refused = each(_by_release(asked), lambda one: make_ready(one, request, host, watch), watch)
        load = see_load(host, request, watch)
        if not request.resume:
            lanes = within_budget([with_batch_sizes(lane, request, host, load, watch) for lane in lanes], watch)
        opened, interrupted = shielded(lambda _: open_reports(lanes, asked, refused, request, host, load))
        directory, lanes = opened
        with _resumable(directory, request):
            try:
                interrupted = interrupted or run_rounds(lanes, request.retry, watch)
            except KeyboardInterrupt:  # it met no trial, but the moment between two
                interrupted = True
            reports = report_all([lane.directory for lane in lanes], watch)
            if interrupted:
                raise KeyboardInterrupt
    return directory, EXIT_INVALID_TRIALS if refused or any(report.failures for report in reports) else EXIT_OK


@contextmanager
def _resumable(directory: Path | None, request: Request) -> Iterator[None]:
    """Name the command that goes on from `directory`, where there is one, wherever the user stops what is done meanwhile.

    Raises:
        Interrupted: in place of KeyboardInterrupt.
    """
    try:
        yield
    except KeyboardInterrupt:
        if directory is None:
            raise
        command = resume_command(str(directory), request.command, program=own_program())
        raise Interrupted(f"interrupted; the finished trials are in {directory}", f"Go on with: {command}") from None


def _by_release(asked: Sequence[Asked]) -> dict[str, Asked]:
    """What was asked for by its release, which is an exact version where there are several."""
    return {str(one.wish.tensorflow): one for one in asked}


def dry_run(request: Request, watch: Watch) -> int:
    """Show what `run` would do, and start nothing."""
    asked = what_was_asked(request)
    with tempfile.TemporaryDirectory(prefix="tfcnn-plan-") as folder:
        lanes, refused = each(_by_release(asked), lambda one: imagine(one, Path(folder), watch), watch)
    trials = plan_rounds(lanes, range(1, lanes[0].sweep.repeats + 1))
    setups = [lane.bench.setup for lane in lanes]
    watch.show_plan(
        setups,
        lanes[0].sweep,
        read_host(request.wish.vendor, ask_cpu=False),
        [(lane.release, as_started(planned, lane.bench.setup)) for lane, planned in trials],
    )
    return EXIT_INVALID_TRIALS if refused else EXIT_OK


def bootstrap(wishes: Mapping[str, Wish], watch: Watch) -> int:
    """Fetch the checkout and make the environment of each release, and no more. One that can't be made does not stop the others."""
    setups, refused = each(wishes, lambda wish: prepare(choose(wish, watch.say), wish, watch.say), watch)
    for setup in setups:
        watch.show_setup(setup)
    return FatalError.exit_code if refused else EXIT_OK


def report_again(directory: Path, watch: Watch, prices: Mapping[str, float | None] | None = None) -> int:
    """Make the report, or those of several releases and what sets them side by side, again from the records alone; `prices`: see `write_report`."""
    report_all(parts_with_report(directory) if is_axis(directory) else [directory], watch, prices)
    return EXIT_OK


def report_all(directories: Sequence[Path], watch: Watch, prices: Mapping[str, float | None] | None = None) -> list[Report]:
    """Make the reports of one sweep and show them; where they are those of several releases, also side by side."""
    reports = [write_report(directory, prices) for directory in directories]
    for report, directory in zip(reports, directories, strict=True):
        watch.show_report(report, directory)
    parent = directories[0].parent
    if is_axis(parent):
        watch.show_side_by_side(write_side_by_side(parent), parent)
    return reports


def find_batch_sizes(request: Request, watch: Watch) -> tuple[BatchSearch, ...]:
    """Find the largest batch size that trains for each case of a sweep whose batch sizes are "max"."""
    request = msgspec.structs.replace(request, telemetry=True)  # memory is seen by it
    asked = asked_of_one(request)
    with one_sweep_at_a_time(str(request.reports)):
        host = read_host(request.wish.vendor)
        lane = make_ready(asked, request, host, watch)
        searches = search_bench(lane, request, host, see_load(host, request, watch), watch)
        return tuple(search(case, "max", searches) for case in lane.cases)


def measure_noise(request: Request, watch: Watch) -> Noise:
    """Run one case against itself in turn: odd repeats are one side, even ones the other. The records are those of an ordinary sweep."""
    asked_of_one(request)
    directory, _ = run_sweep(request, watch)
    trials = [trial for trial in read_trials(directory) if figure(trial) is not None]
    sides = [[trial.judgement.images_per_sec or 0.0 for trial in trials if trial.repeat % 2 == side] for side in (1, 0)]
    return noise(*sides)
