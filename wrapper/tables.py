"""Text and tables of which nothing can steer a terminal. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.table import Table


def plain(text: str) -> str:
    """Text of others without the control characters that would steer a terminal; line feeds stay."""
    return "".join(character if character.isprintable() or character == "\n" else "?" for character in text)


def counted(number: int, noun: str) -> str:
    """ "1 trial", "2 trials"."""
    plural = f"{noun}es" if noun.endswith("sh") else f"{noun}s"
    return f"{number} {noun if number == 1 else plural}"


def table(headers: Sequence[str], rows: Iterable[Sequence[object]], align: str = "") -> Table:
    """A table without lines; text that does not fit is folded, never cut.

    Args:
        headers: one for each column.
        rows: cells; None is shown as a dash.
        align: a letter for each column, "l" or "r"; all left where empty.
    """
    made = Table(box=None, pad_edge=False, header_style="bold")
    for header, side in zip(headers, align or "l" * len(headers), strict=True):
        made.add_column(plain(header), overflow="fold", justify="right" if side == "r" else "left")
    for row in rows:
        made.add_row(*(plain("–" if cell is None else str(cell)) for cell in row))
    return made
