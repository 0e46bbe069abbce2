"""Verdicts on every recorded log, and on the ways in which a figure can be wrong although the exit code is 0."""

from __future__ import annotations

import csv
import string
from pathlib import Path

import msgspec
import pytest

from wrapper.parser.clock import Clock
from wrapper.parser.line import readable
from wrapper.parser.output import parse, parse_file
from wrapper.parser.remedies import load_words, remedy_of
from wrapper.parser.stderr import read_stderr, summarise_stderr
from wrapper.parser.verdict import Judgement, judge
from wrapper.process import Execution
from wrapper.runner.sweep import Case

DATA = Path(__file__).parents[1] / "data"
PUBLIC = Path(__file__).parents[3] / "shared" / "logs" / "public"

VERDICTS = {
    "ok",
    "out_of_memory",
    "wrong_device",
    "device_count",
    "unknown_model",
    "bad_flag",
    "version_mismatch",
    "library_missing",
    "driver",
    "gpu_architecture",
    "cudnn",
    "nccl",
    "data",
    "killed",
    "timed_out",
    "interrupted",
    "no_total",
    "bogus_total",
    "disagrees",
    "failed",
}

GPU_LINE = (
    b"2019-01-01 00:00:00.000000: I tensorflow/core/common_runtime/gpu/gpu_device.cc:1115] Created TensorFlow device "
    b"(/job:localhost/replica:0/task:0/device:GPU:%d with 10415 MB memory) -> physical GPU (device: %d, name: GeForce RTX 2080 Ti, "
    b"pci bus id: 0000:1a:00.0, compute capability: 7.5)\n"
)
CASE = Case(model="resnet50", batch_size=64, device="gpu", devices=2, steps=20, variable_update="replicated", flags=(("display_every", "10"),))
RUN = b"""TensorFlow:  1.15
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
1\timages/sec: 600.8 +/- 0.0 (jitter = 0.0)\t7.611
10\timages/sec: 601.3 +/- 3.2 (jitter = 7.1)\t7.856
20\timages/sec: 600.9 +/- 2.2 (jitter = 7.7)\t8.011
----------------------------------------------------------------
total images/sec: 600.84
----------------------------------------------------------------
"""
TWO_GPUS = GPU_LINE % (0, 0) + GPU_LINE % (1, 1)


def decide(
    stdout: bytes = RUN,
    stderr: bytes = TWO_GPUS,
    *,
    case: Case = CASE,
    exit_code: int | None = 0,
    ended_by: str = "exit",
    error: str | None = None,
    seen: frozenset[int] | None = None,
    clock: Clock | None = None,
    window: tuple[float, float] | None = None,
) -> Judgement:
    execution = Execution(exit_code=exit_code, started="2026-01-01T00:00:00Z", seconds=12.0, ended_by=ended_by, error=error)
    return judge(
        case=case,
        execution=execution,
        output=parse([stdout]),
        stderr=summarise_stderr([stderr]),
        release_minor="1.15",
        seen_on_devices=seen,
        clock=clock,
        window=window,
    )


