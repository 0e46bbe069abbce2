"""Check a report against its own logs: nothing in it is believed that they don't give."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from itertools import islice, zip_longest
from pathlib import Path, PurePosixPath

import msgspec

from wrapper.errors import FatalError
from wrapper.parser.clock import read_stamps, timed_window, window_throughput
from wrapper.parser.line import KEPT_CHARACTERS, readable
from wrapper.parser.output import parse_file
from wrapper.parser.stderr import read_stderr
from wrapper.parser.verdict import judge
from wrapper.reporter.axis import AXIS_FILE, read_axis, read_part
from wrapper.reporter.content import compose
from wrapper.reporter.kept import COMPARISON_FILE, Asked, compare_again, comparison_json, decode_asked
from wrapper.reporter.numerics import load_known_losses
from wrapper.reporter.page import page
from wrapper.reporter.results import results_csv, results_json
from wrapper.reporter.side_by_side import FILES, markdown, read_side_by_side
from wrapper.reporter.store import LOGS_DIRECTORY, Records, Session, Trial, read_records, read_session
from wrapper.runner.plan import command_line

_CONTEXT = 60
"""Characters shown before the first difference."""
_MISSING_NAMED = 20


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """Something in a report that does not hold."""

    what: str
    recorded: str
    recomputed: str
    """From the logs, or why there is nothing to recompute it from."""


class Verification(msgspec.Struct, frozen=True, kw_only=True):
    """What came of checking a report."""

    findings: tuple[Finding, ...]
    """Empty where everything holds."""
    trials: int
    logs: int
    """Files whose hash was looked at."""
    taken: tuple[str, ...] = ()
    """Baselines whose figures are taken from comparison.json as they are."""


def verify(directory: Path) -> Verification:
    """Recompute a report from its logs: each command line, total at its line, verdict, header, step line and clock, then results.csv, results.json,
    report.md and comparison.json with every mean, interval and ratio in them, byte for byte, as the logs and the published figures give them; and the
    hash of each log. A trial that was planned and has no record is named: the sweep was stopped before it, or it was taken out; and so is one with
    the place in the plan, or the log, of another.

    How a process ended and on which devices it was seen can't be recomputed and is taken from the record, and so are the figures of a baseline, whose
    logs lie elsewhere; another version of this program may have written the files otherwise, or hold other published figures. report.html and
    throughput.svg are not looked at: they show what the others hold. No file outside the directory is read.

    Args:
        directory: a report's, which may have been made elsewhere.

    Raises:
        FatalError: the records are missing or damaged.
    """
    session, records = read_session(directory), read_records(directory)
    findings: list[Finding] = []
    recomputed = []
    for trial in records.trials:
        findings += _hash_findings(directory, trial)
        again = _from_logs(directory, session, trial)
        if isinstance(again, str):
            findings.append(Finding(what=f"trial {trial.index}: judgement", recorded=trial.judgement.reason, recomputed=again))
            again = trial
        planned = command_line(trial.case, python="", script="")[2:]
        findings += _differences(trial, msgspec.structs.replace(again, command=(*trial.command[:2], *planned)))
        recomputed.append(again)
    findings += _missing(session, records)
    findings += _misplaced(session, records)
    findings += _twice(records)
    findings += _unrecorded(directory, records)
    asked = _asked(directory)
    if isinstance(asked, Finding):
        findings.append(asked)
        asked = None
    findings += _file_findings(directory, session, Records(trials=tuple(recomputed), notes=records.notes), asked)
    return Verification(
        findings=tuple(findings),
        trials=len(recomputed),
        logs=sum(len(trial.log_hashes) for trial in recomputed),
        taken=tuple(sorted({reference.source for reference in asked.baseline})) if asked else (),
    )


def verify_side_by_side(directory: Path) -> tuple[Finding, ...]:
    """Check what sets several releases side by side against their reports, each of which `verify` checks by itself: every figure, ratio and note in
    releases.md, and that no release has been taken out.

    Args:
        directory: any; in one that is not of a sweep on several releases there is nothing to find.
    """
    if not any((directory / name).exists() for name in (AXIS_FILE, *FILES)):
        return ()
    try:
        axis = read_axis(directory)
        gone = [part.tensorflow for part in axis.parts if not part.reason and read_part(directory, part) is None]
        text = markdown(read_side_by_side(directory))
    except FatalError as error:
        return (Finding(what=AXIS_FILE, recorded="several releases", recomputed=readable(f"none: {error.what}")),)
    missing = (Finding(what=f"TensorFlow {name}", recorded="one of the releases", recomputed="no report: not begun, or taken out") for name in gone)
    return (*missing, *_text_findings(directory, FILES[0], text))


def _file(directory: Path, name: str) -> Path:
    """A file that the records name. Raises OSError where it leads out of the report's directory, also by a link, or is no regular file."""
    root = directory.resolve()
    try:
        path = (root / name).resolve()
    except (ValueError, RuntimeError) as error:  # a NUL in the name; a link to itself
        raise OSError("not a path") from error
    if not path.is_relative_to(root):
        raise PermissionError("outside the report's directory, and not read")
    if not path.is_file():
        raise FileNotFoundError("missing")
    return path


