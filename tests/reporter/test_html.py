"""report.html: one file that is text whatever was logged, that everybody can read, and that shows what was measured."""

from __future__ import annotations

import csv
import itertools
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from browser import Browser, find_browser
from markup import Markup

from wrapper.errors import UsageError
from wrapper.parser.output import Step
from wrapper.parser.verdict import Warning
from wrapper.reporter.block import MOST_LINES, block
from wrapper.reporter.comparison import compare
from wrapper.reporter.comparison_grid import headline_tables
from wrapper.reporter.content import Report, compose
from wrapper.reporter.cost import cost
from wrapper.reporter.figures import Scale, batch_figures, scaling_figures, series_figures
from wrapper.reporter.html import report_html
from wrapper.reporter.matching import conditions_of
from wrapper.reporter.reference import load_references, load_sources
from wrapper.reporter.series import Series, Throttled, read_series
from wrapper.reporter.store import Records, Session, Trial

HOSTILE = "</title></td></svg></style><script>window.hit=1</script><img src=x onerror=window.hit=1>\" ' & {{ 7*7 }} \x1b[31m\u202e"
WIDTHS = (360, 820, 1280)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    program = find_browser()
    if program is None:
        pytest.skip("needs Chromium on the path, or its place in TFCNN_BROWSER")
    browser = Browser(program)
    yield browser
    browser.close()


@pytest.fixture(scope="session")
def axe(project: Path) -> str:
    place = Path(os.environ.get("TFCNN_AXE") or project / "vendor" / "node_modules" / "axe-core" / "axe.min.js")
    if not place.exists():
        pytest.skip("needs the npm package axe-core in vendor/, or the place of its axe.min.js in TFCNN_AXE")
    return place.read_text(encoding="utf-8")


def _composed(session: Session, trials: list[Trial]) -> Report:
    return compose(session, Records(trials=tuple(trials), notes=()), ())


def _page(session: Session, trials: list[Trial], **more: Any) -> str:
    return report_html(_composed(session, trials), **more)


def _telemetry(seconds: float = 20.0) -> dict[str, Any]:
    device = {"device": 0, "energy_j": 5000.0, "energy_from": "counter"}
    return {"start_s": 0.0, "end_s": seconds, "samples": 40, "devices": [device]}


@pytest.fixture
def trials(make_trial: Any) -> list[Trial]:
    """Two models; one with several batch sizes and devices, a failure, a warning, energy."""
    nan_loss = {"warnings": (Warning(kind="nan_loss", detail="step 10: loss nan"),)}
    replicated = {"variable_update": "replicated"}
    return [
        make_trial(1, 200.0, telemetry=_telemetry()),
        make_trial(2, 204.0, repeat=2, telemetry=_telemetry()),
        make_trial(3, 230.0, case={"batch_size": 128}),
        make_trial(4, None, case={"batch_size": 4096}, judgement={"reason": "OOM when allocating", "remedy": "Take a smaller batch."}),
        make_trial(5, 400.0, case={"batch_size": 32, **replicated, "devices": 1}),
        make_trial(6, 780.0, case={"batch_size": 32, **replicated, "devices": 2}),
        make_trial(7, 1500.0, case={"batch_size": 32, **replicated, "devices": 4}),
        make_trial(8, 4000.0, model="alexnet", judgement=nan_loss),
    ]


@pytest.fixture
def series() -> Series:
    return Series(
        throughput=((10.0, 199.0), (11.0, 201.0), (12.0, 150.0)),
        steps=((2, 10), (11, 20), (21, 30)),
        readings={"sm_mhz": {"gpu0": ((10.0, 1980.0), (12.0, 1410.0)), "gpu1": ((10.0, 1980.0), (12.0, 1980.0))}},
        throttled=(Throttled(start_s=11.2, end_s=12.0, reasons=("HW slowdown",)),),
    )


