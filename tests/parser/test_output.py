"""What the parser reads from recorded and made-up logs."""

from __future__ import annotations

import csv
import math
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from wrapper.parser.output import KEPT_STEPS, Output, Step, parse, parse_file, read_line

LOGS = Path(__file__).parents[1] / "data" / "logs"
PUBLIC = Path(__file__).parents[3] / "shared" / "logs" / "public"

RUN = b"""TensorFlow:  2.21
Model:       resnet50
Dataset:     imagenet (synthetic)
Mode:        training
SingleSess:  False
Batch size:  128 global
             64 per device
Num batches: 20
Num epochs:  0.00
Devices:     ['/gpu:0', '/gpu:1']
NUMA bind:   False
Data format: NCHW
Optimizer:   sgd
Variables:   replicated
AllReduce:   nccl
==========
Generating training model
Initializing graph
Running warm up
Done warm up
Step\tImg/sec\ttotal_loss
1\timages/sec: 1850.8 +/- 0.0 (jitter = 0.0)\t7.611
10\timages/sec: 1866.3 +/- 3.2 (jitter = 7.1)\tnan
20\timages/sec: 1863.4 +/- 2.2 (jitter = 7.7)\t8.011
----------------------------------------------------------------
total images/sec: 3726.84
----------------------------------------------------------------
"""


def manifest(directory: Path) -> list[dict[str, str]]:
    path = directory / "MANIFEST.csv"
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def parse_bytes(log: bytes, *, tolerant: bool = False) -> Output:
    return parse([log], tolerant=tolerant)


@pytest.mark.parametrize("tolerant", [False, True], ids=["strict", "tolerant"])
@pytest.mark.parametrize("row", manifest(LOGS), ids=lambda row: row["file"])
def test_recorded_total(row: dict[str, str], tolerant: bool) -> None:
    output = parse_file(LOGS / row["file"], tolerant=tolerant)
    assert [f"{total:.2f}" for total in output.totals] == ([row["total"]] if row["total"] else [])
    assert output.malformed_totals == ()
    lines = (LOGS / row["file"]).read_bytes().splitlines()
    assert output.lines == (LOGS / row["file"]).read_bytes().count(b"\n") + (not (LOGS / row["file"]).read_bytes().endswith((b"\n",)) and bool(lines))
    for number in output.total_lines:
        assert row["total"].encode() in (LOGS / row["file"]).read_bytes().split(b"\n")[number - 1]


@pytest.mark.skipif(not PUBLIC.exists(), reason="the logs that other people published are not here")
@pytest.mark.parametrize("row", manifest(PUBLIC), ids=lambda row: row["file"])
def test_published_total(row: dict[str, str]) -> None:
    output = parse_file(PUBLIC / row["file"], tolerant=True)
    if not row["total"]:
        assert output.totals == ()
        return
    assert any(f"{total:.2f}" == row["total"] for total in output.totals)
    assert max(output.totals) / min(output.totals) < 1.001  # ranks of one job print the same figure, but for the last digits
    assert output.steps[-1].step == int(row["last_step"])
    assert output.steps[-1].images_per_sec == float(row["last_mean"])
    assert math.isnan(output.steps[-1].loss or 0.0) == (row["loss_nan"] == "yes")


def test_everything_of_a_run() -> None:
    output = parse_bytes(RUN)
    assert output.header["Model"] == "resnet50"
    assert output.header["Dataset"] == "imagenet (synthetic)"
    assert output.header["Batch size global"] == "128"
    assert output.header["Batch size per device"] == "64"
    assert output.header["Devices"] == "['/gpu:0', '/gpu:1']"
    assert output.header["AllReduce"] == "nccl"
    assert output.steps[0] == Step(1, 1850.8, 0.0, 0.0, 7.611, 22)
    assert math.isnan(output.steps[1].loss or 0.0)
    assert [step.step for step in output.steps] == [1, 10, 20]
    assert (output.totals, output.total_lines, output.step_header_line, output.stage) == ((3726.84,), (26,), 21, "total")
    assert output.lines == 27


