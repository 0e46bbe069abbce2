"""The demo's upstream: its repository, and that what its script prints is upstream's format."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import git
import pytest
import yaml

from wrapper.bootstrapper.upstream import demo_repository, fetch_checkout
from wrapper.errors import FatalError

SCRIPT = Path(__file__).parents[2] / "wrapper" / "data" / "demo" / "tf_cnn_benchmarks.py"
RULE = "-" * 64
NOTICE = "DEMO: NumPy matrix products, not TensorFlow. These figures can't be compared with anything.\n"
STEP = re.compile(r"(\d+)\timages/sec: (\d+\.\d) \+/- (\d+\.\d) \(jitter = (\d+\.\d)\)\t(\d+\.\d{3})(?:\t([01]\.\d{3})\t([01]\.\d{3}))?")


def run(*flags: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(SCRIPT), *flags], capture_output=True, text=True, encoding="utf-8")


# the repository


def test_the_commit_depends_on_the_script_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = demo_repository(tmp_path / "a")
    config = tmp_path / "config"
    config.write_text(
        "[user]\n\tname = Somebody\n[commit]\n\tgpgSign = true\n[i18n]\n\tcommitEncoding = latin-1\n[core]\n\tautocrlf = true\n\tfileMode = false\n"
        "[init]\n\tdefaultBranch = other\n\tdefaultObjectFormat = sha256\n",
        encoding="utf-8",
    )
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    monkeypatch.setenv("GIT_DEFAULT_HASH", "sha256")
    monkeypatch.setenv("GIT_AUTHOR_DATE", "2020-02-02T02:02:02")
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    second = demo_repository(tmp_path / "b é")
    assert first[1] == second[1]
    assert re.fullmatch(r"[0-9a-f]{40}", first[1])


def test_it_is_fetched_like_the_real_one(tmp_path: Path) -> None:
    address, commit = demo_repository(tmp_path / "vendor")
    checkout = fetch_checkout(commit, address=address, vendor=tmp_path / "vendor", say=[].append)
    assert checkout.script.read_text(encoding="utf-8") == SCRIPT.read_text(encoding="utf-8")
    assert git.Git(checkout.path).ls_files() == "scripts/tf_cnn_benchmarks/tf_cnn_benchmarks.py"


def test_it_is_reused_and_never_overwritten(tmp_path: Path) -> None:
    address, commit = demo_repository(tmp_path)
    head = Path(address) / ".git" / "HEAD"
    made = head.stat().st_mtime_ns
    assert demo_repository(tmp_path) == (address, commit)
    assert head.stat().st_mtime_ns == made
    (Path(address) / "mine.txt").touch()
    with pytest.raises(FatalError, match=r"has changes of its own: mine\.txt"):
        demo_repository(tmp_path)


# the script


def test_prints_upstreams_lines_in_upstreams_order() -> None:
    flags = ["--model=resnet50", "--batch_size=2", "--num_batches=5", "--num_warmup_batches=1", "--num_gpus=2", "--device=cpu"]
    result = run(
        *flags, "--data_format=NHWC", "--variable_update=replicated", "--display_every=2", "--use_fp16=true", "--xla", "--data_name=imagenet"
    )
    assert (result.returncode, result.stderr) == (0, NOTICE)
    lines = result.stdout.split("\n")
    assert lines[:22] == [
        "TensorFlow:  0.0",
        "Model:       resnet50",
        "Dataset:     imagenet (synthetic)",
        "Mode:        training",
        "SingleSess:  False",
        "Batch size:  4 global",
        "             2 per device",
        "Num batches: 5",
        "Num epochs:  0.00",
        "Devices:     ['/cpu:0', '/cpu:1']",
        "NUMA bind:   False",
        "Data format: NHWC",
        "Optimizer:   sgd",
        "Variables:   replicated",
        "AllReduce:   None",
        "==========",
        "Generating training model",
        "Initializing graph",
        "Running warm up",
        "Done warm up",
        "Step\tImg/sec\ttotal_loss",
        lines[21],
    ]
    steps = [STEP.fullmatch(line) for line in lines[21:24]]
    assert [step and step[1] for step in steps] == ["1", "2", "4"]
    assert lines[24] == RULE
    assert re.fullmatch(r"total images/sec: \d+\.\d\d", lines[25])
    assert lines[26:] == [RULE, ""]


def test_its_figures_are_measured_ones() -> None:
    flags = ("--model=trivial", "--batch_size=4", "--num_warmup_batches=1", "--display_every=1", "--num_batches=6")
    first, second = (run(*flags).stdout for _ in range(2))
    for output in (first, second):
        steps = [step for step in map(STEP.fullmatch, output.splitlines()) if step]
        assert len(steps) == 6
        assert (steps[0][3], steps[0][4]) == ("0.0", "0.0")
        assert float(steps[-1][3]) > 0
        total = float(re.search(r"^total images/sec: (\S+)$", output, re.MULTILINE)[1])  # type: ignore[index]
        # the total's time holds the printing too
        assert 0 < total <= float(steps[-1][2]) + 0.1
    losses = [[step[5] for step in map(STEP.fullmatch, output.splitlines()) if step] for output in (first, second)]
    assert losses[0] == losses[1]
    assert sorted(losses[0], reverse=True) == losses[0] and losses[0][0] != losses[0][-1]


def test_forward_only_has_accuracies_and_no_loss() -> None:
    result = run("--model=trivial", "--batch_size=1", "--num_batches=1", "--num_warmup_batches=0", "--forward_only=true")
    assert "Mode:        forward only\n" in result.stdout
    assert "Step\tImg/sec\ttotal_loss\ttop_1_accuracy\ttop_5_accuracy\n" in result.stdout
    step = STEP.search(result.stdout)
    assert step and step[5] == "0.000" and step[6] and step[7]


def test_models_differ_in_speed() -> None:
    def total(model: str) -> float:
        output = run(f"--model={model}", "--batch_size=1", "--num_batches=2", "--num_warmup_batches=1").stdout
        return float(output.split("total images/sec: ")[1].split()[0])

    assert total("vgg11") > 1.5 * total("resnet152")


@pytest.mark.parametrize(
    ("flags", "error"),
    [
        (["--batchsize=2"], "FATAL Flags parsing error: Unknown command line flag 'batchsize'."),
        (["--num_batches=x"], "FATAL Flags parsing error: "),
        (["--forward_only=maybe"], "FATAL Flags parsing error: "),
        (["--device=gpu"], "FATAL Flags parsing error: "),
        (["--xla=true", "False"], "ValueError: Received unknown positional arguments: ['False']"),
        (["--model=resnet51"], "ValueError: Invalid model name 'resnet51' for dataset 'imagenet'"),
        (["--model=ssd300"], "ValueError: Invalid model name 'ssd300' for dataset 'imagenet'"),
    ],
)
def test_refuses_as_upstream_does(flags: list[str], error: str) -> None:
    result = run(*flags)
    assert (result.returncode, result.stdout) == (1, "")
    assert error in result.stderr


def test_knows_every_model_that_the_product_knows() -> None:
    models = yaml.safe_load((SCRIPT.parents[1] / "models.yaml").read_text(encoding="utf-8"))
    sys.path.insert(0, str(SCRIPT.parent))
    try:
        import tf_cnn_benchmarks as demo
    finally:
        sys.path.remove(str(SCRIPT.parent))
    assert set(models) == set(demo.MODELS)
    for data_set, names in models.items():
        assert [name for name in names if not re.fullmatch(demo.MODELS[data_set], name)] == []
