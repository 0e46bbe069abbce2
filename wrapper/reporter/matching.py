"""How alike a case of a report and a reference are. Pure, but for the table of GPU names."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

import msgspec
from packaging.version import InvalidVersion, Version

from wrapper.errors import FatalError
from wrapper.reporter.analysis import Summary
from wrapper.reporter.reference import Reference, canonical_gpu
from wrapper.reporter.store import Session
from wrapper.runner.sweep import Case

ORDER = (
    *("mode", "data set", "precision", "devices", "data", "XLA", "batch size", "TF32", "variable update"),
    *("all-reduce", "parameter device", "optimizer", "flags", "TensorFlow", "repeats", "steps"),
)
"""The conditions compared, those that move a figure most first: of two references that one is nearer which is nearer in the first
condition that tells them apart."""

REQUIRED = frozenset({"mode", "data set", "precision", "devices"})
"""Where one of these differs, the two figures measure different things and no ratio is formed. (So it is with the model, always.)"""

STRICT = REQUIRED | {"data", "XLA", "batch size", "TF32", "variable update"}
"""What must be stated and equal for a strict comparison. The rest says how well a figure was measured, or moves it little."""


class Conditions(msgspec.Struct, frozen=True, kw_only=True):
    """What holds for every case of a report."""

    name: str
    """The report's name."""
    gpu: str
    """Canonical name where there is one, else as the driver prints it; of a CPU report the CPU."""
    tensorflow: str
    tf32: bool | None = None
    """Whether fp32 is computed with TF32; None: not known."""
    measured: str | None = None
    """The day, or the first and the last one; None: not known."""
    unstated: dict[Case, frozenset[str]] = {}
    """What the logs that a case was read from don't state, by the fields of `Reference`; the case has upstream's default there."""
    demo: bool = False

    def __str__(self) -> str:
        tf32 = {None: ", TF32 not stated", True: ", TF32 on", False: ""}[self.tf32]
        return f"{self.name}: {self.gpu}, TensorFlow {self.tensorflow or 'not stated'}{tf32}, measured {self.measured or 'on a day not stated'}"


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """A condition in which the report and a reference are known to differ."""

    what: str
    measured: str
    reference: str

    def __str__(self) -> str:
        return f"{self.what} {self.measured} against {self.reference}"


class Match(msgspec.Struct, frozen=True, kw_only=True):
    """How alike a case and a reference of the same model are."""

    reference: Reference
    differences: tuple[Difference, ...]
    unstated: tuple[str, ...]
    """Conditions that one side doesn't state: neither the same nor different."""
    distance: tuple[float, ...]
    """By `ORDER`; the smaller is nearer."""

    @property
    def label(self) -> str:
        """What differs and what is not stated, in words."""
        return "; ".join([*map(str, self.differences), *not_stated(self.unstated)]) or "same conditions"


def not_stated(conditions: Sequence[str]) -> list[str]:
    """The words for conditions that are not stated; none where all are."""
    return [f"not stated: {', '.join(conditions)}"] if conditions else []


def conditions_of(session: Session, name: str) -> Conditions:
    """What a report's session says of the conditions that all its cases share.

    Args:
        session: as read from session.json.
        name: the report's name, such as its directory's.
    """
    names = list(dict.fromkeys(str(gpu.get("name")) for gpu in session.gpus)) if session.device == "gpu" else [str(session.host.get("cpu", "CPU"))]
    return Conditions(
        name=name,
        gpu=" and ".join(canonical_gpu(gpu) or gpu for gpu in names) or "unknown GPU",
        tensorflow=session.tensorflow,
        tf32=_tf32(session),
        measured=session.created[:10],
        demo=session.demo,
    )


def references_from(summaries: Iterable[Summary], conditions: Conditions) -> tuple[Reference, ...]:
    """A report as references, to compare another report with; cases without a figure give none.

    Raises:
        FatalError: the report is a demo.
    """
    refuse_demo(conditions)
    return tuple(
        Reference(
            row=summary.case.name,
            source=conditions.name,
            gpu=conditions.gpu,
            devices=0 if (summary.case.device, summary.case.devices) == ("cpu", 1) else summary.case.devices,
            model=summary.case.model,
            batch_size=summary.case.batch_size,
            precision=summary.case.precision,
            tf32=conditions.tf32,
            xla=summary.case.xla,
            mode=summary.case.mode,
            data=summary.case.data,
            data_set=summary.case.data_name,
            variable_update=summary.case.variable_update,
            all_reduce=_all_reduce(summary.case),
            parameter_device=_parameter_device(summary.case),
            optimizer=_optimizer(summary.case),
            flags=_other_flags(summary.case),
            tensorflow=conditions.tensorflow,
            images_per_sec=summary.mean,
            published=f"{summary.mean:.2f}",
            repeats=summary.n,
            warmup_steps=summary.case.warmup_steps,
            steps=summary.case.steps,
            ci95=summary.ci95,
        )
        for summary in summaries
        if summary.mean is not None
    )


