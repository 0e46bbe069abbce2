"""Sweeps on several releases, from the command line to what sets them side by side."""

from __future__ import annotations

import json
import math
import re
import shutil
import signal
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from e2e_kit import NEW, OLD, Product, git, lock, only_report, wait_until

from wrapper.reporter.analysis import t_quantile_975
from wrapper.reporter.axis import is_axis, read_axis
from wrapper.reporter.store import Trial, read_session, read_trials

pytest_plugins = ["e2e_kit"]

POSIX = pytest.mark.skipif(sys.platform == "win32", reason="signals")
BOTH = f"{OLD},{NEW}"
BROKEN = "1.15.5"
"""A release whose packages can't be fetched here."""
FILES = ("releases.md", "releases.html")


def sweep(product: Product, reports: Path, *arguments: str, release: str = BOTH, **variables: str) -> subprocess.CompletedProcess[str]:
    return product.run(*product.sweep(reports, *arguments, release=release), **variables)


def resume(product: Product, directory: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return product.run("run", "--resume", str(directory), "--vendor", str(product.vendor), *arguments, **variables)


def trials(reports: Path, release: str) -> tuple[Trial, ...]:
    return read_trials(only_report(reports) / release)


def totals(reports: Path, release: str, model: str = "trivial") -> list[float | None]:
    return [trial.judgement.images_per_sec for trial in trials(reports, release) if trial.case.model == model]


def in_order(reports: Path) -> list[tuple[str, str, int]]:
    """Release, model and repeat of each trial, in the order in which the trials began."""
    logs = list(only_report(reports).glob("*/logs/*.stdout"))
    logs.sort(key=lambda log: log.stat().st_mtime_ns)
    named = [(log.parent.parent.name, re.fullmatch(r"\d+-(\w+)-.*-r(\d+)\.stdout", log.name)) for log in logs]
    return [(release, found[1], int(found[2])) for release, found in named if found]


def cells(directory: Path) -> dict[str, dict[str, str]]:
    """The table of releases.md: the cells of each line by release."""
    lines = [line for line in (directory / "releases.md").read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[: lines.index(next(line for line in lines if "Python" in line))]]
    headers = [header.removeprefix("TensorFlow ") for header in rows[0]]
    return {row[0]: dict(zip(headers[1:], row[1:], strict=True)) for row in rows[2:] if len(row) == len(headers)}


def test_repeats_go_round_the_releases_and_are_set_side_by_side(product: Product, interpreters: dict[str, str], tmp_path: Path) -> None:
    reports = tmp_path / "reports"
    upstream = {
        "FAKE_COUNTER": str(tmp_path / "counter"),
        "FAKE_TOTALS": "100.00,50.00,200.00,10.00,102.00,52.00,198.00,12.00,104.00,54.00,202.00,11.00",
    }
    done = sweep(product, reports, "--models", "trivial=32,resnet50=2", **upstream)
    assert (done.returncode, done.stderr) == (0, "")
    assert in_order(reports) == [(release, model, repeat) for repeat in (1, 2, 3) for release in (OLD, NEW) for model in ("trivial", "resnet50")]
    assert totals(reports, OLD) == [100.0, 102.0, 104.0] and totals(reports, NEW) == [200.0, 198.0, 202.0]

    parent = only_report(reports)
    assert parent.name.endswith("-cpu-releases-cpu")
    ratio = 200.0 / 102.0
    relative = [
        t_quantile_975(2) * statistics.stdev(values) / math.sqrt(3) / statistics.mean(values) for values in ([100, 102, 104], [200, 198, 202])
    ]
    shown = cells(parent)
    assert shown["trivial, batch 32"][NEW].startswith(f"200.0 ± 5.0 (ratio {ratio:.3f} ± {ratio * math.hypot(*relative):.3f}")
    mean = math.sqrt(ratio * 11.0 / 52.0)
    assert [row[NEW] for label, row in shown.items() if "geometric mean of the ratios, 2 models" in label] == [f"{mean:.3f}"]
    assert f"{ratio:.3f}" in done.stdout and f"{ratio:.3f}" in (parent / "releases.html").read_text(encoding="utf-8")

    assert [read_session(parent / release).upstream["commit"] for release in (OLD, NEW)] == [product.commits[OLD], product.commits[NEW]]
    assert [read_session(parent / release).sweep["tensorflow"] for release in (OLD, NEW)] == [OLD, NEW]


@pytest.fixture(scope="module")
def swept(product: Product, interpreters: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a sweep on both releases, to be looked at only."""
    reports = tmp_path_factory.mktemp("swept") / "reports"
    done = sweep(product, reports, "--models", "trivial=32,ssd300=2", "--repeats", "2")
    assert done.returncode == 0, done.stderr
    return only_report(reports)


def test_each_release_runs_what_it_can_and_the_table_says_what_it_lacks(swept: Path) -> None:
    assert [trial.case.model for trial in read_trials(swept / NEW)] == ["trivial", "trivial"]
    row = next(row for label, row in cells(swept).items() if label.startswith("ssd300"))
    assert row[NEW] == "upstream can't run it"
    assert read_axis(swept).sweep["models"].keys() == {"trivial", "ssd300"}


def test_made_again_verified_and_compared_as_it_stands(product: Product, swept: Path, tmp_path: Path) -> None:
    directory = tmp_path / swept.name
    shutil.copytree(swept, directory)
    made = sorted([*FILES, f"{OLD}/report.md", f"{NEW}/report.html"])
    before = {name: (directory / name).read_bytes() for name in made}
    for name in made:
        (directory / name).unlink()
    again = product.run("report", str(directory))
    assert again.returncode == 0, again.stderr
    assert {name: (directory / name).read_bytes() for name in made} == before
    assert str(directory / "releases.md") in again.stdout
    assert product.run("report", str(directory), "--block").returncode == 2

    assert product.run("verify", str(directory)).returncode == 0
    assert product.run("compare", str(directory), "--baseline", str(directory / OLD)).returncode == 0
    merged = product.run("merge", str(directory))
    assert merged.returncode == 0 and OLD in merged.stdout and NEW in merged.stdout, merged.stderr
    log = next((directory / NEW / "logs").glob("*.stdout"))
    log.write_bytes(log.read_bytes().replace(b"total images/sec: ", b"total images/sec: 9"))
    changed = product.run("verify", str(directory))
    assert changed.returncode == 1 and log.name in changed.stdout

    site = product.run("site", str(tmp_path / "site"), str(directory.parent))
    assert site.returncode == 0 and site.stdout.startswith("2 reports"), site.stdout + site.stderr


def exchange(directory: Path) -> None:
    (directory / OLD).rename(directory / "kept")
    (directory / NEW).rename(directory / OLD)
    (directory / "kept").rename(directory / NEW)


def edit(name: str, old: str, new: str) -> Callable[[Path], None]:
    def change(directory: Path) -> None:
        text = (directory / name).read_text(encoding="utf-8")
        assert old in text
        (directory / name).write_text(text.replace(old, new, 1), encoding="utf-8")

    return change


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (exchange, f"holds the report of TensorFlow {NEW}"),
        (lambda directory: shutil.rmtree(directory / OLD), f"TensorFlow {OLD}"),
        (lambda directory: (directory / OLD / "session.json").unlink(), f"TensorFlow {OLD}"),
        (lambda directory: (directory / "releases.json").unlink(), "releases.json"),
        (lambda directory: (directory / "releases.md").unlink(), "releases.md"),
        (edit("releases.json", OLD, "9.9.9"), "does not ask for"),
        (edit("releases.json", f'"tensorflow": "{OLD}"', f'"tensorflow": "{NEW}"'), "stands twice"),
        (edit("releases.json", '"format": 1', '"format": 2'), "newer version"),
        (edit("releases.md", "± ", "± 0"), "releases.md, line"),
    ],
)
def test_what_was_changed_beside_the_reports_does_not_hold(
    product: Product, swept: Path, change: Callable[[Path], None], named: str, tmp_path: Path
) -> None:
    directory = tmp_path / swept.name
    shutil.copytree(swept, directory)
    change(directory)
    done = product.run("verify", str(directory))
    assert done.returncode == 1 and named in done.stdout, done.stdout + done.stderr


def test_figures_never_stand_under_another_release(product: Product, swept: Path, tmp_path: Path) -> None:
    directory = tmp_path / swept.name
    shutil.copytree(swept, directory)
    exchange(directory)
    for command in (("report", str(directory)), ("run", "--resume", str(directory))):
        done = product.run(*command)
        assert done.returncode == 1 and f"holds the report of TensorFlow {NEW}" in done.stderr, done.stderr


def test_a_dry_run_shows_the_order_in_which_trials_run(product: Product, swept: Path, tmp_path: Path) -> None:
    done = sweep(product, tmp_path / "reports", "--models", "trivial=32,ssd300=2", "--repeats", "2", "--dry-run")
    assert (done.returncode, done.stderr) == (0, "")
    planned = re.findall(r"^trials [\d, ]+: (\w+)-.*, repeats 1 to 2, TensorFlow (.+)$", done.stdout, re.MULTILINE)
    assert "order:       every case once, as below, then every case again" in done.stdout
    assert [(release, model, repeat) for repeat in (1, 2) for model, release in planned] == in_order(swept.parent)
    assert not (tmp_path / "reports").exists()


def test_releases_named_in_a_sweep_file(product: Product, interpreters: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "two.yaml"
    file.write_text(f'tensorflow: ["{OLD}", "2.21"]\nmodels: {{trivial: 2}}\nrepeats: 1\n', encoding="utf-8")
    done = sweep(product, tmp_path / "reports", "--sweep", str(file), release="")
    assert done.returncode == 0, done.stderr
    assert [part.tensorflow for part in read_axis(only_report(tmp_path / "reports")).parts] == [OLD, NEW]
    single = sweep(product, tmp_path / "single", "--sweep", str(file), release=NEW)
    assert single.returncode == 0, single.stderr
    assert not is_axis(only_report(tmp_path / "single")) and read_session(only_report(tmp_path / "single")).release["tensorflow"] == NEW
    for command in (("noise", "--models", "trivial=2"), ("batch-size", "trivial")):
        refused = product.run(*command, "--sweep", str(file), "--vendor", str(product.vendor), "--reports", str(tmp_path / "none"))
        assert refused.returncode == 2 and "2 releases" in refused.stderr, refused.stderr


def test_a_published_source_repeated_on_several_releases(product: Product, interpreters: dict[str, str], tmp_path: Path) -> None:
    reports = tmp_path / "reports"
    done = sweep(product, reports, "--as-published", "tf_org_dgx1", "--models", "resnet50=2,alexnet=2", "--repeats", "1")
    assert (done.returncode, done.stderr) == (0, "")
    parents = sorted(reports.iterdir())
    assert [list(read_axis(parent).sweep["models"]) for parent in parents] == [["resnet50"], ["alexnet"]]
    for parent, flag in zip(parents, ("--local_parameter_device=cpu", "--all_reduce_spec=nccl"), strict=True):
        for release in (OLD, NEW):
            (trial,) = read_trials(parent / release)
            assert trial.judgement.verdict == "ok" and flag in trial.command
        (shown,) = cells(parent).values()
        assert "(ratio 1," in shown[OLD] and re.search(r"\(ratio \d+\.\d{3},", shown[NEW])


@pytest.fixture
def own(product: Product, interpreters: dict[str, str], tmp_path: Path) -> Product:
    """A copy of the product, to which a test may add packages."""
    root = tmp_path / "product"
    shutil.copytree(product.root, root, ignore=shutil.ignore_patterns("vendor", "tmp"))
    (root / "tmp").mkdir()
    return Product(root=root, commits=product.commits)


def test_a_release_that_cannot_be_prepared_does_not_stop_the_others_and_is_made_up_for(own: Product, tmp_path: Path) -> None:
    reports = tmp_path / "reports"
    done = sweep(own, reports, "--models", "trivial=2", "--repeats", "2", release=f"{OLD},1.15,{NEW}")
    assert done.returncode == 4, done.stderr
    parent = only_report(reports)
    assert in_order(reports) == [(release, "trivial", repeat) for repeat in (1, 2) for release in (OLD, NEW)]
    assert not (parent / BROKEN).exists()
    part = read_axis(parent).parts[1]
    assert part.tensorflow == BROKEN and "can't be fetched" in part.reason and "--demo" in part.remedy
    assert cells(parent)["trivial, batch 2"][BROKEN] == "not measured"
    for text in (done.stdout, *((parent / name).read_text(encoding="utf-8") for name in FILES)):
        assert "be fetched while installing TensorFlow 1.15.5" in text

    lock(own.root, BROKEN)
    resumed = resume(own, parent, FAKE_TENSORFLOW="1.15")
    assert resumed.returncode == 0, resumed.stderr
    assert [trial.repeat for trial in trials(reports, BROKEN)] == [1, 2]
    assert in_order(reports)[4:] == [(BROKEN, "trivial", 1), (BROKEN, "trivial", 2)]
    assert read_axis(parent).parts[1].reason == "" and "not measured" not in (parent / "releases.md").read_text(encoding="utf-8")


def test_a_flag_that_one_commit_lacks_leaves_its_release_out(own: Product, tmp_path: Path) -> None:
    reports = tmp_path / "reports"
    upstream = own.root / "upstream"
    script = upstream / "scripts" / "tf_cnn_benchmarks" / "newer.py"
    script.write_text('FLAGS = ["tf_of_tomorrow"]\n', encoding="utf-8")
    git(upstream, "add", ".")
    git(upstream, "commit", "--quiet", "--message", "Know a flag more")
    table = own.root / "wrapper" / "data" / "releases.yaml"
    table.write_text(table.read_text(encoding="utf-8").replace(own.commits[NEW], git(upstream, "rev-parse", "HEAD")), encoding="utf-8")
    done = sweep(own, reports, "--models", "trivial=2", "--repeats", "1", "--flag", "tf_of_tomorrow=1")
    assert done.returncode == 4, done.stderr
    assert [part.reason and re.search(r"flags\.(\w+)", part.reason)[1] for part in read_axis(only_report(reports)).parts] == ["tf_of_tomorrow", ""]
    assert [trial.judgement.verdict for trial in trials(reports, NEW)] == ["ok"]


def test_where_no_release_can_be_prepared_nothing_is_begun(own: Product, tmp_path: Path) -> None:
    done = sweep(own, tmp_path / "reports", "--models", "trivial=2", release="1.14,1.15")
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1 and "TensorFlow 1.14.0:" in done.stderr and "TensorFlow 1.15.5:" in done.stderr
    assert not (tmp_path / "reports").exists()


def test_a_case_that_fails_on_one_release_is_words_and_no_number(product: Product, interpreters: dict[str, str], tmp_path: Path) -> None:
    reports = tmp_path / "reports"
    models = ("--models", "trivial=2,vgg16=2", "--repeats", "1")
    done = sweep(product, reports, *models, FAKE_BEHAVIOURS="vgg16=oom")
    assert done.returncode == 4, done.stderr
    assert set(cells(only_report(reports))["vgg16, batch 2"].values()) == {"no valid figure (1 failed: out of memory)"}
    retried = resume(product, only_report(reports) / NEW, "--retry", "2")
    assert retried.returncode == 0, retried.stderr
    shown = cells(only_report(reports))["vgg16, batch 2"]
    assert shown[OLD] == "no valid figure (1 failed: out of memory)" and re.match(r"\d", shown[NEW])
    assert "ratio" not in shown[NEW], "a ratio to nothing"


def test_rounds_are_added_on_all_releases_until_each_mean_is_known(product: Product, interpreters: dict[str, str], tmp_path: Path) -> None:
    upstream = {"FAKE_COUNTER": str(tmp_path / "counter"), "FAKE_TOTALS": "100.00,200.00,100.00,300.00,100.00,250.00"}
    asked = ("--models", "trivial=2", "--repeats", "2", "--until", "1%", "--max-repeats", "3")
    done = sweep(product, tmp_path / "reports", *asked, **upstream)
    assert done.returncode == 0, done.stderr
    assert f"with TensorFlow {NEW}, 1 % asked for" in done.stdout
    assert in_order(tmp_path / "reports") == [(release, "trivial", repeat) for repeat in (1, 2, 3) for release in (OLD, NEW)]


def test_a_budget_plans_the_same_steps_for_all(product: Product, interpreters: dict[str, str], tmp_path: Path) -> None:
    asked = ("--models", "trivial=2", "--steps", "20", "--repeats", "1", "--max-repeats", "2", "--budget", "60s")
    done = sweep(product, tmp_path / "reports", *asked)
    assert done.returncode == 0, done.stderr
    assert "one short trial of each of 2 cases" in done.stdout
    planned = {(trial.case.steps, trial.repeat) for release in (OLD, NEW) for trial in trials(tmp_path / "reports", release)}
    assert planned == {(20, 1), (20, 2)}
    assert read_axis(only_report(tmp_path / "reports")).sweep["repeats"] == 2


def lines_in(reports: Path, release: str) -> int:
    return sum(path.read_bytes().count(b"\n") for path in reports.glob(f"*/{release}/trials.jsonl"))


@POSIX
@pytest.mark.parametrize("name", ["SIGKILL", "SIGTERM", "SIGINT"])
def test_broken_off_in_the_second_round_and_gone_on_with(product: Product, interpreters: dict[str, str], name: str, tmp_path: Path) -> None:
    reports = tmp_path / "reports"
    arguments = product.sweep(reports, "--models", "trivial=2,resnet50=2", "--repeats", "2", "--steps", "20", release=BOTH)
    process = product.start(*arguments, FAKE_STEP_S="0.01")
    try:
        assert wait_until(lambda: lines_in(reports, NEW) == 2)
        process.send_signal(getattr(signal, name))
        _, errors = process.communicate(timeout=30)
    finally:
        process.kill()
        process.wait()
    parent = only_report(reports)
    finished = {release: (parent / release / "trials.jsonl").read_bytes() for release in (OLD, NEW)}
    assert lines_in(reports, NEW) == 2
    if name != "SIGKILL":
        assert process.returncode == 130 and len(errors.splitlines()) == 1 and f"--resume {parent}" in errors, errors
        assert (parent / "releases.md").is_file()

    resumed = resume(product, parent)
    assert resumed.returncode == 0, resumed.stderr
    for release in (OLD, NEW):
        assert (parent / release / "trials.jsonl").read_bytes().startswith(finished[release])
        assert [trial.judgement.verdict for trial in trials(reports, release)] == ["ok"] * 4
    assert in_order(reports) == [(release, model, repeat) for repeat in (1, 2) for release in (OLD, NEW) for model in ("trivial", "resnet50")]
    assert product.run("verify", str(parent)).returncode == 0


def test_one_release_is_gone_on_with_alone(product: Product, swept: Path, tmp_path: Path) -> None:
    parent = tmp_path / swept.name
    shutil.copytree(swept, parent)
    records = parent / NEW / "trials.jsonl"
    records.write_bytes(records.read_bytes().splitlines(keepends=True)[0])
    other = (parent / OLD / "trials.jsonl").read_bytes()
    done = resume(product, parent / NEW)
    assert done.returncode == 0, done.stderr
    assert len(read_trials(parent / NEW)) == 2 and (parent / OLD / "trials.jsonl").read_bytes() == other
    assert str(parent / "releases.md") in done.stdout


def test_a_release_that_has_changed_since_is_left_as_it_is(product: Product, swept: Path, tmp_path: Path) -> None:
    parent = tmp_path / swept.name
    shutil.copytree(swept, parent)
    session = json.loads((parent / OLD / "session.json").read_text(encoding="utf-8"))
    session["environment"]["packages"]["numpy"] = "1.16.0"
    (parent / OLD / "session.json").write_text(json.dumps(session), encoding="utf-8")
    for release in (OLD, NEW):
        (parent / release / "trials.jsonl").write_bytes(b"")
    done = resume(product, parent)
    assert done.returncode == 4, done.stderr
    assert "numpy" in read_axis(parent).parts[0].reason
    assert not read_trials(parent / OLD) and len(read_trials(parent / NEW)) == 2
    assert cells(parent)["trivial, batch 32, Data set the model's own"][OLD] == "not run"


REFUSED = {
    "a release twice": (("--tensorflow", "1.12.3,2.21,1.12"), "means 1.12.3, 2.21.0, 1.12.3"),
    "the same text twice": (("--tensorflow", "2.21,2.21"), "stands twice"),
    "an unknown release": (("--tensorflow", f"{OLD},1.99.0"), "1.99.0"),
    "a comma too many": (("--tensorflow", f"{OLD},"), "''"),
    "the demo": (("--tensorflow", BOTH, "--demo"), "--demo"),
    "an interpreter, which has one": (("--tensorflow", BOTH, "--python", sys.executable), "python:"),
    "a batch size that each would find for itself": (("--tensorflow", BOTH, "--models", "trivial=max"), "models.trivial"),
}


@pytest.mark.parametrize(("arguments", "named"), REFUSED.values(), ids=REFUSED.keys())
def test_what_cannot_be_meant_is_refused(product: Product, arguments: tuple[str, ...], named: str, tmp_path: Path) -> None:
    places = ("--vendor", str(tmp_path / "vendor"), "--reports", str(tmp_path / "reports"))
    done = product.run("run", *arguments, *places)
    assert done.returncode == 2 and named in done.stderr, done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_what_a_resumed_sweep_cannot_follow_is_refused(product: Product, swept: Path) -> None:
    for more, named in ((("--retry", "1"), "RELEASE"), (("--tensorflow", NEW), "--tensorflow"), (("--models", "trivial=1"), "--resume")):
        done = resume(product, swept, *more)
        assert done.returncode == 2 and named in done.stderr, done.stderr


@pytest.mark.parametrize(
    "change",
    [
        {"format": 2},
        {"parts": []},
        {"device": "tpu"},
        {"parts": [{"tensorflow": ".."}]},
        {"parts": [{"tensorflow": "../x"}]},
        {"parts": [{"tensorflow": NEW}, {"tensorflow": NEW}]},
        {"parts": [{"tensorflow": NEW}]},
        {"sweep": {"models": 5}},
    ],
    ids=str,
)
def test_a_record_that_says_nonsense_is_refused_in_one_line(product: Product, swept: Path, change: dict[str, object], tmp_path: Path) -> None:
    parent = tmp_path / swept.name
    shutil.copytree(swept, parent)
    shutil.rmtree(parent / OLD)
    record = json.loads((parent / "releases.json").read_text(encoding="utf-8"))
    (parent / "releases.json").write_text(json.dumps(record | change), encoding="utf-8")
    done = resume(product, parent)
    assert done.returncode in (1, 2) and len(done.stderr.splitlines()) == 1, done.stderr
