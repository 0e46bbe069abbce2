"""What upstream writes with `--benchmark_log_dir`: benchmark_run.log says what ran, metric.log how fast. Both are JSON lines, appended run by run."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import msgspec

from wrapper.parser.line import readable
from wrapper.parser.output import Output, Step
from wrapper.parser.stderr import StderrSummary
from wrapper.reporter.foreign_log import ImportedLog, Refusal, path_text, row_of

METRIC_FILE, RUN_FILE = "metric.log", "benchmark_run.log"

T = TypeVar("T")


class _Parameter(msgspec.Struct):
    name: str
    string_value: str | None = None
    long_value: int | None = None
    float_value: float | None = None


class _Gpus(msgspec.Struct, frozen=True):
    model: str | None = None


class _Machine(msgspec.Struct, frozen=True):
    gpu_info: _Gpus | None = None


class _Run(msgspec.Struct):
    run_parameters: tuple[_Parameter, ...]
    run_date: str = ""
    tensorflow_version: dict[str, str] = {}
    machine_config: _Machine = _Machine()


class _Metric(msgspec.Struct):
    name: str
    value: float
    global_step: int | None = None
    extras: tuple[dict[str, str], ...] = ()


def read_benchmark_log(path: Path) -> ImportedLog | Refusal:
    """Read the last run that was logged.

    Args:
        path: metric.log, with benchmark_run.log beside it.

    Raises:
        OSError: a file can't be read.
    """
    runs, metrics = _read(path.with_name(RUN_FILE), _Run), _read(path, _Metric)
    if not runs or not metrics:
        return Refusal(path=path_text(path), reason=f"no {METRIC_FILE} and {RUN_FILE} of upstream's")
    run = runs[-1][1]
    # The parameters are named like the header's keys, and don't tell synthetic from real data.
    header = {one.name.replace("_", " ").capitalize(): _text(one) for one in run.run_parameters}
    data_set = header.pop("Dataset", "imagenet")
    header["Batch size global"] = header.get("Batch size", "")
    steps: list[Step] = []
    totals: dict[int, float] = {}
    for number, metric in metrics:
        if metric.name == "average_examples_per_sec":
            totals[number] = metric.value
        elif metric.name == "current_examples_per_sec" and metric.global_step is not None:
            if steps and metric.global_step <= steps[-1].step:
                steps, totals = [], {}  # here the next run starts
            steps.append(Step(metric.global_step, metric.value, 0.0, 0.0, _loss(metric), number))
    output = Output(header=header, steps=tuple(steps), stage="steps", totals=tuple(totals.values()), total_lines=tuple(totals), step_header_line=1)
    gpu, version = run.machine_config.gpu_info, run.tensorflow_version.get("version")
    return msgspec.structs.replace(
        row_of(path, output, StderrSummary(), {} if data_set == "imagenet" else {"data_name": data_set}),
        gpu=readable(gpu.model) if gpu and gpu.model else None,
        tensorflow=readable(version) if version else None,
        date=readable(run.run_date[:10]) or None,
    )


def _read(path: Path, kind: type[T]) -> list[tuple[int, T]]:
    """The lines that hold what is looked for, with their numbers; the rest is passed over."""
    found = []
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                found.append((number, msgspec.json.decode(line, type=kind)))
            except msgspec.DecodeError:
                continue
    return found


def _text(parameter: _Parameter) -> str:
    if parameter.float_value is not None:
        return f"{parameter.float_value:.0f}"
    return readable(str(parameter.string_value if parameter.long_value is None else parameter.long_value))


def _loss(metric: _Metric) -> float | None:
    try:
        return next((float(extra["value"]) for extra in metric.extras if extra.get("name") == "loss"), None)
    except (KeyError, ValueError):
        return None
