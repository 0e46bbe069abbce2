"""What the wrapper costs, measured against doing the same without it. Run it in the wrapper's environment:

    .venv/bin/python scripts/bench_overhead.py [SECTION ...]

Sections (by default all but the last two): start, trial, parser, report, ready, throughput. What is compared is taken in turn in one run, and shown
as a ratio or beside its bound. `ready` and `throughput` run real TensorFlow; the latter takes --tensorflow or --python, --model, --steps and --pairs.
"""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from wrapper.argument_types import HOME
from wrapper.bootstrapper.address import DEFAULT_ADDRESS
from wrapper.bootstrapper.host import gpus_present
from wrapper.bootstrapper.setup import Wish, choose, prepare
from wrapper.bootstrapper.source import Source
from wrapper.measurement import Bench, measure
from wrapper.parser.output import parse
from wrapper.process import scrubbed_environment
from wrapper.reporter.noise import noise
from wrapper.reporter.report import write_report
from wrapper.reporter.store import Session, Trial, create_report_directory, write_session
from wrapper.runner.plan import PlannedTrial, plan_trials, trial_variables
from wrapper.runner.sweep import Case

STEP_LINE = b"10\timages/sec: 1866.3 +/- 3.2 (jitter = 7.1)\t7.856\n"
LOG_MB = 200


