"""What report.md and report.html both show, as text that is not escaped yet. Pure."""

from __future__ import annotations

import re
from typing import Any

from wrapper.reporter.analysis import failure, figure
from wrapper.reporter.content import Report
from wrapper.reporter.facts import command_lines, host_rows, known, software_rows
from wrapper.reporter.headline import Table

MOST_ROWS = 1000
"""A page with more would be slow to open."""
_REASON_CHARACTERS = 400
"""Of a reason that are shown; the whole is in results.json."""


def contents(report: Report) -> dict[str, Any]:
    """The values that both templates use, by name."""
    session, facts = report.session, ("Part", "What it is")
    commit = known(session.upstream, "commit")
    return {
        "report": report,
        "tensorflow": known(session.release, "tensorflow"),
        "commit": commit,
        "ref": known(session.release, "upstream_ref"),
        "definition": _definition(commit),
        "failures": _failures(report),
        "case_warnings": _case_warnings(report),
        "trial_warnings": _trial_warnings(report),
        "numerics": [(report.labels[one.case], str(report.numerics[one.case])) for one in report.summaries if one.n],
        "host": Table(facts, host_rows(session.host), "ll"),
        "software": Table(facts, software_rows(session), "ll"),
        "commands": [(report.labels[case], command_lines(trials[0], session.host)) for case, trials in report.by_case.items() if trials],
        "every_trial": _every_trial(report),
        "not_listed": f"The first {MOST_ROWS} of {count} trials; all are in results.json." if (count := len(report.trials)) > MOST_ROWS else "",
    }


def fitted(text: str, characters: int) -> str:
    """A text with its end cut off where it is longer."""
    return text if len(text) <= characters else f"{text[: characters - 1]}…"


def shortened(text: str) -> str:
    """A reason as far as there is room for it."""
    return fitted(text, _REASON_CHARACTERS)


def _definition(commit: str) -> str:
    """Where upstream computes what it prints. A commit that is none must not become a part of an address."""
    at = commit if re.fullmatch("[0-9a-f]{40}", commit) else "master"
    return f"https://github.com/tensorflow/benchmarks/blob/{at}/scripts/tf_cnn_benchmarks/benchmark_cnn.py"


def _failures(report: Report) -> Table:
    rows = [
        (one.index, one.case, one.repeat, one.verdict, shortened(one.reason) or None, one.remedy or None, one.place)
        for one in report.failures[:MOST_ROWS]
    ]
    return Table(("Trial", "Case", "Repeat", "Verdict", "Because", "What to do", "Log"), rows, "rlrllll")


def _case_warnings(report: Report) -> Table:
    rows = [(report.labels[case], warning.kind, shortened(warning.detail)) for case, found in report.case_warnings.items() for warning in found]
    return Table(("Case", "Warning", "Because"), rows, "lll")


def _trial_warnings(report: Report) -> Table:
    warned = [(trial, warning) for trial in report.trials if figure(trial) is not None for warning in trial.judgement.warnings]
    rows = [(trial.index, report.labels[trial.case], warning.kind, shortened(warning.detail), trial.log) for trial, warning in warned[:MOST_ROWS]]
    return Table(("Trial", "Case", "Warning", "Because", "Log"), rows, "rllll")


def _every_trial(report: Report) -> Table:
    rows = [
        (
            trial.index,
            report.labels[trial.case],
            trial.repeat,
            None if (value := figure(trial)) is None else f"{value:.2f}",
            failure(trial) or "ok",
            trial.log,
            None if value is None else trial.judgement.total_line,
            f"{trial.execution.seconds:.1f}",
        )
        for trial in report.trials[:MOST_ROWS]
    ]
    return Table(("Trial", "Case", "Repeat", "Total images/sec", "Verdict", "Log", "Line", "Seconds"), rows, "rlrrllrr")
