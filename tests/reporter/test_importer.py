"""Other people's logs: what is read, what is believed, what is refused."""

from __future__ import annotations

import csv
import io
import json
import os
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from wrapper.errors import FatalError
from wrapper.reporter.comparison import compare
from wrapper.reporter.foreign_log import ImportedLog
from wrapper.reporter.importer import as_references, as_reports, import_logs, rows_csv
from wrapper.reporter.matching import references_from
from wrapper.reporter.reference import load_references
from wrapper.reporter.store import append_trial, write_session

NEVER_STATED = {"parameter_device", "flags", "warmup_steps"}
"""Upstream prints nothing of them."""
CAPTURED = Path(__file__).parents[1] / "data" / "logs"
PUBLIC = Path(__file__).parents[3] / "shared" / "logs" / "public"
GPU_LINE = (
    "2020-06-27 11:24:20.926874: I tensorflow/core/common_runtime/gpu/gpu_device.cc:1304] Created TensorFlow device "
    "(/job:localhost/replica:0/task:0/device:GPU:{0} with 10000 MB memory) -> physical GPU (device: {0}, name: GeForce RTX 2080 Ti, pci bus id: 0)"
)


def log(
    total: str = "290.12",
    *,
    devices: int = 1,
    batch_size: int = 64,
    listed: str = "",
    mode: str = "training",
    gpu: bool = True,
    loss: str = "7.9",
    steps: Iterable[int] = (1, 10, 20),
) -> str:
    """A log of 20 steps; `listed` are the devices of its header, where they are not those of one process."""
    share = float(total) / (devices if "horovod" in listed else 1)
    return "\n".join(
        [
            *(GPU_LINE.format(index) for index in range(devices if gpu else 0)),
            "TensorFlow:  1.15",
            "Model:       resnet50",
            "Dataset:     imagenet (synthetic)",
            f"Mode:        {mode}",
            f"Batch size:  {batch_size * devices} global",
            f"             {batch_size} per device",
            "Num batches: 20",
            f"Devices:     {listed or [f'/gpu:{index}' for index in range(devices)]}",
            "Data format: NCHW",
            "Optimizer:   sgd",
            "Variables:   replicated",
            "AllReduce:   nccl",
            "==========",
            "Step\tImg/sec\ttotal_loss",
            *(f"{step}\timages/sec: {share:.1f} +/- 0.0 (jitter = 0.0)\t{loss}00" for step in steps),
            f"total images/sec: {total}",
            "",
        ]
    )


def tree_log(root: Path, name: str, text: str) -> Path:
    path = root / "logs" / name / "throughput" / "1"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def one(path: Path) -> ImportedLog:
    imported = import_logs([path])
    assert not imported.refused
    (row,) = imported.rows
    return row


