"""Markdown from text that nobody vouches for: model names, host names, log lines. Pure.

GitHub Flavored Markdown is the dialect: https://github.github.com/gfm/
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence

_TERMINAL_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?)")
_INVISIBLE = {"Cc", "Cf", "Cs", "Zl", "Zp"}
"""Unicode categories without a glyph: controls, formats (direction overrides, zero-width signs), surrogates, line and paragraph separators."""
_HARMLESS = re.compile(r"(?:[^\W_]|[ .,;()/%:=±–'-]|(?<=\w)[+_](?=[^\W_])|(?<= )@(?= ))*")
"""Text that no dialect reads as markup when it stands inside a line."""
_AUTOLINK = re.compile(r"://|www\.", re.IGNORECASE)


class Markdown(str):
    """Text that is Markdown already, and safe."""


def clean(text: object) -> str:
    """One line with nothing in it that moves a cursor, hides, or reorders what is seen: such characters become spaces or U+FFFD."""
    flat = _TERMINAL_SEQUENCE.sub("", str(text))
    if flat.isascii() and flat.isprintable():
        return flat.strip()
    shown = ("�" if unicodedata.category(character) in _INVISIBLE else character for character in " ".join(flat.split()))
    return "".join(shown)


def inline(text: object) -> Markdown:
    """Text for the middle of a line: as it is where that is harmless, else as a code span, in which nothing is markup."""
    if isinstance(text, Markdown):
        return text
    shown = clean(text)
    if _HARMLESS.fullmatch(shown) and not _AUTOLINK.search(shown):
        return Markdown(shown)
    return code(shown)


def code(text: object) -> Markdown:
    """A code span."""
    shown = clean(text)
    fence = _fence(shown, 1)
    padding = " " if shown.startswith("`") or shown.endswith("`") or not shown else ""
    return Markdown(f"{fence}{padding}{shown}{padding}{fence}")


def code_block(lines: Iterable[str]) -> Markdown:
    """A fenced block with a line for each of `lines`."""
    text = "\n".join(clean(line) for line in lines)
    fence = _fence(text, 3)
    return Markdown(f"{fence}\n{text}\n{fence}")


def table(headers: Sequence[str], rows: Iterable[Sequence[object]], align: str = "") -> Markdown:
    """A table.

    Args:
        headers: one for each column.
        rows: cells, escaped here; None is shown as a dash.
        align: a letter for each column, "l" or "r"; all left where empty.
    """
    from tabulate import tabulate

    cells = [[_cell(cell) for cell in row] for row in rows]
    sides = ["right" if side == "r" else "left" for side in align or "l" * len(headers)]
    return Markdown(
        tabulate(cells, headers=[_cell(header) for header in headers], tablefmt="pipe", colalign=sides if cells else None, disable_numparse=True)
    )


def _cell(value: object) -> str:
    # A pipe ends a cell even inside a code span, unless it is escaped (GFM, 4.10).
    return "–" if value is None else inline(value).replace("|", "\\|")


def _fence(text: str, shortest: int) -> str:
    """Backticks that no run of them in the text can close."""
    longest = max(map(len, re.findall("`+", text)), default=0)
    return "`" * max(shortest, longest + 1)