@pytest.mark.parametrize("size", [1, 7, 64, 4096])
def test_pieces_need_not_be_lines(size: int) -> None:
    assert parse(RUN[i : i + size] for i in range(0, len(RUN), size)).totals == (3726.84,)


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        (b"             64.0 per device\n", "Batch size per device", "64"),  # Python 3, upstream 1.5 to 1.12
        (b"             4 batches per prepocessing group\n", "Batch group size", "4"),
        (b"Layout optimizer: False\n", "Layout optimizer", "False"),
        (b"Mode:        BenchmarkMode.TRAIN\r\n", "Mode", "BenchmarkMode.TRAIN"),
        (b"Batch size:  0 global\n", "Batch size global", "0"),
    ],
)
def test_header_line(text: bytes, key: str, value: str) -> None:
    event = read_line(text)
    assert event is not None
    assert (event.kind, event.key, event.value) == ("header", key, value)


@pytest.mark.parametrize(
    ("text", "stage"),
    [
        (b"Generating model\n", "building"),
        (b"Generating training model\n", "building"),
        (b"Initializing graph\n", "initializing"),
        (b"Running warm up\n", "warm-up"),
        (b"Step\tImg/sec\tloss\n", "steps"),
        (b"Step\tImg/sec\tbase_loss\ttop_1_accuracy\ttop_5_accuracy\n", "steps"),
    ],
)
def test_stage_line(text: bytes, stage: str) -> None:
    event = read_line(text)
    assert event is not None
    assert (event.kind, event.key) == ("stage", stage)


@pytest.mark.parametrize(
    "line",
    [
        b"total images/sec: 755",  # cut off by a kill
        b"total images/sec: 755.12",  # perhaps cut off
        b"total images/sec: 755\n",
        b"total images/sec: 755.1\n",
        b"total images/sec: 755,12\n",
        b"total images/sec: 7,555.12\n",
        b"total images/sec: 7555.123\n",
        b"total images/sec: 1e3\n",
        b"total images/sec: \n",
        b"total images/sec: 130.052026-11-30 20:16:45.388760: W tensorflow/core\n",
        b"total images/sec: 130.05W1130 20:16:45.388760 140433933665600 deprecation.py:50]\n",
        b"total images/sec: 130.05.\n",
        "total images/sec: ١٣٠.٠٥\n".encode(),
        b"total images/sec: 7130.05\n55.12\n",  # another stream's line "130.05" fell into it
        b"total images/sec: 130.05\n755.12",
        b"total images/sec: 7130.05 4\n",
    ],
)
@pytest.mark.parametrize("tolerant", [False, True], ids=["strict", "tolerant"])
def test_total_that_is_none(line: bytes, tolerant: bool) -> None:
    output = parse_bytes(RUN[: RUN.index(b"total")] + line, tolerant=tolerant)
    assert output.totals == ()
    assert len(output.malformed_totals) == 1


@pytest.mark.parametrize("line", [b"total CER: 0.12; total WER: 0.30; total example: 20.\n", b"10\t602.4 examples/sec\n"])
def test_line_that_only_resembles_a_total(line: bytes) -> None:
    output = parse_bytes(line)
    assert (output.totals, output.malformed_totals) == ((), ())


@pytest.mark.parametrize("text", ["nan", "inf", "-inf", "0.00", "-10485760.00"])
def test_total_that_is_absurd_is_kept_for_the_verdict(text: str) -> None:
    (total,) = parse_bytes(f"total images/sec: {text}\n".encode()).totals
    assert total == float(text) or math.isnan(total)


def test_our_own_output_has_no_prefix() -> None:
    assert parse_bytes(b"[1,0]<stdout>:total images/sec: 3726.84\n").totals == ()


@pytest.mark.parametrize(
    "line",
    [
        b"[1,0]<stdout>:total images/sec: 3726.84\n",
        b"INFO|2019-02-13T23:07:00|/opt/launcher.py|27| total images/sec: 3726.84\n",
        b"2018-09-04T11:27:29.624841024Z total images/sec: 3726.84\r\n",
        b"\x1b[36mworker_1 |\x1b[0m total images/sec: 3726.84\n",
        b"0: total images/sec: 3726.84`\n",
        b"downloading 99%\rtotal images/sec: 3726.84\n",
    ],
)
def test_total_behind_a_transport(line: bytes) -> None:
    assert parse_bytes(line, tolerant=True).totals == (3726.84,)


def test_time_appended_to_a_step_line_is_no_loss() -> None:
    event = read_line(b"10\timages/sec: 156.5 +/- 0.2 (jitter = 0.3)\t7.963 1594395665\n", 3, tolerant=True)
    assert event is not None
    assert event.step == Step(10, 156.5, 0.2, 0.3, 7.963, 3)
    event = read_line(b"10      images/sec: 156.5 +/- 0.2 (jitter = 0.3) 1594395665\n", 3, tolerant=True)
    assert event is not None
    assert event.step == Step(10, 156.5, 0.2, 0.3, None, 3)