class TestTree:
    def test_log_and_name_together_are_the_case(self, tmp_path: Path) -> None:
        tree_log(tmp_path, "i7-GeForce_RTX_2080_Ti.logs/syn-replicated-fp16-2gpus-inference/resnet50-64", log(devices=2, mode="forward only"))
        row = one(tmp_path)
        assert (row.judgement.verdict, row.judgement.images_per_sec, row.notes) == ("ok", 290.12, ())
        assert (row.case.precision, row.case.devices, row.case.mode, row.case.batch_size) == ("fp16", 2, "forward only", 64)
        assert (row.machine, row.gpu, row.tensorflow, row.date) == ("i7-GeForce_RTX_2080_Ti", "GeForce RTX 2080 Ti", "1.15", "2020-06-27")
        assert row.unstated - NEVER_STATED == {"xla"}

    def test_the_log_is_believed_over_the_name(self, tmp_path: Path) -> None:
        tree_log(tmp_path, "m.logs/real-parameter_server-fp32-4gpus-inference/vgg16-128", log(devices=2))
        row = one(tmp_path)
        assert (row.case.model, row.case.batch_size, row.case.devices, row.case.variable_update) == ("resnet50", 64, 2, "replicated")
        assert (row.case.mode, row.stated("data"), row.stated("precision")) == ("training", "synthetic", "fp32")
        assert {note.split()[4] for note in row.notes} == {"model", "batch_size", "devices", "variable_update", "forward_only", "data"}

    def test_the_data_set_is_part_of_the_case(self, tmp_path: Path) -> None:
        tree_log(tmp_path, "m.logs/syn-replicated-fp32-1gpus/resnet50-64", log().replace("imagenet (syn", "cifar10 (syn"))
        assert (one(tmp_path).case.data_name, one(tmp_path).judgement.verdict) == ("cifar10", "ok")

    def test_distortions_are_another_case(self, tmp_path: Path) -> None:
        real = log().replace("imagenet (synthetic)", "imagenet")
        tree_log(tmp_path, "m.logs/real-replicated-fp32-1gpus/resnet50-64", real)
        tree_log(tmp_path, "m.logs/real-replicated-fp32-1gpus-distortions/resnet50-64", real.replace("290.12", "280.00"))
        (report,) = as_reports(import_logs([tmp_path]).rows, "tree")
        assert sorted((summary.mean, summary.n) for summary in report.summaries) == [(280.0, 1), (290.12, 1)]
        assert all(summary.case.data == "real" for summary in report.summaries)

    def test_xla_by_the_log(self, tmp_path: Path) -> None:
        tree_log(tmp_path, "m.logs/syn-replicated-fp32-1gpus/resnet50-64", "x: I a/b.cc:1] Compiled cluster using XLA!\n" + log())
        assert one(tmp_path).stated("xla") is True

    def test_4000_logs(self, tmp_path: Path) -> None:
        text = "\n".join(["2020-06-27 11:24:20.92: I tensorflow/stream_executor/platform/default/dso_loader.cc:44] opened"] * 100) + "\n" + log()
        for number in range(1000):
            for name in ("syn-replicated-fp32-1gpus", "syn-replicated-fp16-1gpus", "syn-replicated-fp32-1gpus-inference", "x"):
                tree_log(tmp_path, f"m{number % 25}.logs/{name}/resnet50-{number + 1}", text)
        start = time.process_time()  # not the clock on the wall: other tests may run beside this one
        imported = import_logs([tmp_path])
        csv_text = rows_csv(imported.rows)
        assert time.process_time() - start < 20
        assert (imported.counts, len(csv_text.splitlines())) == ({"ok": 4000}, 4001)