def rows() -> list[dict[str, str]]:
    with (DATA / "verdicts.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def case_of(row: dict[str, str]) -> Case:
    return Case(
        model=row["model"],
        batch_size=int(row["batch_size"]),
        device=row["device"],
        devices=int(row["devices"]),
        steps=int(row["steps"]),
        warmup_steps=int(row["warmup_steps"]),
        forward_only=row["forward_only"] == "True",
        variable_update=row["variable_update"],
        data_dir=row["data_dir"] or None,
        flags=tuple((name, value) for name, _, value in (flag.partition("=") for flag in row["flags"].split(";"))),
    )


def judged(row: dict[str, str]) -> Judgement:
    return judge(
        case=case_of(row),
        execution=Execution(exit_code=int(row["exit_code"]), started="2026-01-01T00:00:00Z", seconds=1.0),
        output=parse_file(DATA / "logs" / row["stdout"]) if row["stdout"] else parse([]),
        stderr=read_stderr(DATA / "logs" / row["stderr"]) if row["stderr"] else summarise_stderr([]),
        seen_on_devices=frozenset(map(int, row["seen"].split())) if row["seen"] else None,
    )


@pytest.mark.parametrize("row", rows(), ids=lambda row: row["stdout"] or row["stderr"])
def test_recorded_log(row: dict[str, str]) -> None:
    judgement = judged(row)
    assert judgement.verdict == row["verdict"], judgement
    assert judgement.images_per_sec == (float(row["images_per_sec"]) if row["images_per_sec"] else None)
    assert " ".join(warning.kind for warning in judgement.warnings) == row["warnings"]
    assert judgement.reason
    assert (judgement.remedy == "") == (judgement.verdict == "ok")
    assert judgement.reason.isprintable()
    assert len(judgement.reason) <= 300


@pytest.mark.parametrize("row", [row for row in rows() if row["verdict"] != "ok"], ids=lambda row: row["stdout"] or row["stderr"])
def test_a_reason_stands_at_the_line_that_is_named(row: dict[str, str]) -> None:
    judgement = judged(row)
    lines = [
        (DATA / "logs" / row[stream]).read_text(encoding="utf-8", errors="replace").split("\n") for stream in ("stdout", "stderr") if row[stream]
    ]
    assert (judgement.reason_log == "") == (judgement.reason_line is None)
    if judgement.reason_line is not None:
        named = (DATA / "logs" / row[judgement.reason_log]).read_bytes().split(b"\n")[judgement.reason_line - 1]
        assert readable(named.decode("utf-8", "replace")).rstrip("…")[:80] in judgement.reason
    else:
        assert not [line for log in lines for line in log if line.strip() and readable(line) == judgement.reason]


def test_every_recorded_stream_is_in_the_table() -> None:
    named = {name for row in rows() for name in (row["stdout"], row["stderr"])}
    assert {path.name for path in (DATA / "logs").iterdir()} - {"MANIFEST.csv"} == named - {""}


def test_a_remedy_for_every_verdict() -> None:
    assert set(load_words().verdicts) == VERDICTS
    for verdict, sentence in load_words().verdicts.items():
        assert {name for _, name, _, _ in string.Formatter().parse(sentence) if name} <= {"batch_size", "model"}
        assert verdict == "ok" or remedy_of(verdict, CASE).endswith(".")


def test_valid_run() -> None:
    judgement = decide()
    assert judgement == Judgement(verdict="ok", images_per_sec=600.84, total_line=26, reason="total images/sec: 600.84")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"total images/sec: 600.84", b"total images/sec: 0.00"),
        (b"total images/sec: 600.84", b"total images/sec: -68.68"),
        (b"total images/sec: 600.84", b"total images/sec: nan"),
        (b"total images/sec: 600.84", b"total images/sec: inf"),
        (b"total images/sec: 600.84", b"total images/sec: 600.8"),
        (b"total images/sec: 600.84", b"total images/sec: 600,84"),
        (b"total images/sec: 600.84", b"total images/sec: 600.842026-01-01 00:00:00: W tensorflow"),
        (b"total images/sec: 600.84\n", b"total images/sec: 600.84\ntotal images/sec: 600.84\n"),
        (b"total images/sec: 600.84\n", b"total images/sec: 600.84\ntotal images/sec: 600.\n"),
        (RUN[RUN.index(b"Step\t") : RUN.index(b"-----")], b""),  # --num_warmup_batches=-3
        (RUN[: RUN.index(b"Generating")], b""),
    ],
)
def test_total_that_is_not_credible(old: bytes, new: bytes) -> None:
    judgement = decide(RUN.replace(old, new, 1))
    assert (judgement.verdict, judgement.images_per_sec) == ("bogus_total", None)


def test_total_before_the_step_header() -> None:
    total = b"total images/sec: 600.84\n"
    assert decide(RUN.replace(total, b"").replace(b"Running warm up\n", total + b"Running warm up\n")).verdict == "bogus_total"


