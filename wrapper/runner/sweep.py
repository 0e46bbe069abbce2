"""What was asked for: a sweep, from YAML and flags, checked before anything starts."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import msgspec

from wrapper.errors import UsageError
from wrapper.runner.batch_size import BatchSizes, Fit, Wanted
from wrapper.runner.quoting import shown
from wrapper.runner.sweep_file import read_sweep_file
from wrapper.runner.units import parse_duration, parse_percent
from wrapper.shipped import DATA, read_table

T = TypeVar("T")

MAX_TRIALS = 100_000
"""Far more than anyone waits for, and few enough to list."""
MAX_TEXT = 4096
"""Characters; the longest path that Linux takes."""
MAX_KEY = 100
_UNWRITABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One point of the sweep: everything that a figure depends on besides the machine and the release."""

    model: str
    batch_size: int
    """Per device, as upstream's flag means it."""
    device: str
    """"cpu" or "gpu"."""
    devices: int = 1
    precision: str = "fp32"
    """"fp32" or "fp16"."""
    xla: bool = False
    forward_only: bool = False
    variable_update: str = "parameter_server"
    data_dir: str | None = None
    """None: upstream's synthetic data."""
    data_name: str | None = None
    """Upstream's data set, where it is not the model's own."""
    steps: int = 100
    warmup_steps: int = 10
    flags: tuple[tuple[str, str], ...] = ()
    """More upstream flags, by name without dashes, in the order given."""

    @property
    def name(self) -> str:
        """A short, file-safe name that tells the cases of one sweep apart, such as "resnet50-b64-fp32-gpu1"."""
        parts = [self.model, f"b{self.batch_size}", self.precision, f"{self.device}{self.devices}"]
        parts += ["xla"] if self.xla else []
        parts += ["forward"] if self.forward_only else []
        return "-".join(parts)

    @property
    def global_batch_size(self) -> int:
        return self.batch_size * self.devices

    @property
    def mode(self) -> str:
        return "forward only" if self.forward_only else "training"

    @property
    def data(self) -> str:
        return "real" if self.data_dir else "synthetic"


# the keys of a sweep, with what is allowed

Positive = Annotated[int, msgspec.Meta(ge=1, le=10_000_000)]
Repeats = Annotated[int, msgspec.Meta(ge=1, le=1000)]
DeviceCount = Annotated[int, msgspec.Meta(ge=1, le=64)]
Seconds = Annotated[float, msgspec.Meta(gt=0, le=7 * 24 * 3600)]