class TestPlainLogs:
    @pytest.mark.parametrize(
        "carry",
        [
            lambda line: f"[1,0]<stdout>:{line}",
            lambda line: f"INFO|2019-02-13T23:07:00|/opt/launcher.py|27| {line.strip()}",
            lambda line: f"2018-09-04T11:27:29.624841024Z {line}",
            lambda line: f"\x1b[36mtrainer_1 |\x1b[0m {line}",
            lambda line: f"0: {line}",
            lambda line: f"{line}\r",
            lambda line: line.replace("\t", "       "),
            lambda line: f"{line} 1593282278" if "jitter" in line else line,
        ],
        ids=["mpi", "launcher", "docker", "compose", "srun", "crlf", "expanded tabs", "unix time"],
    )
    def test_every_transport(self, tmp_path: Path, carry: object) -> None:
        assert callable(carry)
        path = tmp_path / "run.txt"
        path.write_text("".join(f"{carry(line)}\n" for line in log().splitlines()), encoding="utf-8", newline="")
        row = one(path)
        assert (row.judgement.verdict, row.judgement.images_per_sec, row.case.model, row.gpu) == ("ok", 290.12, "resnet50", "GeForce RTX 2080 Ti")
        assert row.unstated - NEVER_STATED == {"precision", "xla"}

    def test_precision_by_the_command_in_the_log(self, tmp_path: Path) -> None:
        path = tmp_path / "run.txt"
        for flags, precision in (("--model=resnet50 --use_fp16=true", "fp16"), ("--use_fp16 --num_gpus=1", "fp16"), ("--use_fp16=false", "fp32")):
            path.write_text(f"Running python tf_cnn_benchmarks.py {flags}\n{log()}", encoding="utf-8")
            assert one(path).stated("precision") == precision

    @pytest.mark.parametrize(
        ("text", "verdict"),
        [
            (log("0.00"), "bogus_total"),
            (log("-68.68"), "bogus_total"),
            (log("nan"), "bogus_total"),
            (log().replace("290.12", "290"), "bogus_total"),
            (log().replace("290.12", "290,12"), "bogus_total"),
            (log().replace("Step\t", "Stop\t"), "bogus_total"),
            (log() + log(), "bogus_total"),
            (log().replace("             64 per device\n", ""), "bogus_total"),
            (log().replace("64 per", "0 per").replace("64 global", "0 global"), "bogus_total"),
            (log().replace("64 global", "999999999 global").replace("64 per", "1 per"), "disagrees"),
            (log().replace("Num batches: 20", "Num batches: 0"), "disagrees"),
            (log().replace("Num batches: 20", f"Num batches: {'9' * 250}"), "disagrees"),
            (log().replace("64 global", "128 global"), "disagrees"),
            (log(steps=(1, 10)), "disagrees"),
            (log(devices=2).replace(GPU_LINE.format(1), ""), "device_count"),
            ("failed call to cuInit: CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected\n" + log(gpu=False), "wrong_device"),
            (log().split("total")[0], "no_total"),
            (log().split("Step")[0] + "tensorflow.errors_impl.ResourceExhaustedError: OOM when allocating tensor\n", "out_of_memory"),
        ],
    )
    def test_no_invalid_figure(self, tmp_path: Path, text: str, verdict: str) -> None:
        path = tmp_path / "run.txt"
        path.write_text(text, encoding="utf-8")
        row = one(path)
        assert (row.judgement.verdict, row.judgement.images_per_sec) == (verdict, None)
        assert row.judgement.reason
        assert as_references([row], "x") == ()
        assert next(csv.DictReader(io.StringIO(rows_csv([row]))))["images_per_sec"] == ""

    def test_without_standard_error_the_gpu_is_not_proven(self, tmp_path: Path) -> None:
        path = tmp_path / "run.txt"
        path.write_text(log(gpu=False), encoding="utf-8")
        row = one(path)
        assert (row.judgement.verdict, row.notes) == ("ok", ("no line of TensorFlow's about the GPU that it used",))
        assert as_references([row], "x")[0].gpu == "unknown GPU"

    def test_standard_error_beside_it_is_read(self, tmp_path: Path) -> None:
        (tmp_path / "run.stdout").write_text(log(gpu=False), encoding="utf-8")
        (tmp_path / "run.stderr").write_text("failed call to cuInit: CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected\n", encoding="utf-8")
        imported = import_logs([tmp_path])
        assert [(Path(row.path).name, row.judgement.verdict) for row in imported.rows] == [("run.stdout", "wrong_device")]
        assert not imported.refused

    def test_captured_logs_give_their_totals(self) -> None:
        with (CAPTURED / "MANIFEST.csv").open(encoding="utf-8", newline="") as file:
            totals = {line["file"]: float(line["total"]) for line in csv.DictReader(file) if line["total"] and line["exit_code"] == "0"}
        rows = [row for row in import_logs([CAPTURED]).rows if row.judgement.images_per_sec is not None]
        assert len(rows) > 50
        assert all(row.judgement.images_per_sec == totals[Path(row.path).name] for row in rows if Path(row.path).name in totals)


class TestProcesses:
    HOROVOD = str([f"horovod/gpu:{rank}" for rank in range(64)])

    def test_totals_of_ranks_are_averaged(self, tmp_path: Path) -> None:
        text = log("6410.80", devices=64, listed=self.HOROVOD, gpu=False)
        path = tmp_path / "run.txt"
        path.write_text(text + "total images/sec: 6410.90\n", encoding="utf-8")
        row = one(path)
        assert (row.judgement.verdict, row.ranks, row.case.devices) == ("ok", 2, 64)
        assert row.judgement.images_per_sec == pytest.approx(6410.85)

    def test_workers_are_counted_by_the_global_batch(self, tmp_path: Path) -> None:
        listed = "['/job:worker/replica:0/task:0/gpu:0', '/job:worker/replica:0/task:0/gpu:1']"
        path = tmp_path / "run.txt"
        path.write_text(log("290.12", devices=4, listed=listed, gpu=False).replace("images/sec: 290.1 ", "images/sec: 145.1 "), encoding="utf-8")
        row = one(path)
        assert (row.judgement.images_per_sec, row.case.devices, row.ranks) == (290.12, 4, 1)

    def test_a_total_multiplied_once_too_often_is_refused(self, tmp_path: Path) -> None:
        path = tmp_path / "run.txt"
        path.write_text(
            log("580.24", devices=2, listed="['horovod/gpu:0', 'horovod/gpu:1']", gpu=False).replace("290.1 +", "145.1 +"), encoding="utf-8"
        )
        assert one(path).judgement.verdict == "bogus_total"


