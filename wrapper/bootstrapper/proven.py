"""What was run of each release on the CPU, model by model: `data/proven.yaml`, which `scripts/verify_releases.py` writes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import msgspec

from wrapper.shipped import DATA, read_table, write_table

PROVEN = DATA / "proven.yaml"
OK, OUTDATED, NO_ENVIRONMENT = "ok", "outdated", "no_environment"
PASSING = frozenset({"timed_out", "killed"})
"""Verdicts that may be the machine's fault of a moment: they settle nothing."""

_HEADER = """\
# What was run of each release on the CPU, from its lock, unedited upstream: written by scripts/verify_releases.py, not by hand.
#   environment   names the release, the device and Python, and a hash of the row and its lock
#   models        outcome: ok, the verdict on the trial with its reason, or outdated (the row, its lock or its Python changed since);
#                 last_ok: the last day on which it ran
#   failure       why nothing could be run
#   gpu_libraries whether TensorFlow finds all CUDA libraries that the lock for GPUs holds: written by scripts/verify_gpu_locks.py, which needs no GPU
"""


class Outcome(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """How one model, or the making of the environment, ended when it was tried last."""

    outcome: str
    """"ok", a verdict, "outdated" or "no_environment"."""
    date: str
    """YYYY-MM-DD, UTC."""
    reason: str = ""
    last_ok: str = ""
    """The last date on which it was ok, where it is not any more."""


class Proof(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What was run of one release."""

    tensorflow: str
    upstream_commit: str
    environment: str = ""
    """The name of its directory, see `environment.py`."""
    python: str = ""
    """All three parts, such as "3.6.15"."""
    failure: Outcome | None = None
    models: dict[str, Outcome] = {}
    gpu_libraries: Outcome | None = None
    """Whether the TensorFlow of the lock for GPUs opens all CUDA libraries that the lock holds."""


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    proven: tuple[Proof, ...]


def load_proven(path: Path = PROVEN) -> dict[str, Proof]:
    """The proofs by release; none where there is no such file yet.

    Raises:
        FatalError: it is not what `save_proven` writes.
    """
    return {proof.tensorflow: proof for proof in read_table(path, _Table).proven} if path.exists() else {}


def save_proven(proofs: Mapping[str, Proof], order: Iterable[str], path: Path = PROVEN) -> None:
    """Write the proofs whole, or leave the file as it was.

    Args:
        order: releases as they stand in the table; a proof of any other is dropped.
    """
    write_table(path, _HEADER, _Table(tuple(proofs[release] for release in order if release in proofs)))


def renew(proof: Proof, *, tensorflow: str, upstream_commit: str, environment: str) -> Proof:
    """The proof to go on with: as it was, or with all its outcomes outdated where commit or environment is another now."""
    if (proof.upstream_commit, proof.environment) == (upstream_commit, environment):
        return proof
    outdated = {model: outdate(outcome) for model, outcome in proof.models.items()}
    return Proof(tensorflow=tensorflow, upstream_commit=upstream_commit, environment=environment, models=outdated, gpu_libraries=proof.gpu_libraries)


def outdate(outcome: Outcome) -> Outcome:
    """An outcome that says nothing any more about now, but keeps when it was ok."""
    return Outcome(outcome=OUTDATED, date=outcome.date, last_ok=_last_ok(outcome))


def add(proof: Proof, model: str, *, verdict: str, reason: str, date: str) -> Proof:
    """The proof with what a model has just shown."""
    before = proof.models.get(model)
    last_ok = _last_ok(before) if before and verdict != OK else ""
    outcome = Outcome(outcome=verdict, date=date, reason="" if verdict == OK else reason, last_ok=last_ok)
    return msgspec.structs.replace(proof, failure=None, models=proof.models | {model: outcome})


def is_settled(proof: Proof, model: str, since: str) -> bool:
    """Whether this model was run on this day (ISO 8601) or later, and need not be run again."""
    outcome = proof.models.get(model)
    return outcome is not None and outcome.date >= since and outcome.outcome not in {OUTDATED, *PASSING}


def broken(proof: Proof) -> Iterator[str]:
    """What was proven and no longer runs, in words."""
    if proof.failure and any(_last_ok(outcome) for outcome in proof.models.values()):
        yield f"{proof.tensorflow}: {proof.failure.outcome}: {proof.failure.reason}"
    for model, outcome in proof.models.items():
        if outcome.last_ok and outcome.outcome != OUTDATED:
            yield f"{proof.tensorflow} {model} (ok on {outcome.last_ok}): {outcome.outcome}: {outcome.reason}"


def _last_ok(outcome: Outcome) -> str:
    return outcome.date if outcome.outcome == OK else outcome.last_ok
