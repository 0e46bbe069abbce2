"""report.md, from a template in `data/templates`. Everything printed into it is escaped unless it is Markdown of ours."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from wrapper.reporter.analysis import failure, figure
from wrapper.reporter.content import Report
from wrapper.reporter.facts import command_lines_by_case, host_rows, known, software_rows
from wrapper.reporter.markdown import Markdown, code_block, inline, table
from wrapper.reporter.resuming import resume_command
from wrapper.reporter.store import Session, Trial

_TEMPLATES = Path(__file__).parents[1] / "data" / "templates"
_REASON_LENGTH = 240
"""Characters of a reason shown; the whole is in results.json."""
_RETRIES_SHOWN = 20


def page(session: Session, trials: Sequence[Trial], report: Report) -> str:
    """The report as GitHub Flavored Markdown."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES, encoding="utf-8"),
        autoescape=False,  # that is HTML's escaping; `finalize` is Markdown's
        finalize=inline,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.get_template("report.md.j2").render(
        title=report.title,
        notice=report.notice,
        unfinished=report.unfinished,
        tensorflow=known(session.release, "tensorflow"),
        commit=known(session.upstream, "commit"),
        ref=known(session.release, "upstream_ref"),
        created=session.created,
        verified=bool(session.release.get("verified")),
        headline_table=table(report.headline.headers, report.headline.rows, report.headline.align) if report.headline.rows else "",
        any_figure=report.valid > 0,
        common=list(report.headline.common.items()),
        picture_text=_picture_text(report),
        failure_table=_failure_table(report),
        retry_commands=_retry_commands(report),
        case_warning_table=_case_warning_table(report),
        warning_table=_warning_table(trials, report),
        numerics=[(report.labels[summary.case], str(report.numerics[summary.case])) for summary in report.summaries if summary.n],
        notes=report.notes,
        host_table=table(("Part", "What it is"), host_rows(session.host)),
        software_table=table(("Part", "What it is"), software_rows(session)),
        commands=[(report.labels[case], code_block(lines)) for case, lines in command_lines_by_case(trials, session.host).items()],
        trial_table=_trial_table(trials, report),
    )


def _picture_text(report: Report) -> str:
    return f"{'DEMO: ' if report.notice else ''}images per second of each case, as in the table"


def _failure_table(report: Report) -> Markdown | None:
    if not report.failures:
        return None
    rows = [
        (failed.index, failed.case, failed.repeat, failed.verdict, _short(failed.reason) or None, failed.remedy or None, failed.place)
        for failed in report.failures
    ]
    return table(("Trial", "Case", "Repeat", "Verdict", "Because", "What to do", "Log"), rows, "rlrllll")


def _retry_commands(report: Report) -> Markdown:
    return code_block(resume_command("DIR", report.started_by, "--retry", str(failed.index)) for failed in report.failures[:_RETRIES_SHOWN])


def _case_warning_table(report: Report) -> Markdown | None:
    rows = [(report.labels[case], warning.kind, _short(warning.detail)) for case, found in report.case_warnings.items() for warning in found]
    return table(("Case", "Warning", "Because"), rows) if rows else None


def _warning_table(trials: Sequence[Trial], report: Report) -> Markdown | None:
    rows = [
        (trial.index, report.labels[trial.case], warning.kind, _short(warning.detail))
        for trial in trials
        if figure(trial) is not None
        for warning in trial.judgement.warnings
    ]
    return table(("Trial", "Case", "Warning", "Because"), rows, "rlll") if rows else None


def _trial_table(trials: Sequence[Trial], report: Report) -> Markdown | None:
    if not trials:
        return None
    rows = [_trial_row(trial, report) for trial in trials]
    return table(("Trial", "Case", "Repeat", "Total images/sec", "Verdict", "Log", "Line", "Seconds"), rows, "rlrrllrr")


def _trial_row(trial: Trial, report: Report) -> tuple[object, ...]:
    value = figure(trial)
    return (
        trial.index,
        report.labels[trial.case],
        trial.repeat,
        None if value is None else f"{value:.2f}",
        failure(trial) or "ok",
        trial.log,
        None if value is None else trial.judgement.total_line,
        f"{trial.execution.seconds:.1f}",
    )


def _short(text: str) -> str:
    return text if len(text) <= _REASON_LENGTH else f"{text[:_REASON_LENGTH]}..."
