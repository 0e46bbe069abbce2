"""Texts on standard error that explain a failure, a table in `wrapper/data`."""

from __future__ import annotations

import functools

import msgspec

from wrapper.shipped import DATA, read_table


class Signatures(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What signatures.yaml holds."""

    explain: dict[str, tuple[str, ...]]
    """Texts by kind. A kind is a verdict, or "memory_pressure", "disk_full" or "no_gpu", which bear on verdicts."""
    harmless: tuple[str, ...]
    """Beginnings of error lines that say nothing."""


@functools.cache
def load_signatures() -> Signatures:
    """Read the table, once in a process: other people's logs come by the thousand."""
    return read_table(DATA / "signatures.yaml", Signatures)