@pytest.mark.parametrize("cut", [RUN.index(b"total"), RUN.index(b"Step\t"), 0])
def test_no_total(cut: int) -> None:
    judgement = decide(RUN[:cut])
    assert (judgement.verdict, judgement.images_per_sec) == ("no_total", None)
    assert "stage reached" in judgement.reason


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        (b"TensorFlow:  1.15", b"TensorFlow:  2.0", "TensorFlow"),
        (b"Model:       resnet50", b"Model:       resnet51", "Model"),
        (b"128 global", b"64 global", "Batch size global"),
        (b"64 per device", b"32 per device", "Batch size per device"),
        (b"             64 per device\n", b"", "Batch size per device"),
        (b"Num batches: 20", b"Num batches: 100", "Num batches"),
        (b"['/gpu:0', '/gpu:1']", b"['/gpu:0']", "Devices"),
        (b"['/gpu:0', '/gpu:1']", b"['/cpu:0', '/cpu:1']", "Devices"),
        (b"Data format: NCHW", b"Data format: NHWC", "Data format"),
        (b"Mode:        training", b"Mode:        forward only", "Mode"),
        (b"Mode:        training", b"Mode:        BenchmarkMode.TRAIN_AND_EVAL", "Mode"),
        (b"imagenet (synthetic)", b"imagenet", "Dataset"),
        (b"Variables:   replicated", b"Variables:   parameter_server", "Variables"),
        (b"20\timages/sec: 600.9 +/- 2.2 (jitter = 7.7)\t8.011\n", b"", "Last step shown"),
    ],
)
def test_header_that_disagrees(old: bytes, new: bytes, key: str) -> None:
    judgement = decide(RUN.replace(old, new, 1))
    assert judgement.verdict == "disagrees"
    assert judgement.reason.startswith(f"{key}: upstream printed ")
    assert " instead of " in judgement.reason


@pytest.mark.parametrize("mode", [b"forward-only", b"BenchmarkMode.FORWARD_ONLY", b"forward only"])
def test_mode_is_spelt_differently_by_branch(mode: bytes) -> None:
    case = msgspec.structs.replace(CASE, forward_only=True)
    assert decide(RUN.replace(b"Mode:        training", b"Mode:        " + mode), case=case).verdict == "ok"


def test_old_branch_prints_fewer_keys_and_floats() -> None:
    old = b"".join(line for line in RUN.splitlines(True) if not line.startswith((b"Num ", b"NUMA", b"Dataset")))
    old = old.replace(b"64 per device", b"64.0 per device").replace(b"20\timages", b"22\timages")
    judgement = decide(old)
    assert judgement.verdict == "ok"
    assert [warning.kind for warning in judgement.warnings] == ["coarse_total"]  # 2,560 images at 600 images/sec are 17 intervals of 0.25 s


@pytest.mark.parametrize(
    ("stderr", "seen", "verdict"),
    [
        (TWO_GPUS, None, "ok"),
        (TWO_GPUS, frozenset[int](), "ok"),  # five readings a second may miss the work of a short run
        (TWO_GPUS + TWO_GPUS, None, "ok"),
        (b"", frozenset({0, 1}), "ok"),
        (b"", None, "wrong_device"),
        (b"", frozenset[int](), "wrong_device"),
        (b"", frozenset({0}), "device_count"),
        (GPU_LINE % (0, 0), None, "device_count"),
        (GPU_LINE % (0, 0) * 2, frozenset({0}), "device_count"),
        (GPU_LINE % (0, 0), frozenset({0, 1}), "device_count"),
        (b"Skipping registering GPU devices...\n", None, "wrong_device"),
    ],
)
def test_proof_of_the_device(stderr: bytes, seen: frozenset[int] | None, verdict: str) -> None:
    assert decide(stderr=stderr, seen=seen).verdict == verdict


@pytest.mark.parametrize(("seen", "verdict"), [(None, "ok"), ((0, 1), "ok"), ((0,), "device_count"), ((), "wrong_device")])
def test_a_gpu_that_was_opened_and_did_nothing_for_seconds_proves_nothing(seen: tuple[int, ...] | None, verdict: str) -> None:
    clock = Clock(images_per_sec=600.8, steps=19, seconds=4.0, resolution=0.025)
    judgement = decide(seen=None if seen is None else frozenset(seen), clock=clock)
    assert judgement.verdict == verdict
    assert verdict == "ok" or "NVML saw work on" in judgement.reason


