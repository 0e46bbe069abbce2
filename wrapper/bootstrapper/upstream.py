"""Our copy of one upstream commit in `vendor/`. Git is used here and nowhere else."""

from __future__ import annotations

from pathlib import Path

import msgspec


class Checkout(msgspec.Struct, frozen=True, kw_only=True):
    """One commit of upstream on disk, verified and clean."""

    path: str
    """The directory, absolute."""
    commit: str
    address: str
    """Where it was fetched from, as the user would write it."""

    @property
    def script(self) -> Path:
        """The benchmark's main program."""
        return Path(self.path) / "scripts" / "tf_cnn_benchmarks" / "tf_cnn_benchmarks.py"
