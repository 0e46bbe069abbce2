"""The static site of many reports."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import Browser, find_browser
from markup import Markup

from wrapper.comparing import Against, keep_comparison
from wrapper.errors import FatalError
from wrapper.parser.remedies import load_words
from wrapper.reporter.analysis import Summary
from wrapper.reporter.importer import ImportedReport, as_reports, import_logs
from wrapper.reporter.kept import COMPARISON_FILE
from wrapper.reporter.matching import Conditions
from wrapper.reporter.paths import without_directories
from wrapper.reporter.reference import load_sources
from wrapper.reporter.site import write_site
from wrapper.reporter.store import TRIALS_FILE, Session, Trial, append_trial, write_session
from wrapper.runner.sweep import Case

HOSTILE = '</td><script>window.hit=1</script>"><img src=x onerror=window.hit=1>'
IMAGES_COLUMN = "[...document.querySelector('tbody').rows].map(row => row.cells[3].textContent)"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    program = find_browser()
    if program is None:
        pytest.skip("needs Chromium on the path, or its place in TFCNN_BROWSER")
    browser = Browser(program)
    yield browser
    browser.close()


def _report(directory: Path, session: Session, trials: list[Trial]) -> Path:
    directory.mkdir(parents=True)
    write_session(directory, session)
    for trial in trials:
        append_trial(directory, trial)
    return directory


@pytest.fixture
def reports(tmp_path: Path, make_session: Any, make_trial: Any) -> list[Path]:
    """Two machines, a demo, a damaged one; two of the directories have the same name."""
    first = [make_trial(1, 1000.0), make_trial(2, 90.0, model="vgg16"), make_trial(3, None, model="alexnet")]
    second = [make_trial(1, 200.5, case={"precision": "fp16"}), make_trial(2, 30.0, model=HOSTILE)]
    hostile = make_session(host={"cpu": "c", "gpus": [{"name": HOSTILE}]})
    damaged = _report(tmp_path / "c" / "damaged", make_session(), [])
    (damaged / TRIALS_FILE).write_text("{}\n{}\n", encoding="utf-8")
    return [
        _report(tmp_path / "a" / "Mine", make_session(), first),
        _report(tmp_path / "b" / "mine", hostile, second),
        _report(tmp_path / "c" / "demo", make_session(demo=True), first),
        damaged,
        tmp_path / "nothing",
    ]


def test_each_figure_links_to_its_conditions(reports: list[Path], tmp_path: Path) -> None:
    site = write_site(reports, tmp_path / "site")
    index = Markup(site.index.read_text(encoding="utf-8"))
    assert index.faults == []
    assert [page.name for page in site.pages] == ["mine.html", "mine-2.html"]
    assert index.links == ["mine.html#conditions"] * 3 + ["mine-2.html#conditions"] * 2
    for page in site.pages:
        assert "conditions" in Markup(page.read_text(encoding="utf-8")).ids


def test_demos_and_damaged_reports_are_left_out_and_named(reports: list[Path], tmp_path: Path) -> None:
    site = write_site(reports, tmp_path / "site")
    assert [name for name, _ in site.left_out] == ["demo", "damaged", "nothing"]
    text = site.index.read_text(encoding="utf-8")
    for name, reason in site.left_out:
        assert f"<li>{name}: {without_directories(reason)[:20]}".replace("'", "&#39;") in text
    assert "DEMO" not in text
    assert str(tmp_path) not in text


def test_the_table_tells_warnings_and_no_directory(tmp_path: Path, make_session: Any, make_trial: Any) -> None:
    trials = [
        make_trial(index, total, repeat=index, case={"data_dir": "/home/somebody/imagenet"}) for index, total in ((1, 100.0), (2, 900.0), (3, 500.0))
    ]
    site = write_site([_report(tmp_path / "mine", make_session(planned_trials=5), trials)], tmp_path / "site")
    text = site.index.read_text(encoding="utf-8")
    assert "unstable, incomplete</td>" in text and ">real</td>" in text
    assert all(f"<dt>{kind}</dt><dd>{load_words().warnings[kind]}.</dd>" in text for kind in ("unstable", "incomplete"))
    assert "somebody" not in text


def test_the_page_of_a_report_shows_what_it_was_compared_with(tmp_path: Path, make_session: Any, make_trial: Any) -> None:
    mine = _report(tmp_path / "mine", make_session(), [make_trial(index, 147.0, repeat=index) for index in (1, 2, 3)])
    comparison = keep_comparison(mine, Against(entries=("lambda_blog_2019_03",)))
    (page,) = write_site([mine], tmp_path / "site").pages
    text = page.read_text(encoding="utf-8")
    assert comparison.rows and all(row.text in text and row.match.label in text for row in comparison.rows)
    assert str(load_sources()["lambda_blog_2019_03"].url) in Markup(text).links
    (mine / COMPARISON_FILE).write_text("{}}", encoding="utf-8")
    ((name, reason),) = write_site([mine], tmp_path / "site").left_out
    assert name == "mine" and "comparison.json is damaged" in reason


def test_logs_of_others_have_a_page_for_each_machine(tmp_path: Path) -> None:
    case = Case(model=HOSTILE, batch_size=64, device="gpu")
    summaries = (
        Summary(case=case, n=2, mean=290.5, ci95=1.0),
        Summary(case=Case(model="vgg16", batch_size=64, device="gpu"), n=0, failed={"nccl": 1}),
    )
    logs = [
        ImportedReport(conditions=Conditions(name="tree box", gpu=gpu, tensorflow=tensorflow), summaries=summaries)
        for gpu, tensorflow in (("Tesla T4", "1.15"), (HOSTILE, "2.2"), (HOSTILE, ""))
    ]
    site = write_site([], tmp_path / "site", logs)
    assert [page.name for page in site.pages] == ["tree-box-1.15.html", "tree-box-2.2.html", "tree-box.html"]
    for page in (site.index, *site.pages):
        markup = Markup(page.read_text(encoding="utf-8"))
        assert (markup.faults, markup.tags["img"], "1 nccl" in page.read_text(encoding="utf-8")) == ([], 0, page != site.index)
    assert Markup(site.index.read_text(encoding="utf-8")).links == [f"{page.name}#conditions" for page in site.pages for _ in summaries]


def test_a_figure_of_others_names_its_logs_and_what_they_do_not_state(tmp_path: Path, project: Path) -> None:
    for precision in ("fp32", "fp16"):
        log = tmp_path / "tree" / "box-Tesla_V100.logs" / f"syn-replicated-{precision}-1gpus" / "resnet50-64" / "throughput" / "1"
        log.parent.mkdir(parents=True)
        name = "h200-tf2.21-resnet50-b64-fp32-1" if precision == "fp32" else "h200-tf2.21-resnet50-b64-fp16"
        log.write_bytes((project / "tests" / "data" / "logs" / f"{name}.stdout").read_bytes())
    logs = as_reports(import_logs([tmp_path / "tree"]).rows, "tree")
    (page,) = write_site([], tmp_path / "site", logs).pages
    text = page.read_text(encoding="utf-8")
    assert len(logs[0].summaries) == 2
    for summary in logs[0].summaries:
        unstated = ", ".join(sorted(logs[0].conditions.unstated[summary.case])).replace("_", " ")
        assert unstated and f"<td>{unstated}</td><td>syn-replicated-{summary.case.precision}-1gpus/resnet50-64/throughput/1</td>" in text
    assert str(tmp_path) not in text


def test_no_report_gives_an_empty_site(tmp_path: Path) -> None:
    site = write_site([], tmp_path / "site")
    assert Markup(site.index.read_text(encoding="utf-8")).faults == []


@pytest.mark.parametrize("name", ["index", "INDEX", "con ü", "...", "a/b"])
def test_page_names_are_safe(tmp_path: Path, make_session: Any, name: str) -> None:
    site = write_site([_report(tmp_path / name, make_session(), [])], tmp_path / "site")
    assert site.pages[0].exists()
    assert site.pages[0].name != site.index.name
    assert site.pages[0].name.replace("-", "").replace(".", "").isalnum()


def test_a_site_that_cant_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(FatalError, match="making the site"):
        write_site([], tmp_path / "file" / "site")


def test_sorting_by_keyboard(browser: Browser, reports: list[Path], tmp_path: Path) -> None:
    browser.open(write_site(reports, tmp_path / "site").index)
    browser.run("document.querySelectorAll('thead button')[3].focus()")
    browser.press("Enter", 13)
    assert browser.run(IMAGES_COLUMN) == ["30.00", "90.00", "200.5", "1000", "no valid figure"]
    assert browser.run("document.querySelectorAll('th')[3].ariaSort") == "ascending"
    browser.press("Enter", 13)
    # what was not measured is not the slowest: it stands last both ways
    assert browser.run(IMAGES_COLUMN) == ["1000", "200.5", "90.00", "30.00", "no valid figure"]
    browser.run("document.querySelectorAll('thead button')[1].focus()")
    browser.press(" ", 32)
    assert browser.run("document.querySelectorAll('[aria-sort]').length") == 1
    assert browser.console == []


def test_filtering_by_keyboard(browser: Browser, reports: list[Path], tmp_path: Path) -> None:
    browser.open(write_site(reports, tmp_path / "site").index)
    shown = "[...document.querySelector('tbody').rows].filter(row => row.checkVisibility()).map(row => row.cells[3].textContent)"

    def choose(select: int, letter: str, value: str) -> None:
        browser.run(f"document.querySelectorAll('select')[{select}].focus()")
        browser.press(letter, ord(letter.upper()))
        assert browser.run(f"document.querySelectorAll('select')[{select}].value") == value

    choose(0, "v", "vgg16")
    assert browser.run(shown) == ["90.00"]
    assert browser.run("document.querySelector('output').value") == "1 shown"
    choose(1, "f", "fp16")
    assert browser.run(shown) == []
    choose(0, "a", "")
    assert browser.run(shown) == ["200.5"]


def test_names_stay_text_and_only_its_own_script_runs(browser: Browser, reports: list[Path], tmp_path: Path) -> None:
    index = write_site(reports, tmp_path / "site").index
    browser.open(index)
    assert browser.run("document.querySelectorAll('script').length") == 1
    assert browser.run("document.querySelectorAll('img').length") == 0
    assert browser.run("window.hit === undefined")
    assert browser.requests == [index.as_uri()]
    index.write_text(index.read_text(encoding="utf-8").replace("<main>", "<main><script>window.hit=1</script>"), encoding="utf-8")
    browser.open(index, width=821)
    assert browser.run("window.hit === undefined")


def test_a_desktop_shows_every_column(browser: Browser, make_session: Any, make_trial: Any, tmp_path: Path) -> None:
    """With all conditions that reports may differ in, a long name, and more than a day."""
    machine = make_session(host={"gpus": [{"name": "NVIDIA GeForce RTX 2080 Super with Max-Q Design"}]})
    trials = [
        make_trial(1, 22063.5, model="inception4", repeat=1),
        make_trial(2, 20063.5, model="inception4", repeat=2),
        make_trial(3, 575.0, case={"precision": "fp16", "xla": True, "devices": 8, "forward_only": True, "data_dir": "/data"}),
    ]
    summaries = tuple(Summary(case=trial.case, n=1, mean=1290.5, warnings={"memory_pressure": 1, "nan_loss": 1}) for trial in trials)
    conditions = Conditions(name="box", gpu="Tesla V100-SXM2-16GB", tensorflow="1.15.5", measured="2020-11-01 to 2020-11-02")
    site = write_site([_report(tmp_path / "a", machine, trials)], tmp_path / "site", [ImportedReport(conditions=conditions, summaries=summaries)])
    browser.open(site.index, width=1200)
    assert browser.run("[...document.querySelectorAll('.scroll')].map(one => Math.max(0, one.scrollWidth - one.clientWidth))") == [0]
    assert browser.run("[...document.querySelectorAll('td span')].every(one => one.getClientRects().length === 1)"), "a date is broken"


def test_everybody_can_read_it(browser: Browser, project: Path, reports: list[Path], tmp_path: Path) -> None:
    axe = Path(os.environ.get("TFCNN_AXE") or project / "vendor" / "node_modules" / "axe-core" / "axe.min.js")
    if not axe.exists():
        pytest.skip("needs the npm package axe-core in vendor/, or the place of its axe.min.js in TFCNN_AXE")
    summaries = (Summary(case=Case(model="vgg16", batch_size=64, device="gpu"), n=1, mean=290.5),)
    logs = ImportedReport(conditions=Conditions(name="box", gpu="Tesla T4", tensorflow="1.15"), summaries=summaries)
    site = write_site(reports, tmp_path / "site", [logs])
    views = itertools.product((site.index, site.pages[-1]), ((360, False), (820, True), (1280, False)))
    for page, (width, dark) in views:
        browser.open(page, width=width, dark=dark)
        browser.run(f"{axe.read_text(encoding='utf-8')};0")
        assert browser.run("axe.run().then(all => all.violations.map(one => `${one.id}: ${one.nodes[0].html}`))") == []
        assert browser.run("document.documentElement.scrollWidth") <= width
