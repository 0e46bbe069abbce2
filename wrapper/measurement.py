"""One trial from its planned command line to its record: run, read, judge, and the readings beside it."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from wrapper.bootstrapper.host import Gpu
from wrapper.bootstrapper.setup import Setup
from wrapper.parser.clock import Clock, read_stamps, timed_window, window_throughput
from wrapper.parser.output import Event, parse_file, read_line
from wrapper.parser.stderr import read_stderr
from wrapper.parser.verdict import Warning, judge
from wrapper.reporter.store import Trial
from wrapper.runner.plan import PlannedTrial, trial_variables
from wrapper.runner.telemetry import Sampled, sampling
from wrapper.runner.telemetry_summary import summarise_window, telemetry_warnings
from wrapper.runner.trial import LOGS, run_trial


class Bench(msgspec.Struct, frozen=True, kw_only=True):
    """What all trials of a sweep share."""

    setup: Setup
    directory: Path = Path()
    """The report's."""
    time_limit: float
    """Seconds for one trial."""
    gpus: tuple[Gpu, ...] = ()
    """The machine's NVIDIA GPUs."""
    telemetry: bool = True


def measure(planned: PlannedTrial, bench: Bench, on_event: Callable[[Event, float], None]) -> Trial:
    """Run one trial and judge what it left. A trial that fails is not raised but recorded.

    Args:
        planned: the trial.
        bench: what it runs on.
        on_event: told of each line of upstream's that says something, with its time in seconds since the start; in another thread.
    """
    setup, logs = bench.setup, bench.directory / LOGS
    logs.mkdir(parents=True, exist_ok=True)
    variables = trial_variables(planned.case, setup.release.environment | setup.environment.variables)
    telemetry = logs / f"{planned.log_name}.telemetry.csv"

    def read(line: bytes, seconds: float) -> None:
        event = read_line(line + b"\n")
        if event is not None:
            on_event(event, seconds)

    with sampling(telemetry, [gpu.index for gpu in bench.gpus] if bench.telemetry else []) as sampler:
        execution = run_trial(
            planned,
            directory=bench.directory,
            environment_variables=variables,
            keep_pythonpath=setup.environment.kind == "given",
            time_limit_s=bench.time_limit,
            on_line=read,
            on_start=(lambda pid: sampler.start(pid, time.monotonic())) if bench.telemetry else None,
        )
        sampled = sampler.stop()
    log = logs / f"{planned.log_name}.stdout"
    output = parse_file(log)
    stamps = read_stamps(log.with_suffix(".times.csv"))
    clock = window_throughput(output.steps, stamps, planned.case.global_batch_size)
    window = timed_window(output, stamps)
    judgement = judge(
        case=planned.case,
        execution=execution,
        output=output,
        stderr=read_stderr(log.with_suffix(".stderr")),
        release_minor=None if setup.environment.kind == "demo" else ".".join(setup.release.tensorflow.split(".")[:2]),
        seen_on_devices=frozenset(sampled.seen_on) if sampled.evidence else None,
        clock=clock,
        window=window,
    )
    readings = _readings(sampled, clock)
    warnings = []
    if window and bench.telemetry:
        summary = summarise_window(telemetry, *window)
        readings |= msgspec.to_builtins(summary)
        warnings += [Warning(kind=kind, detail=detail) for kind, detail in telemetry_warnings(summary, bench.gpus, sampled)]
    if not setup.release.verified:
        warnings.append(
            Warning(kind="unverified_release", detail=f"TensorFlow {setup.release.tensorflow} was never run by us with this upstream commit")
        )
    return Trial(
        index=planned.index,
        case=planned.case,
        repeat=planned.repeat,
        command=planned.command,
        variables=variables,
        execution=execution,
        judgement=msgspec.structs.replace(judgement, warnings=(*judgement.warnings, *warnings)),
        steps=output.steps,
        header=output.header,
        log=f"{LOGS}/{log.name}",
        log_hashes={path.name: _sha256(path) for path in sorted(logs.glob(f"{planned.log_name}.*"))},
        telemetry=readings,
    )


def _readings(sampled: Sampled, clock: Clock | None) -> dict[str, Any]:
    """What was read beside the output, as plain data for the record; `seen_on` is what the verdict rests on."""
    return {
        "seen_on": list(sampled.seen_on) if sampled.evidence else None,
        "sampler": msgspec.to_builtins(sampled),
        "clock": msgspec.to_builtins(clock),
    }


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
