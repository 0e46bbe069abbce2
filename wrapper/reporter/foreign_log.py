"""One log of somebody else's: read tolerantly, believed as strictly as our own, by the parser's verdicts."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from wrapper.parser.blocks import BLOCK, file_blocks, line_blocks
from wrapper.parser.line import readable
from wrapper.parser.output import Output, parse
from wrapper.parser.remedies import remedy_of
from wrapper.parser.stderr import StderrSummary, read_stderr, summarise_stderr
from wrapper.parser.verdict import Judgement, judge
from wrapper.process import Execution
from wrapper.runner.sweep import Case

UNKNOWN_DIRECTORY = "not stated"
"""Stands as the data directory of a log of real data."""

_MOST_DEVICES = 10_000
_MAY_BE_UNSTATED = frozenset({"precision", "xla", "data", "variable_update"})
_NEVER_STATED = frozenset({"parameter_device", "flags", "warmup_steps"})
"""What upstream prints nothing of."""
_LACKS = frozenset({"no_gpu", "gpu_architecture", "driver"})
"""Kinds of lines on standard error by which a GPU can't have been used."""
_COMMAND = re.compile(rb"tf_cnn_benchmarks\.py(?:[ \t]+--\S+)+")
_FP16 = re.compile(rb"--use_fp16(?:=(?:true|1))?(?!\S)", re.IGNORECASE)
_XLA = b"Compiled cluster using XLA!"
_DATE = re.compile(rb"(?<!\d)(20\d\d-[01]\d-[0-3]\d)[T ][0-2]\d:[0-5]\d:")
_TREE = re.compile(
    r"(?:^|/)(?:(?P<machine>[^/]+)/)?(?P<data>syn|real)-(?P<variable_update>[a-z_]+)-(?P<precision>fp16|fp32)-(?P<devices>\d{1,4})gpus"
    r"(?P<distortions>-distortions)?(?P<inference>-inference)?/(?P<model>[^/]+)-(?P<batch_size>\d{1,7})/"
)
"""How lambda-tensorflow-benchmark names the directories of its logs (its benchmark.sh)."""


class ImportedLog(msgspec.Struct, frozen=True, kw_only=True):
    """What one log says."""

    path: str
    case: Case
    """From the log, then from the directory's name; what neither states has upstream's default."""
    judgement: Judgement
    unstated: frozenset[str] = frozenset()
    """Conditions, by the fields of `Reference`, that neither the log nor the name states."""
    ranks: int = 1
    """Processes whose totals stand in the log; each is that of the whole cluster, and the figure is their mean."""
    machine: str | None = None
    gpu: str | None = None
    """As TensorFlow named it."""
    tensorflow: str | None = None
    date: str | None = None
    """ISO 8601."""
    notes: tuple[str, ...] = ()
    """Where the directory's name says otherwise than the log, which is believed; what the log doesn't prove."""

    def stated(self, field: str) -> Any:
        """A field of the case, None where it is not stated."""
        return None if field in self.unstated else getattr(self.case, field)

    @property
    def nan_loss(self) -> bool:
        return any(warning.kind == "nan_loss" for warning in self.judgement.warnings)


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """A file that is no log of the benchmark, or can't be read."""

    path: str
    reason: str


def path_text(path: Path) -> str:
    """A path as text that can be written as UTF-8."""
    return str(path).encode("utf-8", "replace").decode()


def read_log(path: Path) -> ImportedLog | Refusal:
    """Read what upstream printed, whatever carried it, with its standard error in the same stream, beside it (`.stderr`) or not at all.

    Raises:
        OSError: the file can't be read.
    """
    with path.open("rb") as file:
        head = file.read(BLOCK)
    if b"\0" in head:
        return Refusal(path=path_text(path), reason="binary data")

    def pieces() -> Iterable[bytes]:
        return file_blocks(path) if len(head) == BLOCK else [head]

    output = parse(pieces(), tolerant=True)
    beside = path.with_suffix(".stderr")
    stderr = read_stderr(beside) if beside != path and beside.is_file() else summarise_stderr(pieces())
    if output.stage == "start" and not output.malformed_totals and (stderr.error is None or b"tf_cnn_benchmarks" not in head):
        return Refusal(path=path_text(path), reason="no output of the benchmark in it")
    command, date = _COMMAND.search(head), _DATE.search(head)
    stated: dict[str, Any] = {"precision": "fp16" if _FP16.search(command[0]) else "fp32"} if command else {}
    if any(_XLA in block for block in line_blocks(pieces())):
        stated["xla"] = True
    return msgspec.structs.replace(
        row_of(path, output, stderr, stated),
        gpu=" and ".join(dict.fromkeys(gpu.name for gpu in stderr.gpus)) or None,
        tensorflow=output.header.get("TensorFlow"),
        date=date[1].decode() if date else None,
    )


def row_of(path: Path, output: Output, stderr: StderrSummary, stated: Mapping[str, Any]) -> ImportedLog:
    """Judge what was read.

    Args:
        path: of the log; its directories may be named in the manner of lambda-tensorflow-benchmark.
        output: what upstream printed.
        stderr: its standard error, as far as there is one.
        stated: fields of the case that are stated elsewhere in the log than in the header.
    """
    name = _TREE.search(path.as_posix())
    named = _from_name(name) if name else {}
    printed = {**_from_header(output.header), **stated}
    notes = [f"the directory's name says {key} {named[key]}, the log {printed[key]}" for key in named if printed.get(key, named[key]) != named[key]]
    known = named | printed
    case = _case(known, output, distortions=bool(name and name["distortions"]))
    judgement, ranks = _judge(case, output, stderr)
    if case.device == "gpu" and judgement.verdict == "ok" and not stderr.gpus:
        notes.append("no line of TensorFlow's about the GPU that it used")
    return ImportedLog(
        path=path_text(path),
        case=case,
        judgement=judgement,
        unstated=_MAY_BE_UNSTATED.difference(known) | _NEVER_STATED,
        ranks=ranks,
        machine=readable(name["machine"].removesuffix(".logs")) if name and name["machine"] else None,
        notes=tuple(notes),
    )


