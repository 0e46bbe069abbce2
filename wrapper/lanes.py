"""A release's share of a sweep, from what was asked for to where its trials run. A sweep on one release has one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from wrapper.batch_search import SearchBench, resolve
from wrapper.bootstrapper.examination import check_machine
from wrapper.bootstrapper.host import Host
from wrapper.bootstrapper.setup import choose, foresee, prepare
from wrapper.errors import FatalError, Interrupted
from wrapper.measurement import Bench, measure
from wrapper.opening import Asked, Request, Watch, describe, list_cases, nvidia
from wrapper.reporter.axis import Axis, Part, create_axis_directory, create_part_directory, read_axis, write_axis
from wrapper.reporter.store import Session, Trial, check_resumable, create_report_directory, read_session, write_session
from wrapper.runner.plan import PlannedTrial, expand, plan_trials
from wrapper.runner.preflight import check_devices, check_flags
from wrapper.runner.sweep import Case, Sweep, load_models

Q = TypeVar("Q")
T = TypeVar("T")


class Lane(msgspec.Struct, frozen=True, kw_only=True):
    """One release's share of a sweep."""

    asked: Asked
    sweep: Sweep
    """Without what this release can't run."""
    cases: tuple[Case, ...]
    bench: Bench

    @property
    def release(self) -> str:
        return self.bench.setup.release.tensorflow

    @property
    def directory(self) -> Path:
        """The report's, once it has been opened."""
        return self.bench.directory

    def plan(self, repeat: int) -> tuple[PlannedTrial, ...]:
        """A round of trials; a trial's index depends on its round and case alone."""
        setup, first = self.bench.setup, (repeat - 1) * len(self.cases) + 1
        return plan_trials(self.cases, rounds=[repeat], python=setup.environment.python, script=str(setup.checkout.script), first_index=first)


def each(asked: Mapping[str, Q], step: Callable[[Q], T], watch: Watch) -> tuple[tuple[T, ...], dict[str, FatalError]]:
    """Do a step for what was asked for of each release. One that it can't be done for does not stop the others.

    Returns:
        what came of it, and by release why nothing did.

    Raises:
        FatalError: there are no others.
    """
    if len(asked) == 1:
        return tuple(map(step, asked.values())), {}
    made: list[T] = []
    refused: dict[str, FatalError] = {}
    for release, one in asked.items():
        watch.say(f"TensorFlow {release}:")
        try:
            made.append(step(one))
        except Interrupted:
            raise
        except FatalError as error:
            watch.say(f"TensorFlow {release} is left out: {error}")
            refused[release] = error
    if not made:
        reasons = "; ".join(f"TensorFlow {release}: {error.what}" for release, error in refused.items())
        remedies = dict.fromkeys(error.remedy for error in refused.values() if error.remedy)
        raise FatalError(f"not one of the releases can be measured: {reasons}", ". ".join(remedies))
    return tuple(made), refused


def make_ready(asked: Asked, request: Request, host: Host, watch: Watch) -> Lane:
    """Bring a release to where its first trial can start.

    Raises:
        FatalError: for what the user can mend.
    """
    wish = asked.wish
    if wish.source.contained and wish.source.name:  # to choose by it, the image is fetched
        check_machine(wish, None, watch.say)
    choice = choose(wish, watch.say)
    sweep, cases = list_cases(asked, choice, watch)
    check_machine(wish, choice, watch.say)
    setup = prepare(choice, wish, watch.say)
    check_flags(cases, setup.checkout.script)
    if not wish.unproven_device:
        check_devices(cases, setup.environment)
    bench = Bench(setup=setup, gpus=nvidia(host), time_limit=sweep.time_limit, telemetry=request.telemetry)
    lane = Lane(asked=asked, sweep=sweep, cases=cases, bench=bench)
    if asked.resume:
        for note in check_resumable(read_session(asked.resume), session_of(lane, request, host)):
            watch.say(f"note: {note}")
    return lane


