"""Any log through any transport and damage gives upstream's figure or none, never another one.

TFCNN_EXAMPLES sets the number of examples.
"""

from __future__ import annotations

import os
import random

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from wrapper.parser.output import parse
from wrapper.parser.stderr import summarise_stderr
from wrapper.parser.verdict import judge
from wrapper.process import Execution
from wrapper.runner.sweep import Case

EXAMPLES = int(os.environ.get("TFCNN_EXAMPLES", "200"))
HEADERS = {
    "1.5": ["Dataset:     imagenet (synthetic)", "Mode:        training"],
    "1.12": ["Dataset:     imagenet (synthetic)", "Mode:        BenchmarkMode.TRAIN"],
    "2.21": ["Dataset:     imagenet (synthetic)", "Mode:        training"],
}
FOREIGN = [
    "2020-07-10 08:40:57.781097: I tensorflow/stream_executor/cuda/cuda_driver.cc:831] failed to allocate 2.90G",
    "W1130 19:43:20.068942 140515110194048 tf_logging.py:125] From benchmark_cnn.py:2157",
    "total CER: 0.5; total WER: 0.25; total example: 20.",
    "OMP: Info #250: KMP_AFFINITY: pid 9 tid 9 thread 0 bound to OS proc set 0",
    "130.05",
    "4.00 7",
]


@st.composite
def runs(draw: st.DrawFn) -> tuple[list[str], str]:
    """The lines of a finished run of one process, and its figure as upstream prints it."""
    branch = draw(st.sampled_from(sorted(HEADERS)))
    steps = draw(st.integers(1, 40))
    rate = draw(st.floats(0.01, 99_999.0))
    total = f"{rate:.2f}"
    lines = [f"TensorFlow:  {branch}", "Model:       trivial", *HEADERS[branch], "SingleSess:  False", "Batch size:  4 global"]
    lines += ["             4.0 per device" if branch != "2.21" else "             4 per device"]
    lines += [f"Num batches: {steps}"] if branch != "1.5" else []
    lines += ["Devices:     ['/cpu:0']", "Data format: NHWC", "Optimizer:   sgd", "Variables:   parameter_server", "=========="]
    lines += ["Generating model", "Running warm up", "Done warm up", "Step\tImg/sec\ttotal_loss"]
    lines += [
        f"{step}\timages/sec: {rate * draw(st.floats(0.9, 1.1)):.1f} +/- 0.5 (jitter = 1.0)\t{draw(st.sampled_from(['7.051', 'nan', '0.000']))}"
        for step in range(1, steps + 1)
        if step == 1 or step % 10 == 0
    ]
    return [*lines, "-" * 64, f"total images/sec: {total}", "-" * 64], total


def carry(lines: list[str], transport: str) -> bytes:
    match transport:
        case "mpi":
            lines = [f"[1,0]<stdout>:{line}" for line in lines]
        case "launcher":
            lines = [f"INFO|2019-02-13T23:07:00|/opt/launcher.py|27| {line.strip()}" for line in lines]
        case "time":
            lines = [f"2018-09-04T11:27:29.624841024Z {line}" for line in lines]
        case "colour":
            lines = [f"\x1b[36mworker_1 |\x1b[0m {line}" for line in lines]
        case "srun":
            lines = [f"0: {line}" for line in lines]
        case "tabs":
            lines = [line.expandtabs(8) for line in lines]
        case "unix time":
            lines = [f"{line} 1594395662" if "jitter" in line else line for line in lines]
        case "backtick":
            lines = [f"{line}`" for line in lines]
    end = "\r\n" if transport == "crlf" else "\n"
    return "".join(line + end for line in lines).encode()


TRANSPORTS = ["plain", "crlf", "mpi", "launcher", "time", "colour", "srun", "tabs", "unix time", "backtick"]
DAMAGES = ["none", "cut", "glue", "comma", "torn", "foreign", "interleaved", "lost end"]


