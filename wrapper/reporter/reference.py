"""Published figures: each with its conditions and its source (tables in wrapper/data/references, described in their README)."""

from __future__ import annotations

import csv
import difflib
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec

from wrapper import shipped
from wrapper.errors import UsageError
from wrapper.runner.sweep import load_models

BEFORE_TF32 = frozenset({"CPU", "Kepler", "Maxwell", "Pascal", "Volta", "Turing", "Polaris", "Vega", "RDNA", "RDNA 2"})
"""Architectures of gpus.csv without TF32, which came with Ampere: what runs on a later one as "fp32" may be TF32."""

DATA = shipped.DATA / "references"

T = TypeVar("T")


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """Where figures were published; None stands for what it doesn't state."""

    source: str
    """Short name, such as "tf_org_dgx1"."""
    title: str
    url: str | None = None
    published: str | None = None
    repeats: int | None = None
    steps: int | None = None
    tensorflow: str | None = None
    method: str | None = None
    weight: str
    """"official", "vendor", "site" or "user"."""


class Reference(msgspec.Struct, frozen=True, kw_only=True):
    """One published figure with its conditions; None stands for a condition that the source doesn't state."""

    row: str
    """The collected row that it comes from, such as "training-1"."""
    source: str
    gpu: str
    """Canonical name of gpus.csv."""
    machine: str | None = None
    devices: Annotated[int, msgspec.Meta(ge=0)]
    """0: the CPU."""
    model: str
    batch_size: Annotated[int, msgspec.Meta(ge=1, le=10**9)] | None = None
    """Per device."""
    precision: str | None = None
    tf32: bool | None = None
    """Whether fp32 was computed with TF32."""
    xla: bool | None = None
    mode: str
    """"training" or "forward only"."""
    data: str | None = None
    """"synthetic" or "real"."""
    data_set: str | None = None
    variable_update: str | None = None
    all_reduce: str | None = None
    parameter_device: str | None = None
    optimizer: str | None = None
    flags: str | None = None
    """Other upstream flags; "none" in an own report without any. No published row states them."""
    tensorflow: str | None = None
    images_per_sec: Annotated[float, msgspec.Meta(ge=0.001, le=1e12)]
    """Total over all devices."""
    published: str
    """The same figure, digit by digit as published."""
    loss_nan: bool = False
    repeats: int | None = None
    """How many runs the figure is the mean of."""
    warmup_steps: int | None = None
    steps: int | None = None
    date: str | None = None
    setup: str | None = None
    """What else tells rows of one source apart."""
    caution: str | None = None
    """Why the row deserves less trust."""
    ci95: Annotated[float, msgspec.Meta(ge=0, le=1e12)] | None = None
    """Half the width of the figure's 95 % interval in images/sec; no published row has one, an own report used as baseline does."""


class GpuModel(msgspec.Struct, frozen=True, kw_only=True):
    """A GPU (or the CPU behind a figure) under its one name."""

    gpu: str
    family: str | None = None
    vendor: str | None = None
    architecture: str | None = None
    memory_gb: float | None = None
    memory_bandwidth_gb_s: float | None = None
    fp32_tflops: float | None = None
    specs_source: str | None = None
    aliases: tuple[str, ...] = ()


