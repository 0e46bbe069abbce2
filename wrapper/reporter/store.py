"""The records on disk: session.json and trials.jsonl. Results are written here and nowhere else."""

from __future__ import annotations

from typing import Any

import msgspec

from wrapper.parser.output import Step
from wrapper.parser.verdict import Judgement
from wrapper.process import Execution
from wrapper.runner.sweep import Case

FORMAT = 1


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
    execution: Execution
    judgement: Judgement
    steps: tuple[Step, ...] = ()
    header: dict[str, str] = {}
    log: str
    """Standard output log, relative to the report's directory, with forward slashes; the other streams stand beside it."""
    log_sha256: str = ""
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
