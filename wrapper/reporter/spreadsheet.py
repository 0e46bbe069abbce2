"""CSV that a spreadsheet shows as what it is, whoever wrote the text in it. Pure."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence

from wrapper.reporter.markdown import clean


def csv_cell(value: object) -> object:
    """Text on one line that no spreadsheet takes for a formula: https://owasp.org/www-community/attacks/CSV_Injection. Other values as they are."""
    if not isinstance(value, str):
        return value
    text = clean(value)
    return f"'{text}" if text.startswith(("=", "+", "-", "@")) else text


def csv_text(columns: Sequence[str], rows: Iterable[Iterable[object]]) -> str:
    """A table with a header; None is an empty cell."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(columns)
    table.writerows([csv_cell(value) for value in row] for row in rows)
    return text.getvalue()
