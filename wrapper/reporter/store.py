"""The records on disk: session.json and trials.jsonl. Results are written here and nowhere else."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Sequence
from itertools import chain, count
from pathlib import Path
from typing import Any

import msgspec

from wrapper.errors import FatalError
from wrapper.parser.output import Step
from wrapper.parser.verdict import Judgement
from wrapper.process import Execution
from wrapper.reporter.files import DAMAGED, append_durably, explained, json_text, read_whole, sync_directory, unfinished_line, write_text_atomically
from wrapper.runner.sweep import Case

FORMAT = 1
SESSION_FILE = "session.json"
TRIALS_FILE = "trials.jsonl"
LOGS_DIRECTORY = "logs"

_TORN_MARK = b" <torn>"
"""Put by the writer at the end of a line that a crash cut off, so that a reader can tell it from a damaged record."""
_PART_LENGTH = 48
"""Characters kept of each part of a directory's name: Windows refuses paths above 260."""


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """One execution of a case: a line of trials.jsonl."""

    index: int
    """Position in the plan, from 1; unique in a sweep."""
    case: Case
    repeat: int
    """From 1."""
    command: tuple[str, ...]
    """The exact command line."""
    variables: dict[str, str] = {}
    """Environment variables set for it."""
    engine_command: tuple[str, ...] = ()
    """What runs `command` in a container, whole; empty where it was started as it stands."""
    execution: Execution
    judgement: Judgement
    steps: tuple[Step, ...] = ()
    header: dict[str, str] = {}
    log: str
    """Standard output log, relative to the report's directory, with forward slashes; the other streams stand beside it."""
    log_hashes: dict[str, str] = {}
    """SHA-256 of each of its files in `logs/`, by file name, as they were when the trial ended."""
    telemetry: dict[str, Any] = {}
    """Summary over the timed window (issue 3); empty where nothing was sampled."""


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that holds for the whole sweep: session.json."""

    format: int = FORMAT
    demo: bool = False
    created: str
    """UTC, ISO 8601."""
    sweep: dict[str, Any]
    release: dict[str, Any]
    upstream: dict[str, str]
    environment: dict[str, Any]
    host: dict[str, Any]
    versions: dict[str, str]
    """The wrapper's own version, Python's and those of the libraries it used."""
    command: tuple[str, ...] = ()
    """The command line that started the sweep."""
    choice: str = ""
    """Why this release."""
    device: str = "cpu"
    cases: tuple[Case, ...] = ()
    """Every case asked for, in the order planned, so that a report shows those that an interrupted sweep never reached."""
    planned_trials: int = 0
    """How many trials were asked for; 0 where that is not known."""
    load: tuple[str, ...] = ()
    """Who else computed on this machine when the sweep began."""

    @property
    def tensorflow(self) -> str:
        """The release's version, empty where it is not recorded."""
        return str(self.release.get("tensorflow", ""))

    @property
    def gpus(self) -> list[dict[str, Any]]:
        """The facts of each GPU of the machine."""
        return self.host.get("gpus") or []


class Records(msgspec.Struct, frozen=True, kw_only=True):
    """What trials.jsonl holds."""

    trials: tuple[Trial, ...]
    """One for each index, the latest, in order of index."""
    notes: tuple[str, ...] = ()
    """What a reader should know about the file, such as a line that a crash cut off."""


def create_report_directory(reports: Path, session: Session, *, name_parts: Sequence[str] = ()) -> Path:
    """Make the directory of a new sweep: reports/<date>-<sweep>-<release>-<gpu or cpu>, or with -2, -3 where that exists.

    Args:
        reports: where report directories stand; made if missing.
        session: gives the date (of `created`, UTC), and the other parts of the name unless `name_parts` does.
        name_parts: what follows the date; any text, made safe for every file system.

    Returns:
        the directory, which no other call gets, not even one that runs at the same time.

    Raises:
        FatalError: it can't be made.
    """
    parts = [session.created[:10], *(["DEMO"] if session.demo else []), *(name_parts or _name_parts(session))]
    slugs = [_slug(part) for part in parts]
    name = "-".join(slug for slug in slugs if slug and not (session.demo and slug == "demo"))
    candidates = chain([reports / name], (reports / f"{name}-{number}" for number in count(2)))
    with explained(f"making a report directory in {reports}", reports):
        reports.mkdir(parents=True, exist_ok=True)
        directory = next(candidate for candidate in candidates if _is_made(candidate))
        sync_directory(reports)
    return directory


def write_session(directory: Path, session: Session) -> None:
    """Write session.json. Raises FatalError when it can't be written."""
    write_text_atomically(directory / SESSION_FILE, json_text(session))


def read_session(directory: Path) -> Session:
    """Read session.json.

    Raises:
        FatalError: there is none, it is no regular file, it is damaged, or a newer version of this program wrote it.
    """
    path = directory / SESSION_FILE
    data = read_whole(path, f"{directory} is not a report directory: it has no {SESSION_FILE}")
    try:
        made_by = msgspec.json.decode(data, type=_Format).format
        if made_by != FORMAT:
            raise FatalError(
                f"{path} has format {made_by}; this version reads format {FORMAT}: it was made by a newer version", "Upgrade this program"
            )
        session = msgspec.json.decode(data, type=Session)
        msgspec.convert(session.host, _Host)
        msgspec.convert(session.environment, _Environment)
        return session
    except DAMAGED as error:
        raise FatalError(f"{path} is damaged ({error})", "Restore it from a copy; the sweep can't be reported or resumed without it") from error


