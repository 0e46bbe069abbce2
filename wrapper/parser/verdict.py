"""Whether a trial has a valid figure, and if not, the one reason."""

from __future__ import annotations

import msgspec


class Warning(msgspec.Struct, frozen=True, kw_only=True):
    """Something to know beside a valid figure."""

    kind: str
    detail: str


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict on one trial."""

    verdict: str
    """"ok" or the one reason why there is no valid figure."""
    images_per_sec: float | None = None
    """None unless the verdict is ok."""
    total_line: int | None = None
    """Where in the standard output log the figure stands, from 1."""
    reason: str = ""
    """The log line or reading that decided, as text."""
    remedy: str = ""
    """What to do next, one sentence."""
    warnings: tuple[Warning, ...] = ()
