"""The only place that starts processes."""

from __future__ import annotations

import msgspec


class Execution(msgspec.Struct, frozen=True, kw_only=True):
    """How one child process ran and ended."""

    exit_code: int | None
    """None only where the child could not be started; negative for a signal, as in subprocess."""
    started: str
    """UTC, ISO 8601."""
    seconds: float
    """From start to exit, by a monotonic clock."""
    ended_by: str = "exit"
    """"exit" (by itself), "timeout" or "interrupt"."""
    leftovers: int = 0
    """Descendants that were still alive when the child had ended and had to be ended."""
    error: str | None = None
    """Why the child could not be started, or its output not kept (a full disk)."""
