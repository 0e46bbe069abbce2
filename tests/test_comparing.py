"""The commands that set figures beside each other: what they print, write, refuse and exit with."""

from __future__ import annotations

import csv
import io
import json
import re
import sys
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from e2e_kit import OLD, Product, planned_commands
from rich.console import Console as Terminal

from wrapper import views
from wrapper.cli import main
from wrapper.comparing import Against, about_published, compare_reports
from wrapper.parser.remedies import load_words
from wrapper.parser.verdict import Judgement
from wrapper.process import Execution
from wrapper.reporter.analysis import Summary
from wrapper.reporter.comparison import compare
from wrapper.reporter.matching import Conditions, references_from
from wrapper.reporter.reference import load_references, load_sources, published_sweeps
from wrapper.reporter.store import Session, Trial, append_trial, write_session
from wrapper.runner.sweep import Case

pytest_plugins = ["e2e_kit"]

HOSTILE = "\x1b]0;owned\x07\x1b[2J[bold red]"
GPU_LINE = (
    "2020-06-27 11:24:20.926874: I tensorflow/core/common_runtime/gpu/gpu_device.cc:1304] Created TensorFlow device "
    "(/job:localhost/replica:0/task:0/device:GPU:0 with 10000 MB memory) -> physical GPU (device: 0, name: {gpu}, pci bus id: 0)"
)

Report = Callable[..., Path]
Command = Callable[..., tuple[int, str]]


@pytest.fixture
def report(tmp_path: Path) -> Report:
    """Writes a report: the totals of each model at a batch size of 64 (alexnet 512), an empty list for one that failed."""

    def write(
        name: str, figures: dict[str, Sequence[float]], *, gpu: str = "NVIDIA GeForce RTX 2080 Ti", demo: bool = False, device: str = "gpu"
    ) -> Path:
        directory = tmp_path / "reports" / name
        (directory / "logs").mkdir(parents=True)
        write_session(directory, msgspec.structs.replace(session(gpu, demo=demo), device=device))
        index = 0
        for model, totals in figures.items():
            case = Case(model=model, batch_size=512 if model == "alexnet" else 64, device=device)
            for repeat, total in enumerate(totals or [None], start=1):
                index += 1
                append_trial(directory, trial(index, case, repeat, total))
        return directory

    return write


def session(gpu: str, *, demo: bool) -> Session:
    return Session(
        demo=demo,
        created="2026-11-30T20:00:00Z",
        sweep={"name": "all", "repeats": 3},
        release={"tensorflow": "1.12.0", "upstream_commit": "ec056be" + "0" * 33, "verified": True},
        upstream={"commit": "ec056be" + "0" * 33, "address": "https://github.com/tensorflow/benchmarks.git"},
        environment={"kind": "locked", "python_version": "3.6.15", "tensorflow": "1.12.0"},
        host={"cpu": "Xeon", "os": "Linux", "gpus": [{"name": gpu, "driver": "410.78", "compute_capability": "7.5"}]},
        versions={"tfcnn": "0.1.0"},
        command=("tfcnn", "run"),
        device="gpu",
    )


