"""CSV that a spreadsheet shows as what it is, whoever wrote the text in it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from wrapper.reporter.markdown import clean


def csv_text(columns: Sequence[str], rows: Iterable[Iterable[object]]) -> str:
    """A table with a header; None is an empty cell."""
    import pandas

    # of dtype object: a column of whole numbers with an empty cell would become one of floats
    table = pandas.DataFrame([[_cell(value) for value in row] for row in rows], columns=list(columns), dtype=object)
    return str(table.to_csv(index=False, lineterminator="\n"))


def _cell(value: object) -> object:
    """Text on one line that no spreadsheet takes for a formula: https://owasp.org/www-community/attacks/CSV_Injection. Other values as they are."""
    if not isinstance(value, str):
        return value
    text = clean(value)
    return f"'{text}" if text.startswith(("=", "+", "-", "@")) else text