class PublishedSweeps(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A source of published_sweeps.yaml."""

    devices: tuple[int, ...]
    sweeps: tuple[dict[str, Any], ...]


def load_references() -> tuple[Reference, ...]:
    """All published figures, in the table's order; takes about 0.1 s."""
    return tuple(msgspec.convert(line | {"published": line["images_per_sec"]}, Reference, strict=False) for line in _lines(DATA / "results.csv"))


def load_sources() -> dict[str, Source]:
    """All sources by their short name."""
    return {line["source"]: msgspec.convert(line, Source, strict=False) for line in _lines(DATA / "sources.csv")}


def load_gpus() -> tuple[GpuModel, ...]:
    """All GPUs that have a name here, also those without a published figure."""
    return tuple(
        msgspec.convert(line | {"aliases": line.get("aliases", "").split("|") if "aliases" in line else ()}, GpuModel, strict=False)
        for line in _lines(DATA / "gpus.csv")
    )


def canonical_gpu(name: str, gpus: Sequence[GpuModel] | None = None) -> str | None:
    """The one name of a GPU here, or None for a GPU that has none.

    Case, underscores and the maker's or brand's prefix ("NVIDIA", "AMD", "GeForce", "Tesla") don't count; everything else does, so that
    "RTX 2080" is never taken for "RTX 2080 Ti".

    Args:
        name: as NVML prints it, such as "NVIDIA GeForce RTX 2080 Ti", or as people write it.
        gpus: the table, where it is loaded already.
    """
    names = {_bare(alias): gpu.gpu for gpu in (load_gpus() if gpus is None else gpus) for alias in (gpu.gpu, *gpu.aliases)}
    return names.get(_bare(name))


def names_of_gpus(gpus: Iterable[GpuModel]) -> dict[str, frozenset[str]]:
    """Every name that stands for a GPU, for the members of a family ("V100") or of an architecture ("Turing"), or for the CPUs ("CPU"), with the
    canonical names of those that it stands for."""
    names: dict[str, frozenset[str]] = {}
    for gpu in gpus:
        for name in filter(None, (gpu.gpu, *gpu.aliases, gpu.family, gpu.architecture)):
            names[name] = names.get(name, frozenset()) | {gpu.gpu}
    return names


def gpu_names(name: str, published: Iterable[str]) -> frozenset[str]:
    """The canonical names that a name given by the user stands for, by `names_of_gpus`.

    Args:
        published: the GPUs that have a published figure; no other is offered in its place.

    Raises:
        UsageError: the name stands for nothing in the table; with those that are spelled nearly so.
    """
    names = names_of_gpus(load_gpus())
    found = frozenset[str]().union(*(members for known, members in names.items() if _bare(known) == _bare(name)))
    if not found:
        raise UsageError(f"no GPU or CPU of the references is named {name!r}", nearest(name, names_with_figures(published)))
    return found


def names_with_figures(published: Iterable[str]) -> tuple[str, ...]:
    """The names of `names_of_gpus` that stand for a GPU among those that have a published figure."""
    return tuple(name for name, members in names_of_gpus(load_gpus()).items() if not members.isdisjoint(published))


def nearest(name: str, known: Iterable[str]) -> str:
    """In words: the three known names that hold the name or are spelled nearly so, or all where none is."""
    bare = {_bare(one): one for one in known}
    near = dict.fromkeys([*(one for one in bare if _bare(name) in one), *difflib.get_close_matches(_bare(name), bare, n=3)])
    return f"Near it: {', '.join(bare[one] for one in [*near][:3])}" if near else f"Known: {', '.join(bare.values())}"


class Filter(msgspec.Struct, frozen=True, kw_only=True):
    """The values that are asked for; a reference that doesn't state a condition is not among those selected by it."""

    gpu: str | None = None
    """Any name or family that `gpu_names` knows."""
    model: str | None = None
    source: str | None = None
    precision: str | None = None
    batch_size: int | None = None
    devices: int | None = None
    """0 for the CPU."""
    mode: str | None = None
    """"training" or "forward only"."""

    @property
    def given(self) -> dict[str, str | int]:
        return {field: value for field, value in msgspec.structs.asdict(self).items() if value is not None}


def select(references: Sequence[Reference], asked: Filter) -> tuple[Reference, ...]:
    """The references that have every value given; none where nothing was published of what is known otherwise, see `why_none`.

    Raises:
        UsageError: a GPU, model, source, precision or mode that nobody knows, with those that are spelled nearly so.
    """
    return _having(references, _wanted(references, asked))


def why_none(references: Sequence[Reference], asked: Filter) -> str:
    """In words, why `select` finds nothing, and what is near."""
    wanted = _wanted(references, asked)
    for field, value in asked.given.items():
        if not _having(references, {field: wanted[field]}):
            return f"There is no published figure of the {_spoken(field)} {value!r}. {nearest(str(value), _known(references, field))}"
    counts = {field: len(_having(references, {other: wanted[other] for other in wanted if other != field})) for field in wanted}
    parts = (f"{number} without --{field.replace('_', '-')}" for field, number in counts.items())
    return f"No published figure has all that is asked for. There are {', '.join(parts)}"


def _wanted(references: Sequence[Reference], asked: Filter) -> dict[str, frozenset[object]]:
    wanted: dict[str, frozenset[object]] = {field: frozenset({value}) for field, value in asked.given.items()}
    if asked.gpu is not None:
        wanted["gpu"] = gpu_names(asked.gpu, {reference.gpu for reference in references})
    for field in ("model", "source", "precision", "mode"):
        known = {*_known(references, field), *(load_models() if field == "model" else ())}
        if field in wanted and not wanted[field] & known:
            value = asked.given[field]
            raise UsageError(f"no published figure has the {_spoken(field)} {value!r}", nearest(str(value), sorted(known)))
    return wanted


def _known(references: Iterable[Reference], field: str) -> list[str]:
    return [*map(str, sorted({getattr(reference, field) for reference in references} - {None}))]


def _spoken(field: str) -> str:
    return "GPU" if field == "gpu" else field.replace("_", " ")


def _having(references: Iterable[Reference], wanted: Mapping[str, Collection[object]]) -> tuple[Reference, ...]:
    return tuple(reference for reference in references if all(getattr(reference, field) in values for field, values in wanted.items()))


def published_sweeps() -> dict[str, PublishedSweeps]:
    """The sources whose way of measuring can be repeated, by short name."""
    return shipped.read_table(DATA / "published_sweeps.yaml", dict[str, PublishedSweeps])


def as_published(source: str, *, devices: Sequence[int] = (1,)) -> tuple[dict[str, Any], ...]:
    """The sweeps that repeat a source's conditions; several, because a source may set other flags for other models.

    Args:
        source: a key of `published_sweeps`.
        devices: GPU counts, each one that the source measured.

    Returns:
        raw mappings for `wrapper.runner.sweep.check_sweep`, named after the source.

    Raises:
        UsageError: the source can't be repeated, or did not measure one of the GPU counts.
    """
    known = published_sweeps()
    if source not in known:
        raise UsageError(f"there is no sweep that repeats {source!r}", f"Known: {', '.join(known)}")
    unmeasured = [count for count in devices if count not in known[source].devices]
    if unmeasured or not devices:
        raise UsageError(
            f"{source} has no figure for {', '.join(map(str, unmeasured)) or 'no'} GPUs",
            f"It measured {', '.join(map(str, known[source].devices))}",
        )
    total = len(known[source].sweeps)
    return tuple(
        {
            "name": f"{source}-{number}" if total > 1 else source,
            "device": "gpu",
            "devices": list(devices),
            "repeats": 5,
            "steps": 100,
            "warmup_steps": 10,
            **sweep,
            "flags": {"optimizer": "sgd", **sweep["flags"]},
        }
        for number, sweep in enumerate(known[source].sweeps, start=1)
    )


def _lines(path: Path) -> Iterable[dict[str, Any]]:
    """The lines of a table without their empty cells."""
    with path.open(encoding="utf-8", newline="") as file:
        reader = csv.reader(file)
        header = next(reader)
        for line in reader:
            yield {column: cell for column, cell in zip(header, line, strict=True) if cell}


def _bare(name: str) -> str:
    """A GPU's name without what doesn't tell GPUs apart."""
    words = name.replace("_", " ").casefold().split()
    while len(words) > 1 and words[0] in ("nvidia", "amd", "geforce", "tesla"):
        words = words[1:]
    return " ".join(words)
