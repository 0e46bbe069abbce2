"""From a sweep to the exact command lines, in the order in which they run. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import msgspec

from wrapper.runner.batch_size import BatchSizes, Fit, Wanted
from wrapper.runner.sweep import Case, Sweep

Resolve = Callable[[Case, Wanted], Sequence[int]]
"""Batch sizes for a case (whose own is 1), instead of "max" or what is to be fitted."""


class PlannedTrial(msgspec.Struct, frozen=True, kw_only=True):
    """One trial to be run."""

    index: int
    """Position in the plan, from 1."""
    case: Case
    repeat: int
    """From 1."""
    command: tuple[str, ...]
    log_name: str
    """File name of its logs without the ending, such as "003-resnet50-b64-fp32-gpu1-r1"."""


def stand_in(case: Case, wanted: Wanted) -> Sequence[int]:
    """For checks that come before any trial, and look at everything but the batch size."""
    return wanted.fit if isinstance(wanted, Fit) else (1,)


def recorded_sizes(cases: Sequence[Case]) -> Resolve:
    """For a sweep that goes on: what was found when it began.

    Args:
        cases: those of its record.
    """
    return lambda case, _: [each.batch_size for each in cases if msgspec.structs.replace(each, batch_size=case.batch_size) == case]


def expand(sweep: Sweep, *, device: str, data_names: dict[str, str | None], resolve: Resolve) -> tuple[Case, ...]:
    """List the cases of a sweep: models x batch sizes x precisions x XLA x device counts, in the order written.

    Args:
        sweep: a checked sweep.
        device: "cpu" or "gpu", already decided.
        data_names: upstream's data set for each model, None where upstream's default (imagenet) is meant.
        resolve: asked once for each case whose batch size is to be found.

    Raises:
        Exception: what `resolve` raises.
    """
    pairs = (
        (case, wanted if isinstance(wanted, tuple) else resolve(case, wanted)) for case, wanted in _without_batch_sizes(sweep, device, data_names)
    )
    return tuple(msgspec.structs.replace(case, batch_size=batch_size) for case, batch_sizes in pairs for batch_size in batch_sizes)


def _without_batch_sizes(sweep: Sweep, device: str, data_names: dict[str, str | None]) -> Iterator[tuple[Case, BatchSizes | Wanted]]:
    for devices, xla, precision, (model, wanted) in itertools.product(sweep.devices, sweep.xla, sweep.precisions, sweep.models.items()):
        case = Case(
            model=model,
            batch_size=1,
            device=device,
            devices=devices,
            precision=precision,
            xla=xla,
            forward_only=sweep.forward_only,
            variable_update=sweep.variable_update,
            data_dir=sweep.data_dir,
            data_name=sweep.data_name or data_names.get(model) or ("imagenet" if sweep.data_dir else None),
            steps=sweep.steps,
            warmup_steps=sweep.warmup_steps,
            flags=tuple(sweep.flags.items()),
        )
        yield case, wanted


def upstream_flags(case: Case) -> dict[str, str]:
    """Upstream's flags for a case. Everything that a figure depends on is passed, also where it is upstream's default.

    `display_every` is upstream's 10, so that the timed loop is upstream's own, except in runs too short to show two such lines.
    """
    flags = {
        "model": case.model,
        "batch_size": str(case.batch_size),
        "num_batches": str(case.steps),
        "num_warmup_batches": str(case.warmup_steps),
        "display_every": "10" if case.steps >= 20 else "1",
        "device": case.device,
        "num_gpus": str(case.devices),
        # upstream's max-pooling and convolution kernels exist for NCHW on the GPU and for NHWC on the CPU
        "data_format": "NHWC" if case.device == "cpu" else "NCHW",
        "variable_update": case.variable_update,
    }
    if case.precision == "fp16":
        flags["use_fp16"] = "true"
    if case.xla:
        flags["xla"] = "true"
    if case.forward_only:
        flags["forward_only"] = "true"
    if case.data_name:
        flags["data_name"] = case.data_name
    if case.data_dir:
        flags["data_dir"] = case.data_dir
    return flags | dict(case.flags)


def command_line(case: Case, *, python: str, script: str) -> tuple[str, ...]:
    """The exact command line of a trial, absolute, so that it can be pasted anywhere."""
    return (python, script, *(f"--{name}={value}" for name, value in upstream_flags(case).items()))


def plan_trials(cases: Sequence[Case], *, rounds: Iterable[int], python: str, script: str, first_index: int = 1) -> tuple[PlannedTrial, ...]:
    """Every case once, then every case again, so that drift of the machine hits all cases alike.

    Args:
        cases: in the order in which a round runs them.
        rounds: the repeats to plan, from 1.
        python: the environment's interpreter.
        script: upstream's main program.
        first_index: the index of the first trial planned.
    """
    pairs = [(repeat, case) for repeat in rounds for case in cases]
    return tuple(
        PlannedTrial(
            index=index,
            case=case,
            repeat=repeat,
            command=command_line(case, python=python, script=script),
            log_name=f"{index:03d}-{case.name}-r{repeat}",
        )
        for index, (repeat, case) in enumerate(pairs, start=first_index)
    )


def trial_variables(case: Case, variables: Mapping[str, str]) -> dict[str, str]:
    """Environment variables that a trial needs besides those that it inherits.

    Args:
        case: says the device.
        variables: what the release and the environment want.
    """
    device = {"CUDA_VISIBLE_DEVICES": "-1"} if case.device == "cpu" else {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    # at any higher level TensorFlow's own lines about the devices that it uses, the second witness of a GPU trial, are not printed
    return {"TF_CPP_MIN_LOG_LEVEL": "0", **device, **variables}