def trial(index: int, case: Case, repeat: int, total: float | None) -> Trial:
    verdict = "out_of_memory" if total is None else "ok"
    return Trial(
        index=index,
        case=case,
        repeat=repeat,
        command=("python", "tf_cnn_benchmarks.py"),
        execution=Execution(exit_code=0 if total else 1, started="2026-11-30T20:00:00Z", seconds=12.5),
        judgement=Judgement(verdict=verdict, images_per_sec=total, total_line=31 if total else None, reason="" if total else "OOM"),
        log=f"logs/{index:03d}.stdout",
    )


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs a command in this process: its exit code, and all that it printed, from which nothing can steer a terminal."""

    def run(*arguments: object) -> tuple[int, str]:
        try:
            code = main([*map(str, arguments)])
        except SystemExit as exit_:
            code = int(str(exit_.code))
        printed = "".join(capsys.readouterr())
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", printed)
        return code, printed

    return run


def log(total: str = "290.12", *, gpu: str = "GeForce RTX 2080 Ti", model: str = "resnet50", batch_size: int = 64) -> str:
    return "\n".join(
        [
            GPU_LINE.format(gpu=gpu),
            "TensorFlow:  1.15",
            f"Model:       {model}",
            "Dataset:     imagenet (synthetic)",
            "Mode:        training",
            f"Batch size:  {batch_size} global",
            f"             {batch_size} per device",
            "Num batches: 20",
            "Devices:     ['/gpu:0']",
            "Data format: NCHW",
            "Optimizer:   sgd",
            "Variables:   parameter_server",
            "==========",
            "Step\tImg/sec\ttotal_loss",
            *(f"{step}\timages/sec: {float(total):.1f} +/- 0.0 (jitter = 0.0)\t7.900" for step in (1, 10, 20)),
            f"total images/sec: {total}",
            "",
        ]
    )


def tree(root: Path, name: str, text: str) -> Path:
    """A log as lambda-tensorflow-benchmark keeps it; returns the top of the tree."""
    path = root / "logs" / name / "throughput" / "1"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return root / "logs"


class TestReferences:
    def test_each_row_comes_with_its_source(self, command: Command) -> None:
        code, printed = command("references", "--gpu", "RTX 2080 Ti", "--model", "resnet50", "--source", "lambda_blog_2019_03", "--precision", "fp32")
        assert code == 0
        assert re.search(r"GeForce RTX 2080 Ti +resnet50 .* 294 ", printed)
        assert "caution: precision inferred" in " ".join(printed.split())
        assert f"[1] lambda_blog_2019_03: {load_sources()['lambda_blog_2019_03'].title}" in printed
        assert "https://lambdalabs.com/blog/2080-ti-deep-learning-benchmarks" in printed

    def test_the_sources_are_listed_with_how_many_figures_each_has(self, command: Command) -> None:
        code, printed = command("references", "--sources")
        figures = Counter(one.source for one in load_references())
        assert code == 0
        assert {line.split()[0]: int(line.split()[1]) for line in printed.splitlines()[1:] if not line.startswith(" ")} == figures

    @pytest.mark.parametrize("asked", [(), ("--gpu", "Turing"), ("--source", "lambda_logs_2020_21"), ("--gpu", "RTX 2080 Ti", "--model", "resnet50")])
    def test_many_are_counted_unless_all_are_asked_for(self, asked: tuple[str, ...], command: Command) -> None:
        listed = json.loads(command("references", *asked, "--json")[1])["references"]
        code, short = command("references", *asked)
        counts = Counter((one["gpu"], one["source"]) for one in listed)
        assert code == 0 and len(listed) > 50 and len(short.splitlines()) < 120
        assert all(re.search(rf"^{re.escape(gpu)} +{source} +{count} ", short, re.MULTILINE) for (gpu, source), count in counts.items())
        assert f"{len(listed)} published figures of " in short and "--all" in short
        if len(listed) < 1000:
            assert f"{len(listed)} published figures; " in command("references", *asked, "--all")[1]

    @pytest.mark.parametrize("asked", [("--gpu", "RTX 2080 Tie"), ("--model", "resnet5"), ("--source", "nobody")])
    def test_what_does_not_exist_is_refused(self, asked: tuple[str, str], command: Command) -> None:
        code, printed = command("references", *asked)
        assert code == 2
        assert asked[1] in printed and len(printed.splitlines()) == 1

    @pytest.mark.parametrize(("gpu", "code"), [("RTX 2070", 0), ("H200", 0), ("RTX 2080 Tie", 2), ("RTX 2080 Ti", 0)])
    def test_a_gpu_is_known_to_compare_as_it_is_to_references(self, gpu: str, code: int, report: Report, command: Command) -> None:
        """One that has a name here but no figure is no mistake."""
        listed, compared = command("references", "--gpu", gpu), command("compare", report("mine", {"resnet50": [1.0]}), "--against", gpu)
        assert (listed[0], compared[0]) == (code, code)
        none = gpu in ("RTX 2070", "H200")
        assert ("no published figure of the GPU" in listed[1], "has no published figure of resnet50" in compared[1]) == (none, none)


class TestImport:
    def test_counts_reasons_notes_and_rows(self, command: Command, tmp_path: Path) -> None:
        tree(tmp_path, "box.logs/syn-parameter_server-fp32-1gpus/resnet50-64", log())
        tree(tmp_path, "box.logs/syn-parameter_server-fp32-1gpus/resnet50-32", log("270.00", batch_size=48))
        tree(tmp_path, "box.logs/syn-parameter_server-fp32-1gpus/vgg16-64", log("1.00", model="vgg16").replace("total images/sec: 1.00\n", ""))
        (tmp_path / "logs" / "README").write_text("no log", encoding="utf-8")
        code, printed = command("import", tmp_path / "logs", "--csv", tmp_path / "rows.csv")
        assert code == 0
        assert "imported box: GeForce RTX 2080 Ti, TensorFlow 1.15" in printed
        assert re.search(r"resnet50 +64 +training, fp32, 1 GPU, synthetic data +290\.1 +1", printed)
        assert "3 logs, 2 with a valid figure, 1 other file" in printed
        assert all(re.search(line, printed) for line in (r" 2  ok", r" 1  no_total", r" 1  no output of the benchmark in it"))
        assert "note on 1 log, first" in printed and "the directory's name says batch_size 32, the log 48" in printed
        with (tmp_path / "rows.csv").open(encoding="utf-8", newline="") as file:
            assert sorted((row["images_per_sec"], row["verdict"]) for row in csv.DictReader(file)) == [
                ("", "no_total"),
                ("270.0", "ok"),
                ("290.12", "ok"),
            ]

    def test_a_valid_figure_that_can_be_in_no_table_is_said(self, command: Command, tmp_path: Path) -> None:
        (tmp_path / "run.log").write_text(log(), encoding="utf-8")
        code, printed = command("import", tmp_path / "run.log")
        assert code == 0
        assert "the precision or the data: 1 valid figure" in printed
        assert f"resnet50, batch 64: 290.12 images/sec: {tmp_path / 'run.log'}" in printed

    def test_nothing_to_import(self, command: Command, tmp_path: Path) -> None:
        (tmp_path / "notes.txt").write_text("nothing", encoding="utf-8")
        code, printed = command("import", tmp_path)
        assert code == 1
        assert "1  no output of the benchmark in it" in printed and "nothing that was named is a log" in printed

    @pytest.mark.skipif(sys.platform == "win32", reason="such names can't be made on Windows")
    def test_hostile_text_stays_text(self, command: Command, tmp_path: Path) -> None:
        logs = tree(tmp_path, f"{HOSTILE}.logs/syn-parameter_server-fp32-1gpus/resnet50-64", log(gpu=HOSTILE, model=HOSTILE, batch_size=32))
        (logs / f"{HOSTILE}.txt").write_text("no log", encoding="utf-8")
        assert command("import", logs)[0] == 0
        code, printed = command("compare", logs, "--baseline", logs)
        assert code == 0 and "owned" in printed and "100.0" in printed


REFUSED_COMPARISONS: dict[str, tuple[tuple[str, ...], int, str]] = {
    "a demo": (("demo",), 1, "demo is a demo"),
    "no report": (("absent",), 1, "there is no"),
    "a directory without logs": (("empty",), 1, "no log that can be compared (it is empty)"),
    "neither a source nor a GPU": (("mine", "--against", "RTX 2080 Tie"), 2, "'RTX 2080 Tie' is neither"),
    "no such baseline": (("mine", "--baseline", "yesterday"), 2, "'yesterday'"),
    "an empty baseline": (("mine", "--baseline", "empty"), 1, "no log that can be compared"),
    "a file of a gate without a bound": (("mine", "--junit", "junit.xml"), 2, "--fail-below"),
    "a bound that nothing falls below": (("mine", "--fail-below", "nan"), 2, "'nan' is not a ratio"),
    "a bound that is no number": (("mine", "--fail-below", "slow"), 2, "'slow' is not a ratio"),
    "several reports under one name": (("mine", "other", "--against", "lambda_blog_2019_03", "--json", "bench.json"), 2, "2 reports"),
}


class TestCompare:
    def test_a_figure_in_per_cent_of_a_published_one(self, report: Report, command: Command) -> None:
        mine = report("mine", {"resnet50": [147.0, 147.0, 147.0], "alexnet": [], "trivial": [9000.0]})
        code, printed = command("compare", mine, "--against", "lambda_blog_2019_03")
        assert code == 0
        # 147 / 294, and 147 / 143 to the V100's neighbour in that source
        assert re.search(r"GeForce RTX 2080 Ti +294 +0\.500 ± 0\.000 \(50\.0 %\) +not stated: ", printed)
        assert "No valid figure: alexnet-b512-fp32-gpu1" in printed
        assert re.search(r"trivial-b64-fp32-gpu1 +lambda_blog_2019_03 +lambda_blog_2019_03 has no published figure of trivial +–", printed)
        assert "https://lambdalabs.com/blog/2080-ti-deep-learning-benchmarks" in printed
        overall = re.search(r"GeForce RTX 2080 Ti +\[1\] +0\.500 \(50\.0 %\) +resnet50 +trivial", printed)
        assert overall, printed

    def test_what_a_reference_does_not_state_is_said_beside_what_differs(self, report: Report, command: Command) -> None:
        _, printed = command("compare", report("mine", {"resnet50": [147.0] * 3}), "--against", "lambda_blog_2019_03")
        overall, _, rows = printed.partition("\nOverall")[2].partition("\nresnet50, batch size 64")
        assert "not stated: " in rows and "same as far as stated" not in rows
        assert "not stated: " in " ".join(overall.split()), overall

    @pytest.mark.parametrize("made", ["compare", "report"])
    def test_many_ratios_come_as_a_line_for_each_device_and_source_unless_all_are_asked_for(
        self, made: str, report: Report, command: Command
    ) -> None:
        models = {"resnet50": 290.0, "resnet152": 110.0, "inception3": 194.0, "inception4": 80.0, "vgg16": 170.0, "alexnet": 4300.0}
        mine = report("mine", {model: [figure] * 3 for model, figure in models.items()} | {"trivial": [9000.0]})
        asked = (made, mine, "--against", "Turing,Pascal,Ampere", *(("--fail-below", "0.001") if made == "compare" else ()))
        code, short = command(*asked)
        assert code == 0 and len(short.splitlines()) < 90
        whole = command(*asked, "--all")[1]
        (compared,) = compare_reports([mine], Against(entries=("Turing", "Pascal", "Ampere")))
        rows, lacking = compared.comparison.rows, compared.comparison.unmatched
        pairs = {(row.reference.gpu, row.reference.source) for row in rows}
        assert f"each device of each source ({len(pairs)}), made of all ratios ({len(rows)})" in short and "add --all" in short
        assert {source for _, source in pairs} == set(re.findall(r"^\[\d+\] (\w+): ", short, re.MULTILINE))
        assert lacking and f"Nothing to compare trivial-b64-fp32-gpu1 with in {', '.join(one.against for one in lacking)}" in short
        assert "add --all" not in whole and whole.count("images/sec, n ") == len({row.summary.case for row in rows})
        assert all(row.ratio_text in whole for row in rows)

    def test_turing_pascal_and_ampere_at_once_fit_the_terminal(self, report: Report, command: Command) -> None:
        models = {"resnet50": 290.0, "resnet152": 110.0, "inception3": 194.0, "inception4": 80.0, "vgg16": 170.0, "alexnet": 4300.0}
        mine = report("mine", {model: [figure] * 3 for model, figure in models.items()})
        code, printed = command("compare", mine, "--all", "--against", "RTX 2080 Ti", "--against", "GTX 1080 Ti,A100")
        assert code == 0
        table, _, sources = printed.partition("\nSources\n")
        assert max(map(len, table.splitlines())) <= 120
        named = set(re.findall(r"\[\d+\]", table))
        assert named == set(re.findall(r"^\[\d+\]", sources, re.MULTILINE))
        assert all(gpu in table for gpu in ("GeForce RTX 2080 Ti", "GeForce GTX 1080 Ti", "A100-"))

    @pytest.mark.parametrize(("case", "marks"), [({}, ""), ({"xla": True}, "*"), ({"xla": None}, "†"), ({"xla": True, "flags": None}, "*†")])
    def test_the_table_marks_what_differs_and_what_is_not_stated(self, case: dict[str, Any], marks: str) -> None:
        conditions = Conditions(name="mine", gpu="Tesla T4", tensorflow="1.12.0", tf32=False)
        summary = Summary(case=Case(model="resnet50", batch_size=64, device="gpu"), n=3, mean=100.0, ci95=1.0)
        theirs = [msgspec.structs.replace(one, **case) for one in references_from([summary], msgspec.structs.replace(conditions, name="page"))]
        console = Terminal(width=120, file=io.StringIO())
        for part in views.comparison_parts([compare([summary], conditions, theirs)], {}, whole=True):
            console.print(part)
        assert isinstance(console.file, io.StringIO)
        printed = console.file.getvalue()
        assert f"100.0 % b64{marks} " in printed
        assert "* other conditions differ, † are not stated" in " ".join(printed.split())

    def test_strict_says_what_is_not_the_same(self, report: Report, command: Command) -> None:
        code, printed = command("compare", report("mine", {"resnet50": [290.0] * 3}), "--against", "lambda_blog_2019_03", "--strict")
        assert code == 0
        assert "%" not in printed
        assert re.search(r"resnet50-b64-fp32-gpu1 +lambda_blog_2019_03 +XLA not stated; .* GeForce RTX 2080 Ti, ", printed)

    def test_the_gate(self, report: Report, command: Command, tmp_path: Path) -> None:
        report("before", {"resnet50": [100.0] * 3, "vgg16": [100.0] * 3})
        now = report("now", {"resnet50": [94.0] * 3, "vgg16": [96.0] * 3})
        gate = ("compare", now, "--reports", tmp_path / "reports", "--baseline", "before", "--fail-below")
        files = ("--junit", tmp_path / "junit.xml", "--json", tmp_path / "bench.json")
        code, printed = command(*gate, "0.95", *files)
        assert code == 5
        below = [line for line in printed.splitlines() if line.startswith("below the bound")]
        assert len(below) == 1 and "resnet50-b64-fp32-gpu1: 0.940" in below[0] and "of before" in below[0]
        (suite,) = ET.parse(tmp_path / "junit.xml").getroot()
        assert (suite.attrib["name"], suite.attrib["tests"], suite.attrib["failures"]) == ("now", "2", "1")
        assert [entry["value"] for entry in json.loads((tmp_path / "bench.json").read_text(encoding="utf-8"))] == [94.0, 96.0]
        assert command(*gate, "0.9")[0] == 0

    def test_a_case_without_a_figure_does_not_pass_the_gate(self, report: Report, command: Command) -> None:
        before = report("before", {"resnet50": [100.0] * 3})
        code, printed = command("compare", report("now", {"resnet50": []}), "--baseline", before, "--fail-below", "0.5")
        assert code == 5
        assert "below the bound: resnet50-b64-fp32-gpu1: no valid figure" in printed

    def test_a_gate_that_tests_nothing_fails(self, report: Report, command: Command) -> None:
        before = report("before", {"vgg16": [100.0] * 3})
        code, printed = command("compare", report("now", {"resnet50": [1.0]}), "--baseline", before, "--fail-below", "0.5")
        assert code == 1
        assert "no case of now could be compared" in printed

    def test_the_baseline_is_one_of_the_reports_and_not_compared_with_itself(self, report: Report, command: Command) -> None:
        before, now = report("before", {"resnet50": [100.0] * 3}), report("now", {"resnet50": [110.0] * 3})
        code, printed = command("compare", before, now, "--baseline", "before")
        assert code == 0
        assert "1.100 ± 0.000 (110.0 %)" in printed and "(100.0 %)" not in printed
        assert "[1] before: the baseline given" in printed

    def test_a_report_with_itself_is_a_hundred_per_cent(self, report: Report, command: Command) -> None:
        mine = report("mine", {"resnet50": [100.0, 101.0, 99.0]})
        code, printed = command("compare", mine, "--baseline", mine, "--against", "lambda_blog_2019_03")
        assert code == 0
        assert re.search(r"1\.000 ± 0\.\d{3} \(100\.0 %\) +same conditions", printed)
        assert "lambda_blog_2019_03" in printed

    def test_the_order_of_options_and_reports_does_not_matter(self, report: Report, command: Command) -> None:
        a, b = report("a", {"resnet50": [100.0]}), report("b", {"resnet50": [110.0]})
        first, second = ("--against", "lambda_blog_2019_03"), ("--against", "tf_org_dgx1, tf_org_gce")
        for reports in ((a,), (a, b)):
            code, expected = command("compare", *reports, *first, *second)
            assert code == 0 and "Tesla P100" in expected and "Tesla K80" in expected and "GeForce RTX 2080 Ti" in expected
            for given in ((*first, *second, *reports), (*first, *reports, *second)):
                assert command("compare", *given) == (0, expected)

    def test_a_folder_of_reports_stands_for_all_of_them(self, report: Report, command: Command, tmp_path: Path) -> None:
        report("a", {"resnet50": [100.0]})
        report("b", {"resnet50": [110.0]}, gpu="Tesla T4")
        code, printed = command("compare", tmp_path / "reports", "--against", "lambda_blog_2019_03")
        assert code == 0
        assert "\na: GeForce RTX 2080 Ti, TensorFlow 1.12.0" in printed and "\nb: Tesla T4, TensorFlow 1.12.0" in printed

    @pytest.mark.parametrize("made", ["compare", "report", "merge"])
    def test_a_cpu_is_not_called_a_gpu(self, made: str, report: Report, command: Command) -> None:
        mine = report("mine", {"resnet50": [5.0] * 3}, device="cpu")
        code, printed = command(made, mine, *(() if made == "merge" else ("--against", "CPU")))
        assert code == 0 and "Xeon" in printed
        assert made == "merge" or re.search(r"CPU Ryzen 9 4900HS +\S+ +\S+ ± 0\.000", printed)
        assert "GPU" not in printed

    def test_a_tree_of_logs_is_a_report(self, command: Command, tmp_path: Path) -> None:
        logs = tree(tmp_path, "box.logs/syn-parameter_server-fp32-1gpus/resnet50-64", log("147.00"))
        code, printed = command("compare", logs, "--against", "lambda_blog_2019_03")
        assert code == 0
        assert "logs box: GeForce RTX 2080 Ti" in printed and re.search(r"GeForce RTX 2080 Ti +294 +0\.500 \(50\.0 %\)", printed)

    @pytest.mark.parametrize(("arguments", "code", "named"), REFUSED_COMPARISONS.values(), ids=REFUSED_COMPARISONS.keys())
    def test_refused(
        self, arguments: tuple[str, ...], code: int, named: str, report: Report, command: Command, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        report("demo", {"resnet50": [1.0]}, demo=True)
        report("other", {"resnet50": [1.0]})
        reports = report("mine", {"resnet50": [1.0]}).parent
        (reports / "empty").mkdir()
        monkeypatch.chdir(reports)
        ended, printed = command("compare", *arguments)
        assert (ended, named in printed.splitlines()[-1]) == (code, True), printed
        assert not (reports / "bench.json").exists() and not (reports / "junit.xml").exists()


class TestMerge:
    def test_machines_side_by_side(self, report: Report, command: Command) -> None:
        both = report("a", {"resnet50": [100.0] * 3}), report("b", {"resnet50": [150.0] * 3, "vgg16": [50.0] * 3}, gpu="Tesla T4")
        code, printed = command("merge", *both)
        assert code == 0
        assert f"\ntoo_few: {load_words().warnings['too_few']}\n" in command("merge", report("c", {"resnet50": [100.0]}), both[0])[1]
        assert re.search(r"^b +Tesla T4 +1\.12\.0 +150\.0 ± 0 \(1\.500 ± 0\.000[^)]*\) +50\.00 ± 0 \(1\.000\)", printed, re.MULTILINE), printed

    def test_a_report_twice(self, report: Report, command: Command) -> None:
        mine = report("mine", {"resnet50": [100.0]})
        assert command("merge", mine, mine)[0] == 2


@pytest.fixture(scope="module")
def demo(product: Product, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report with its logs."""
    root = tmp_path_factory.mktemp("demo")
    small = ("--models", "trivial=1", "--steps", "1", "--warmup-steps", "1", "--repeats", "1")
    places = ("--vendor", str(root / "vendor"), "--reports", str(root / "reports"))
    product.run("run", "--demo", *small, *places).check_returncode()
    (directory,) = (root / "reports").iterdir()
    return directory