def test_torn_header_line_says_nothing() -> None:
    log = b"TensorFlow:  1.8\nNum batches: 100Num batches: 100\nData format: NCHW\n==========\n"
    assert parse_bytes(log, tolerant=True).header == {"TensorFlow": "1.8", "Data format": "NCHW"}


def test_header_lines_elsewhere_are_foreign() -> None:
    assert parse_bytes(RUN + b"Model:       vgg16\nNUMA bind:   True\n").header == parse_bytes(RUN).header
    assert parse_bytes(b"Model:       vgg16\n" + RUN).header == parse_bytes(RUN).header


def test_first_header_counts() -> None:
    assert parse_bytes(RUN + RUN.replace(b"resnet50", b"vgg16")).header["Model"] == "resnet50"


def test_many_steps_keep_the_first_and_the_last() -> None:
    def log() -> Iterator[bytes]:
        yield RUN[: RUN.index(b"1\timages/sec")]
        for number in range(1, 3 * KEPT_STEPS):
            yield b"%d\timages/sec: 1863.4 +/- 2.2 (jitter = 7.7)\t8.011\n" % number
        yield RUN[RUN.index(b"-----") :]

    output = parse(log())
    assert len(output.steps) == KEPT_STEPS + 1
    assert (output.steps[0].step, output.steps[-2].step, output.steps[-1].step) == (1, KEPT_STEPS, 3 * KEPT_STEPS - 1)
    assert output.steps[-1].line == 21 + 3 * KEPT_STEPS - 1
    assert output.total_lines == (21 + 3 * KEPT_STEPS + 1,)


def test_endless_totals_and_garbage_are_bounded() -> None:
    output = parse([b"total images/sec: 1.00\ntotal images/sec: 1,00\n" * 5000])
    assert (len(output.totals), len(output.malformed_totals)) == (1000, 10)
    output = parse([b"total images/sec: 1.00\n1\n" * 5000])
    assert (len(output.totals), len(output.malformed_totals)) == (0, 10)


@pytest.mark.parametrize("junk", [b"images/sec: ", b"Img/sec", b"\x1b[", b"total images/sec", b" ", b"1", b"1 ", b"Model: ", b"\xff"])
@pytest.mark.parametrize("tolerant", [False, True], ids=["strict", "tolerant"])
def test_hostile_line_takes_no_time(junk: bytes, tolerant: bool) -> None:
    start = time.perf_counter()
    output = parse_bytes(
        b"TensorFlow:  1.8\n" + junk * (2_000_000 // len(junk)) + b"\n" + junk * (60_000 // len(junk)) + b"\n" + RUN, tolerant=tolerant
    )
    assert output.totals == (3726.84,)
    assert time.perf_counter() - start < 2


def flood(piece: bytes, size: int) -> Iterator[bytes]:
    yield RUN[: RUN.index(b"-----")]
    for _ in range(size // len(piece)):
        yield piece
    yield b"\n" + RUN[RUN.index(b"-----") :]


STEP_LINES = b"".join(b"%d\timages/sec: 1863.4 +/- 2.2 (jitter = 7.7)\t8.011\n" % number for number in range(1000))
FOREIGN = b"2020-07-10 08:40:57.781097: I tensorflow/stream_executor/cuda/cuda_driver.cc:831] failed to allocate 2.90G from device\n" * 500


@pytest.mark.parametrize("piece", [STEP_LINES, FOREIGN, b"x" * 65_536], ids=["steps", "foreign", "no line end"])
def test_constant_memory(piece: bytes) -> None:
    peaks = []
    for size in (20_000_000, 200_000_000):
        tracemalloc.start()
        totals = parse(flood(piece, size)).totals
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert totals == (3726.84,)
    assert peaks[1] < peaks[0] * 1.1
    assert peaks[1] < 16_000_000


@pytest.mark.parametrize("piece", [STEP_LINES, FOREIGN], ids=["steps", "foreign"])
def test_speed(piece: bytes) -> None:
    start = time.process_time()
    assert parse(flood(piece, 50_000_000)).totals == (3726.84,)
    assert 50_000_000 / (time.process_time() - start) > 40e6  # measured: over 250 MB/s
