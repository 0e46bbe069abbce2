"""The report's figures for programs: results.csv and results.json. Pure."""

from __future__ import annotations

from typing import Any

from wrapper.reporter.analysis import Summary, failure, figure, figures
from wrapper.reporter.content import Report
from wrapper.reporter.facts import drivers, hardware
from wrapper.reporter.files import json_text
from wrapper.reporter.spreadsheet import csv_text
from wrapper.reporter.store import Trial


def results_csv(report: Report) -> str:
    """A row for each case; a figure that was not measured is an empty cell."""
    rows = [_csv_row(summary, report) for summary in report.summaries]
    return csv_text(list(rows[0]) if rows else ["notice"], (row.values() for row in rows))


def results_json(report: Report) -> str:
    """Everything: the session, the summaries, and each trial but for its step lines, which are in trials.jsonl; null where there is no figure."""
    content = {
        "format": report.session.format,
        "notice": report.notice,
        "unfinished": report.unfinished,
        "notes": report.notes,
        "session": report.session,
        "summaries": [
            {
                "label": report.labels[summary.case],
                "notice": report.notice,
                "summary": summary,
                "case_warnings": report.case_warnings[summary.case],
                "numerics": report.numerics[summary.case],
            }
            for summary in report.summaries
        ],
        "trials": [_json_trial(trial, report) for trial in report.trials],
    }
    return json_text(content, indent=1)


def _json_trial(trial: Trial, report: Report) -> dict[str, Any]:
    return {
        "index": trial.index,
        "label": report.labels[trial.case],
        "notice": report.notice,
        "case": trial.case,
        "repeat": trial.repeat,
        "verdict": failure(trial) or "ok",
        "images_per_sec": figure(trial),
        "log": trial.log,
        "log_line": trial.judgement.total_line if figure(trial) is not None else None,
        "log_hashes": trial.log_hashes,
        "reason": trial.judgement.reason,
        "remedy": trial.judgement.remedy,
        "warnings": trial.judgement.warnings,
        "command": trial.command,
        "variables": trial.variables,
        "execution": trial.execution,
        "telemetry": trial.telemetry,
    }


def _csv_row(summary: Summary, report: Report) -> dict[str, Any]:
    session, case = report.session, summary.case
    return {
        "notice": report.notice,
        "tensorflow": session.tensorflow,
        "upstream_commit": session.upstream.get("commit", ""),
        "verified": session.release.get("verified", False),
        "hardware": hardware(session),
        "driver": drivers(session),
        "model": case.model,
        "batch_size_per_device": case.batch_size,
        "global_batch_size": case.global_batch_size,
        "device": case.device,
        "devices": case.devices,
        "precision": case.precision,
        "xla": case.xla,
        "mode": case.mode,
        "data": case.data,
        "data_name": case.data_name,
        "variable_update": case.variable_update,
        "steps": case.steps,
        "warmup_steps": case.warmup_steps,
        "flags": " ".join(f"--{name}={value}" for name, value in case.flags),
        "n": summary.n,
        "images_per_sec_mean": summary.mean,
        "images_per_sec_sd": summary.sd,
        "images_per_sec_ci95_half_width": summary.ci95,
        "images_per_sec_median": summary.median,
        "images_per_sec_min": summary.min,
        "images_per_sec_max": summary.max,
        "totals": " ".join(f"{total:.2f}" for total in figures(report.by_case[case])),
        "failed": sum(summary.failed.values()),
        "verdicts": " ".join(f"{name}:{number}" for name, number in summary.failed.items()),
        "warnings": " ".join(f"{name}:{number}" for name, number in summary.warnings.items()),
        "case_warnings": " ".join(warning.kind for warning in report.case_warnings[case]),
        "numerics": report.numerics[case].finding,
    }
