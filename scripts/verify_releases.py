"""Run upstream on the CPU with every release and every model of its row: `python scripts/verify_releases.py [RELEASE ...] [--models ...]`.

Each release gets an environment of its own from its lock, which is removed before the next is made. The outcome is written into
wrapper/data/proven.yaml after each model; what was settled today (or since --since) is not run again, so a run that was stopped goes on
where it was.
Exits with 1 and names them when models that ran at an earlier time no longer do.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
from collections.abc import Sequence
from datetime import UTC, date, datetime
from pathlib import Path

import msgspec
from filelock import FileLock, Timeout

from wrapper.argument_types import HOME
from wrapper.bootstrapper.address import DEFAULT_ADDRESS
from wrapper.bootstrapper.proven import NO_ENVIRONMENT, OK, Outcome, Proof, add, broken, is_settled, load_proven, renew, save_proven
from wrapper.bootstrapper.release import Release, load_releases, resolve_release
from wrapper.bootstrapper.setup import Setup, Wish, choose, foresee, prepare
from wrapper.errors import FatalError, Interrupted
from wrapper.measurement import Bench, measure
from wrapper.parser.verdict import Judgement
from wrapper.runner.plan import expand, plan_trials, stand_in
from wrapper.runner.sweep import Sweep, load_models, load_sweep, shipped_sweeps

BATCH_SIZE, WARMUP_STEPS = 2, 1
STEPS = (2, 20, 200)
"""The next where upstream prints no true total: the commit of 1.5 and 1.6 looks at the step every 0.25 s, and prints 0.00 for a shorter run."""
REASON_CHARACTERS = 240
WORK = HOME / "vendor" / "verification"


def models_in_order() -> tuple[str, ...]:
    """Every model that upstream has had: those of the shipped sweeps first, deepspeech2 last, which takes minutes a step on a CPU."""
    shipped = dict.fromkeys(model for sweep in shipped_sweeps() for model in load_sweep(sweep, {}).models)
    return tuple(shipped | dict.fromkeys(reversed(load_models())))


def try_model(model: str, setup: Setup, time_limit: float) -> Judgement:
    """Train a model for as many steps as it takes to get a total.

    Args:
        time_limit: seconds for each attempt.

    Raises:
        KeyboardInterrupt: Ctrl-C.
    """
    for steps in STEPS:
        sweep = Sweep(models={model: (BATCH_SIZE,)}, steps=steps, warmup_steps=WARMUP_STEPS, time_limit=time_limit)
        cases = expand(sweep, device="cpu", data_names=load_models(), resolve=stand_in)
        (planned,) = plan_trials(cases, rounds=[1], python=setup.environment.python, script=str(setup.checkout.script))
        bench = Bench(setup=setup, directory=WORK, time_limit=time_limit, telemetry=False)
        judgement = measure(planned, bench, lambda event, seconds: None).judgement
        if judgement.verdict == "interrupted":
            raise KeyboardInterrupt
        if judgement.verdict != "bogus_total":
            break
    return judgement


class Verification(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked for."""

    models: tuple[str, ...]
    missing: bool
    """Those of `models` that a row lists as missing, instead of those that it does not."""
    since: str
    """ISO 8601: what was settled on this day or later is not run again. Empty: all is run."""
    time_limit: float
    upstream: str

    def verify(self, release: Release) -> Proof:
        """Try what is not settled of a release, each outcome on disk before the next model starts."""
        try:
            proof, setup = self._set_up(release)
            return self._try_all(self._wanted(release, proof), setup, proof) if setup else proof
        finally:
            shutil.rmtree(WORK / "environments", ignore_errors=True)

    def _set_up(self, release: Release) -> tuple[Proof, Setup | None]:
        """The proof to go on with, and what to run on; nothing where all is settled, or where it can't be made, which is kept."""
        wish = Wish(tensorflow=release.tensorflow, device="cpu", upstream=self.upstream, vendor=WORK)
        version, commit = release.tensorflow, release.upstream_commit
        proof = load_proven().get(version, Proof(tensorflow=version, upstream_commit=commit))
        try:
            choice = choose(wish, say)
            environment = Path(foresee(choice, wish).environment.path).name
            proof = renew(proof, tensorflow=version, upstream_commit=commit, environment=environment)
            if not self._wanted(release, proof):
                return proof, None
            setup = prepare(choice, wish, say)
            return msgspec.structs.replace(proof, python=setup.environment.python_version), setup
        except FatalError as error:
            say(f"{version}: {error.what}")
            failure = Outcome(outcome=NO_ENVIRONMENT, date=today(), reason=publishable(error.what))
            return keep(msgspec.structs.replace(proof, failure=failure)), None

    def _wanted(self, release: Release, proof: Proof) -> list[str]:
        asked = [model for model in self.models if (model in release.missing_models) is self.missing]
        return [model for model in asked if not (self.since and is_settled(proof, model, self.since))]

    def _try_all(self, models: Sequence[str], setup: Setup, proof: Proof) -> Proof:
        for model in models:
            judgement = try_model(model, setup, self.time_limit)
            reason = "" if judgement.verdict == OK else publishable(judgement.reason)
            say(f"{proof.tensorflow} {model}: {judgement.verdict} {reason}".rstrip())
            proof = keep(add(proof, model, verdict=judgement.verdict, reason=reason, date=today()))
        return proof