def _hash_findings(directory: Path, trial: Trial) -> Iterator[Finding]:
    what = f"trial {trial.index}: SHA-256 of"
    if PurePosixPath(trial.log).name not in trial.log_hashes:
        yield Finding(what=f"{what} {readable(trial.log)}", recorded="none", recomputed="not compared: the log may be another one")
    for name, recorded in trial.log_hashes.items():
        try:
            with _file(directory, f"{LOGS_DIRECTORY}/{name}").open("rb") as file:
                recomputed = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            recomputed = f"can't be read: {error}"
        if recomputed != recorded:
            yield Finding(what=f"{what} {readable(name)}", recorded=readable(recorded), recomputed=readable(recomputed))


def _from_logs(directory: Path, session: Session, trial: Trial) -> Trial | str:
    """The trial as its logs give it, or why they can't be read."""
    stem = trial.log.removesuffix(".stdout")
    seen_on = trial.telemetry.get("seen_on")
    try:
        output = parse_file(_file(directory, trial.log))
        stamps = read_stamps(_file(directory, f"{stem}.times.csv"))
        clock = window_throughput(output.steps, stamps, trial.case.global_batch_size)
        judgement = judge(
            case=trial.case,
            execution=trial.execution,
            output=output,
            stderr=read_stderr(_file(directory, f"{stem}.stderr")),
            release_minor=None if session.demo else ".".join(session.tensorflow.split(".")[:2]),
            seen_on_devices=frozenset(seen_on) if isinstance(seen_on, list) else None,
            clock=clock,
            window=timed_window(output, stamps),
        )
    except (OSError, ValueError, ArithmeticError, TypeError) as error:  # also a record that says nonsense, such as a case of 0 steps
        return readable(f"can't be read: {error}")
    # What the readings and the release give rise to stands behind what the logs do, and can't be recomputed from them.
    others = tuple(warning for warning in trial.judgement.warnings if warning not in judgement.warnings)
    again = msgspec.structs.replace(
        trial,
        judgement=msgspec.structs.replace(judgement, warnings=(*judgement.warnings, *others)),
        steps=tuple(step for step in output.steps if all(map(math.isfinite, (step.images_per_sec, step.uncertainty, step.jitter)))),
        header=output.header,
        telemetry=trial.telemetry | ({"clock": msgspec.to_builtins(clock)} if "clock" in trial.telemetry else {}),
    )
    return msgspec.json.decode(msgspec.json.encode(again), type=Trial)  # as a record can hold it, which knows no nan


def _differences(trial: Trial, again: Trial) -> Iterator[Finding]:
    for field in ("command", "judgement", "header", "steps", "telemetry"):
        recorded, recomputed = getattr(trial, field), getattr(again, field)
        if recorded != recomputed:
            yield _finding(f"trial {trial.index}: {field}", msgspec.json.encode(recorded).decode(), msgspec.json.encode(recomputed).decode())


def _missing(session: Session, records: Records) -> Iterator[Finding]:
    """Planned trials without a record, the first `_MISSING_NAMED` by name; a trial's index depends on its round and case alone."""
    recorded = {trial.index for trial in records.trials}
    planned = max(session.planned_trials, *recorded, 0)
    for index in islice((index for index in range(1, planned + 1) if index not in recorded), _MISSING_NAMED):
        repeat, case = divmod(index - 1, len(session.cases)) if session.cases else (0, 0)
        name = f" ({readable(session.cases[case].name)}, repeat {repeat + 1})" if session.cases else ""
        yield Finding(what=f"trial {index}{name}", recorded=f"one of {planned} planned", recomputed="no record: not run, or taken out")
    unnamed = planned - sum(index > 0 for index in recorded) - _MISSING_NAMED
    if unnamed > 0:
        yield Finding(what=f"{unnamed} more trials", recorded=f"of {planned} planned", recomputed="no record: not run, or taken out")