def test_lack_of_a_gpu_is_told_in_tensorflows_words() -> None:
    assert decide(stderr=b"W dso_loader.cc:60] Could not load dynamic library\nSkipping registering GPU devices...\n").reason.startswith("Skipping")


def test_cpu_trial_needs_no_proof() -> None:
    case = msgspec.structs.replace(CASE, device="cpu", devices=1)
    log = RUN.replace(b"128 global", b"64 global").replace(b"['/gpu:0', '/gpu:1']", b"['/cpu:0']").replace(b"NCHW", b"NHWC")
    assert decide(log, b"", case=case).verdict == "ok"
    assert decide(log, b"", case=case, seen=frozenset()).verdict == "ok"
    on_gpu = decide(log, b"", case=case, seen=frozenset({1}))
    assert (on_gpu.verdict, on_gpu.reason) == ("wrong_device", "CPU asked for, and the process computed on GPU 1")


@pytest.mark.parametrize(
    ("stderr", "verdict"),
    [
        (b"tensorflow.python.framework.errors_impl.ResourceExhaustedError: OOM when allocating tensor with shape[64]\n", "out_of_memory"),
        (b"E cuda_blas.cc:190] failed to create cublas handle: CUBLAS_STATUS_NOT_INITIALIZED\n", "out_of_memory"),
        (b"E cuda_blas.cc:190] failed to run: CUBLAS_STATUS_ALLOC_FAILED\n", "out_of_memory"),
        (b"E cuda_dnn.cc:10] CUDNN_STATUS_ALLOC_FAILED\n", "out_of_memory"),
        (b"XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 12 bytes\n", "out_of_memory"),
        (b"I cuda_driver.cc:831] failed to allocate 2.90G from device: CUDA_ERROR_OUT_OF_MEMORY: out of memory\n", "out_of_memory"),
        (b"I CUDA_ERROR_OUT_OF_MEMORY\nE cuda_dnn.cc:329] Could not create cudnn handle: CUDNN_STATUS_INTERNAL_ERROR\n", "out_of_memory"),
        (b"InternalError: Dst tensor is not initialized.\n", "out_of_memory"),
        (b"I CUDA_ERROR_OUT_OF_MEMORY\nTraceback\nKeyError: 'x'\n", "failed"),
        (b"E cuda_dnn.cc:329] Could not create cudnn handle: CUDNN_STATUS_NOT_INITIALIZED\n", "cudnn"),
        (b"E Loaded runtime CuDNN library: 7.0.5 but source was compiled with: 7.2.1.\n", "cudnn"),
        (b"errors_impl.UnknownError: Failed to get convolution algorithm.\n", "cudnn"),
        (b"W op_kernel.cc:1651] OP_REQUIRES failed at nccl_ops.cc:104 : Internal: unhandled system error\n", "nccl"),
        (b"errors_impl.InternalError: CUDA driver version is insufficient for CUDA runtime version\n", "driver"),
        (b"Memory access fault by GPU node-1 on address 0x7f\n", "driver"),
        (b"errors_impl.InternalError: no kernel image is available for execution on the device\n", "gpu_architecture"),
        (b'"hipErrorNoBinaryForGpu: Unable to find code object for all current devices!"\n', "gpu_architecture"),
        (b"ImportError: libcublas.so.9.0: cannot open shared object file: No such file or directory\n", "library_missing"),
        (b"ImportError: DLL load failed: The specified module could not be found.\n", "library_missing"),
        (b"ImportError: cannot import name 'collective_ops'\n", "version_mismatch"),
        (b"ModuleNotFoundError: No module named 'tensorflow.contrib'\n", "version_mismatch"),
        (b"RuntimeError: Received OutOfRangeError. Wrapping in Runtime error.\n", "data"),
        (b"UnboundLocalError: local variable 'num_steps' referenced before assignment\n", "data"),
        (b"ResourceExhaustedError\nerrors_impl.ResourceExhaustedError: /x; No space left on device\n", "failed"),
        (b"E tensorflow: Error\nValueError: first\nValueError: second\n", "failed"),
        (b"", "failed"),
    ],
)
def test_text_explains_a_failure(stderr: bytes, verdict: str) -> None:
    assert decide(RUN[: RUN.index(b"Done")], stderr, exit_code=1).verdict == verdict
    # The same text in a run that came to its end explains nothing.
    assert decide(stderr=TWO_GPUS + stderr).verdict == "ok"


