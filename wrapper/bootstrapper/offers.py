"""Which releases this machine can run, what the others lack, and what is proven of each. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

import msgspec

from wrapper.bootstrapper.compatibility import is_compiled_at_start, unfit
from wrapper.bootstrapper.host import Gpu
from wrapper.bootstrapper.proven import OK, OUTDATED, Proof
from wrapper.bootstrapper.pythons import Interpreter
from wrapper.bootstrapper.release import Release


class Proven(msgspec.Struct, frozen=True, kw_only=True):
    """What is proven of the models that a release has, on the CPU."""

    date: str = ""
    """Of the newest outcome, YYYY-MM-DD; empty where nothing was tried."""
    models: int
    """How many the release has."""
    ok: tuple[str, ...] = ()
    failed: dict[str, str] = {}
    """Why, by model; under "" why none could be tried."""
    not_tried: tuple[str, ...] = ()


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """A release as this machine has it."""

    release: Release
    python: str = ""
    """The minor version of the Python that its environment would be made from; empty where the machine has none that fits, or where there are no
    wheels for its system."""
    device: str = ""
    """"gpu" or "cpu": what it can run on, "" where it can't run at all."""
    compiled_at_start: bool = False
    """Whether its kernels have to be compiled for the GPU at the first start, for minutes to an hour."""
    missing: tuple[str, ...] = ()
    """What stands in the way of running it, or of running it on the GPU, in words."""
    proven: Proven


class Here(msgspec.Struct, frozen=True, kw_only=True):
    """This machine, as far as it decides which releases run on it."""

    pythons: tuple[Interpreter, ...]
    gpus: tuple[Gpu, ...] = ()
    cuda_served: str | None = None
    """The newest CUDA version that the driver serves."""
    system: str
    """As `this_system` names it."""
    lack: Callable[[Release], str | None] = lambda release: None
    """What the system lacks for a release on a GPU, in words."""


def list_offers(releases: Sequence[Release], here: Here, proofs: Mapping[str, Proof], models: Collection[str]) -> tuple[Offer, ...]:
    """Hold each release against this machine, in the order of the table.

    Args:
        proofs: by release.
        models: all that upstream ever had.
    """
    return tuple(_offer(release, here, _proven(release, proofs, models)) for release in releases)


def _offer(release: Release, here: Here, proven: Proven) -> Offer:
    minors = {python.minor for python in here.pythons}
    published = release.wheel is None or release.wheel.serves("cpu", here.system)
    python = next((minor for minor in release.python if minor in minors), "") if published else ""
    missing = () if python else (f"Python {' or '.join(release.python)}" if published else f"wheels for {here.system}",)
    troubles = [unfit(release, gpu, here.cuda_served) or here.lack(release) for gpu in here.gpus]
    fitting = [gpu for gpu, trouble in zip(here.gpus, troubles, strict=True) if not trouble]
    return Offer(
        release=release,
        python=python,
        device=("gpu" if fitting else "cpu") if python else "",
        compiled_at_start=bool(fitting) and all(is_compiled_at_start(release, gpu) for gpu in fitting),
        missing=(*missing, *(dict.fromkeys(filter(None, troubles)) if not fitting else ())),
        proven=proven,
    )


def _proven(release: Release, proofs: Mapping[str, Proof], models: Collection[str]) -> Proven:
    had = [model for model in models if model not in release.missing_models]
    proof = proofs.get(release.tensorflow)
    if proof is None:
        return Proven(models=len(had), not_tried=tuple(had))
    tried = {model: outcome for model, outcome in proof.models.items() if model in had and outcome.outcome != OUTDATED}
    lost = {"": proof.failure.reason} if proof.failure else {}
    return Proven(
        date=max([outcome.date for outcome in (*tried.values(), *filter(None, [proof.failure]))], default=""),
        models=len(had),
        ok=tuple(model for model, outcome in tried.items() if outcome.outcome == OK),
        not_tried=tuple(model for model in had if model not in tried),
        failed=lost | {model: f"{outcome.outcome}: {outcome.reason}" for model, outcome in tried.items() if outcome.outcome != OK},
    )