class Sweep(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything asked for, as a sweep file says it; each key has a flag."""

    name: str = "sweep"
    description: str = ""
    tensorflow: str | Annotated[tuple[str, ...], msgspec.Meta(min_length=1)] | None = None
    """A release, or several on which to run the same cases; None: chosen by what this machine has."""
    device: Literal["auto", "cpu", "gpu"] = "auto"
    models: Annotated[dict[str, BatchSizes | Wanted], msgspec.Meta(min_length=1)]
    """Batch sizes per device for each model, or "max", or `fit` with those to try."""
    repeats: Repeats = 3
    until: Annotated[float, msgspec.Meta(gt=0, le=100)] | None = None
    """Go on repeating until each case's 95 % interval is within so many per cent of its mean."""
    max_repeats: Repeats = 20
    """With `until` or `budget`: no more repeats than this."""
    budget: Seconds | None = None
    """Seconds for the whole sweep; steps and repeats are planned so that it fits."""
    steps: Positive = 100
    warmup_steps: Positive = 10
    devices: Annotated[tuple[DeviceCount, ...], msgspec.Meta(min_length=1)] = (1,)
    precisions: Annotated[tuple[Literal["fp32", "fp16"], ...], msgspec.Meta(min_length=1)] = ("fp32",)
    xla: Annotated[tuple[bool, ...], msgspec.Meta(min_length=1)] = (False,)
    forward_only: bool = False
    variable_update: Literal["parameter_server", "replicated", "independent"] = "parameter_server"
    """The ways of a single process; upstream's others need several processes."""
    data_dir: str | None = None
    data_name: Literal["imagenet", "cifar10", "coco", "librispeech"] | None = None
    flags: dict[str, str] = {}
    """More upstream flags, by name without dashes."""
    time_limit: Seconds = 7200.0
    """Seconds for one trial. Long, because a GPU newer than the release compiles its kernels at the first start."""


OWN_FLAGS = {
    "model": "models",
    "batch_size": "models",
    "num_batches": "steps",
    "num_warmup_batches": "warmup_steps",
    "num_gpus": "devices",
    "device": "device",
    "use_fp16": "precisions",
    "xla": "xla",
    "forward_only": "forward_only",
    "variable_update": "variable_update",
    "data_dir": "data_dir",
    "data_name": "data_name",
}
"""Upstream flags that a key of the sweep stands for."""

FOREIGN_FLAGS = ("num_epochs", "eval", "job_name", "ps_hosts", "worker_hosts", "task_index", "controller_host", "horovod_device", "display_perf_ewma")
"""Upstream flags that change what the total means, or need more than one process."""


def load_models() -> dict[str, str | None]:
    """Every model name that upstream has had, with the data set that it needs (None: imagenet, upstream's default)."""
    table = read_table(DATA / "models.yaml", dict[str, list[str]])
    return {model: None if data_name == "imagenet" else data_name for data_name, models in reversed(table.items()) for model in models}


def shipped_sweeps() -> tuple[str, ...]:
    return tuple(sorted(path.stem for path in (DATA / "sweeps").glob("*.yaml")))


def load_sweep(name_or_path: str, overrides: Mapping[str, Any]) -> Sweep:
    """Read a shipped sweep by name, or a file, put the command line's keys over it and check the whole.

    Args:
        name_or_path: a name from `shipped_sweeps`, or the path of a YAML file.
        overrides: keys of `Sweep` from flags; a model whose batch sizes are empty takes those of the file.

    Raises:
        UsageError: with the key's path, the value and what is allowed.
    """
    path = DATA / "sweeps" / f"{name_or_path}.yaml" if name_or_path in shipped_sweeps() else Path(name_or_path)
    try:
        raw = read_sweep_file(path)
    except OSError as error:
        known = ", ".join(shipped_sweeps())
        raise UsageError(f"the sweep {shown(name_or_path)} can't be read ({error.strerror})", f"Name a file, or one of: {known}") from error
    merged = {"name": path.stem, **raw, **{key: value for key, value in overrides.items() if key != "models"}}
    if "models" in overrides:
        merged["models"] = _with_batch_sizes(overrides["models"], raw.get("models"), str(path))
    return check_sweep(merged, models=load_models())


def check_sweep(raw: Mapping[str, Any], *, models: Mapping[str, str | None]) -> Sweep:
    """Turn plain values into a Sweep, or say what is wrong with the first that can't be meant.

    Args:
        raw: keys and values as YAML gives them.
        models: the known model names.

    Raises:
        UsageError: with the key's path, the value and what is allowed.
    """
    _check_values(raw, "")
    values = {str(key): value for key, value in raw.items()}
    releases = values.get("tensorflow")
    for release in releases if isinstance(releases, list | tuple) else [releases]:
        if not isinstance(release, str | None):
            raise UsageError(f"tensorflow: {shown(release)} is not text", 'Quote it: tensorflow: "1.10" (YAML reads 1.10 as the number 1.1)')
    for key in ("time_limit", "budget"):
        if isinstance(values.get(key), str):
            values[key] = parse_duration(values[key], key)
    if isinstance(values.get("until"), str):
        values["until"] = parse_percent(values["until"], "until")
    if isinstance(values.get("flags"), dict):
        values["flags"] = {name: _flag_text(value) for name, value in values["flags"].items()}
    for key in ("devices", "precisions", "xla"):
        if key in values and not isinstance(values[key], list | tuple):
            values[key] = [values[key]]
    if isinstance(values.get("models"), dict):
        values["models"] = {name: _batch_sizes(value) for name, value in values["models"].items()}
    # msgspec's paths do not name the keys of a mapping: look into the two mappings one key at a time
    kinds: dict[str, Any] = {"models": BatchSizes | Wanted, "flags": str}
    for key, kind in kinds.items():
        for name, value in values[key].items() if isinstance(values.get(key), dict) else ():
            if not isinstance(name, str):
                raise UsageError(f"{key}.{shown(name)}: a name must be text", "Quote it")
            if key == "models" and isinstance(value, dict) and set(value) != {"fit"}:
                raise UsageError(f"models.{name}: {shown(value)}: not batch sizes", "Allowed: 64, [64, 32], max, or {fit: [64, 32]}")
            _convert(value, kind, f"{key}.{name}")
    sweep = _convert(values, Sweep, "")
    _check_meaning(sweep, models)
    return msgspec.structs.replace(sweep, data_dir=str(Path(sweep.data_dir).resolve()) if sweep.data_dir else None)


def _check_values(value: Any, path: str, longest: int = MAX_TEXT) -> None:
    """Refuse what no later step could write: text that is not UTF-8 or steers a terminal, and numbers beyond 64 bits."""
    if isinstance(value, dict):
        for key, inner in value.items():
            _check_values(key, path or "a key", MAX_KEY)
            _check_values(inner, f"{path}.{key}".removeprefix("."))
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(value):
            _check_values(inner, f"{path}[{index}]")
    elif isinstance(value, str) and _UNWRITABLE.search(value.replace("\n", " ") if path == "description" else value):
        raise UsageError(f"{path}: {shown(value)} holds a control character, or one that UTF-8 lacks", "Take it out")
    elif isinstance(value, str) and len(value) > longest:
        raise UsageError(f"{path}: {shown(value)} is too long", f"Allowed: at most {longest} characters")
    elif isinstance(value, int) and abs(value) >= 2**63:
        raise UsageError(f"{path}: {shown(value)} is too large", "Write a smaller number")


def _with_batch_sizes(asked: Mapping[str, tuple[int, ...]], in_file: Any, path: str) -> dict[str, Any]:
    known = in_file if isinstance(in_file, dict) else {}
    for model, sizes in asked.items():
        if not sizes and model not in known:
            raise UsageError(f"--models {model}: no batch size, and {path} has none for it", f"Write {model.partition(':')[0]}=32, say")
    return {model: list(sizes) or known[model] for model, sizes in asked.items()}


def _batch_sizes(value: Any) -> Any:
    """Batch sizes as a list, also a single one; "max" and what is to be fitted as they are."""
    if value in ("max", ["max"], ("max",)):  # the second and third: from --models resnet50=max
        return "max"
    return value if isinstance(value, list | tuple | dict) else [value]


def _flag_text(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else value


def _convert(value: Any, kind: type[T], path: str) -> T:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise UsageError(_explain(str(error), value, path), "") from error


def _explain(message: str, value: Any, path: str) -> str:
    """msgspec's message ends in "- at `$.devices[0]`": put the path first, then the value that stands there, then what is allowed."""
    text, _, inner = message.partition(" - at `")
    text = re.sub(r"(?<=Invalid enum value) .*", "", text)
    inner = inner.rstrip("`").removeprefix("$")
    unknown = re.search(r"unknown field `(.+)`", text)
    if unknown:
        near = difflib.get_close_matches(unknown[1], Sweep.__struct_fields__, n=1)
        hint = f"did you mean {near[0]}?" if near else f"allowed: {', '.join(Sweep.__struct_fields__)}"
        return f"{unknown[1]}: no such key; {hint}"
    for part in re.findall(r"[^.\[\]]+", inner):
        value = value[int(part)] if part.isdigit() else value[part]
    path = f"{path}{inner}".removeprefix(".")
    allowed = {"precisions": " (allowed: fp32, fp16)", "device": " (allowed: auto, cpu, gpu)"}.get(path.split("[")[0], "")
    return f"{path or 'the sweep'}: {f'{shown(value)}: ' if path else ''}{text[:1].lower()}{text[1:]}{allowed}"


def _check_meaning(sweep: Sweep, models: Mapping[str, str | None]) -> None:
    for model in sweep.models:
        if model not in models:
            near = difflib.get_close_matches(model, models, n=3) or sorted(models)
            raise UsageError(f"models.{model}: upstream has no model of this name", f"Near it: {', '.join(near)}")
    lists: dict[str, object] = {key: getattr(sweep, key) for key in ("tensorflow", "devices", "precisions", "xla")}
    lists |= {f"models.{model}": sizes for model, sizes in sweep.models.items()}
    for key, values in lists.items():
        if isinstance(values, tuple) and len(set(values)) < len(values):
            raise UsageError(f"{key}: {shown(list(values))}: a value stands twice, and would be one case", "Use repeats to run a case more often")
    for name, value in sweep.flags.items():
        if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
            raise UsageError(f"flags.{name}: not a flag's name", "Write it as upstream does, without dashes: num_intra_threads")
        if name in OWN_FLAGS:
            raise UsageError(f"flags.{name}: {shown(value)}: the sweep's key {OWN_FLAGS[name]} stands for this flag", f"Use {OWN_FLAGS[name]}")
        if name in FOREIGN_FLAGS:
            raise UsageError(f"flags.{name}: {shown(value)}: with it upstream's total means something else", "Leave it out")
    if not re.fullmatch(r"[\w.-]{1,60}", sweep.name):
        raise UsageError(f"name: {shown(sweep.name)}: it becomes a folder's name", "Allowed: letters, digits, '.', '_' and '-', at most 60")
    _check_extent(sweep)


def _check_extent(sweep: Sweep) -> None:
    sizes = sum(1 if wanted == "max" else len(wanted.fit if isinstance(wanted, Fit) else wanted) for wanted in sweep.models.values())
    repeats = max(sweep.repeats, sweep.max_repeats) if sweep.until or sweep.budget else sweep.repeats
    trials = sizes * len(sweep.devices) * len(sweep.xla) * len(sweep.precisions) * repeats
    if trials > MAX_TRIALS:
        raise UsageError(f"the sweep comes to {trials} trials", f"Allowed: at most {MAX_TRIALS}")