class TestVerify:
    def test_what_holds_and_what_was_changed(self, demo: Path, command: Command) -> None:
        code, printed = command("verify", demo)
        assert (code, "everything holds" in printed) == (0, True), printed
        results = demo / "results.csv"
        text = results.read_text(encoding="utf-8")
        results.write_text(re.sub(r"\d+\.\d\d\b", "9999.99", text), encoding="utf-8", newline="\n")
        code, printed = command("verify", demo)
        results.write_text(text, encoding="utf-8", newline="\n")
        assert code == 1
        assert "does not hold: results.csv, line 2" in printed and "9999.99" in printed

    def test_no_report(self, command: Command, tmp_path: Path) -> None:
        assert command("verify", tmp_path)[0] == 1


class TestReport:
    def test_block_alone(self, report: Report, command: Command) -> None:
        mine = report("mine", {"resnet50": [100.0] * 3})
        code, printed = command("report", mine, "--block")
        assert code == 0
        assert printed.startswith("**") and "tfcnn run" in printed and len(printed.splitlines()) <= 40
        assert not (mine / "report.md").exists()

    def test_page_with_comparison_and_cost(self, report: Report, command: Command) -> None:
        mine = report("mine", {"resnet50": [147.0] * 3})
        code, printed = command("report", mine, "--against", "lambda_blog_2019_03", "--price", "499")
        assert code == 0
        page = (mine / "report.html").read_text(encoding="utf-8")
        assert "0.500" in page and load_sources()["lambda_blog_2019_03"].url in page
        assert "Images/sec per unit of price" in page and "0.2946" in page
        assert "0.500 ± 0.000 (50.0 %)" in printed and "0.2946" in printed

    def test_a_comparison_stays_in_the_report_and_holds(self, report: Report, command: Command) -> None:
        mine = report("mine", {"resnet50": [147.0] * 3})
        assert command("report", mine, "--against", "lambda_blog_2019_03", "--baseline", report("before", {"resnet50": [100.0] * 3}))[0] == 0
        assert command("report", mine, "--price", "499")[0] == 0
        for name in ("report.md", "report.html"):
            text = (mine / name).read_text(encoding="utf-8")
            assert "0.500 ± 0.000 (50.0 %)" in text and "1.470 ± 0.000 (147.0 %)" in text
        assert "taken as recorded: the figures of the baseline before" in command("verify", mine)[1]

    def test_a_price_that_is_none(self, report: Report, command: Command) -> None:
        mine = report("mine", {"resnet50": [147.0] * 3})
        code, printed = command("report", mine, "--kwh", "-1")
        assert code == 2 and "--kwh" in printed


