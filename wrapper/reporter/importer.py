"""Other people's logs, as rows, as references and as reports to compare."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from wrapper.errors import FatalError
from wrapper.process import Execution
from wrapper.reporter.analysis import Summary, failure, figure, grouped, summarise
from wrapper.reporter.benchmark_log import METRIC_FILE, RUN_FILE, read_benchmark_log
from wrapper.reporter.foreign_log import ImportedLog, Refusal, path_text, read_log
from wrapper.reporter.matching import Conditions, conditions_of, references_from
from wrapper.reporter.reference import BEFORE_TF32, GpuModel, Reference, canonical_gpu, load_gpus
from wrapper.reporter.spreadsheet import csv_text
from wrapper.reporter.store import LOGS_DIRECTORY, SESSION_FILE, Trial, read_session, read_trials
from wrapper.runner.sweep import Case

NEEDED = frozenset({"precision", "data"})
"""What a log must state to be a part of a report."""
_COLUMNS = (
    *("path", "images_per_sec", "model", "mode", "batch_size_per_device", "device", "devices"),
    *("precision", "xla", "data", "variable_update", "nan_loss", "ranks"),
    *("verdict", "reason", "machine", "gpu", "tensorflow", "date", "notes"),
)


class Imported(msgspec.Struct, frozen=True, kw_only=True):
    """What was found."""

    rows: tuple[ImportedLog, ...]
    """One for each log, also without a valid figure."""
    refused: tuple[Refusal, ...]
    """Files and directories that are no logs, or can't be read."""

    @property
    def counts(self) -> dict[str, int]:
        """How many logs by verdict, then how many files were refused by reason, most first."""
        verdicts = Counter(row.judgement.verdict for row in self.rows)
        return dict(verdicts.most_common()) | dict(Counter(refusal.reason for refusal in self.refused).most_common())


class ImportedReport(msgspec.Struct, frozen=True, kw_only=True):
    """The logs of one machine and release, ready for `comparison.compare`."""

    conditions: Conditions
    summaries: tuple[Summary, ...]
    logs: dict[Case, tuple[str, ...]] = {}
    """Those of each case, from the directory that holds all of the report's."""


def import_logs(paths: Iterable[Path]) -> Imported:
    """Read logs of upstream's standard output, `--benchmark_log_dir` directories and our own report directories.

    Args:
        paths: files, or directories that are searched; links to directories are not followed.

    Raises:
        FatalError: a path does not exist.
    """
    found = _once(item for path in paths for item in _below(path))
    return Imported(
        rows=tuple(item for item in found if isinstance(item, ImportedLog)), refused=tuple(item for item in found if isinstance(item, Refusal))
    )


def _once(items: Iterable[ImportedLog | Refusal]) -> list[ImportedLog | Refusal]:
    """Each file once: a log that is named twice is no second run."""
    found: dict[str, ImportedLog | Refusal] = {}
    again: list[ImportedLog | Refusal] = []
    for item in items:
        place = os.path.realpath(item.path)
        if isinstance(found.setdefault(place, item), ImportedLog) and found[place] is not item:
            again.append(Refusal(path=item.path, reason="read already, under this or another name"))
    return [*found.values(), *again]


def rows_csv(rows: Iterable[ImportedLog]) -> str:
    """One line a log; what is not stated or not valid is an empty cell."""
    return csv_text(_COLUMNS, map(_cells, rows))


def as_references(rows: Iterable[ImportedLog], source_name: str) -> tuple[Reference, ...]:
    """The valid figures as references; a condition that the log doesn't state stays unstated.

    Args:
        source_name: what the source of the references is to be called.
    """
    rows = [row for row in rows if row.judgement.images_per_sec is not None]
    gpus = _known(rows)
    return tuple(_reference(row, _conditions(row, gpus, source_name)) for row in rows)


def as_reports(rows: Iterable[ImportedLog], source_name: str) -> tuple[ImportedReport, ...]:
    """The logs as reports, one for each machine, GPU and release; logs of the same case are its repeats.

    A log without a word on precision or data is left out, because a report's case must have them. Of other conditions that are not stated the case
    has upstream's default, and the report's conditions say that they are not.

    Args:
        source_name: begins the name of each report.
    """
    rows = [row for row in rows if not row.unstated & NEEDED]
    gpus = _known(rows)
    named = [(row, _conditions(row, gpus, f"{source_name} {row.machine}" if row.machine else source_name)) for row in rows]
    groups = grouped(named, lambda pair: (pair[1].name, pair[1].gpu, pair[1].tensorflow))
    return tuple(_report([row for row, _ in group], group[0][1]) for group in groups.values())


def _below(path: Path) -> Iterator[ImportedLog | Refusal]:
    if recorded := _recorded(path):
        yield from recorded
        return
    if not path.is_dir():
        if not os.path.lexists(path):
            raise FatalError(f"there is no {path_text(path)} to import", "Name a log, or a directory that holds logs")
        yield _read(path)
        return
    unreadable: list[OSError] = []
    for directory, directories, files in os.walk(path, onerror=unreadable.append):
        if SESSION_FILE in files:
            directories.clear()
            yield from _own_report(Path(directory).resolve())
            continue
        directories.sort()
        yield from (_read(Path(directory, file)) for file in sorted(files) if not _is_part(file, files))
    yield from (Refusal(path=path_text(Path(str(error.filename))), reason=f"can't be read: {error.strerror}") for error in unreadable)


