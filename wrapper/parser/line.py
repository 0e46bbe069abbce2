"""One line of upstream's standard output.

Two dialects are read. The strict one is for our own trials, whose standard output is kept apart and unprefixed: a line must be
exactly what upstream prints. The tolerant one is for other people's logs, which come with prefixes, terminal colours, expanded
tabs, appended time stamps or several ranks in one stream.
"""

from __future__ import annotations

import re

import msgspec

STAGES = ("start", "header", "building", "initializing", "warm-up", "steps", "total")
KEPT_CHARACTERS = 300
"""Of a line or header value that is kept as text."""


class Step(msgspec.Struct, frozen=True, array_like=True):
    """A step line. Upstream's `images/sec` here is a running mean since the warm-up, not a rate of its own."""

    step: int
    images_per_sec: float
    uncertainty: float
    jitter: float
    loss: float | None
    line: int
    """Line number in the log, from 1."""


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """What one line says."""

    kind: str
    """"header", "stage", "step", "total" or "malformed_total"."""
    key: str = ""
    """Of a header line its key as in `Output.header`, of a stage its name as in `STAGES`."""
    value: str = ""
    """Of a header line its value, of a malformed total the line."""
    step: Step | None = None
    total: float | None = None
    """images/sec; may be nan, inf, zero or negative."""


class _Dialect(msgspec.Struct, frozen=True, kw_only=True):
    """The patterns of one way of reading."""

    total: re.Pattern[str]
    step: re.Pattern[str]
    header: re.Pattern[str]
    batch_size: re.Pattern[str]
    stage: re.Pattern[str]


# Formats: `%.2f` for totals, `%.1f` for rates, `%.3f` for losses, none of which heeds the locale.
_TOTAL = r"total images/sec: (-?\d+\.\d\d|nan|-?inf)"
_RATE = r"(-?\d+\.\d|nan|-?inf)"
_LOSS = r"(-?\d+\.\d{3}|nan|-?inf)"
_KEYS = (
    "TensorFlow|Model|Dataset|Mode|SingleSess|Num batches|Num epochs|Devices|NUMA bind|Data format|Layout optimizer|"
    "RewriterConfig|Optimizer|Variables|AllReduce|Sync|Staged vars|Horovod on"
)
_BATCH_SIZE = r"(\d{1,18})(?:\.0)? (global|per device|batches per prepocessing group)"
_STAGE = r"(Generating (?:training |evaluation )?model|Initializing graph|Running warm up|Step[\t ]+Img/sec[\t ]+\w+)"

_STRICT = _Dialect(
    total=re.compile(rf"^{_TOTAL}\Z", re.ASCII),
    step=re.compile(rf"^(\d{{1,18}})\timages/sec: {_RATE} \+/- {_RATE} \(jitter = {_RATE}\)\t{_LOSS}(?:\t\d\.\d{{3}}){{0,2}}\Z", re.ASCII),
    header=re.compile(rf"^({_KEYS}): +(\S.*)\Z", re.ASCII),
    batch_size=re.compile(rf"^(?:Batch size: +| {{13}}){_BATCH_SIZE}\Z", re.ASCII),
    stage=re.compile(rf"^{_STAGE}(?:\t\w+)*\Z", re.ASCII),
)
_TOLERANT = _Dialect(
    total=re.compile(rf"\b{_TOTAL}(?:[\t ]+\d{{10}})?\Z", re.ASCII),
    step=re.compile(rf"(?<![\d.,])(\d{{1,18}})[\t ]+images/sec: {_RATE} \+/- {_RATE} \(jitter = {_RATE}\)(?:[\t ]+{_LOSS}(?![\d.,]))?", re.ASCII),
    header=re.compile(rf"(?:^|[\s:|])({_KEYS}): +(\S.*)\Z", re.ASCII),
    batch_size=re.compile(rf"(?:^|[\s:|]){_BATCH_SIZE}\Z", re.ASCII),
    stage=re.compile(rf"(?:^|[\s:|]){_STAGE}", re.ASCII),
)
_STAGE_NAMES = {"Generating": "building", "Initializing": "initializing", "Running": "warm-up", "Step": "steps"}
_BATCH_SIZE_KEYS = {
    "global": "Batch size global",
    "per device": "Batch size per device",
    "batches per prepocessing group": "Batch group size",
}
_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]", re.ASCII)
_KEY_AGAIN = re.compile(rf"(?:{_KEYS}|Batch size):", re.ASCII)


def read_line(line: bytes, number: int = 0, *, tolerant: bool = False) -> Event | None:
    """Read one line of upstream's standard output, as for live progress.

    Args:
        line: the line with its line end; without one it is cut off, and only a malformed total can come of it.
        number: its line number from 1, for `Step.line`.
        tolerant: whether prefixes, terminal colours, expanded tabs and appended text are allowed for.

    Returns:
        what the line says, or None for a foreign line.
    """
    text = line.decode("utf-8", "replace").removesuffix("\n")
    # In tolerant reading a carriage return ends a line too: what stands after the last one is what a terminal showed.
    text = _ANSI.sub("", text).rstrip("\r\t `").rsplit("\r", 1)[-1] if tolerant else text.removesuffix("\r")
    dialect = _TOLERANT if tolerant else _STRICT
    complete = line.endswith(b"\n")
    if "total images/sec" in text:
        found = dialect.total.search(text)
        if found and complete:
            return Event(kind="total", total=float(found[1]))
        return Event(kind="malformed_total", value=readable(text))
    return _read_body(text, number, dialect) or _read_header(text, dialect) if complete else None


def readable(text: str) -> str:
    """One line of foreign text as it can be shown: control characters and terminal colours removed, at most `KEPT_CHARACTERS` long."""
    printable = "".join(character if character.isprintable() else " " for character in _ANSI.sub("", text))
    words = " ".join(printable.split())
    return words if len(words) <= KEPT_CHARACTERS else words[: KEPT_CHARACTERS - 1] + "…"


def _read_body(text: str, number: int, dialect: _Dialect) -> Event | None:
    if found := dialect.step.search(text):
        step, rate, uncertainty, jitter, loss = found.groups()
        return Event(kind="step", step=Step(int(step), float(rate), float(uncertainty), float(jitter), None if loss is None else float(loss), number))
    if found := dialect.stage.search(text):
        return Event(kind="stage", key=_STAGE_NAMES[found[1].split(None, 1)[0]])
    return None


def _read_header(text: str, dialect: _Dialect) -> Event | None:
    if found := dialect.batch_size.search(text):
        return Event(kind="header", key=_BATCH_SIZE_KEYS[found[2]], value=found[1])
    if found := dialect.header.search(text):
        # Ranks that share a stream tear each other's lines: "Num batches: 100Num batches: 100".
        torn = _KEY_AGAIN.search(found[2])
        return None if torn else Event(kind="header", key=found[1], value=readable(found[2]))
    return None
