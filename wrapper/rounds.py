"""Rounds of trials: the repeats asked for, more until the mean is known well enough, or as many as a time allows."""

from __future__ import annotations

import itertools
import math
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from wrapper.errors import FatalError, Interrupted
from wrapper.lanes import Lane
from wrapper.measurement import measure
from wrapper.opening import Watch
from wrapper.reporter.analysis import summarise
from wrapper.reporter.store import append_trial, read_trials
from wrapper.runner.budget import SHORTEST, TrialTime, fit
from wrapper.runner.plan import PlannedTrial
from wrapper.runner.sweep import Case


def plan_rounds(lanes: Sequence[Lane], rounds: range) -> tuple[tuple[Lane, PlannedTrial], ...]:
    """The trials of these rounds as they run: in each round every release in turn, so that drift of the machine hits all alike."""
    return tuple((lane, planned) for repeat in rounds for lane in lanes for planned in lane.plan(repeat))


def run_rounds(lanes: Sequence[Lane], retry: tuple[int, ...], watch: Watch) -> bool:
    """Run what is not on disk yet, each on disk before the next starts.

    Args:
        lanes: with the same repeats and limits.
        retry: trials of the only lane to run again.

    Returns:
        whether it was interrupted.
    """
    sweep = lanes[0].sweep
    deadline = time.monotonic() + sweep.budget if sweep.budget else None
    # a trial to be run again may be one of the rounds that were added to reach a precision
    rounds = max(sweep.repeats, *(math.ceil(index / len(lanes[0].cases)) for index in retry), 1)
    if _run(lanes, range(1, rounds + 1), retry, watch, deadline):
        return True
    for repeat in itertools.count(rounds + 1):
        wide = next(filter(None, (_wide(lane) for lane in lanes)), "")
        if not wide:
            return False
        if repeat > sweep.max_repeats:
            watch.say(f"stopped at {sweep.max_repeats} repeats: {wide}")
            return False
        watch.say(f"one more round: {wide}")
        if _run(lanes, range(repeat, repeat + 1), retry, watch, deadline):
            return True
    return False


def within_budget(lanes: Sequence[Lane], watch: Watch) -> tuple[Lane, ...]:
    """Choose steps and repeats, the same for all lanes, that fit into the sweep's budget where it has one, by one short trial of each case, whose
    figures are used for nothing else.

    Raises:
        FatalError: the budget is too short.
        Interrupted: the user stopped it; nothing was measured yet.
    """
    sweep = lanes[0].sweep
    if not sweep.budget:
        return tuple(lanes)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="tfcnn-budget-") as folder:
        pilots = plan_rounds([_short(lane, Path(folder) / lane.release) for lane in lanes], range(1, 2))
        watch.say(f"planning for {sweep.budget:.0f} s: one short trial of each of {len(pilots)} cases")
        times = [_trial_time(lane, planned, watch, done, len(pilots)) for done, (lane, planned) in enumerate(pilots)]
    known = [one for one in times if one is not None]
    if not known:
        raise FatalError(
            "no case ran in the short trials that a budget is planned from", "Start without --budget: the failures are then recorded with reasons"
        )
    plan = fit(
        known,
        seconds=sweep.budget - (time.monotonic() - began),
        steps=sweep.steps,
        repeats=sweep.repeats,
        max_repeats=sweep.max_repeats,
    )
    watch.say(f"plan: {plan.repeats} repeats of {plan.steps} steps for each case, about {plan.seconds:.0f} s")
    left = sweep.budget - (time.monotonic() - began)
    return tuple(
        msgspec.structs.replace(
            lane,
            sweep=msgspec.structs.replace(lane.sweep, steps=plan.steps, repeats=plan.repeats, budget=left),
            cases=_with_steps(lane.cases, plan.steps),
        )
        for lane in lanes
    )


def _run(lanes: Sequence[Lane], rounds: range, retry: tuple[int, ...], watch: Watch, deadline: float | None) -> bool:
    done = {lane.directory: _finished(lane.directory) - set(retry) for lane in lanes}
    undone = [(lane, planned) for lane, planned in plan_rounds(lanes, rounds) if planned.index not in done[lane.directory]]
    total = sum((rounds.stop - 1) * len(lane.cases) for lane in lanes)  # of all rounds so far: these may be those of a later one alone
    longest: dict[tuple[str, Case], float] = {}
    for number, (lane, planned) in enumerate(undone, start=total - len(undone)):
        expected = longest.get((lane.release, planned.case), 0.0)
        if deadline and time.monotonic() + expected > deadline:
            watch.say(f"left out to keep to the budget: {planned.case.name}, repeat {planned.repeat}")
            continue
        watch.trial_started(planned, number, total, lane.release if len(lanes) > 1 else "")
        trial = measure(planned, lane.bench, watch.line)
        append_trial(lane.directory, trial)
        longest[lane.release, planned.case] = max(trial.execution.seconds, expected)
        watch.trial_ended(trial)
        if trial.execution.ended_by == "interrupt" or trial.judgement.verdict == "interrupted":
            return True
    return False


def _finished(directory: Path) -> set[int]:
    return {trial.index for trial in read_trials(directory) if trial.judgement.verdict != "interrupted"}


def _wide(lane: Lane) -> str:
    """The case whose interval is widest, in words, where it is wider than asked for; a case that has no figure at all is not waited for."""
    asked = lane.sweep.until
    if asked is None:
        return ""
    widths = {
        summary.case.name: 100 * summary.ci95 / summary.mean if summary.ci95 is not None else 100.0
        for summary in summarise(read_trials(lane.directory), lane.cases)
        if summary.mean
    }
    name = max(widths, key=lambda one: widths[one], default="")
    return (
        f"{name} is known within {widths[name]:.2f} % with TensorFlow {lane.release}, {asked:g} % asked for" if name and widths[name] > asked else ""
    )


def _short(lane: Lane, directory: Path) -> Lane:
    """Short trials of the lane's cases, recorded in a directory that nobody keeps."""
    bench = msgspec.structs.replace(lane.bench, directory=directory, telemetry=False)
    return msgspec.structs.replace(lane, cases=_with_steps(lane.cases, min(SHORTEST, lane.sweep.steps)), bench=bench)


def _with_steps(cases: Sequence[Case], steps: int) -> tuple[Case, ...]:
    return tuple(msgspec.structs.replace(case, steps=steps) for case in cases)


def _trial_time(lane: Lane, planned: PlannedTrial, watch: Watch, done: int, total: int) -> TrialTime | None:
    watch.trial_started(planned, done, total, lane.release)
    trial = measure(planned, lane.bench, watch.line)
    watch.trial_ended(trial)
    if trial.execution.ended_by == "interrupt" or trial.judgement.verdict == "interrupted":
        raise Interrupted("interrupted while planning for the budget; nothing was measured yet")
    if trial.judgement.images_per_sec is None:
        return None
    step_s = trial.case.global_batch_size / trial.judgement.images_per_sec
    return TrialTime(fixed_s=max(trial.execution.seconds - trial.case.steps * step_s, 0.0), step_s=step_s)