def damage(log: bytes, kind: str, total: str, seed: int) -> bytes:
    """Do to a log what pipes, kills, locales and other processes do to it."""
    chance = random.Random(seed)
    place = chance.randrange(len(log) + 1)
    line = f"total images/sec: {total}".encode()
    match kind:
        case "cut":
            return log[:place]
        case "glue":  # another stream's line lands in the middle or at the end of one
            place = place if chance.random() < 0.5 else log.index(line) + len(line)
            return log[:place] + chance.choice(FOREIGN).encode() + chance.choice([b"\n", b""]) + log[place:]
        case "comma":
            return log.replace(line, line.replace(b".", b","))
        case "torn":  # a line end too early, or one that is missing
            place = log.index(line) + chance.randrange(len(line) + 1) if chance.random() < 0.5 else place
            return log[:place] + b"\n" + log[place:] if chance.random() < 0.5 else log.replace(b"\n", b"", 1 + chance.randrange(3))
        case "foreign":
            lines = log.splitlines(keepends=True)
            for _ in range(5):
                lines.insert(chance.randrange(len(lines) + 1), chance.choice(FOREIGN[:4]).encode() + b"\n")
            return b"".join(lines)
        case "interleaved":  # the ranks of one job print the same figure
            first, second = log.splitlines(keepends=True), log.splitlines(keepends=True)
            woven = []
            while first or second:
                source = first if first and (not second or chance.random() < 0.5) else second
                woven.append(source.pop(0))
            return b"".join(woven)
        case "lost end":
            return log[: log.index(line) + len(line)]
    return log


@settings(max_examples=EXAMPLES, derandomize=EXAMPLES <= 1000, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(run=runs(), transport=st.sampled_from(TRANSPORTS), kind=st.sampled_from(DAMAGES), seed=st.integers(0, 2**32))
def test_the_figure_or_none(run: tuple[list[str], str], transport: str, kind: str, seed: int) -> None:
    lines, total = run
    log = damage(carry(lines, transport), kind, total, seed)
    for tolerant in (False, True):
        output = parse([log], tolerant=tolerant)
        assert all(f"{found:.2f}" == total for found in output.totals)
        if kind in ("cut", "lost end", "comma") and log.count(b"total images/sec: ") and not log.count(f"total images/sec: {total}".encode()):
            assert output.totals == ()
    if kind in ("none", "foreign"):
        assert parse([log], tolerant=True).totals == (float(total),)
        assert len(parse([log], tolerant=True).steps) == sum("jitter" in line for line in lines)


@settings(max_examples=EXAMPLES, derandomize=EXAMPLES <= 1000, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(run=runs(), crlf=st.booleans(), kind=st.sampled_from(DAMAGES), seed=st.integers(0, 2**32), exit_code=st.sampled_from([0, 1, -9]))
def test_the_verdict_is_the_figure_or_a_failure(run: tuple[list[str], str], crlf: bool, kind: str, seed: int, exit_code: int) -> None:
    lines, total = run
    steps = sum("jitter" in line for line in lines)
    asked = next((int(line.split()[-1]) for line in lines if line.startswith("Num batches")), 1 if steps == 1 else (steps - 1) * 10)
    case = Case(model="trivial", batch_size=4, device="cpu", steps=asked, flags=(("display_every", "10"),))
    log = damage(carry(lines, "crlf" if crlf else "plain"), kind, total, seed)
    judgement = judge(
        case=case,
        execution=Execution(exit_code=exit_code, started="2026-01-01T00:00:00Z", seconds=1.0),
        output=parse([log]),
        stderr=summarise_stderr([]),
    )
    assert (judgement.images_per_sec is None) == (judgement.verdict != "ok")
    if judgement.verdict == "ok":
        assert f"{judgement.images_per_sec:.2f}" == total
        assert kind not in ("comma", "interleaved", "lost end")
    if kind in ("none", "foreign"):
        assert judgement.verdict == ("bogus_total" if float(total) == 0 else "ok")
