"""What a figure's reader must know where there is room for a few words only. Pure."""

from __future__ import annotations

from wrapper.reporter.analysis import Summary
from wrapper.reporter.content import Report


def caveats(report: Report, summary: Summary) -> tuple[str, ...]:
    """The kinds of warnings on the case and on its trials, and "incomplete" where the sweep was stopped; each once.

    Args:
        report: as composed.
        summary: one of the report's.
    """
    kinds = [*(warning.kind for warning in report.case_warnings[summary.case]), *summary.warnings, *(["incomplete"] if report.unfinished else [])]
    return tuple(dict.fromkeys(kinds))
