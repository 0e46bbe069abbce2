"""The record of a sweep on several releases, releases.json: which were asked for, and where the report of each lies."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from wrapper.errors import FatalError
from wrapper.parser.line import readable
from wrapper.reporter.files import explained, from_json, json_text, read_whole, sync_directory, write_text_atomically
from wrapper.reporter.store import SESSION_FILE, Session, create_report_directory, read_session

AXIS_FILE = "releases.json"


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """One of the releases."""

    tensorflow: Annotated[str, msgspec.Meta(pattern=r"^(?!\.+$)[A-Za-z0-9.+-]+$")]
    """The exact version, which is also the name of the directory beside this record that holds its report, an ordinary one; there is none where the
    release could not be prepared."""
    reason: str = ""
    """Why it could not be prepared, or gone on with; empty where it could."""
    remedy: str = ""


class Axis(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that holds for all releases, as far as it is needed to begin with one later."""

    format: Literal[1] = 1
    sweep: dict[str, Any]
    """As it was asked for, with the models that some release can't run."""
    device: Literal["cpu", "gpu"]
    environment: str
    """As `--environment` takes it."""
    commit: str | None = None
    """One that was given by hand."""
    command: tuple[str, ...]
    parts: Annotated[tuple[Part, ...], msgspec.Meta(min_length=1)]
    """In the order asked for."""

    def __post_init__(self) -> None:
        names = [part.tensorflow for part in self.parts]
        if len(set(names)) < len(names):  # its report would stand twice, and each of its trials run twice
            raise ValueError(f"a release stands twice in {', '.join(names)}")
        if list(self.sweep.get("tensorflow", names)) != names:
            raise ValueError(f"the sweep does not ask for {', '.join(names)}")


def is_axis(directory: Path) -> bool:
    """Whether the reports of several releases lie in a directory."""
    return (directory / AXIS_FILE).exists()


def create_axis_directory(reports: Path, session: Session) -> Path:
    """Make reports/<date>-<sweep>-releases-<hardware>. Raises FatalError.

    Args:
        session: of one of the releases.
    """
    return create_report_directory(reports, msgspec.structs.replace(session, release={"tensorflow": "releases"}))


def create_part_directory(directory: Path, part: Part) -> Path:
    """Make the directory of one release's report, which a crash may have left without records. Raises FatalError."""
    made = directory / part.tensorflow
    with explained(f"making a report directory in {directory}", directory):
        made.mkdir(exist_ok=True)
        sync_directory(directory)
    return made


def write_axis(directory: Path, axis: Axis) -> None:
    """Write releases.json. Raises FatalError when it can't be written."""
    write_text_atomically(directory / AXIS_FILE, json_text(axis))


def read_axis(directory: Path) -> Axis:
    """Read releases.json.

    Raises:
        FatalError: there is none, or it is damaged, or of a newer version of this program.
    """
    path = directory / AXIS_FILE
    return from_json(read_whole(path, f"{directory} has no {AXIS_FILE}"), Axis, path, "Restore it, or go on with each directory in it by itself")


def read_part(directory: Path, part: Part) -> Session | None:
    """The session of one release's report; None where it has none.

    Raises:
        FatalError: it is damaged, or that of another minor release, whose figures would stand under this one's name. The patch may be another: an
            image or a conda package has its own.
    """
    place = directory / part.tensorflow
    if not (place / SESSION_FILE).exists():
        return None
    session = read_session(place)
    if session.tensorflow.split(".")[:2] != part.tensorflow.split(".")[:2]:
        raise FatalError(f"{place} holds the report of TensorFlow {readable(session.tensorflow)}", "Put each report where it was made")
    return session


def parts_with_report(directory: Path) -> tuple[Path, ...]:
    """The report directories of the releases that have one, in the order asked for.

    Raises:
        FatalError: there is none, or a record can't be read.
    """
    found = tuple(directory / part.tensorflow for part in read_axis(directory).parts if read_part(directory, part))
    if not found:
        raise FatalError(f"no release in {directory} was begun with", "Go on with it by --resume")
    return found
