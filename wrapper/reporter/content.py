"""What a report says, worked out from the records. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from wrapper.parser.remedies import meanings
from wrapper.parser.verdict import Warning
from wrapper.reporter.analysis import Summary, by_case, failure, summarise
from wrapper.reporter.checks import check_case
from wrapper.reporter.facts import hardware
from wrapper.reporter.headline import Table, common_settings, headline, labels
from wrapper.reporter.numerics import KnownLosses, Numerics, numerics
from wrapper.reporter.store import Records, Session, Trial
from wrapper.runner.sweep import Case

DEMO_NOTICE = "DEMO: these figures come from a stand-in, not from TensorFlow, and can't be compared with anything"


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """A trial without a valid figure."""

    index: int
    case: str
    """The case's label, such as "resnet50, batch 64"."""
    repeat: int
    verdict: str
    reason: str
    remedy: str
    place: str
    """The log that decided, relative to the report's directory, and where one line decided, that line, from 1."""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The records, and what they say, as plain text that may hold anything that was logged: whoever shows it has to escape it."""

    session: Session
    trials: tuple[Trial, ...]
    by_case: dict[Case, list[Trial]]
    headline: Table
    common: dict[str, str]
    """Settings that all cases share."""
    failures: tuple[Failure, ...]
    summaries: tuple[Summary, ...]
    labels: dict[Case, str]
    case_warnings: dict[Case, tuple[Warning, ...]]
    """On the repeats of a case together; those on one trial stand with it."""
    numerics: dict[Case, Numerics]
    """The losses of each case beside the known series."""
    notes: tuple[str, ...]
    """On the records themselves."""

    @property
    def title(self) -> str:
        on = hardware(self.session)
        return f"DEMO on {on}" if self.session.demo else f"Images per second: TensorFlow {self.session.tensorflow} on {on}"

    @property
    def notice(self) -> str:
        """Empty, or what must be shown with every figure."""
        return DEMO_NOTICE if self.session.demo else ""

    @property
    def valid(self) -> int:
        """Trials with a valid figure."""
        return len(self.trials) - len(self.failures)

    @property
    def done(self) -> int:
        """Trials that ended by themselves; an interrupted one runs again."""
        return sum(trial.judgement.verdict != "interrupted" for trial in self.trials)

    @property
    def warnings(self) -> tuple[str, ...]:
        """A line for each of `case_warnings`."""
        return tuple(f"{self.labels[case]}: {warning.kind}: {warning.detail}" for case, found in self.case_warnings.items() for warning in found)

    @property
    def meanings(self) -> tuple[tuple[str, str], ...]:
        """The kinds of warnings that occur, each with what it means."""
        kinds = [warning.kind for found in self.case_warnings.values() for warning in found]
        return meanings([*kinds, *(kind for summary in self.summaries for kind in summary.warnings)])

    @property
    def unfinished(self) -> str:
        """How far an unfinished sweep got, empty for a finished one."""
        planned = self.session.planned_trials
        return f"{self.done} of {planned} trials done" if self.done < planned else ""

    def caveats(self, summary: Summary) -> tuple[str, ...]:
        """What a reader of one figure must know where there is room for a few words only: the kinds of warnings on the case and on its trials, and
        "incomplete" where the sweep was stopped; each once."""
        kinds = [*(warning.kind for warning in self.case_warnings[summary.case]), *summary.warnings, *(["incomplete"] if self.unfinished else [])]
        return tuple(dict.fromkeys(kinds))


def compose(session: Session, records: Records, known_losses: Sequence[KnownLosses]) -> Report:
    """What the report says, from the records and the series of losses that others saw."""
    summaries = summarise(records.trials, session.cases)
    trials_of = by_case(records.trials, session.cases)
    case_warnings = {case: check_case(trials) for case, trials in trials_of.items()}
    names = labels([summary.case for summary in summaries])
    largest = _largest_that_ran(summaries)
    failures = tuple(
        Failure(
            index=trial.index,
            case=names[trial.case],
            repeat=trial.repeat,
            verdict=verdict,
            reason=trial.judgement.reason,
            remedy=_remedy(trial, largest, session),
            place=_place(trial),
        )
        for trial in records.trials
        if (verdict := failure(trial)) is not None
    )
    return Report(
        session=session,
        trials=records.trials,
        by_case=trials_of,
        headline=headline(summaries, case_warnings),
        common=common_settings(names),
        failures=failures,
        summaries=summaries,
        labels=names,
        case_warnings=case_warnings,
        numerics={case: numerics(trials, known_losses) for case, trials in trials_of.items()},
        notes=records.notes,
    )


def _place(trial: Trial) -> str:
    log = trial.log.removesuffix(".stdout") + ".stderr" if trial.judgement.reason_log == "stderr" else trial.log
    return log if trial.judgement.reason_line is None else f"{log}, line {trial.judgement.reason_line}"


def _largest_that_ran(summaries: Sequence[Summary]) -> dict[Case, int]:
    """The largest batch size with a valid figure, by the case without its batch size."""
    largest: dict[Case, int] = {}
    for summary in summaries:
        if summary.n:
            key = msgspec.structs.replace(summary.case, batch_size=0)
            largest[key] = max(summary.case.batch_size, largest.get(key, 0))
    return largest


def _remedy(trial: Trial, largest: dict[Case, int], session: Session) -> str:
    """What to do about a failure; where memory was short, beside how much there is and what fitted."""
    remedy = " ".join([*(one.detail for one in trial.judgement.warnings if one.kind == "commit_of_another_time"), trial.judgement.remedy])
    if trial.judgement.verdict != "out_of_memory":
        return remedy
    rooms = [gpu.get("memory_bytes") or 0 for gpu in session.gpus if trial.case.device == "gpu"]
    room = f" The device has {min(rooms) / 2**30:.1f} GiB." if rooms and all(rooms) else ""
    ran = largest.get(msgspec.structs.replace(trial.case, batch_size=0))
    return f"{remedy}{room}" + (f" The largest that ran in this sweep is {ran}." if ran else "")