def keep(proof: Proof) -> Proof:
    """Write a proof into the table in place of the release's earlier one."""
    save_proven(load_proven() | {proof.tensorflow: proof}, [release.tensorflow for release in load_releases()])
    return proof


def publishable(text: str, work: Path = WORK) -> str:
    """A reason without places of this machine and addresses of its mirrors, cut to a length that a table bears."""
    text = re.sub(r"\w+://\S+", "<address>", text.replace(str(work.resolve()), "vendor").replace(str(Path.home()), "~"))
    return text if len(text) <= REASON_CHARACTERS else f"{text[: REASON_CHARACTERS - 1]}…"


def today() -> str:
    return datetime.now(UTC).date().isoformat()


def iso_date(text: str) -> str:
    return date.fromisoformat(text).isoformat()


def say(line: str) -> None:
    print(f"{datetime.now():%H:%M:%S} {line}", flush=True)


def read_arguments() -> tuple[Verification, list[Release]]:
    """What was asked for, and of which releases."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("releases", nargs="*", metavar="RELEASE", help="such as 1.12.0, in the order in which they shall run; default: all")
    parser.add_argument("--models", default="", metavar="MODEL,...", help="default: all, those of the shipped sweeps first")
    parser.add_argument("--missing", action="store_true", help="run those that the row lists as missing, to see that they can't be run")
    again = parser.add_mutually_exclusive_group()
    again.add_argument("--since", type=iso_date, default=today(), metavar="DATE", help="run what was not settled since this day (default: today)")
    again.add_argument("--again", dest="since", action="store_const", const="", help="run also what was settled today")
    parser.add_argument("--time-limit", type=float, default=300.0, metavar="SECONDS", help="for one model (default 300)")
    parser.add_argument("--upstream", default=os.environ.get("TFCNN_UPSTREAM") or DEFAULT_ADDRESS, metavar="ADDRESS", help="a mirror or a clone")
    options = parser.parse_args()
    table = load_releases()
    models = tuple(filter(None, options.models.split(","))) or models_in_order()
    if unknown := set(models) - set(models_in_order()):
        parser.error(f"upstream has no model of this name: {', '.join(sorted(unknown))}")
    releases = [resolve_release(name, table) for name in options.releases] or list(table)
    if without_row := [release.tensorflow for release in releases if not release.verified]:
        parser.error(f"no row of their own: {', '.join(without_row)}")
    return Verification(
        models=models, missing=options.missing, since=options.since, time_limit=options.time_limit, upstream=options.upstream
    ), releases


def main() -> None:
    """Verify what the command line names, or all."""
    try:
        verification, releases = read_arguments()
        WORK.mkdir(parents=True, exist_ok=True)
        with FileLock(WORK.with_suffix(".lock"), timeout=0):
            no_longer = [line for release in releases for line in broken(verification.verify(release))]
            shutil.rmtree(WORK, ignore_errors=True)
    except Timeout:
        raise SystemExit("another verification is running in this project") from None
    except FatalError as error:
        raise SystemExit(str(error)) from None
    except KeyboardInterrupt:
        raise SystemExit(Interrupted.exit_code) from None
    if no_longer:
        raise SystemExit("\n".join(["No longer runs:", *no_longer]))


if __name__ == "__main__":
    main()
