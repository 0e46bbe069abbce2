"""Upstream's standard output: header, step lines, total."""

from __future__ import annotations

import msgspec


class Step(msgspec.Struct, frozen=True, array_like=True):
    """A step line. Upstream's `images/sec` here is a running mean since the warm-up, not a rate of its own."""

    step: int
    images_per_sec: float
    uncertainty: float
    jitter: float
    loss: float | None
    line: int
    """Line number in the log, from 1."""


class Output(msgspec.Struct, frozen=True, kw_only=True):
    """What one standard output holds."""

    header: dict[str, str] = {}
    """Header keys as printed, without the colon ("Model" -> "resnet50"); the batch sizes as "Batch size global" and "Batch size per device"."""
    steps: tuple[Step, ...] = ()
    """At most the first `KEPT_STEPS` step lines and the last one."""
    stage: str = "start"
    """The last stage reached: start, header, building, initializing, warm-up, steps, total."""
    totals: tuple[float, ...] = ()
    """Every total printed on a complete, well-formed line (nan and inf included), at most 1,000."""
    total_lines: tuple[int, ...] = ()
    """Their line numbers, from 1."""
    step_header_line: int | None = None
    accuracy_line: int | None = None
    malformed_totals: tuple[str, ...] = ()
    """Lines that look like a total and are not credible as one (cut off, glued, decimal comma)."""
    lines: int = 0
    bytes: int = 0