def main() -> None:
    """Measure the sections named and print a line for each figure."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("sections", nargs="*", metavar="SECTION")
    options.add_argument("--tensorflow", default="1.12.0")
    options.add_argument("--python", help="an interpreter that has TensorFlow, for `throughput`")
    options.add_argument("--model", default="trivial=32")
    options.add_argument("--steps", type=int, default=100)
    options.add_argument("--pairs", type=int, default=5)
    options.add_argument("--vendor", type=Path, default=HOME / "vendor")
    given = options.parse_args()
    sections: dict[str, Callable[[argparse.Namespace], None]] = {
        "start": bench_start,
        "trial": bench_trial,
        "parser": bench_parser,
        "report": bench_report,
        "ready": bench_ready,
        "throughput": bench_throughput,
    }
    for name in given.sections or ["start", "trial", "parser", "report"]:
        sections[name](given)


def bench_start(given: argparse.Namespace) -> None:
    """`tfcnn --help`, and the second start of run_all.py against it."""
    tfcnn = [sys.executable, "-I", "-m", "wrapper"]
    one_shot = [sys.executable, str(HOME / "scripts" / "run_all.py"), "--help"]
    times = in_turn(9, lambda: timed([*tfcnn, "--help"]), lambda: timed([*tfcnn, "run", "--help"]), lambda: timed(one_shot))
    show("tfcnn --help", f"{times[0]:.3f} s", "at most 0.150 s")
    show("run_all.py against tfcnn run", f"{times[2] - times[1]:+.3f} s (ratio {times[2] / times[1]:.2f})", "at most +0.3 s")


def bench_trial(given: argparse.Namespace) -> None:
    """A trial of a child that takes a fixed time, against the same child started bare."""
    with tempfile.TemporaryDirectory() as folder:
        wish = Wish(upstream=DEFAULT_ADDRESS, vendor=Path(folder).resolve() / "vendor", demo=True)
        setup = prepare(choose(wish, quiet), wish, quiet)
        bench = Bench(setup=setup, directory=Path(folder), time_limit=60, gpus=gpus_present())
        trial = planned(Case(model="lenet", batch_size=1, device="cpu"), setup.environment.python, setup.checkout.script)
        trial = msgspec.structs.replace(trial, command=(sys.executable, "-c", "import time; time.sleep(0.3)"))
        times = in_turn(11, lambda: timed(trial.command), lambda: seconds(lambda: measure(trial, bench, ignore)))
    show("a trial against its bare child", f"{times[1] - times[0]:+.3f} s (ratio {times[1] / times[0]:.3f})", "at most +0.1 s")


def bench_parser(given: argparse.Namespace) -> None:
    """Reading upstream's step lines."""
    block = STEP_LINE * (1_000_000 // len(STEP_LINE))
    taken = min(seconds(lambda: parse(itertools.repeat(block, LOG_MB))) for _ in range(3))
    show("parser", f"{LOG_MB * len(block) / 1e6 / taken:.0f} MB/s", "at least 100 MB/s")


def bench_report(given: argparse.Namespace) -> None:
    """A report of 10,000 trials, in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        directory = records(Path(folder), 10_000)
        taken = timed([sys.executable, "-I", "-m", "wrapper", "report", str(directory)])
    show("report of 10,000 trials", f"{taken:.1f} s", "at most 5 s")


def bench_ready(given: argparse.Namespace) -> None:
    """TensorFlow 1.12 on Python 3.6 from an empty vendor/, the package cache being warm (the first of two is not counted)."""
    for _ in range(2):
        with tempfile.TemporaryDirectory() as folder:
            taken = timed([sys.executable, "-I", "-m", "wrapper", "bootstrap", "--tensorflow", "1.12.0", "--device", "cpu", "--vendor", folder])
    show("TensorFlow 1.12.0 from an empty vendor/", f"{taken:.1f} s", "under 30 s")


def bench_throughput(given: argparse.Namespace) -> None:
    """Throughput of a real trial: bare, with the wrapper, with the wrapper but no telemetry, and bare again, in turn."""
    source = Source("python", given.python) if given.python else Source()
    wish = Wish(tensorflow=None if given.python else given.tensorflow, source=source, upstream=DEFAULT_ADDRESS, vendor=given.vendor.resolve())
    choice = choose(wish, quiet)
    setup = prepare(choice, wish, quiet)
    model, _, batch_size = given.model.partition("=")
    case = Case(model=model, batch_size=int(batch_size), device=choice.device, steps=given.steps)
    trial = planned(case, setup.environment.python, setup.checkout.script)
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(setup=setup, directory=Path(folder), time_limit=3600, gpus=gpus_present())
        off = msgspec.structs.replace(bench, telemetry=False)
        variables = trial_variables(case, setup.release.environment | setup.environment.variables)
        ways: dict[str, Callable[[], float]] = {
            "bare": lambda: bare_total(trial, variables, keep=setup.environment.kind == "given"),
            "telemetry on": lambda: wrapped_total(trial, bench),
            "telemetry off": lambda: wrapped_total(trial, off),
            "bare again": lambda: bare_total(trial, variables, keep=setup.environment.kind == "given"),
        }
        totals: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(given.pairs):
            for name, way in ways.items():
                totals[name].append(way())
                print(f"  {name}: {totals[name][-1]:.2f} images/sec", flush=True)
    for first, second in (("bare", "bare again"), ("bare", "telemetry on"), ("bare", "telemetry off"), ("telemetry off", "telemetry on")):
        result = noise(totals[first], totals[second])
        bound = f"noise of {given.pairs} against {given.pairs}: ± {result.smallest_difference:.2%}"
        show(f"throughput, {second} / {first} ({case.name})", f"{result.ratio:.4f}", bound)


def bare_total(trial: PlannedTrial, variables: dict[str, str], *, keep: bool) -> float:
    """The total of the script started without the wrapper, read the way that a person would."""
    environment = scrubbed_environment(os.environ, variables, keep_pythonpath=keep)
    done = subprocess.run(trial.command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, check=True, text=True)
    (total,) = (line.rpartition(" ")[2] for line in done.stdout.splitlines() if line.startswith("total images/sec: "))
    return float(total)


def wrapped_total(trial: PlannedTrial, bench: Bench) -> float:
    """The same as the wrapper measures it."""
    measured = measure(trial, bench, ignore)
    if measured.judgement.images_per_sec is None:
        raise SystemExit(f"the trial failed: {measured.judgement.verdict}: {measured.judgement.reason}")
    return measured.judgement.images_per_sec


def planned(case: Case, python: str, script: Path) -> PlannedTrial:
    """The one trial of a case."""
    return plan_trials([case], rounds=range(1, 2), python=python, script=str(script))[0]


def records(folder: Path, count: int) -> Path:
    """A report directory with `count` trials: one real trial of the demo, repeated as 50 cases."""
    wish = Wish(upstream=DEFAULT_ADDRESS, vendor=folder.resolve() / "vendor", demo=True)
    setup = prepare(choose(wish, quiet), wish, quiet)
    case = Case(model="lenet", batch_size=1, device="cpu", steps=10, warmup_steps=1)
    trial = measure(planned(case, setup.environment.python, setup.checkout.script), Bench(setup=setup, directory=folder, time_limit=60), ignore)
    environment, release = msgspec.to_builtins(setup.environment), msgspec.to_builtins(setup.release)
    created = "2026-01-01T00:00:00+00:00"
    session = Session(
        demo=True, created=created, sweep={"name": "bench"}, release=release, upstream={}, environment=environment, host={"gpus": []}, versions={}
    )
    directory = create_report_directory(folder / "reports", session)
    write_session(directory, session)
    with (directory / "trials.jsonl").open("wb") as file:
        file.writelines(msgspec.json.encode(one) + b"\n" for one in repeated(trial, count))
    write_report(directory)
    return directory


def repeated(trial: Trial, count: int) -> Iterator[Trial]:
    """The same trial under many indices, cases and repeats."""
    for index in range(1, count + 1):
        case = msgspec.structs.replace(trial.case, batch_size=1 + index % 50)
        yield msgspec.structs.replace(trial, index=index, case=case, repeat=1 + index // 50)


def in_turn(rounds: int, *ways: Callable[[], float]) -> list[float]:
    """The median of each way's seconds, the ways taken in turn."""
    taken = [[way() for way in ways] for _ in range(rounds)]
    return [statistics.median(times) for times in zip(*taken, strict=True)]


def timed(command: tuple[str, ...] | list[str]) -> float:
    """Seconds of a command from start to end, its output thrown away."""
    return seconds(lambda: subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True))


def seconds(action: Callable[[], object]) -> float:
    """Seconds that an action takes."""
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def show(what: str, figure: str, bound: str) -> None:
    """One figure beside its bound."""
    print(f"{what}: {figure} ({bound})", flush=True)


def quiet(text: str) -> None:
    """Say nothing."""


def ignore(event: object, at: float) -> None:
    """Nobody watches."""


if __name__ == "__main__":
    main()