def imagine(asked: Asked, vendor: Path, watch: Watch) -> Lane:
    """The same without fetching or making anything, for a plan.

    Args:
        vendor: where the demo's repository, whose commit is known only when it has been made, may be made.
    """
    choice = choose(msgspec.structs.replace(asked.wish, vendor=vendor), watch.say)
    sweep, cases = list_cases(asked, choice, watch)
    return Lane(asked=asked, sweep=sweep, cases=cases, bench=Bench(setup=foresee(choice, asked.wish), time_limit=sweep.time_limit))


def session_of(lane: Lane, request: Request, host: Host, load: tuple[str, ...] = ()) -> Session:
    """Everything that holds for a lane, for its session.json."""
    return describe(request, lane.sweep, lane.bench.setup, host, lane.cases, load)


def open_reports(
    lanes: Sequence[Lane], asked: Sequence[Asked], refused: dict[str, FatalError], request: Request, host: Host, load: tuple[str, ...]
) -> tuple[Path, tuple[Lane, ...]]:
    """Open a report for each lane, or the one to go on with.

    Args:
        asked: all of what was asked for, in its order.
        refused: by release, why it has no lane.

    Returns:
        the directory of the report, or that of several releases' reports; and the lanes with their reports' directories.

    Raises:
        FatalError: they can't be written.
    """
    sessions = [session_of(lane, request, host, load) for lane in lanes]
    if len(asked) == 1:
        directory = asked[0].resume or create_report_directory(request.reports, sessions[0])
        return directory, (_open(lanes[0], directory, sessions[0]),)
    parts = {one.wish.tensorflow: _part(one, refused) for one in asked}
    if request.resume:
        directory, axis = request.resume, msgspec.structs.replace(read_axis(request.resume), parts=tuple(parts.values()))
    else:
        directory, axis = create_axis_directory(request.reports, sessions[0]), _axis(lanes[0], asked[0], tuple(parts.values()), request)
    write_axis(directory, axis)
    places = [lane.asked.resume or create_part_directory(directory, parts[lane.asked.wish.tensorflow]) for lane in lanes]
    return directory, tuple(map(_open, lanes, places, sessions))


def _open(lane: Lane, directory: Path, session: Session) -> Lane:
    if lane.asked.resume is None:
        write_session(directory, session)
    return msgspec.structs.replace(lane, bench=msgspec.structs.replace(lane.bench, directory=directory))


def _part(asked: Asked, refused: dict[str, FatalError]) -> Part:
    release = str(asked.wish.tensorflow)
    why = refused.get(release)
    return Part(tensorflow=release, reason=why.what if why else "", remedy=why.remedy if why else "")


def _axis(lane: Lane, asked: Asked, parts: tuple[Part, ...], request: Request) -> Axis:
    # a budget has been planned by now, and the models are those of the sweep, not of one release
    planned = msgspec.structs.replace(lane.sweep, tensorflow=tuple(part.tensorflow for part in parts), models=asked.sweep.models)
    return Axis(
        sweep=msgspec.to_builtins(planned),
        device="gpu" if lane.bench.setup.device == "gpu" else "cpu",
        environment=asked.wish.source.text,
        commit=asked.wish.commit,
        command=request.command,
        parts=parts,
    )


def with_batch_sizes(lane: Lane, request: Request, host: Host, load: tuple[str, ...], watch: Watch) -> Lane:
    """Put the batch sizes that short trials find into cases that want the largest, or one that fits."""
    searches = search_bench(lane, request, host, load, watch)
    cases = expand(lane.sweep, device=lane.bench.setup.device, data_names=load_models(), resolve=lambda case, wanted: resolve(case, wanted, searches))
    return msgspec.structs.replace(lane, cases=cases)


def search_bench(lane: Lane, request: Request, host: Host, load: tuple[str, ...], watch: Watch) -> SearchBench:
    """What searches for batch sizes run on."""

    def run_one(planned: PlannedTrial, directory: Path) -> Trial:
        watch.trial_started(planned, 0, 0)
        trial = measure(planned, msgspec.structs.replace(lane.bench, directory=directory), watch.line)
        watch.trial_ended(trial)
        return trial

    return SearchBench(
        setup=lane.bench.setup,
        gpus=lane.bench.gpus,
        session=session_of(lane, request, host, load),
        reports=request.reports,
        cache=lane.asked.wish.vendor / "batch-sizes.json",
        run=run_one,
        say=watch.say,
    )
