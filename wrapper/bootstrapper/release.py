"""The table of releases: which upstream commit, Python, packages and lock go with a TensorFlow release."""

from __future__ import annotations

import msgspec


class Release(msgspec.Struct, frozen=True, kw_only=True):
    """One TensorFlow release and all it implies: a row of `data/releases.yaml`, or one derived from it."""

    tensorflow: str
    """The exact version, such as "1.12.0"; "demo" for the demo."""
    upstream_commit: str
    """The full commit of tensorflow/benchmarks that this release was seen to run (40 hex digits)."""
    upstream_ref: str
    """The branch or date that the commit stands for."""
    python: tuple[str, ...]
    """Python versions (major.minor) that have wheels of it; the proven one first."""
    package_cpu: str
    package_gpu: str
    """Requirement names without the version, such as "tensorflow-gpu" or "tensorflow[and-cuda]"."""
    constraints: tuple[str, ...] = ()
    environment: dict[str, str] = {}
    """Environment variables that the trial needs."""
    cuda: str | None = None
    cudnn: str | None = None
    cutoff: str | None = None
    """The date (YYYY-MM-DD) up to which packages are considered when a lock is made or a sibling patch is resolved."""
    missing_models: tuple[str, ...] = ()
    """Models of the shipped sweeps that this pair can't run."""
    verified: bool = True
    """False for another patch of a known minor: resolved by date, never run by us."""
    seen: str = ""
    note: str = ""
