"""Values that others wrote, as an error message shows them: short, whatever they are."""

from __future__ import annotations

import reprlib

MAX_TEXT = 80


class _Short(reprlib.Repr):
    """Never builds the whole text: repr of a long integer raises, and that of nested lists can be far larger than the file that held them."""

    def __init__(self) -> None:
        super().__init__()
        self.maxstring = self.maxother = MAX_TEXT
        self.maxlevel = 3

    def repr_int(self, x: int, level: int) -> str:
        return repr(x) if abs(x) < 2**64 else f"a whole number of {x.bit_length()} bits"


def shown(value: object) -> str:
    """The repr of `value`, with its middle left out where it is long: at most `MAX_TEXT` characters."""
    text = _Short().repr(value)
    return text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT - 4]} ..."