def append_trial(directory: Path, trial: Trial) -> None:
    """Add a line to trials.jsonl; when this returns, the line survives a crash of the machine.

    A line that a crash cut off is closed first. Values that JSON lacks (nan, inf) become null; step lines without finite figures are not kept.

    Raises:
        FatalError: the disk is full or the file can't be written; earlier trials are kept.
    """
    kept = tuple(step for step in trial.steps if all(map(math.isfinite, (step.images_per_sec, step.uncertainty, step.jitter))))
    line = msgspec.json.encode(msgspec.structs.replace(trial, steps=kept)) + b"\n"
    path = directory / TRIALS_FILE
    with explained(f"recording trial {trial.index} ({trial.case.name}), whose result is lost", directory):
        append_durably(path, _end_of(unfinished_line(path)) + line)


def read_trials(directory: Path) -> tuple[Trial, ...]:
    """The trials of `read_records`."""
    return read_records(directory).trials


def read_records(directory: Path) -> Records:
    """Read trials.jsonl; a missing file is a sweep without a finished trial.

    A later line replaces an earlier one of the same index (resumed or retried). A line cut off by a crash is left out, with a note.

    Raises:
        FatalError: a line is damaged (its number is named), or the file can't be read or is no regular one.
    """
    path = directory / TRIALS_FILE
    lines = read_whole(path, "").split(b"\n") if path.exists() else [b""]
    decode = msgspec.json.Decoder(Trial).decode
    trials: dict[int, Trial] = {}
    notes = []
    for number, line in enumerate(lines, start=1):
        if not line:
            continue
        try:
            trial = decode(line)
            trials[trial.index] = trial
        except DAMAGED as error:
            if number < len(lines) and not line.endswith(_TORN_MARK):
                raise FatalError(
                    f"{path}, line {number}: not a trial ({error})",
                    "Restore it from a copy, or delete that line: its trial runs again with --resume",
                ) from error
            notes.append(f"{TRIALS_FILE}, line {number}, was cut off by a crash or a full disk and is left out; its trial counts as not run")
    return Records(trials=tuple(trials[index] for index in sorted(trials)), notes=tuple(notes))


def check_resumable(old: Session, new: Session) -> tuple[str, ...]:
    """Check that what `new` would measure belongs into the sweep that `old` began.

    Returns:
        notes about differences that don't matter for the figures: versions of the wrapper and its libraries.

    Raises:
        FatalError: something that the figures depend on has changed; each is named, with the old and the new value.
    """
    before, now = _conditions(old), _conditions(new)
    changed = [f"{name} was {before[name] or 'absent'}, is {now[name] or 'absent'}" for name in before if before[name] != now[name]]
    changed += _differences("package", old.environment.get("packages", {}), new.environment.get("packages", {}))
    if changed:
        raise FatalError(
            f"This sweep can't be resumed, its trials would not be comparable: {'; '.join(changed)}",
            "Restore that, or start a new sweep without --resume",
        )
    return tuple(_differences("version of", old.versions, new.versions))


class _Format(msgspec.Struct):
    format: int


class _Host(msgspec.Struct):
    """The parts of a host that are not a single fact."""

    gpus: list[dict[str, Any]] | None = None


class _Environment(msgspec.Struct):
    """The parts of an environment that are not a single fact."""

    packages: dict[str, str] | None = None
    container: dict[str, Any] | None = None


def _name_parts(session: Session) -> list[str]:
    hardware = str(session.gpus[0].get("name") or "gpu") if session.device == "gpu" and session.gpus else session.device
    return [str(session.sweep.get("name") or "sweep"), session.tensorflow, hardware]


def _is_made(directory: Path) -> bool:
    """Make a directory; False where something has that name already. The operating system lets one of several callers win."""
    try:
        directory.mkdir()
    except FileExistsError:
        return False
    return True


def _slug(text: str) -> str:
    """Letters, digits, dots and single dashes: what every file system takes, and no shell reads as anything else."""
    ascii_text = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    slug = re.sub(r"[^A-Za-z0-9.]+|\.{2,}", "-", ascii_text)[:_PART_LENGTH].strip("-.")
    return slug if slug == "DEMO" else slug.lower()


def _end_of(unfinished: bytes) -> bytes:
    """What closes an unfinished last line: nothing where there is none, a line feed where only that is missing, else the mark as well."""
    if not unfinished:
        return b""
    try:
        msgspec.json.decode(unfinished, type=Trial)
    except DAMAGED:
        return _TORN_MARK + b"\n"
    return b"\n"


def _conditions(session: Session) -> dict[str, str]:
    """What figures depend on besides the case and the packages, by name."""
    return {
        "release": session.tensorflow,
        "upstream commit": session.upstream.get("commit", ""),
        "Python": str(session.environment.get("python_version", "")),
        "image": str((session.environment.get("container") or {}).get("image_id", "")),
        "device": session.device,
        "CPU": str(session.host.get("cpu") or ""),
        "GPU": ", ".join(str(gpu.get("name")) for gpu in session.gpus),
        "GPU driver": ", ".join(sorted({str(gpu.get("driver")) for gpu in session.gpus})),
        "demo": str(session.demo),
    }


def _differences(what: str, old: dict[str, str], new: dict[str, str]) -> list[str]:
    names = sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))
    return [f"{what} {name} was {old.get(name, 'absent')}, is {new.get(name, 'absent')}" for name in names]
