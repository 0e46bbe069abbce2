"""Durations and percentages as people write them."""

from __future__ import annotations

import re

from wrapper.errors import UsageError
from wrapper.runner.quoting import shown


def parse_percent(text: str, key: str) -> float:
    """1.0 from "1%" or "1".

    Raises:
        UsageError: for anything else.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*%?", text.strip())
    if not match:
        raise UsageError(f"{key}: {shown(text)} is not a percentage", "Allowed: 1%, 0.5%")
    return float(match[1])


def parse_duration(text: str, key: str) -> float:
    """Seconds from "90", "45s", "30m" or "2h".

    Raises:
        UsageError: for anything else.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(s|m|h|)", text.strip())
    if not match:
        raise UsageError(f"{key}: {shown(text)} is not a duration", "Allowed: a number of seconds, or 45s, 30m, 2h")
    return float(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[match[2]]
