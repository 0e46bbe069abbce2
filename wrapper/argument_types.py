"""What an option's value must be. What else was given is a usage error, as argparse tells it."""

from __future__ import annotations

import argparse
import errno
import math
from pathlib import Path

import wrapper
from wrapper.runner.quoting import shown

# an installed copy, which has no project around it, works where it is called
PROJECT = Path(wrapper.__file__).parents[1]
HOME = PROJECT if (PROJECT / "setup.py").exists() else Path()


def given_text(text: str) -> str:
    """A shell variable that is not set arrives as nothing, which must not be taken for "not given"."""
    if not text.strip():
        raise argparse.ArgumentTypeError("nothing is given; is a shell variable unset?")
    return text


def given_list(text: str) -> tuple[str, ...]:
    return tuple(given_text(part).strip() for part in text.split(","))


def given_place(text: str) -> str:
    try:
        Path(given_text(text)).exists()
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise argparse.ArgumentTypeError(f"{shown(text)}: {error.strerror}") from None
    return text


def given_path(text: str) -> Path:
    return Path(given_place(text))


def given_ratio(text: str) -> float:
    """A bound that a figure can fall below; every comparison with nan would pass."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a ratio above zero, such as 0.95")
    return value