def _misplaced(session: Session, records: Records) -> Iterator[Finding]:
    """Trials that the plan has at another place: a repeat of one case that counts as that of another, or a round that never was."""
    for trial in records.trials if session.cases else ():
        repeat, case = divmod(trial.index - 1, len(session.cases))
        if (trial.case, trial.repeat) != (session.cases[case], repeat + 1):
            planned = f"planned is {session.cases[case].name}, repeat {repeat + 1}"
            yield _finding(f"trial {trial.index}: place", f"{trial.case.name}, repeat {trial.repeat}", planned)


def _twice(records: Records) -> Iterator[Finding]:
    """Figures that count more than once: several trials with one log, or with copies of it. Output may be the same twice, its clock is not."""
    first: dict[tuple[str, ...], int] = {}
    for trial in records.trials:
        stem = PurePosixPath(trial.log).name.removesuffix(".stdout")
        copied = tuple(trial.log_hashes.get(f"{stem}{ending}", "") for ending in (".stdout", ".times.csv"))
        marks = [(stem,), *([copied] if all(copied) and trial.judgement.verdict == "ok" else [])]
        if (earlier := min(first.setdefault(mark, trial.index) for mark in marks)) != trial.index:
            yield Finding(what=f"trial {trial.index}: log", recorded=readable(trial.log), recomputed=f"that of trial {earlier}")


def _unrecorded(directory: Path, records: Records) -> Iterator[Finding]:
    """Logs that no trial claims: whoever leaves a trial out of the records leaves its log behind."""
    recorded = {PurePosixPath(trial.log).name for trial in records.trials}
    for path in sorted((directory / LOGS_DIRECTORY).glob("*.stdout")):
        if path.name not in recorded:
            yield Finding(what=f"log {readable(path.name)}", recorded="no trial", recomputed="a log that no trial records")


def _asked(directory: Path) -> Asked | Finding | None:
    """What the report was compared with, or why that can't be read."""
    try:
        return decode_asked(_file(directory, COMPARISON_FILE).read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        return Finding(what=COMPARISON_FILE, recorded=str(error), recomputed="not compared")
    except FatalError as error:
        return Finding(what=COMPARISON_FILE, recorded=readable(error.what), recomputed="not compared")


def _file_findings(directory: Path, session: Session, records: Records, asked: Asked | None) -> Iterator[Finding]:
    report = compose(session, records, load_known_losses())
    comparison = None
    try:
        comparison = compare_again(asked, report) if asked else None
    except FatalError as error:  # a demo; a name that this version's references lack
        yield Finding(what=COMPARISON_FILE, recorded="a comparison", recomputed=readable(f"none: {error.what}"))
    texts = {
        "report.md": page(report, comparison=comparison),
        "results.csv": results_csv(report),
        "results.json": results_json(report),
        **({COMPARISON_FILE: comparison_json(asked, comparison)} if asked and comparison else {}),
    }
    for name, text in texts.items():
        yield from _text_findings(directory, name, text)


def _text_findings(directory: Path, name: str, text: str) -> Iterator[Finding]:
    """The lines in which a file differs from what was recomputed."""
    try:
        recorded = _file(directory, name).read_bytes().decode("utf-8", "replace")
    except OSError as error:
        yield Finding(what=name, recorded=str(error), recomputed="not compared")
        return
    lines = enumerate(zip_longest(recorded.split("\n"), text.split("\n"), fillvalue="end of the file"), start=1)
    for number, (old, new) in ((number, pair) for number, pair in lines if pair[0] != pair[1]):
        yield _finding(f"{name}, line {number}", old, new)


def _finding(what: str, recorded: str, recomputed: str) -> Finding:
    """Two long texts are shown from where they differ."""
    same = next((at for at, (old, new) in enumerate(zip(recorded, recomputed, strict=False)) if old != new), min(len(recorded), len(recomputed)))
    start = max(0, same - _CONTEXT) if max(len(recorded), len(recomputed)) > KEPT_CHARACTERS else 0
    return Finding(what=what, recorded=readable(recorded[start:]), recomputed=readable(recomputed[start:]))