class TestBenchmarkLogDir:
    @staticmethod
    def write(directory: Path, *runs: list[dict[str, object]]) -> None:
        parameters = [
            {"name": "model", "string_value": "alexnet"},
            {"name": "mode", "string_value": "training"},
            {"name": "dataset", "string_value": "cifar10"},
            {"name": "batch_size", "long_value": 512},
            {"name": "batch_size_per_device", "float_value": 512.0},
            {"name": "devices", "string_value": "['/gpu:0']"},
            {"name": "num_batches", "long_value": 10},
            {"name": "single_sess", "bool_value": "False"},
        ]
        run = {
            "run_date": "2019-04-01T08:46:07Z",
            "tensorflow_version": {"version": "1.10.0"},
            "machine_config": {"gpu_info": {"count": 4, "model": "GeForce GTX 980 Ti"}},
        }
        lines = [json.dumps({**run, "run_parameters": parameters}) for _ in runs]
        (directory / "benchmark_run.log").write_text("\n".join(lines) + "\n", encoding="utf-8")
        (directory / "metric.log").write_text("".join(json.dumps(metric) + "\n" for metrics in runs for metric in metrics), encoding="utf-8")

    @staticmethod
    def run(total: float | None, loss: str = "2.3") -> list[dict[str, object]]:
        steps = [
            {"name": "current_examples_per_sec", "value": 7000.0, "global_step": step, "extras": [{"name": "loss", "value": loss}]}
            for step in (1, 10)
        ]
        return [*steps, *([{"name": "average_examples_per_sec", "value": total, "global_step": 10, "extras": []}] if total else [])]

    def test_the_last_run_counts(self, tmp_path: Path) -> None:
        self.write(tmp_path, self.run(6000.5), self.run(7005.25, loss="nan"))
        row = one(tmp_path)
        assert (row.judgement.verdict, row.judgement.images_per_sec, row.nan_loss) == ("ok", 7005.25, True)
        assert (row.case.model, row.case.batch_size, row.gpu, row.tensorflow, row.date) == (
            "alexnet",
            512,
            "GeForce GTX 980 Ti",
            "1.10.0",
            "2019-04-01",
        )
        assert row.unstated - NEVER_STATED == {"precision", "xla", "data", "variable_update"}
        (reference,) = as_references([row], "x")
        assert (reference.data, reference.data_set, reference.precision) == (None, "cifar10", None)

    def test_an_earlier_total_is_not_that_of_a_broken_last_run(self, tmp_path: Path) -> None:
        self.write(tmp_path, self.run(6000.5), self.run(None))
        assert one(tmp_path).judgement.verdict == "no_total"

    @pytest.mark.parametrize("content", ["", "[]\n", '{"name": 3}\n', "\x00\xff", '{"name": "average_examples_per_sec", "value": "7000"}\n'])
    def test_junk_is_refused(self, tmp_path: Path, content: str) -> None:
        self.write(tmp_path, self.run(6000.5))
        (tmp_path / "metric.log").write_text(content, encoding="utf-8")
        assert len(import_logs([tmp_path]).refused) == 1


class TestOwnReports:
    def test_trials_are_rows(self, tmp_path: Path, make_session: Any, make_trial: Any) -> None:
        report = tmp_path / "report"
        (report / "logs").mkdir(parents=True)
        (report / "logs" / "1.stdout").write_text(log(), encoding="utf-8")
        write_session(report, make_session())
        append_trial(report, make_trial(1, 290.0))
        append_trial(report, make_trial(2, None))
        imported = import_logs([tmp_path])
        assert [(row.judgement.verdict, row.judgement.images_per_sec) for row in imported.rows] == [("ok", 290.0), ("out_of_memory", None)]
        assert imported.rows[0].unstated == frozenset()

    @pytest.mark.parametrize("named", ["", "logs", "logs/1.stdout"])
    def test_a_log_by_itself_is_what_the_records_say(self, named: str, tmp_path: Path, make_session: Any, make_trial: Any) -> None:
        (tmp_path / "logs").mkdir()
        (tmp_path / "logs" / "1.stdout").write_text(log("111.00"), encoding="utf-8")
        write_session(tmp_path, make_session())
        append_trial(tmp_path, make_trial(1, 290.0, log="logs/1.stdout"))
        (row,) = import_logs([tmp_path / named]).rows
        assert (row.judgement.images_per_sec, row.unstated) == (290.0, frozenset())
        write_session(tmp_path, make_session(demo=True))
        assert import_logs([tmp_path / named]).rows == ()

    def test_a_demo_is_refused(self, tmp_path: Path, make_session: Any, make_trial: Any) -> None:
        write_session(tmp_path, make_session(demo=True))
        append_trial(tmp_path, make_trial(1, 290.0))
        imported = import_logs([tmp_path])
        assert (imported.rows, len(imported.refused)) == ((), 1)

    def test_damaged_records_are_refused(self, tmp_path: Path) -> None:
        (tmp_path / "session.json").write_text("{", encoding="utf-8")
        assert "damaged" in import_logs([tmp_path]).refused[0].reason


