"""Rounds of trials: the repeats asked for, more until the mean is known well enough, or as many as a time allows."""

from __future__ import annotations

import itertools
import math
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

import msgspec

from wrapper.bootstrapper.setup import Setup
from wrapper.errors import FatalError, Interrupted
from wrapper.measurement import Bench, measure
from wrapper.opening import Watch
from wrapper.reporter.analysis import summarise
from wrapper.reporter.store import append_trial, read_trials
from wrapper.runner.budget import SHORTEST, Cost, fit
from wrapper.runner.plan import PlannedTrial, plan_trials
from wrapper.runner.sweep import Case, Sweep


def plan_rounds(cases: tuple[Case, ...], rounds: range, setup: Setup) -> tuple[PlannedTrial, ...]:
    """The trials of these rounds; a trial's index depends on its round and case alone."""
    first = (rounds.start - 1) * len(cases) + 1
    return plan_trials(cases, rounds=rounds, python=setup.environment.python, script=str(setup.checkout.script), first_index=first)


def run_rounds(sweep: Sweep, cases: tuple[Case, ...], retry: tuple[int, ...], bench: Bench, watch: Watch) -> bool:
    """Run what is not on disk yet, each on disk before the next starts.

    Returns:
        whether it was interrupted.
    """
    deadline = time.monotonic() + sweep.budget if sweep.budget else None
    # a trial to be run again may be one of the rounds that were added to reach a precision
    rounds = max(sweep.repeats, *(math.ceil(index / len(cases)) for index in retry), 1)
    if _run(plan_rounds(cases, range(1, rounds + 1), bench.setup), retry, bench, watch, deadline):
        return True
    for repeat in itertools.count(rounds + 1):
        wide = _wide(sweep, cases, bench.directory)
        if not wide:
            return False
        if repeat > sweep.max_repeats:
            watch.say(f"stopped at {sweep.max_repeats} repeats: {wide}")
            return False
        watch.say(f"one more round: {wide}")
        if _run(plan_rounds(cases, range(repeat, repeat + 1), bench.setup), retry, bench, watch, deadline):
            return True
    return False


def within_budget(sweep: Sweep, cases: tuple[Case, ...], bench: Bench, watch: Watch) -> tuple[Sweep, tuple[Case, ...]]:
    """Choose steps and repeats that fit into the sweep's budget, by one short trial of each case, whose figures are used for nothing else.

    Raises:
        FatalError: the budget is too short.
        Interrupted: the user stopped it; nothing was measured yet.
    """
    began = time.monotonic()
    short = tuple(msgspec.structs.replace(case, steps=min(SHORTEST, case.steps)) for case in cases)
    watch.say(f"planning for {sweep.budget:.0f} s: one short trial of each of {len(cases)} cases")
    with tempfile.TemporaryDirectory(prefix="tfcnn-budget-") as folder:
        pilot = msgspec.structs.replace(bench, directory=Path(folder), telemetry=False)
        costs = [_cost(planned, pilot, watch, len(cases)) for planned in plan_rounds(short, range(1, 2), bench.setup)]
    known = [cost for cost in costs if cost is not None]
    if not known:
        raise FatalError(
            "no case ran in the short trials that a budget is planned from", "Start without --budget: the failures are then recorded with reasons"
        )
    plan = fit(
        known,
        seconds=(sweep.budget or 0.0) - (time.monotonic() - began),
        steps=sweep.steps,
        repeats=sweep.repeats,
        max_repeats=sweep.max_repeats,
    )
    watch.say(f"plan: {plan.repeats} repeats of {plan.steps} steps for each case, about {plan.seconds:.0f} s")
    left = (sweep.budget or 0.0) - (time.monotonic() - began)
    sweep = msgspec.structs.replace(sweep, steps=plan.steps, repeats=plan.repeats, budget=left)
    return sweep, tuple(msgspec.structs.replace(case, steps=plan.steps) for case in cases)


def _run(trials: Iterable[PlannedTrial], retry: tuple[int, ...], bench: Bench, watch: Watch, deadline: float | None) -> bool:
    trials = tuple(trials)
    done = {trial.index for trial in read_trials(bench.directory) if trial.judgement.verdict != "interrupted"} - set(retry)
    longest: dict[Case, float] = {}
    for planned in trials:
        if planned.index in done:
            continue
        if deadline and time.monotonic() + longest.get(planned.case, 0.0) > deadline:
            watch.say(f"left out to keep to the budget: {planned.case.name}, repeat {planned.repeat}")
            continue
        total = trials[-1].index  # of all rounds so far: these may be those of a later one alone
        watch.trial_started(planned, total - sum(other.index not in done for other in trials), total)
        trial = measure(planned, bench, watch.line)
        append_trial(bench.directory, trial)
        done.add(planned.index)
        longest[planned.case] = max(trial.execution.seconds, longest.get(planned.case, 0.0))
        watch.trial_ended(trial)
        if trial.execution.ended_by == "interrupt" or trial.judgement.verdict == "interrupted":
            return True
    return False


def _wide(sweep: Sweep, cases: tuple[Case, ...], directory: Path) -> str:
    """The case whose interval is widest, in words, where it is wider than asked for; a case that has no figure at all is not waited for."""
    if sweep.until is None:
        return ""
    widths = {
        summary.case.name: 100 * summary.ci95 / summary.mean if summary.ci95 is not None else 100.0
        for summary in summarise(read_trials(directory), cases)
        if summary.mean
    }
    name = max(widths, key=lambda one: widths[one], default="")
    return f"{name} is known within {widths[name]:.2f} %, {sweep.until:g} % asked for" if name and widths[name] > sweep.until else ""


def _cost(planned: PlannedTrial, pilot: Bench, watch: Watch, total: int) -> Cost | None:
    watch.trial_started(planned, planned.index - 1, total)
    trial = measure(planned, pilot, watch.line)
    watch.trial_ended(trial)
    if trial.execution.ended_by == "interrupt" or trial.judgement.verdict == "interrupted":
        raise Interrupted("interrupted while planning for the budget; nothing was measured yet")
    if trial.judgement.images_per_sec is None:
        return None
    step_s = trial.case.global_batch_size / trial.judgement.images_per_sec
    return Cost(fixed_s=max(trial.execution.seconds - trial.case.steps * step_s, 0.0), step_s=step_s)
