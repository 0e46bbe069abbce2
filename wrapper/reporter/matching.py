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

_FIELDS = {what: what.lower().replace(" ", "_").replace("-", "_") for what in ORDER}
"""The field of `Reference` that states each of them."""

DATA_SET = "imagenet"
"""Upstream's default."""

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
    return tuple(_as_reference(summary, conditions) for summary in summaries if summary.mean is not None)


def match(summary: Summary, conditions: Conditions, reference: Reference) -> Match:
    """How alike a case and a reference are, apart from the model and the machine."""
    differences, unstated, distance = [], [], dict.fromkeys(ORDER, 0.0)
    not_known = conditions.unstated.get(summary.case, frozenset())
    own = _as_reference(summary, conditions)
    for what, field in _applicable(own, reference):
        measured, stated = _value(own, field), _value(reference, field)
        if measured is None or stated is None or field in not_known:
            unstated.append(what)
            distance[what] = 1.0
        elif field == "tensorflow" and f"{measured}.".startswith(f"{stated}."):
            continue  # a source that says "1.15" means any 1.15
        elif measured != stated:
            differences.append(Difference(what=what, measured=_text(measured), reference=_text(stated)))
            # batch sizes are the one condition that is near or far; any other is the same or not
            distance[what] = 2.0
            if isinstance(measured, int) and isinstance(stated, int) and field == "batch_size":
                distance[what] += abs(math.log2(measured / stated))
    return Match(reference=reference, differences=tuple(differences), unstated=tuple(unstated), distance=tuple(distance.values()))


def measures_the_same(case: Case, reference: Reference) -> bool:
    """Whether no `REQUIRED` condition is known to differ, which is quicker to say than a whole `match`."""
    return (
        reference.mode == case.mode
        and reference.precision in (case.precision, None)
        and _value(reference, "devices") == case.devices
        and _value(reference, "data_set") == (case.data_name or DATA_SET)
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


def _as_reference(summary: Summary, conditions: Conditions) -> Reference:
    """A case with a figure. What no flag says has upstream's default."""
    assert summary.mean is not None
    case, flags = summary.case, dict(summary.case.flags)
    all_reduce = flags.pop("all_reduce_spec", "none")
    parameter_device = flags.pop("local_parameter_device", case.device).lower()
    optimizer = flags.pop("optimizer", "sgd")
    return Reference(
        row=case.name,
        source=conditions.name,
        gpu=conditions.gpu,
        devices=0 if (case.device, case.devices) == ("cpu", 1) else case.devices,
        model=case.model,
        batch_size=case.batch_size,
        precision=case.precision,
        tf32=conditions.tf32,
        xla=case.xla,
        mode=case.mode,
        data=case.data,
        data_set=case.data_name,
        variable_update=case.variable_update,
        all_reduce=all_reduce if case.variable_update == "replicated" else None,
        parameter_device=parameter_device,
        optimizer=optimizer,
        flags=" ".join(f"--{name}={flags[name]}" for name in sorted(flags)) or "none",
        tensorflow=conditions.tensorflow or None,
        images_per_sec=summary.mean,
        published=f"{summary.mean:.2f}",
        repeats=summary.n,
        warmup_steps=case.warmup_steps,
        steps=case.steps,
        ci95=summary.ci95,
    )


def _applicable(own: Reference, reference: Reference) -> Iterator[tuple[str, str]]:
    """Each condition that applies to both sides, and its field."""
    updates = {own.variable_update, reference.variable_update}
    pointless = {
        "tf32": own.precision != "fp32" or reference.precision not in ("fp32", None),
        "all_reduce": updates != {"replicated"},
        "parameter_device": updates != {"parameter_server"},
    }
    return ((what, field) for what, field in _FIELDS.items() if not pointless.get(field))


def _value(reference: Reference, field: str) -> object:
    value = getattr(reference, field)
    if field == "devices":
        return max(value, 1)  # 0 says that the one device is the CPU
    return value or DATA_SET if field == "data_set" else value


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
