"""One trial from its planned command line to its record: run, read, judge, and the readings beside it."""

from __future__ import annotations

import csv
import hashlib
import os
import time
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec

from wrapper.bootstrapper.by_hand import is_of_age
from wrapper.bootstrapper.container import CHECKOUT, DATA, Mount, engine_command, removal
from wrapper.bootstrapper.engine import container_pid, new_name
from wrapper.bootstrapper.host import Gpu
from wrapper.bootstrapper.setup import Setup
from wrapper.parser.clock import Clock, read_stamps, timed_window, window_throughput
from wrapper.parser.output import Event, Output, parse_file, read_line
from wrapper.parser.stderr import StderrSummary, read_stderr, summarise_stderr
from wrapper.parser.verdict import Judgement, Warning, judge
from wrapper.process import Execution
from wrapper.reporter.store import Trial
from wrapper.runner.plan import PlannedTrial, trial_variables
from wrapper.runner.telemetry import Sampled, sampling
from wrapper.runner.telemetry_summary import summarise_window, telemetry_warnings
from wrapper.runner.trial import LOGS, run_trial

_Content = TypeVar("_Content")


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
    variables = _variables(planned, setup)
    telemetry = logs / f"{planned.log_name}.telemetry.csv"
    way = _way(planned, setup, variables)
    execution, sampled = _run(way, bench, variables, telemetry, on_event)
    log = logs / f"{planned.log_name}.stdout"
    output, stderr, stamps, lost = _read_back(log)
    execution = msgspec.structs.replace(execution, error=execution.error or lost)
    clock = window_throughput(output.steps, stamps, planned.case.global_batch_size)
    window = timed_window(output, stamps)
    judgement = judge(
        case=planned.case,
        execution=execution,
        output=output,
        stderr=stderr,
        release_minor=None if setup.environment.kind == "demo" else ".".join(map(str, setup.release.minor)),
        seen_on_devices=frozenset(sampled.seen_on) if sampled.evidence else None,
        clock=clock,
        window=window,
    )
    summary, found = _telemetry(telemetry, window, bench.gpus, sampled) if window and bench.telemetry else ({}, ())
    warnings = (*judgement.warnings, *found, *_pair_warnings(setup, judgement))
    return Trial(
        index=planned.index,
        case=planned.case,
        repeat=planned.repeat,
        command=planned.command,
        variables=variables,
        engine_command=way.planned.command if setup.environment.container else (),
        execution=execution,
        judgement=msgspec.structs.replace(judgement, warnings=warnings),
        steps=output.steps,
        header=output.header,
        log=f"{LOGS}/{log.name}",
        log_hashes={path.name: _sha256(path) for path in sorted(logs.glob(f"{planned.log_name}.*")) if path.is_file()},
        telemetry=_readings(sampled, clock) | summary,
    )


def as_started(planned: PlannedTrial, setup: Setup) -> PlannedTrial:
    """The trial with the command line that `measure` starts for it: in a container the engine's. For a plan."""
    return _way(planned, setup, _variables(planned, setup)).planned


class _Way(NamedTuple):
    """How a trial is started."""

    planned: PlannedTrial
    cleanup: tuple[str, ...] = ()
    find_root: Callable[[], int | None] | None = None
    """See `Sampler.start`."""


def _variables(planned: PlannedTrial, setup: Setup) -> dict[str, str]:
    return trial_variables(planned.case, setup.release.environment | setup.environment.variables)


def _way(planned: PlannedTrial, setup: Setup, variables: Mapping[str, str]) -> _Way:
    container = setup.environment.container
    if container is None:
        return _Way(planned)
    name = new_name()
    mounts = [Mount(setup.checkout.path, CHECKOUT), *([Mount(planned.case.data_dir, DATA)] if planned.case.data_dir else [])]
    command = engine_command(container, planned.command, name=name, mounts=mounts, variables=variables, inherited=os.environ)
    return _Way(msgspec.structs.replace(planned, command=command), removal(container, name), lambda: container_pid(container, name))


def _run(
    way: _Way, bench: Bench, variables: Mapping[str, str], telemetry: Path, on_event: Callable[[Event, float], None]
) -> tuple[Execution, Sampled]:
    """Run a trial with the sampler beside it."""

    def read(line: bytes, seconds: float) -> None:
        event = read_line(line + b"\n")
        if event is not None:
            on_event(event, seconds)

    with sampling(telemetry, [gpu.index for gpu in bench.gpus] if bench.telemetry else []) as sampler:
        execution = run_trial(
            way.planned,
            directory=bench.directory,
            environment_variables=variables,
            keep_pythonpath=bench.setup.environment.kind == "given",
            time_limit_s=bench.time_limit,
            on_line=read,
            on_start=(lambda pid: sampler.start(pid, time.monotonic(), way.find_root)) if bench.telemetry else None,
            cleanup=way.cleanup,
        )
        return execution, sampler.stop()


def _pair_warnings(setup: Setup, judgement: Judgement) -> Iterator[Warning]:
    """What is to be known of this TensorFlow with this upstream commit."""
    if not setup.release.verified:
        yield Warning(kind="unverified_release", detail=f"TensorFlow {setup.release.tensorflow} was never run by us with this upstream commit")
    if setup.commit_age and is_of_age(judgement.verdict, judgement.reason):
        yield Warning(kind="commit_of_another_time", detail=setup.commit_age)


def _read_back(log: Path) -> tuple[Output, StderrSummary, Sequence[float], str | None]:
    """What standard output, standard error and the stamps hold. Where a file has gone or is damaged it counts as empty, as the last value says."""
    lost: list[str] = []

    def read(reader: Callable[[Path], _Content], path: Path, empty: _Content) -> _Content:
        try:
            return reader(path)
        except (OSError, ValueError) as error:
            lost.append(_unreadable(path, error))
            return empty

    output = read(parse_file, log, Output())
    stderr = read(read_stderr, log.with_suffix(".stderr"), summarise_stderr([]))
    stamps = read(read_stamps, log.with_suffix(".times.csv"), array("d"))
    return output, stderr, stamps, "; ".join(lost) or None


def _telemetry(path: Path, window: tuple[float, float], gpus: tuple[Gpu, ...], sampled: Sampled) -> tuple[dict[str, Any], list[Warning]]:
    """The readings of the timed loop and what they warn of. The figure does not rest on them: where they are lost, that is a warning."""
    try:
        summary = summarise_window(path, *window)
    except (OSError, ValueError, LookupError, csv.Error) as error:
        return {}, [Warning(kind="telemetry_lost", detail=_unreadable(path, error))]
    return msgspec.to_builtins(summary), [Warning(kind=kind, detail=detail) for kind, detail in telemetry_warnings(summary, gpus, sampled)]


def _unreadable(path: Path, error: Exception) -> str:
    why = error.strerror if isinstance(error, OSError) else error
    return f"{LOGS}/{path.name} can't be read back: {why}"


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