def test_first_error_is_the_reason() -> None:
    stderr = b"ValueError: first\n\nDuring handling of the above exception, another exception occurred:\n\nKeyError: second\n"
    assert decide(RUN[:0], stderr, exit_code=1).reason == "ValueError: first"
    stderr += b"tensorflow.python.framework.errors_impl.InternalError: 2 root error(s) found.\n  (0) INTERNAL: broken\n"
    assert decide(RUN[:0], stderr, exit_code=1).reason.endswith("InternalError: 2 root error(s) found. (0) INTERNAL: broken")


@pytest.mark.parametrize(
    ("exit_code", "verdict", "word"),
    [
        (-9, "killed", "memory was full"),
        (137, "killed", "SIGKILL"),
        (-15, "killed", "SIGTERM"),
        (-6, "killed", "SIGABRT"),
        (134, "killed", "SIGABRT"),
        (-11, "killed", "SIGSEGV"),
        (-4, "killed", "AVX"),
        (-40, "killed", "signal 40"),
        (-2, "interrupted", "Ctrl-C"),
        (130, "interrupted", "Ctrl-C"),
        (0xC0000005, "killed", "access violation"),
        (0xC0000005 - (1 << 32), "killed", "access violation"),
        (0xC000013A, "interrupted", "Ctrl-C"),
        (0xC0000135, "library_missing", "DLL"),
        (3, "failed", "exit code 3"),
    ],
)
def test_exit_code(exit_code: int, verdict: str, word: str) -> None:
    judgement = decide(RUN[: RUN.index(b"Done")], b"", exit_code=exit_code)
    assert judgement.verdict == verdict
    assert word in judgement.reason
    # After a credible total the figure stays.
    judgement = decide(exit_code=exit_code)
    assert (judgement.verdict, judgement.images_per_sec) == ("ok", 600.84)
    assert [warning.kind for warning in judgement.warnings] == ["unclean_exit"]


def test_a_total_whose_steps_do_not_begin_with_the_first_is_bogus() -> None:
    late = RUN[: RUN.index(b"1\timages")] + RUN[RUN.index(b"10\timages") :]
    judgement = decide(late)
    assert (judgement.verdict, judgement.images_per_sec) == ("bogus_total", None)
    assert "begin with step 10 instead of 1" in judgement.reason
    polled = late.replace(b"Num batches: 20\n", b"")  # upstream 1.5, which may miss it
    assert decide(polled).verdict == "ok"


@pytest.mark.parametrize(
    ("seconds", "verdict"),
    [
        (0.001, "ok"),  # all in one piece tells nothing
        (4.3, "ok"),  # 20 steps of 128 at 600.84 images/sec take 4.26 s
        (8.7, "ok"),
        (9.0, "bogus_total"),
    ],
)
def test_a_total_of_far_less_time_than_the_loop_took_is_bogus(seconds: float, verdict: str) -> None:
    judgement = decide(window=(3.0, 3.0 + seconds))
    assert judgement.verdict == verdict
    assert (judgement.images_per_sec is None) == (verdict != "ok")
    assert verdict == "ok" or "the loop took 8.70 s at least: 294.25 images/sec at most" in judgement.reason


@pytest.mark.parametrize(("asked", "printed"), [("lenet", b"lenet5"), ("nasnetlarge", b"nasnet")])
def test_a_model_may_print_another_name_than_its_own(asked: str, printed: bytes) -> None:
    stdout = RUN.replace(b"resnet50", printed)
    assert decide(stdout, case=msgspec.structs.replace(CASE, model=asked)).verdict == "ok"
    assert decide(stdout, case=msgspec.structs.replace(CASE, model="trivial")).verdict == "disagrees"