def _recorded(path: Path) -> list[ImportedLog | Refusal]:
    """Of a log of an own report, or of the directory of its logs, what the records say: they know more than the log states, and what was a demo."""
    path = path.resolve()
    logs = path if path.is_dir() else path.parent
    if logs.name != LOGS_DIRECTORY or not (logs.parent / SESSION_FILE).is_file():
        return []
    whole = logs == path
    return [one for one in _own_report(logs.parent) if whole or isinstance(one, Refusal) or Path(one.path).name == path.name]


def _is_part(file: str, files: Container[str]) -> bool:
    """Whether a file is read with another one beside it."""
    return (file == RUN_FILE and METRIC_FILE in files) or (file.endswith(".stderr") and f"{file.removesuffix('.stderr')}.stdout" in files)


def _read(path: Path) -> ImportedLog | Refusal:
    try:
        if not path.is_file():  # opening a pipe would wait for ever
            return Refusal(path=path_text(path), reason="not a file")
        return read_benchmark_log(path) if path.name == METRIC_FILE else read_log(path)
    except OSError as error:
        return Refusal(path=path_text(path), reason=f"can't be read: {error.strerror}")


def _own_report(directory: Path) -> Iterator[ImportedLog | Refusal]:
    try:
        session, trials = read_session(directory), read_trials(directory)
    except FatalError as error:
        yield Refusal(path=path_text(directory), reason=error.what)
        return
    if session.demo:
        yield Refusal(path=path_text(directory), reason="a demo, whose figures can't be compared with anything")
        return
    conditions = conditions_of(session, directory.name)
    for trial in trials:
        yield ImportedLog(
            path=path_text(directory / trial.log),
            case=trial.case,
            judgement=msgspec.structs.replace(trial.judgement, verdict=failure(trial) or "ok", images_per_sec=figure(trial)),
            machine=directory.name,
            gpu=conditions.gpu,
            tensorflow=conditions.tensorflow,
            date=trial.execution.started[:10],
        )


def _report(rows: Sequence[ImportedLog], conditions: Conditions) -> ImportedReport:
    days = sorted({row.date for row in rows if row.date})
    by_case = grouped(rows, lambda row: row.case)
    unstated = {case: frozenset[str]().union(*(row.unstated for row in of_case)) for case, of_case in by_case.items()}
    measured = " to ".join(dict.fromkeys((days[0], days[-1]))) if days else None
    return ImportedReport(
        conditions=msgspec.structs.replace(conditions, measured=measured, unstated=unstated),
        summaries=summarise(map(_trial, rows)),
        logs=_logs(by_case),
    )


def _logs(by_case: Mapping[Case, Sequence[ImportedLog]]) -> dict[Case, tuple[str, ...]]:
    paths = {case: [Path(row.path) for row in rows] for case, rows in by_case.items()}
    try:
        top = os.path.commonpath([path.parent for of_case in paths.values() for path in of_case])
        return {case: tuple(path.relative_to(top).as_posix() for path in of_case) for case, of_case in paths.items()}
    except ValueError:  # they lie on several drives
        return {case: tuple(path.name for path in of_case) for case, of_case in paths.items()}


def _known(rows: Iterable[ImportedLog]) -> dict[str, GpuModel]:
    """The GPUs that have a name in the references' table, by what the logs call them."""
    table = load_gpus()
    models = {gpu.gpu: gpu for gpu in table}
    names = {row.gpu: canonical_gpu(row.gpu, table) for row in rows if row.gpu}
    return {name: models[known] for name, known in names.items() if known}


def _conditions(row: ImportedLog, gpus: Mapping[str, GpuModel], name: str) -> Conditions:
    known = gpus.get(row.gpu or "")
    without_tf32 = row.case.device == "cpu" or (known and known.architecture in BEFORE_TF32)
    return Conditions(
        name=name,
        gpu=known.gpu if known else row.gpu or row.machine or f"unknown {row.case.device.upper()}",
        tensorflow=row.tensorflow or "",
        tf32=False if without_tf32 else None,  # no log says whether it was on
    )


def _reference(row: ImportedLog, conditions: Conditions) -> Reference:
    (reference,) = references_from(summarise([_trial(row)]), conditions)
    return msgspec.structs.replace(
        reference,
        row=row.path,
        machine=row.machine,
        loss_nan=row.nan_loss,
        date=row.date,
        setup="distortions" if ("distortions", "true") in row.case.flags else None,
        caution="; ".join(row.notes) or None,
        **dict.fromkeys(row.unstated),
    )


def _trial(row: ImportedLog) -> Trial:
    execution = Execution(exit_code=None, started=row.date or "", seconds=0.0)
    return Trial(index=1, case=row.case, repeat=1, command=(), execution=execution, judgement=row.judgement, log=row.path)


def _cells(row: ImportedLog) -> tuple[object, ...]:
    """By `_COLUMNS`."""
    case, judgement = row.case, row.judgement
    return (
        *(row.path, judgement.images_per_sec, case.model, case.mode, case.batch_size or None, case.device, case.devices or None),
        *(row.stated("precision"), row.stated("xla"), row.stated("data"), row.stated("variable_update"), row.nan_loss, row.ranks),
        *(judgement.verdict, judgement.reason, row.machine, row.gpu, row.tensorflow, row.date, "; ".join(row.notes)),
    )