@pytest.fixture
def full(make_session: Any, trials: list[Trial], series: Series) -> str:
    """A page with everything that a page can have."""
    session = make_session()
    report = _composed(session, trials)
    comparison = compare(report.summaries, conditions_of(session, "mine"), load_references(), against=("RTX 2080 Ti", "tf_org_dgx1"))
    costs = cost(report, price=499, kwh=0.3, per_hour=2.49)
    return report_html(report, series={1: series, 2: series}, comparison=comparison, cost=costs)


def test_the_markup_is_sound(full: str, make_session: Any) -> None:
    empty = _page(make_session(), [])
    for page in (full, empty):
        assert Markup(page).faults == []
    assert not re.search(r"<(link|img|iframe|object|script)\b|@import|url\(", full)


def test_everybody_can_read_it(browser: Browser, axe: str, full: str, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text(full, encoding="utf-8")
    for dark in (False, True):
        browser.open(path, width=360, dark=dark)
        browser.run("document.querySelectorAll('details').forEach(one => { one.open = true })")
        browser.run(f"{axe};0")
        found = browser.run("axe.run().then(all => all.violations.map(one => `${one.id}: ${one.nodes[0].html}`))")
        assert found == []


def test_it_fits_each_width_follows_the_theme_and_asks_for_nothing(browser: Browser, full: str, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text(full, encoding="utf-8")
    grounds = set()
    for width in WIDTHS:
        for dark in (False, True):
            browser.open(path, width=width, dark=dark)
            assert browser.run("document.documentElement.scrollWidth") <= width
            assert browser.run("Math.min(...[...document.querySelectorAll('svg[role=img] text')].map(one => one.getBoundingClientRect().height))") > 9
            grounds.add((dark, browser.run("getComputedStyle(document.body).backgroundColor")))
            assert browser.console == []
            assert browser.requests == [path.as_uri()]
    assert len(grounds) == 2


def test_text_of_a_figure_stays_inside_it(browser: Browser, full: str, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text(full, encoding="utf-8")
    browser.open(path, width=360)
    browser.run("document.querySelectorAll('details').forEach(one => { one.open = true })")
    outside = """[...document.querySelectorAll("svg[role=img]")].flatMap(svg => [...svg.querySelectorAll("text")].filter(text => {
        const [inner, outer] = [text.getBoundingClientRect(), svg.parentNode.getBoundingClientRect()];
        return inner.left < outer.left - 1 || inner.right > outer.right + 1 || inner.bottom > outer.bottom + 1 || inner.top < outer.top - 1;
    }).map(text => text.textContent))"""
    assert browser.run(outside) == []
    touching = """[...document.querySelectorAll("svg[role=img]")].flatMap(svg => {
        const boxes = [...svg.querySelectorAll("text.middle")].map(text => text.getBoundingClientRect());
        return boxes.filter((one, at) => boxes.slice(at + 1).some(two => one.top === two.top && one.right > two.left && two.right > one.left));
    }).length"""
    assert browser.run(touching) == 0


def test_whatever_was_logged_stays_text(browser: Browser, make_session: Any, make_trial: Any, series: Series, tmp_path: Path) -> None:
    def page(text: str) -> str:
        gpu = {"name": text, "driver": text}
        host = {"cpu": text, "os": text, "machine": text, "disk": text, "gpus": [gpu]}
        session = make_session(
            host=host, command=("tfcnn", text), choice=text, created=text, upstream={"commit": text, "address": text}, versions={text: text}
        )
        bad = {"reason": text, "remedy": text}
        warned = {"warnings": (Warning(kind=text, detail=text),)}
        case = {"flags": ((text, text),), "data_dir": text}
        trials = [
            make_trial(1, None, model=text, case=case, judgement=bad),
            make_trial(2, 5.0, model=text, judgement=warned, command=(text,), log=text),
        ]
        readings = {"sm_mhz": {text: ((1.0, 2.0),), f"{text}1": ((1.0, 2.0),)}}
        own = Series(readings=readings, throttled=(Throttled(start_s=1.0, end_s=1.0, reasons=(text,)),))
        return _page(session, trials, series={2: own})

    path = tmp_path / "report.html"
    path.write_text(page(HOSTILE), encoding="utf-8")
    hostile, harmless = Markup(page(HOSTILE)), Markup(page("plain"))
    assert hostile.faults == []
    assert hostile.tags == harmless.tags
    browser.open(path)
    assert browser.run("window.hit === undefined")
    assert browser.run("document.querySelectorAll('script, img').length") == 0
    assert "<script>window.hit=1</script>" in browser.run("document.querySelector('h1').textContent")
    assert "{{ 7*7 }}" in browser.run("document.title")
    assert not browser.run(r"/[\u001b\u202e]/.test(document.documentElement.outerHTML)")


@pytest.mark.parametrize(
    "address", ["javascript:window.hit=1", " JaVaScRiPt:alert(1)", "data:text/html,<script>1</script>", "//evil.example", HOSTILE]
)
def test_only_addresses_of_the_web_become_links(address: str, make_session: Any, trials: list[Trial], monkeypatch: pytest.MonkeyPatch) -> None:
    sources = {name: msgspec.structs.replace(source, url=address, title=HOSTILE) for name, source in load_sources().items()}
    monkeypatch.setattr("wrapper.reporter.html.load_sources", lambda: sources)
    session = make_session(upstream={"commit": f"{address}/" + "0" * 40, "address": address})
    report = _composed(session, trials)
    comparison = compare(report.summaries, conditions_of(session, "mine"), load_references(), against=("RTX 2080 Ti",))
    page = Markup(report_html(report, comparison=comparison))
    assert page.faults == []
    assert {link.partition("/")[0] for link in page.links if not link.startswith("#")} == {"https:"}
    assert not any("evil" in link or "<" in link for link in page.links)


def test_each_figure_says_where_it_comes_from(full: str) -> None:
    links = Markup(full).links
    assert "#trials" in links
    assert f"https://github.com/tensorflow/benchmarks/blob/ec056be{'0' * 33}/scripts/tf_cnn_benchmarks/benchmark_cnn.py" in links
    for source in ("session.json", ".times.csv", "logs/*.telemetry.csv", "logs/001-resnet50-b64-fp32-gpu1-r1.out"):
        assert source in full


def test_the_policy_stops_what_would_get_past_the_escaping(browser: Browser, full: str, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    attack = '<script>window.hit=1</script><img src="x.png" onerror="window.hit=1"><p id="styled" style="color: red">'
    path.write_text(full.replace("<main>", f"<main>{attack}"), encoding="utf-8")
    browser.open(path)
    assert browser.run("document.querySelectorAll('script, img').length") == 2
    assert browser.run("window.hit === undefined")
    assert browser.run("getComputedStyle(document.getElementById('styled')).color") != "rgb(255, 0, 0)"
    assert len([line for line in browser.console if "Content Security Policy" in line]) >= 3


def test_a_demo_is_marked_on_everything(make_session: Any, trials: list[Trial], series: Series) -> None:
    session = make_session(demo=True)
    page = Markup(_page(session, trials, series={1: series}, cost=cost(_composed(session, trials), price=1)))
    for kind, texts in page.texts.items():
        assert texts, kind
        for text in texts:
            assert text.strip().startswith(("DEMO: ", "DEMO on ", "throttled", "steps ", "resnet50,")), (kind, text)
    assert "DEMO" not in _page(make_session(), trials)


def test_figures_only_where_there_is_something_to_show(make_session: Any, trials: list[Trial]) -> None:
    report = _composed(make_session(), trials)
    assert [figure.title for figure in batch_figures(report)] == ["Throughput against batch size: resnet50"]
    assert [figure.title for figure in scaling_figures(report)] == ["Scaling against devices: resnet50"]
    (scaling,) = scaling_figures(report)
    measured, ideal = scaling.panels[0].curves
    assert measured.points == ((1, 400.0), (2, 780.0), (4, 1500.0))
    assert ideal.ideal
    assert ideal.points == ((1, 400.0), (4, 1600.0))
    assert (measured.name, batch_figures(report)[0].panels[0].curves[0].name) == ("resnet50, batch 32", "resnet50")
    report = _composed(make_session(), [trials[0], trials[7]])
    assert (batch_figures(report), scaling_figures(report)) == ([], [])


def test_a_case_without_a_figure_has_no_bar(make_session: Any, trials: list[Trial]) -> None:
    page = _page(make_session(), trials)
    assert page.count('class="bar"') == len({trial.case for trial in trials}) - 1
    assert page.count('class="repeat"') == len(trials) - 1


def test_a_series_is_drawn_with_its_steps_and_its_throttling(series: Series) -> None:
    (figure,) = series_figures({"one": series})
    throughput, clock = figure.panels
    assert [mark.text for mark in throughput.curves[0].marks] == [
        "steps 2 to 10: 199.0 images/sec",
        "steps 11 to 20: 201.0 images/sec",
        "steps 21 to 30: 150.0 images/sec",
    ]
    assert [curve.name for curve in clock.curves] == ["gpu0", "gpu1"]
    assert figure.description == "images/sec: 150.0 to 201.0; SM clock, MHz: 1410 to 1980; throttled by HW slowdown"
    assert (figure.ticks, figure.note) == ({10.0: "10", 11.0: "20", 12.0: "30"}, "Shaded: throttled (HW slowdown)")
    (steady,) = series_figures({"steady": Series(throughput=((1.0, 100.0), (2.0, 100.1)), steps=((2, 2), (11, 20)))})
    assert abs(steady.panels[0].y.at(100.0) - steady.panels[0].y.at(100.1)) < 2
    assert steady.panels[0].curves[0].marks[0].text == "step 2: 100.0 images/sec"


def test_repeats_of_a_case_have_the_same_scales(series: Series) -> None:
    """So that they can be compared: also where one was slower, longer, or lacks readings."""
    slower = Series(throughput=((30.0, 80.0), (36.0, 90.0)), steps=((2, 10), (11, 20)), readings={"power_w": {"gpu0": ((30.0, 500.0),)}})
    only_read = Series(readings={"sm_mhz": {"gpu0": ((5.0, 300.0), (6.0, 1980.0))}})
    figures = series_figures({"one": series, "two": slower, "three": only_read})
    assert {figure.x.high - figure.x.low for figure in figures} == {6.0}
    assert [figure.x.low for figure in figures] == [10.0, 30.0, 5.0]
    ranges: dict[str, set[tuple[float, float]]] = {}
    for panel in (panel for figure in figures for panel in figure.panels):
        ranges.setdefault(panel.label, set()).add((panel.y.low, panel.y.high))
    assert set(ranges) == {"images/sec", "SM clock, MHz", "Power, W"}
    assert all(len(found) == 1 for found in ranges.values())
    assert figures[2].label == "seconds since the trial's start"


@pytest.mark.parametrize(("low", "high"), [(0, 1), (0.0, 22523.46), (1861.2, 1870.8), (1e-9, 3e-9), (0, 0), (5, 5)])
def test_ticks_are_round_and_on_the_scale(low: float, high: float) -> None:
    ticks = Scale(low=low, high=high, start=0, end=100).ticks(4)
    assert 1 <= len(ticks) <= 9
    assert all(low - 1e-12 <= tick <= high + 1e-12 for tick in ticks)


@pytest.mark.parametrize("high", [20.0, 70.0, 150.0, 3_000.0, 1e6, 1e9])
def test_logarithmic_ticks_are_even_and_their_labels_do_not_touch(high: float) -> None:
    scale = Scale(low=2.0, high=high, start=0, end=100, log=True)
    shown = scale.apart(scale.ticks(4))
    factors = {round(two / one, 6) for one, two in itertools.pairwise(shown)}
    assert len(shown) > 1 and (factors <= {2.0, 2.5} or len(factors) == 1)


def _write_series(directory: Path, trial: Trial, throttle: dict[float, str]) -> None:
    """Stamps of a step line each second from 10 s on, and readings twice a second of two devices."""
    logs = directory / "logs"
    logs.mkdir(exist_ok=True)
    name = Path(trial.log).stem
    stamps = [0.5] * 20 + [10.0 + number for number in range(len(trial.steps))]
    lines = [f"{number},{seconds:.6f}" for number, seconds in enumerate(stamps, start=1)]
    (logs / f"{name}.times.csv").write_text("\n".join(["line,seconds", *lines]) + "\n", encoding="utf-8")
    with (logs / f"{name}.telemetry.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["seconds", "gpu0_sm_mhz", "gpu0_power_w", "gpu0_throttle", "gpu1_sm_mhz", "gpu1_power_w", "gpu1_throttle"])
        for half in range(40):
            reason = throttle.get(half / 2, "none")
            writer.writerow([half / 2, 1980 - half, "", "gpu_idle+sw_power_cap" if half < 20 else "none", 1980, 300.5, reason])
        file.write("20.0,1")  # cut off


@pytest.fixture
def stepping(make_trial: Any) -> Trial:
    steps = tuple(Step(10 * number, 100.0, 0.0, 0.0, 7.0, 21 + number) for number in range(6))
    trial: Trial = make_trial(1, 640.0, steps=steps)
    return trial


def test_series_come_from_the_files_beside_the_log(tmp_path: Path, stepping: Trial) -> None:
    _write_series(tmp_path, stepping, {12.0: "hw_slowdown", 12.5: "hw_slowdown+hw_thermal_slowdown", 14.5: "sw_power_cap", 15.0: "sw_power_cap"})
    series = read_series(tmp_path, [stepping])[1]
    # ten steps of 64 images a second
    assert series.throughput == tuple((11.0 + number, 640.0) for number in range(5))
    assert series.steps[0] == (1, 10)
    assert set(series.readings) == {"sm_mhz", "power_w"}
    assert [time for time, _ in series.readings["sm_mhz"]["gpu0"]] == [10 + half / 2 for half in range(11)]
    assert set(series.readings["power_w"]) == {"gpu1"}
    assert series.throttled == (
        Throttled(start_s=12.0, end_s=13.0, reasons=("HW slowdown", "HW thermal slowdown")),
        Throttled(start_s=14.5, end_s=15.0, reasons=("SW power cap",)),
    )


@pytest.mark.parametrize(
    "damage", [b"", b"\xff\xfe\x00", b"seconds,gpu0_sm_mhz\nnan,inf\n1,x\n", b"line,seconds\n1\n2,3,4\n", b"seconds\n" + b"9" * 200_000]
)
def test_damaged_files_cost_the_series_alone(tmp_path: Path, stepping: Trial, damage: bytes) -> None:
    _write_series(tmp_path, stepping, {})
    for path in (tmp_path / "logs").iterdir():
        path.write_bytes(damage)
    assert read_series(tmp_path, [stepping]) == {}


@pytest.mark.parametrize("log", ["../outside/x.stdout", "..\\outside\\x.stdout", "/outside/x.stdout", "C:\\outside\\x.stdout"])
def test_no_file_outside_the_logs_is_read(tmp_path: Path, make_trial: Any, stepping: Trial, log: str) -> None:
    report = tmp_path / "report"
    report.mkdir()
    inside = make_trial(1, 640.0, steps=stepping.steps, log="logs/x.stdout")
    _write_series(tmp_path, inside, {})
    (tmp_path / "logs").rename(tmp_path / "outside")
    assert read_series(report, [make_trial(1, 640.0, steps=stepping.steps, log=log)]) == {}


def test_a_full_sweep_stays_small(tmp_path: Path, make_session: Any, make_trial: Any) -> None:
    """Ten thousand trials of 150 cases, ten minutes of readings of eight devices each."""
    long = {
        column: {f"gpu{device}": tuple((at / 5, 1000.0 + at % 7) for at in range(3000)) for device in range(8)} for column in ("sm_mhz", "power_w")
    }
    own = Series(throughput=tuple((float(at), 100.0) for at in range(3600)), steps=tuple((at, at) for at in range(3600)), readings=long)
    trials = [make_trial(number, 100.0, repeat=number // 150, case={"batch_size": 1 + number % 150}) for number in range(10_000)]
    page = _page(make_session(), trials, series=dict.fromkeys(range(60), own))
    assert len(page.encode()) < 5_000_000
    assert "The first 1000 of 10000 trials" in page


def test_the_comparison_is_shown_with_its_sources(make_session: Any, trials: list[Trial], full: str) -> None:
    session = make_session()
    report = _composed(session, trials)
    comparison = compare(report.summaries, conditions_of(session, "mine"), load_references(), against=("RTX 2080 Ti", "tf_org_dgx1"))
    page = Markup(full)
    for table in headline_tables(comparison):
        for line in table.lines:
            assert line.text in full
            assert all(cell is None or cell.label in full for cell in line.cells)
    both = [row for row in comparison.rows if row.match.differences and row.match.unstated]
    assert both and all(row.match.label in full and row.text in full for row in both)
    for name in {row.reference.source for row in comparison.rows}:
        address = load_sources()[name].url
        assert address is None or address in page.links


def test_cost_uses_what_was_given_and_nothing_else(make_session: Any, trials: list[Trial]) -> None:
    report = _composed(make_session(), trials)
    full = cost(report, price=500, kwh=0.36, per_hour=2.0)
    assert full is not None
    first = dict(zip(full.table.headers, full.table.rows[0], strict=True))
    # 5000 J for 20 s at 200 and at 204 images/sec: 1.25 and 1.2255 J an image
    assert first == {
        "Case": report.labels[trials[0].case],
        "Images/sec per unit of price": "0.404",
        "Images per unit of rent": "363,600",
        "Images per joule": "0.8079",
        "Energy cost of a million images": "0.1238",
    }
    assert full.table.rows[1][3:] == ("–", "–")
    only_energy = cost(report)
    assert only_energy is not None
    assert only_energy.table.headers == ("Case", "Images per joule")
    few = _composed(make_session(), trials[2:4])
    assert cost(few) is None
    unread = cost(few, kwh=0.3)
    assert unread is not None
    assert "not used" in unread.assumptions[0]


@pytest.mark.parametrize("price", [0.0, -1.0, float("nan"), float("inf")])
def test_what_is_no_price_is_refused(make_session: Any, trials: list[Trial], price: float) -> None:
    with pytest.raises(UsageError, match="--per-hour"):
        cost(_composed(make_session(), trials), per_hour=price)


@pytest.mark.parametrize("demo", [False, True])
def test_a_block_is_short_and_has_the_command(make_session: Any, make_trial: Any, demo: bool) -> None:
    many = [make_trial(number, None if number % 3 else 100.0, model=f"m{number}") for number in range(1, 70)]
    session = make_session(demo=demo, planned_trials=100)
    text = block(_composed(session, many))
    assert text.count("\n") <= MOST_LINES
    assert "\n```\ntfcnn run --tensorflow 1.12.0\n```\n" in text
    assert ("DEMO" in text) == demo
    assert "69 cases, of which the first 15 are shown" in text


def test_a_block_stays_one(make_session: Any, make_trial: Any) -> None:
    session = make_session(command=("tfcnn", "a\n```\n# b"), host={"cpu": "x\n\n# y | z"})
    text = block(_composed(session, [make_trial(1, 5.0, model="a\n|b")]))
    assert "\n# " not in text