@pytest.mark.parametrize(("ended_by", "verdict"), [("timeout", "timed_out"), ("interrupt", "interrupted")])
def test_ended_by_the_wrapper_before_the_exit_code_was_there(ended_by: str, verdict: str) -> None:
    assert decide(b"", exit_code=None, ended_by=ended_by).verdict == verdict


def test_ended_by_the_wrapper() -> None:
    part = RUN[: RUN.index(b"20\t")]
    judgement = decide(part, exit_code=-15, ended_by="timeout")
    assert (judgement.verdict, judgement.reason) == ("timed_out", "not finished after 12 s, stage reached: steps, last step shown: 10")
    assert decide(part, exit_code=-15, ended_by="interrupt").verdict == "interrupted"
    assert [warning.kind for warning in decide(exit_code=-15, ended_by="timeout").warnings] == ["unclean_exit"]


def test_not_started_or_not_kept() -> None:
    judgement = decide(b"", b"", exit_code=None, error="No such file: python")
    assert (judgement.verdict, judgement.reason) == ("failed", "No such file: python")
    judgement = decide(exit_code=0, error="No space left on device")
    assert (judgement.verdict, judgement.images_per_sec) == ("failed", None)


@pytest.mark.parametrize(
    ("stdout", "stderr", "kind"),
    [
        (RUN.replace(b"8.011", b"nan"), b"", "nan_loss"),
        (RUN.replace(b"600.84", b"400.84"), b"", "clock_disagrees"),
        (
            RUN,
            b"W bfc_allocator.cc:311] ran out of memory trying to allocate 2.31GiB. The caller indicates that this is not a failure\n",
            "memory_pressure",
        ),
    ],
)
def test_warning_beside_a_valid_figure(stdout: bytes, stderr: bytes, kind: str) -> None:
    judgement = decide(stdout, TWO_GPUS + stderr)
    assert judgement.verdict == "ok"
    assert [warning.kind for warning in judgement.warnings] == [kind]
    assert judgement.warnings[0].detail


def test_clock_warning_states_both_figures() -> None:
    (warning,) = decide(RUN.replace(b"600.84", b"400.84")).warnings
    assert "400.84" in warning.detail
    assert "600.9" in warning.detail


def test_reason_is_one_harmless_line() -> None:
    judgement = decide(b"", b"ValueError: \x1b[31mred\x07\x00 \xe2\x80\xae" + b"x" * 5000 + b"\n", exit_code=1)
    assert judgement.reason.startswith("ValueError: red x")
    assert judgement.reason.isprintable()
    assert len(judgement.reason) == 300


@pytest.mark.skipif(not PUBLIC.exists(), reason="the logs that other people published are not here")
@pytest.mark.parametrize(
    ("name", "exit_code", "verdict"),
    [
        ("lambda_8xA100_fp16_resnet50_tf2.3.log", 0, "ok"),
        ("lambda_2080maxq_vgg16_OOM_resource_exhausted.log", 1, "out_of_memory"),
        ("lambda_4x3070_nccl_unhandled_system_error.log", 1, "nccl"),
        ("lambda_truncated_during_graph_build.log", -15, "killed"),
        ("lambda_3080_resnet50_success_with_OOM_warnings.log", 0, "ok"),
        ("lambda_2080maxq_resnet50_success_with_CUDA_ERROR_OUT_OF_MEMORY.log", 0, "ok"),
    ],
)
def test_published_log(name: str, exit_code: int, verdict: str) -> None:
    output = parse_file(PUBLIC / name, tolerant=True)
    devices = output.header["Devices"].count("gpu:")
    case = Case(
        model=output.header["Model"],
        batch_size=int(output.header["Batch size per device"]),
        device="gpu",
        devices=devices,
        variable_update=output.header["Variables"],
        flags=(("display_every", "10"),),
    )
    judgement = judge(
        case=case,
        execution=Execution(exit_code=exit_code, started="2020-01-01T00:00:00Z", seconds=1.0),
        output=output,
        stderr=read_stderr(PUBLIC / name),
        seen_on_devices=frozenset(range(devices)),
    )
    assert judgement.verdict == verdict
    assert (judgement.images_per_sec is not None) == (verdict == "ok")
