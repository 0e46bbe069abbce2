"""Find a batch size by short trials on the device, and remember what they showed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from wrapper.bootstrapper.host import Gpu
from wrapper.bootstrapper.setup import Setup
from wrapper.errors import FatalError, Interrupted, UsageError
from wrapper.reporter.files import write_text_atomically
from wrapper.reporter.store import Session, Trial, append_trial, create_report_directory, write_session
from wrapper.runner.batch_size import CEILING, Fit, Outcome, Wanted, found, largest, next_batch, too_large, unrelated
from wrapper.runner.plan import PlannedTrial, plan_trials
from wrapper.runner.preflight import unknown_flags
from wrapper.runner.sweep import Case

STEPS, WARMUP_STEPS = 10, 5
"""Of a trial: memory is taken in the first steps, and the throughput need only show which batch is better."""
GROWTH = "allow_growth"
"""Upstream's flag that makes TensorFlow take memory as it needs it; without it all is taken at the start, and what was needed can't be seen. The
allocator's limit stays the same, and memory taken in pieces is if anything used less well, so what fits with it fits without."""


class BatchSearch(msgspec.Struct, frozen=True, kw_only=True):
    """What a search for a batch size found."""

    case: Case
    """As its trials ran it; its batch size is 1 and stands for none."""
    wanted: Wanted
    rows: tuple[Outcome, ...]
    """By batch size; also what earlier searches under the same conditions showed."""
    directory: str | None = None
    """The record of the trials; None where none had to be run."""

    @property
    def size(self) -> int | None:
        """The batch size wanted; None where it was not found."""
        return found(self.rows, self.wanted)

    @property
    def best(self) -> Outcome | None:
        """The highest throughput."""
        return max((row for row in self.rows if row.fits), key=lambda row: row.images_per_sec or 0.0, default=None)

    @property
    def pressure_from(self) -> int | None:
        """The smallest batch size that trained under memory pressure."""
        return min((row.batch for row in self.rows if row.fits and row.memory_pressure), default=None)

    @property
    def conclusion(self) -> str:
        """What was found, in a sentence, or why nothing was."""
        name, limit = self.case.name.replace("-b1-", "-", 1), too_large(self.rows)
        if ended := unrelated(self.rows):
            so_far = f"the largest that ran is {largest(self.rows)}" if largest(self.rows) else "none ran"
            return f"{name}: not known: the trial at batch size {ended.batch} ended with {ended.verdict} ({ended.reason}); so far {so_far}"
        if isinstance(self.wanted, Fit):
            sizes = self.wanted.fit if self.size is None else self.wanted.fit[: self.wanted.fit.index(self.size)]
            failed = " and ".join(map(str, sizes)) + (" do not fit" if sizes[1:] else " does not fit")
            outcome = [*([failed] if sizes else []), *([f"measured at {self.size}"] if self.size else [])]
            return f"{name}: {', '.join(outcome)}"
        if self.size is None:
            return f"{name}: no batch size fits, not even {limit}"
        return f"{name}: the largest batch size that fits is {self.size}" + (f" ({limit} does not)" if limit else "; larger ones were not tried")


class SearchBench(msgspec.Struct, frozen=True, kw_only=True):
    """What all searches share."""

    setup: Setup
    gpus: tuple[Gpu, ...]
    session: Session
    """What holds for all trials, recorded beside them."""
    reports: Path
    cache: Path
    """A file, made if missing."""
    run: Callable[[PlannedTrial, Path], Trial]
    """Runs and judges one trial, with its logs in the directory given."""
    say: Callable[[str], None]