def match(summary: Summary, conditions: Conditions, reference: Reference) -> Match:
    """How alike a case and a reference are, apart from the model and the machine."""
    differences, unstated, distance = [], [], dict.fromkeys(ORDER, 0.0)
    not_known = conditions.unstated.get(summary.case, frozenset())
    for what, measured, stated in _pairs(summary, conditions, reference):
        if measured is None or stated is None or what.lower().replace(" ", "_") in not_known:
            unstated.append(what)
            distance[what] = 1.0
        elif measured != stated:
            differences.append(Difference(what=what, measured=_text(measured), reference=_text(stated)))
            # batch sizes are the one condition that is near or far; any other is the same or not
            distance[what] = 2.0
            if isinstance(measured, int) and isinstance(stated, int) and what == "batch size":
                distance[what] += abs(math.log2(measured / stated))
    return Match(reference=reference, differences=tuple(differences), unstated=tuple(unstated), distance=tuple(distance.values()))


def measures_the_same(case: Case, reference: Reference) -> bool:
    """Whether no `REQUIRED` condition is known to differ, which is quicker to say than a whole `match`."""
    return (
        reference.mode == case.mode
        and reference.precision in (case.precision, None)
        and _devices(reference) == case.devices
        and _data_set(reference.data_set) == _data_set(case.data_name)
    )


def obstacles(found: Match, strict: bool) -> tuple[str, ...]:
    """Why no ratio may be formed; empty where it may.

    Args:
        strict: by `STRICT` instead of `REQUIRED`.
    """
    hindering = STRICT if strict else REQUIRED
    unstated = [f"{what} not stated" for what in found.unstated if strict and what in STRICT]
    return (*(str(difference) for difference in found.differences if difference.what in hindering), *unstated)


def refuse_demo(conditions: Conditions) -> None:
    if conditions.demo:
        raise FatalError(f"{conditions.name} is a demo: its figures can't be compared with anything", "Compare a report of a real sweep")


def _pairs(summary: Summary, conditions: Conditions, reference: Reference) -> Iterator[tuple[str, object, object]]:
    """Each condition that applies to both sides: its name, the measured value, the stated value; None where one is not known."""
    case = summary.case
    yield "mode", case.mode, reference.mode
    yield "data set", _data_set(case.data_name), _data_set(reference.data_set)
    yield "precision", case.precision, reference.precision
    yield "devices", case.devices, _devices(reference)
    yield "data", case.data, reference.data
    yield "XLA", case.xla, reference.xla
    yield "batch size", case.batch_size, reference.batch_size
    if case.precision == "fp32" and reference.precision in ("fp32", None):
        yield "TF32", conditions.tf32, reference.tf32
    yield "variable update", case.variable_update, reference.variable_update
    if case.variable_update == reference.variable_update == "replicated":
        yield "all-reduce", _all_reduce(case), reference.all_reduce
    if case.variable_update == reference.variable_update == "parameter_server":
        yield "parameter device", _parameter_device(case), reference.parameter_device
    yield "optimizer", _optimizer(case), reference.optimizer
    yield "flags", _other_flags(case), reference.flags
    stated = reference.tensorflow
    # a source that says "1.15" means any 1.15
    yield "TensorFlow", stated if stated and f"{conditions.tensorflow}.".startswith(f"{stated}.") else conditions.tensorflow or None, stated
    yield "repeats", summary.n, reference.repeats
    yield "steps", case.steps, reference.steps


def _data_set(name: str | None) -> str:
    return name or "imagenet"  # upstream's default


def _devices(reference: Reference) -> int:
    return max(reference.devices, 1)  # 0 says that the one device is the CPU


def _all_reduce(case: Case) -> str | None:
    return dict(case.flags).get("all_reduce_spec", "none") if case.variable_update == "replicated" else None


def _parameter_device(case: Case) -> str:
    return dict(case.flags).get("local_parameter_device", "cpu" if case.device == "cpu" else "gpu").lower()  # upstream's default


def _optimizer(case: Case) -> str:
    return dict(case.flags).get("optimizer", "sgd")  # upstream's default


def _other_flags(case: Case) -> str:
    """Upstream flags that no other condition stands for."""
    others = {name: value for name, value in case.flags if name not in ("all_reduce_spec", "local_parameter_device", "optimizer")}
    return " ".join(f"--{name}={others[name]}" for name in sorted(others)) or "none"


def _text(value: object) -> str:
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)


def _tf32(session: Session) -> bool | None:
    """TF32 came with compute capability 8.0; TensorFlow's own packages use it by default from 2.4 on, the first built for CUDA 11
    (https://www.tensorflow.org/api_docs/python/tf/config/experimental/enable_tensor_float_32_execution). Others' builds of older releases may."""
    if session.device == "cpu":
        return False
    capability = str(session.gpus[0].get("compute_capability") or "") if session.gpus else ""
    if not capability:
        return None
    if Version(capability) < Version("8.0") or (session.release.get("environment") or {}).get("NVIDIA_TF32_OVERRIDE") == "0":
        return False
    try:
        return True if Version(session.tensorflow) >= Version("2.4") else None
    except InvalidVersion:
        return None
