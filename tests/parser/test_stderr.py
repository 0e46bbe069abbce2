"""What is read from standard error."""

from __future__ import annotations

import time
import tracemalloc

import pytest

from wrapper.parser.remedies import load_words
from wrapper.parser.signatures import load_signatures
from wrapper.parser.stderr import GpuLine, Hit, summarise_stderr


def test_each_signature_is_of_a_kind_and_stands_once() -> None:
    table = load_signatures()
    assert table.explain.keys() <= {*load_words().verdicts, "memory_pressure", "disk_full", "no_gpu"}
    texts = [text for texts in table.explain.values() for text in texts]
    assert all(text.strip() for text in [*texts, *table.harmless])
    assert len(set(texts)) == len(texts)


@pytest.mark.parametrize(
    "line",
    [
        b"I gpu_device.cc:1154] Creating TensorFlow device (/device:GPU:1) -> (device: 1, name: Tesla V100, pci bus id: 0000:00:19.0)\n",
        b"I gpu_device.cc:1115] Created TensorFlow device (/job:localhost/replica:0/task:0/device:GPU:1 with 14725 MB memory) -> physical GPU "
        b"(device: 1, name: Tesla V100, pci bus id: 0000:d9:00.0, compute capability: 7.0)\r\n",
        b"I0000 00:00:1796069799.1    1092 gpu_device.cc:2043] Created device /job:localhost/replica:0/task:0/device:GPU:1 with 140829 MB memory: "
        b" -> device: 1, name: Tesla V100, pci bus id: 0000:00:06.0, compute capability: 9.0a\n",
    ],
    ids=["1.5", "1.6 to 2.4", "2.5 and later"],
)
def test_gpu_line_of_each_age(line: bytes) -> None:
    summary = summarise_stderr([b"something else\n", line, line])
    assert summary.gpus == (GpuLine(index=1, name="Tesla V100", line=2),)


def test_candidate_gpus() -> None:
    summary = summarise_stderr(
        [b"candidate devices are [\n  /job:localhost/replica:0/task:0/device:GPU:3\n  /job:localhost/replica:0/task:0/device:CPU:0].\n"]
    )
    assert summary.candidate_gpus == (3,)


def test_kinds_keep_their_first_line() -> None:
    summary = summarise_stderr([b"x\n", b"W CUDA_ERROR_OUT_OF_MEMORY one\n" * 3, b"OOM when allocating tensor", b"\n" * 3])
    assert summary.hits == {"memory_pressure": Hit(2, "W CUDA_ERROR_OUT_OF_MEMORY one"), "out_of_memory": Hit(5, "OOM when allocating tensor")}
    assert summary.lines == 7
    assert summary.last_lines[-1] == "OOM when allocating tensor"


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n"])
def test_text_at_the_very_start_and_end(end: bytes) -> None:
    assert summarise_stderr([b"KeyboardInterrupt" + end]).hits["interrupted"] == Hit(1, "KeyboardInterrupt")
    assert summarise_stderr([b"a\nValueError: b" + end]).error == Hit(2, "ValueError: b")


def test_first_error_of_tensorflow_goes_before_pythons() -> None:
    log = b"AttributeError: _ARRAY_API not found\nValueError: a\ntensorflow.python.framework.errors_impl.InternalError: b\nNotFoundError: c\n"
    assert summarise_stderr([log]).error == Hit(3, "tensorflow.python.framework.errors_impl.InternalError: b")
    assert summarise_stderr([log[: log.index(b"tensorflow")]]).error == Hit(2, "ValueError: a")
    assert summarise_stderr([log[: log.index(b"ValueError")]]).error is None


def test_error_inside_a_line_is_none() -> None:
    assert (
        summarise_stderr([b"INFO:tensorflow:Error reported to Coordinator: <class 'ZeroDivisionError'>, x\nE tensorflow: Error: y\n"]).error is None
    )


@pytest.mark.parametrize("junk", [b"x", b" -> ", b"Created device device:GPU:1 ", b"\n  /job:", b"Error: ", b"(0) "])
def test_endless_junk_takes_little_memory_and_time(junk: bytes) -> None:
    pieces = [*[junk * (1_000_000 // len(junk))] * 4, b"\nValueError: end\n"]
    start = time.process_time()
    assert summarise_stderr(pieces).last_lines[-1] == "ValueError: end"
    assert time.process_time() - start < 4
    tracemalloc.start()
    summarise_stderr([pieces[0][:500_000]] * 4)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40_000_000
