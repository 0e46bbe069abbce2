"""What to do next, a sentence for each verdict, and what each kind of warning means."""

from __future__ import annotations

import functools
from collections.abc import Iterable

import msgspec

from wrapper.runner.sweep import Case
from wrapper.shipped import DATA, read_table


class Words(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What words.yaml holds."""

    verdicts: dict[str, str]
    """What to do next, by verdict."""
    warnings: dict[str, str]
    """What it means, by kind of warning."""


@functools.cache
def load_words() -> Words:
    """Read the table, once in a process."""
    return read_table(DATA / "words.yaml", Words)


def meanings(kinds: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Each kind of warning once, with what it means."""
    known = load_words().warnings
    return tuple((kind, known.get(kind, "not known to this version")) for kind in sorted(set(kinds)))


def remedy_of(verdict: str, case: Case) -> str:
    """The sentence for a verdict, about this case."""
    return load_words().verdicts[verdict].format(batch_size=case.batch_size, model=case.model)