def _from_name(name: re.Match[str]) -> dict[str, Any]:
    return {
        **{key: readable(name[key]) for key in ("model", "precision", "variable_update")},
        **{key: int(name[key]) for key in ("batch_size", "devices")},
        "forward_only": bool(name["inference"]),
        "data": "synthetic" if name["data"] == "syn" else "real",
    }


def _from_header(header: Mapping[str, str]) -> dict[str, Any]:
    """The fields of a case that the header states."""
    per_device, total, listed = _number(header.get("Batch size per device")), _number(header.get("Batch size global")), header.get("Devices", "")
    # The list of devices is one process's where there are workers, and may be cut where it is long.
    devices = total // per_device if per_device and ("job:" in listed or "horovod" in listed) else listed.count("'") // 2
    data_set, _, synthetic = header.get("Dataset", "").partition(" ")
    values = {
        "model": header.get("Model"),
        "batch_size": per_device or None,
        "devices": devices if 0 < devices <= _MOST_DEVICES else None,
        "variable_update": header.get("Variables"),
        "forward_only": "forward" in header["Mode"].lower() if "Mode" in header else None,
        "data": ("synthetic" if synthetic == "(synthetic)" else "real") if data_set else None,
        "data_name": data_set if data_set not in ("", "imagenet") else None,
    }
    return {key: value for key, value in values.items() if value is not None}


def _case(known: Mapping[str, Any], output: Output, *, distortions: bool) -> Case:
    header = output.header
    device = "cpu" if "cpu" in header.get("Devices", "").lower() else "gpu"
    data_format = "NHWC" if device == "cpu" else "NCHW"
    flags = (
        ("all_reduce_spec", header.get("AllReduce", "None"), "None"),
        ("optimizer", header.get("Optimizer", "sgd"), "sgd"),
        ("data_format", header.get("Data format", data_format), data_format),
        ("distortions", str(distortions).lower(), "false"),
    )
    fields: dict[str, Any] = {"model": "unknown", "batch_size": 0, "devices": 0, **known}
    return Case(
        device=device,
        data_dir=UNKNOWN_DIRECTORY if fields.pop("data", "synthetic") == "real" else None,
        steps=_number(header.get("Num batches")) or (output.steps[-1].step if output.steps else 0),
        flags=tuple((flag, value) for flag, value, default in flags if value != default),
        **fields,
    )


def _judge(case: Case, output: Output, stderr: StderrSummary) -> tuple[Judgement, int]:
    """The parser's verdict, and from how many processes the totals are."""
    if output.totals and not (case.batch_size and case.devices and case.steps):
        return _bogus(case, f"total images/sec: {output.totals[0]:.2f}, but no batch size, devices or steps before it"), 1
    ranks = _processes(case, output.header.get("Devices", ""))
    totals = len(output.totals)
    if ranks > 1:
        output = _of_cluster(case, output, ranks)
        stderr = msgspec.structs.replace(stderr, gpus=())  # each process numbers its own
    display_every = math.gcd(*(step.step for step in output.steps if step.step != 1)) or case.steps + 1
    judgement = judge(
        case=msgspec.structs.replace(case, flags=(*case.flags, ("display_every", str(display_every)))),
        # A log doesn't tell its exit code: with a total it is taken for 0, else an error line says that it was not.
        execution=Execution(exit_code=1 if stderr.error and not output.totals else 0, started="", seconds=0.0),
        output=output,
        stderr=stderr,
        # Without standard error there is no proof of a GPU; that is noted, and no reason to refuse unless something speaks against it.
        seen_on_devices=None if case.device == "cpu" or _LACKS & stderr.hits.keys() else frozenset(range(case.devices)),
    )
    # In upstream 1.5 several workers multiply the total by their number once too often (mended in f68d785).
    if ranks > 1 and (wrong := [warning.detail for warning in judgement.warnings if warning.kind == "clock_disagrees"]):
        judgement = _bogus(case, f"{ranks} processes: {wrong[0]}")
    return judgement, max(1, min(ranks, totals))


def _bogus(case: Case, reason: str) -> Judgement:
    return Judgement(verdict="bogus_total", reason=reason, remedy=remedy_of("bogus_total", case))


def _processes(case: Case, devices: str) -> int:
    """How many processes trained together: Horovod's list names a device for each, a worker's names its own devices."""
    if "horovod" in devices:
        return case.devices
    return case.devices // max(1, devices.count("'") // 2) if "job:" in devices else 1


def _of_cluster(case: Case, output: Output, ranks: int) -> Output:
    """As if one process had printed it: each prints the cluster's total and batch size, but its own devices and step lines."""
    mean = {"totals": (statistics.fmean(output.totals),), "total_lines": output.total_lines[-1:]} if 1 < len(output.totals) <= ranks else {}
    return msgspec.structs.replace(
        output,
        header=output.header | {"Devices": str([f"/{case.device}:0"] * case.devices)},
        steps=tuple(msgspec.structs.replace(step, images_per_sec=ranks * step.images_per_sec) for step in output.steps),
        **mean,
    )


def _number(text: str | None) -> int:
    """A whole number of at most nine digits, else 0."""
    return int(text) if text and re.fullmatch(r"[0-9]{1,9}", text) else 0