def search(case: Case, wanted: Wanted, bench: SearchBench, *, ceiling: int = CEILING) -> BatchSearch:
    """Find a batch size by as few short trials as will do; what the cache knows is not tried again.

    The trials are recorded like those of a sweep, in a directory of their own.

    Args:
        case: its batch size and steps don't matter.
        wanted: "max", or `Fit` for the first of a list.
        bench: what the trials run on.
        ceiling: the largest batch size to try.

    Returns:
        what was found, also where an interrupt or a failure that says nothing about memory ended the search: then `size` is None.

    Raises:
        UsageError: on a CPU.
        FatalError: records can't be written.
    """
    refuse_cpu(case)
    setup, directory, index = bench.setup, None, 0
    flags = case.flags if unknown_flags([GROWTH], setup.checkout.script) else (*case.flags, (GROWTH, "true"))
    case = msgspec.structs.replace(case, batch_size=1, steps=STEPS, warmup_steps=WARMUP_STEPS, flags=flags)
    key = _conditions(case, bench)
    known = _read_cache(bench)
    rows = known.get(key, ())
    while (batch_size := next_batch(rows, wanted, ceiling=ceiling)) is not None:
        directory, index = directory or _open_directory(case, bench), index + 1
        sized = msgspec.structs.replace(case, batch_size=batch_size)
        (planned,) = plan_trials([sized], rounds=[1], python=setup.environment.python, script=str(setup.checkout.script), first_index=index)
        trial = bench.run(planned, directory)
        append_trial(directory, trial)
        rows = tuple(sorted((*rows, _outcome(trial, directory)), key=lambda row: row.batch))
        if not unrelated(rows):
            _write_cache({**known, key: rows}, bench.cache)
    return BatchSearch(case=case, wanted=wanted, rows=rows, directory=str(directory) if directory else None)


def resolve(case: Case, wanted: Wanted, bench: SearchBench) -> tuple[int]:
    """The batch size to run a case of a sweep with; says how it was found.

    Raises:
        UsageError: on a CPU.
        FatalError: nothing fits, or a failure that says nothing about memory ended the search.
        Interrupted: with what was found so far, which is kept.
    """
    result = search(case, wanted, bench)
    if (ended := unrelated(result.rows)) and ended.verdict == "interrupted":
        raise Interrupted(result.conclusion, "What was found is kept: the same command goes on from there")
    if result.size is None:
        raise FatalError(result.conclusion, f"Write a batch size into models.{case.model}; the logs are those of {result.rows[-1].log}")
    bench.say(result.conclusion)
    return (result.size,)


def refuse_cpu(case: Case) -> None:
    """Raises UsageError for a case on the CPU."""
    if case.device != "gpu":
        why = "a batch size is searched for on a GPU alone: on a CPU it would exhaust the host's memory"
        raise UsageError(f"models.{case.model}: {why}", "Write the batch size")


def _conditions(case: Case, bench: SearchBench) -> str:
    """What an outcome depends on, as the cache's key."""
    gpus = [(gpu.name, gpu.memory_bytes, gpu.driver) for gpu in bench.gpus]
    container = bench.setup.environment.container
    image = [container.image_id] if container else []
    return msgspec.json.encode([gpus, bench.setup.release.tensorflow, bench.setup.checkout.commit, case, *image]).decode()


def _open_directory(case: Case, bench: SearchBench) -> Path:
    session = msgspec.structs.replace(bench.session, cases=(), planned_trials=0)
    names = ("batch-size", case.model, bench.setup.release.tensorflow, *(gpu.name for gpu in bench.gpus[:1]))
    directory = create_report_directory(bench.reports, session, name_parts=names)
    write_session(directory, session)
    return directory


def _outcome(trial: Trial, directory: Path) -> Outcome:
    judgement = trial.judgement
    evidence = trial.telemetry["sampler"]["evidence"] if GROWTH in dict(trial.case.flags) else ()
    return Outcome(
        batch=trial.case.batch_size,
        verdict=judgement.verdict,
        images_per_sec=judgement.images_per_sec,
        # the device's own reading, because who holds how much of it is looked at too seldom for a short trial
        memory_bytes=max((one["memory_rise_bytes"] for one in evidence if one["present"]), default=None),
        memory_pressure=any(warning.kind == "memory_pressure" for warning in judgement.warnings),
        reason=judgement.reason,
        log=str(directory / trial.log),
    )


def _read_cache(bench: SearchBench) -> dict[str, tuple[Outcome, ...]]:
    try:
        return msgspec.json.decode(bench.cache.read_bytes(), type=dict[str, tuple[Outcome, ...]])
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
        bench.say(f"note: {bench.cache} can't be read ({error}); batch sizes are searched for anew")
        return {}


def _write_cache(known: dict[str, tuple[Outcome, ...]], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text_atomically(path, msgspec.json.format(msgspec.json.encode(known), indent=1).decode() + "\n")