class TestSite:
    def test_reports_of_a_folder(self, report: Report, command: Command, tmp_path: Path) -> None:
        report("demo", {"resnet50": [1.0]}, demo=True)
        reports = report("mine", {"resnet50": [147.0] * 3}).parent
        code, printed = command("site", tmp_path / "site", reports)
        assert code == 0
        assert "left out: demo: a demo" in printed and "1 report: " in printed
        assert {path.name for path in (tmp_path / "site").iterdir()} == {"index.html", "mine.html"}

    def test_a_tree_of_logs_is_shown_with_its_conditions(self, report: Report, command: Command, tmp_path: Path) -> None:
        logs = tree(tmp_path, "box.logs/syn-parameter_server-fp32-1gpus/resnet50-64", log("147.00"))
        code, printed = command("site", tmp_path / "site", logs, report("mine", {"resnet50": [290.0]}))
        assert code == 0 and "2 reports: " in printed
        index = (tmp_path / "site" / "index.html").read_text(encoding="utf-8")
        assert '<a href="logs-box-1.15.html#conditions">147.0</a>' in index and '<a href="mine.html#conditions">290.0</a>' in index
        assert "parameter_server" in (tmp_path / "site" / "logs-box-1.15.html").read_text(encoding="utf-8")

    def test_nothing_to_show(self, command: Command, tmp_path: Path) -> None:
        (tmp_path / "empty").mkdir()
        code, printed = command("site", tmp_path / "site", tmp_path / "empty")
        assert code == 1 and "left out: empty" in printed