class TestHostileTrees:
    def test_nothing_breaks_it(self, tmp_path: Path) -> None:
        (tmp_path / "junk.bin").write_bytes(bytes(range(256)) * 100)
        (tmp_path / "notes.md").write_text("run tf_cnn_benchmarks.py --model=resnet50 and see", encoding="utf-8")
        (tmp_path / "empty").write_bytes(b"")
        (tmp_path / "good").write_text(log(), encoding="utf-8")
        expected = {"ok": 1, "no output of the benchmark in it": 2, "binary data": 1}
        if sys.platform != "win32":
            os.mkfifo(tmp_path / "pipe")
            (tmp_path / "loop").symlink_to(tmp_path / "loop")
            (tmp_path / "up").symlink_to(tmp_path)
            expected["not a file"] = 2
        assert import_logs([tmp_path]).counts == expected

    def test_text_stays_text(self, tmp_path: Path) -> None:
        path = tmp_path / "=cmd()\x1b[31m,x.txt"
        path.write_text(log().replace("resnet50", "=HYPERLINK(0)\x1b[2J<script>"), encoding="utf-8")
        text = rows_csv(import_logs([path]).rows)
        (line,) = csv.DictReader(io.StringIO(text))
        assert line["model"].startswith("'=HYPERLINK(0)")
        assert "\x1b" not in text

    def test_a_missing_path_is_said(self, tmp_path: Path) -> None:
        with pytest.raises(FatalError, match="there is no"):
            import_logs([tmp_path / "absent"])


class TestUse:
    def test_references_and_reports_can_be_compared(self, tmp_path: Path) -> None:
        for machine, total in (("a", "290.12"), ("b", "145.06")):
            tree_log(tmp_path, f"{machine}.logs/syn-replicated-fp32-1gpus/resnet50-64", log(total))
        rows = import_logs([tmp_path]).rows
        first, second = as_reports(rows, "tree")
        assert (first.conditions.name, first.conditions.gpu) == ("tree a", "GeForce RTX 2080 Ti")
        references = as_references(rows, "tree")
        comparison = compare(second.summaries, second.conditions, references)
        assert [row.ratio for row in comparison.rows] == [0.5, 1.0]
        assert compare(first.summaries, first.conditions, load_references(), against=["GTX 1080 Ti"]).rows

    def test_what_logs_do_not_state_is_not_taken_for_the_same(self, tmp_path: Path) -> None:
        tree_log(tmp_path, "a.logs/syn-replicated-fp32-1gpus/resnet50-64", log())
        tree_log(tmp_path, "a.logs/syn-replicated-fp16-1gpus/resnet50-64", "x: I a/b.cc:1] Compiled cluster using XLA!\n" + log())
        (report,) = as_reports(import_logs([tmp_path]).rows, "tree")
        own = references_from(report.summaries, msgspec.structs.replace(report.conditions, name="stated"))
        rows = {row.reference.precision: row for row in compare(report.summaries, report.conditions, own).rows}
        assert rows["fp32"].match.label == "not stated: XLA, flags"
        assert rows["fp16"].match.label == "not stated: flags"

    @pytest.mark.parametrize(
        ("gpu", "said"),
        [("GeForce RTX 2080 Ti", "TensorFlow 1.15, measured"), ("A100-SXM4-40GB", "TF32 not stated"), ("Some new GPU", "TF32 not stated")],
    )
    def test_tf32_is_not_stated_where_the_gpu_may_have_used_it(self, gpu: str, said: str, tmp_path: Path) -> None:
        tree_log(tmp_path, "a.logs/syn-replicated-fp32-1gpus/resnet50-64", log().replace("GeForce RTX 2080 Ti", gpu))
        (report,) = as_reports(import_logs([tmp_path]).rows, "tree")
        assert said in str(report.conditions)

    def test_the_days_are_those_that_the_logs_state(self, tmp_path: Path) -> None:
        tree_log(tmp_path, "a.logs/syn-replicated-fp32-1gpus/resnet50-64", log())
        tree_log(tmp_path, "a.logs/syn-replicated-fp32-2gpus/resnet50-64", log("580.24", devices=2).replace("2020-06-27", "2020-06-29"))
        tree_log(tmp_path, "b.logs/syn-replicated-fp32-1gpus/resnet50-64", log().replace("2020-06-27 11:24:20.926874: ", ""))
        days = {
            report.conditions.name: str(report.conditions).partition(", measured ")[2] for report in as_reports(import_logs([tmp_path]).rows, "tree")
        }
        assert days == {"tree a": "2020-06-27 to 2020-06-29", "tree b": "on a day not stated"}

    def test_a_report_needs_a_stated_precision(self, tmp_path: Path) -> None:
        path = tmp_path / "run.txt"
        path.write_text(log(), encoding="utf-8")
        row = one(path)
        assert as_reports([row], "x") == ()
        assert as_references([row], "x")[0].precision is None