REFUSED_SWEEPS: dict[str, tuple[tuple[str, ...], str]] = {
    "an unknown source": (("nowhere",), "Known: tf_org_dgx1"),
    "a sweep besides": (("tf_org_dgx1", "--sweep", "all"), "--sweep"),
    "a model that it did not measure": (("tf_org_dgx1", "--models", "resnet50,ssd300=32"), "ssd300"),
    "devices that it did not measure": (("tf_org_dgx1", "--devices", "3"), "It measured 1, 2, 4, 8"),
}


class TestAsPublished:
    @pytest.mark.parametrize("source", ["tf_org_dgx1", "tf_org_gce", "tf_org_ec2"])
    def test_the_plan_has_the_flags_of_the_page_for_each_of_its_models(self, source: str, product: Product) -> None:
        done = product.run("run", "--as-published", source, "--dry-run", "--tensorflow", OLD, "--vendor", str(product.vendor))
        assert (done.returncode, done.stderr) == (0, "")
        commands = [command for _, command in planned_commands(done.stdout)]
        expected = []
        for sweep in published_sweeps()[source].sweeps:
            flags = [f"--variable_update={sweep['variable_update']}", *(f"--{name}={value}" for name, value in sweep["flags"].items())]
            sizes = [(model, size) for model, batch_sizes in sweep["models"].items() for size in batch_sizes]
            expected += [(f"--model={model}", f"--batch_size={size}", "--num_batches=100", "--optimizer=sgd", *flags) for model, size in sizes]
        for flags in expected:
            assert sum(set(flags) <= set(command) for command in commands) == 5, flags
        assert len(commands) == 5 * len(expected)

    def test_the_plan_says_what_is_not_as_published(self, product: Product) -> None:
        done = product.run("run", "--as-published", "tf_org_dgx1", "--dry-run", "--tensorflow", OLD, "--vendor", str(product.vendor))
        head = done.stdout.partition("release:")[0]
        assert f"measured with TensorFlow {load_sources()['tf_org_dgx1'].tensorflow}; the release that is used here is named below" in head
        assert (
            "  tf_org_dgx1-1: inception3, resnet50, resnet152: --variable_update=parameter_server --optimizer=sgd --local_parameter_device=cpu\n"
            in head
        )
        assert "  tf_org_dgx1-2: alexnet, vgg16: --variable_update=replicated --optimizer=sgd --all_reduce_spec=nccl\n" in head
        one = product.run("run", "--as-published", "tf_org_gce", "--dry-run", "--tensorflow", OLD, "--vendor", str(product.vendor)).stdout
        assert "sweeps, each with a report" not in one

    @pytest.mark.parametrize("gpu", [True, False])
    def test_a_machine_without_a_gpu_is_told_that_it_would_be_refused(self, gpu: bool) -> None:
        assert any("no NVIDIA GPU" in line for line in about_published("tf_org_gce", [], gpu=gpu)) != gpu

    def test_the_help_names_every_source_that_can_be_repeated(self, command: Command) -> None:
        code, printed = command("run", "--help")
        assert code == 0 and all(source in printed for source in published_sweeps())

    def test_its_sweeps_run_one_after_the_other_with_the_flags_given_over_them(self, product: Product, tmp_path: Path) -> None:
        given = ("--models", "resnet50=2,alexnet", "--repeats", "1", "--flag", "optimizer=momentum")
        done = product.run(*product.sweep(tmp_path / "reports", "--as-published", "tf_org_dgx1", *given))
        assert done.returncode == 0, done.stderr
        sessions = [json.loads(path.read_text(encoding="utf-8")) for path in sorted((tmp_path / "reports").glob("*/session.json"))]
        assert [one["sweep"]["name"] for one in sessions] == ["tf_org_dgx1-1", "tf_org_dgx1-2"]
        assert [one["sweep"]["models"] for one in sessions] == [{"resnet50": [2]}, {"alexnet": [512]}]
        assert [one["sweep"]["variable_update"] for one in sessions] == ["parameter_server", "replicated"]
        flags = {"optimizer": "momentum"}
        assert [one["sweep"]["flags"] for one in sessions] == [flags | {"local_parameter_device": "cpu"}, flags | {"all_reduce_spec": "nccl"}]
        assert [one["sweep"]["steps"] for one in sessions] == [5, 5]

    @pytest.mark.parametrize(("arguments", "named"), REFUSED_SWEEPS.values(), ids=REFUSED_SWEEPS.keys())
    def test_refused(self, arguments: tuple[str, ...], named: str, command: Command) -> None:
        code, printed = command("run", "--dry-run", "--as-published", *arguments)
        assert code == 2
        assert named in printed and len(printed.splitlines()) == 1


def test_public_logs_beside_published_figures(shared: Path, command: Command, tmp_path: Path) -> None:
    public = shared / "logs" / "public"
    code, printed = command("import", public, "--csv", tmp_path / "rows.csv")
    assert code == 0
    assert "12 logs, 9 with a valid figure" in printed
    names: list[dict[str, Any]]
    with (tmp_path / "rows.csv").open(encoding="utf-8", newline="") as file:
        names = list(csv.DictReader(file))
    assert {row["verdict"] for row in names} == {"ok", "out_of_memory", "nccl", "no_total"}