@pytest.mark.skipif(not PUBLIC.is_dir(), reason="the public logs are not beside the project")
def test_public_logs(tmp_path: Path) -> None:
    with (PUBLIC / "MANIFEST.csv").open(encoding="utf-8", newline="") as file:
        expected = {line["file"]: line for line in csv.DictReader(file) if line["file"].endswith(".log")}
    rows = {Path(row.path).name: row for row in import_logs([PUBLIC]).rows}
    assert set(expected) <= set(rows)
    for name, line in expected.items():
        found = rows[name].judgement.images_per_sec
        assert found is None if line["total"] in ("", None) else found == pytest.approx(float(line["total"]), abs=0.03), name
        assert rows[name].nan_loss == (line["loss_nan"] == "yes")
    for name, target in (("ag_benchmark_log_dir_metric.jsonl", "metric.log"), ("ag_benchmark_log_dir_benchmark.jsonl", "benchmark_run.log")):
        (tmp_path / target).write_bytes((PUBLIC / name).read_bytes())
    assert one(tmp_path).judgement.images_per_sec == 7359.358883823738


EXAMPLE = Path(__file__).parents[2] / "reports" / "example"


class TestOnce:
    """A log is one run, under however many names."""

    @pytest.mark.parametrize("again", ["the same", "its directory", "its report", "a link", "a longer way"])
    def test_a_log_that_is_named_twice_counts_once(self, tmp_path: Path, again: str) -> None:
        (log,) = (EXAMPLE / "logs").glob("001-*.stdout")
        (tmp_path / "link.log").symlink_to(log)
        other = {"the same": log, "its directory": log.parent, "its report": EXAMPLE, "a link": tmp_path / "link.log"}
        imported = import_logs([log, other.get(again, log.parent / ".." / "logs" / log.name)])
        paths = [Path(row.path).resolve() for row in imported.rows]
        assert paths.count(log.resolve()) == 1 and len(paths) == len(set(paths))
        assert imported.counts["read already, under this or another name"] >= 1

    def test_an_own_report_is_known_from_within(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(EXAMPLE / "logs")
        for path in (Path(), Path(next(Path().glob("001-*.stdout")).name), Path("..")):
            assert {row.machine for row in import_logs([path]).rows} == {"example"}

    def test_a_log_of_a_demo_is_refused_under_every_name(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make_session: Any) -> None:
        logs = tmp_path / "demo" / "logs"
        logs.mkdir(parents=True)
        write_session(logs.parent, make_session(demo=True))
        (logs / "001.stdout").write_text(log_text := (next((EXAMPLE / "logs").glob("001-*.stdout"))).read_text(encoding="utf-8"), encoding="utf-8")
        assert "total images/sec" in log_text
        (tmp_path / "link.log").symlink_to(logs / "001.stdout")
        monkeypatch.chdir(logs)
        for path in (Path("001.stdout"), Path(), tmp_path / "link.log", Path("..", "logs")):
            imported = import_logs([path])
            assert imported.rows == () and "demo" in imported.refused[0].reason
