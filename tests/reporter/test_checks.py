"""Planted effects are found and told with their cause, noise is left alone, and losses are held against what others saw."""

from __future__ import annotations

import csv
import itertools
import json
import math
import random
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from wrapper.parser.output import Step, parse_file
from wrapper.reporter.analysis import summarise, t_quantile_975
from wrapper.reporter.checks import check_case, repeats_for
from wrapper.reporter.numerics import LAST_STEP, TOLERANCE, load_known_losses, numerics
from wrapper.reporter.report import write_report
from wrapper.reporter.store import Trial, append_trial, write_session
from wrapper.runner.sweep import Case
from wrapper.runner.telemetry_summary import DeviceSummary, Spread, TelemetrySummary
from wrapper.shipped import DATA

CAPTURED = Path(__file__).parents[1] / "data" / "logs"
KNOWN = load_known_losses()
QUIET = {"sm_mhz": 1980.0, "temperature_c": 60.0}


@pytest.fixture
def make_case(make_trial: Any) -> Any:
    """Makes the repeats of one case from their totals, each with its telemetry where it is given."""

    def make(totals: Any, telemetry: Any = (), **changes: Any) -> list[Trial]:
        each = itertools.zip_longest(totals, telemetry)
        return [make_trial(at, total, repeat=at, telemetry=readings or {}, **changes) for at, (total, readings) in enumerate(each, start=1)]

    return make


def _readings(*, throttled: dict[str, float] | None = None, load: float = 3.0, child: float = 190.0, **device: float) -> dict[str, Any]:
    """A trial's telemetry as it is recorded, with a key that the summary does not have."""
    spreads = {name: Spread(value, value, value) for name, value in (QUIET | device).items()}
    host = {"cpu_percent": Spread(load, load, load), "child_cpu_percent": Spread(child, child, child)}
    devices = (DeviceSummary(device=0, readings=spreads, throttled=throttled or {}),)
    summary = TelemetrySummary(start_s=1, end_s=9, samples=40, host=host, devices=devices)
    return {**msgspec.to_builtins(summary), "notes": ["a note"]}


def _kinds(trials: list[Trial]) -> list[str]:
    return [warning.kind for warning in check_case(trials)]


@pytest.mark.parametrize(
    ("totals", "kinds", "told"),
    [
        ((90.0, 100.0, 100.5), ["slow_first_repeat", "unstable"], "90.00 images/sec in round 1, 100.00 to 100.50 in the others: 10.2 % slower"),
        ((97.0, 100.0, 100.1), ["slow_first_repeat"], "3.0 % slower than their mean"),
        ((100.0, 97.0, 94.1), ["drift", "unstable"], "from 100.00 to 94.10 images/sec over rounds 1 to 3, a trend of -6.1 %"),
        ((100.0, 100.8, 101.5, 102.2, 103.1), ["drift"], "a trend of 3.0 %"),
        ((94.0, 100.1, 100.0, 94.3, 99.8, 94.1), ["unstable"], "two groups, 3 repeats at 94.00 to 94.30 and 3 repeats at 99.80 to 100.10"),
        (
            (100.0, 112.0, 101.0, 99.0, 113.0),
            ["unstable"],
            "too few or too noisy: 95 % interval ± 8.1 % of the mean with 5 repeats; for ± 1.0 % about 168 ",
        ),
        ((100.0, None, None), ["too_few"], "1 of at least 3 repeats, so that nothing is known of the spread"),
        ((100.0, 101.0, None), ["too_few"], "2 of at least 3 repeats: 95 % interval ± 6.3 % of the mean with 2 repeats"),
        ((None, None, None), [], ""),
        ((1861.06, 1865.98, 1870.79), [], ""),  # three repeats on an H200
        ((100.0, 100.0, 100.0), [], ""),
        ((None, 90.0, 100.0, 100.5, 100.2), ["unstable"], "too noisy"),  # round 2 is not the first
    ],
)
def test_planted_effects_are_found_and_nothing_else(make_case: Any, totals: Any, kinds: list[str], told: str) -> None:
    trials = make_case(totals)
    assert _kinds(trials) == kinds
    assert _kinds(trials[::-1]) == kinds
    assert told in (check_case(trials)[0].detail if kinds else "")


@pytest.mark.parametrize("repeats", [3, 5, 10])
def test_noise_gives_few_warnings(make_case: Any, repeats: int) -> None:
    """Of normal noise of 0.5 %, less than one case in a hundred; the generator's seed is fixed."""
    noise = random.Random(20)
    warned = sum(bool(check_case(make_case([noise.gauss(100, 0.5) for _ in range(repeats)]))) for _ in range(1000))
    assert warned < 10


@pytest.mark.parametrize("repeats", [3, 5, 10])
@pytest.mark.parametrize(("kind", "effect"), [("slow_first_repeat", lambda at, n: -5.0 * (at == 0)), ("drift", lambda at, n: -8.0 * at / (n - 1))])
def test_effects_in_noise_are_found(make_case: Any, repeats: int, kind: str, effect: Any) -> None:
    """A first repeat 5 % slow, a drift of 8 %, in noise of 0.5 %: of three repeats a drift is sure in half of the cases only."""
    noise = random.Random(20)
    found = sum(kind in _kinds(make_case([noise.gauss(100 + effect(at, repeats), 0.5) for at in range(repeats)])) for _ in range(200))
    assert found > (80 if kind == "drift" and repeats == 3 else 180)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])  # it makes values and keeps nothing
@given(totals=st.lists(st.floats(0.01, 1e6), min_size=1, max_size=12))
def test_any_figures_can_be_checked(make_trial: Any, totals: list[float]) -> None:
    warnings = check_case([make_trial(at, total, repeat=at) for at, total in enumerate(totals, start=1)])
    assert len({warning.kind for warning in warnings}) == len(warnings)
    assert not any("nan" in warning.detail or "inf" in warning.detail.replace("info", "") for warning in warnings)
    assert ("too_few" in {warning.kind for warning in warnings}) == (len(totals) < 3)


@pytest.mark.parametrize("relative_sd", [0.0, 0.001, 0.005, 0.02, 0.5])
def test_as_many_repeats_as_needed_and_no_more(relative_sd: float) -> None:
    n = repeats_for(relative_sd, 0.01)
    reached = [t_quantile_975(count - 1) * relative_sd / math.sqrt(count) for count in (n, max(2, n - 1))]
    assert reached[0] <= 0.01
    assert n == 2 or reached[1] > 0.01


@pytest.mark.parametrize(
    ("device", "slow", "cause"),
    [
        ("gpu", {"sm_mhz": 1410.0, "throttled": {"sw_power_cap": 0.8}}, "SM clock fell from 1980 to 1410 MHz, SW power cap, in rounds 2 and 3"),
        ("gpu", {"temperature_c": 84.0, "throttled": {"sw_thermal_slowdown": 0.5}}, "SW thermal slowdown, GPU at 84 instead of 60 degrees Celsius"),
        ("gpu", {"load": 45.0}, "host CPU load 45 % instead of 3 %, in rounds 2 and 3"),
        ("cpu", {"child": 120.0}, "the benchmark got 120 % of a core instead of 190 %, in rounds 2 and 3"),
        ("gpu", {"child": 120.0}, ""),  # a GPU that is slow for another reason leaves its process less to do
        ("gpu", {"sm_mhz": 1965.0, "temperature_c": 63.0, "load": 8.0}, ""),
    ],
)
def test_causes_come_from_the_readings(make_case: Any, device: str, slow: dict[str, Any], cause: str) -> None:
    telemetry = [_readings(), _readings(**slow), _readings(**slow), _readings()]
    (warning,) = check_case(make_case((100.0, 88.0, 88.5, 100.2), telemetry, case={"device": device}))
    assert warning.kind == "unstable"
    assert warning.detail.partition("; likely cause: ")[2].startswith(cause)
    assert bool(cause) == ("likely cause" in warning.detail)


@pytest.mark.parametrize("telemetry", [{}, {"start_s": "x"}, {"start_s": 1, "end_s": 2, "samples": 0, "host": {"cpu_percent": None}}])
def test_without_readings_no_cause_is_told(make_case: Any, telemetry: dict[str, Any]) -> None:
    (warning,) = check_case(make_case((100.0, 88.0, 88.5, 100.2), [telemetry] * 4))
    assert "likely cause" not in warning.detail


@pytest.mark.parametrize(
    ("losses", "case", "told"),
    [
        ((7.611, 7.611, 7.610), {}, ""),
        ((7.608, 7.634, 7.629), {}, ""),  # Inception-v4 on an H200, all sums in the order in which they came
        ((7.611, 7.705, 7.610), {}, "the loss at step 1 is 7.610 in round 3 and 7.705 in round 2"),
        ((865.758, 5e26, None), {}, ""),  # VGG16 on a CPU: it diverges
        ((7.611, None, 7.610), {}, "not a number in round 2, 7.611 in round 1"),
        ((math.nan, math.nan, None), {}, ""),
        ((0.0, 0.0, 0.0), {"forward_only": True}, ""),
        ((7.611, 7.705, 7.610), {"data_dir": "records"}, ""),
    ],
)
def test_repeats_agree_on_the_first_loss(make_trial: Any, losses: Any, case: dict[str, Any], told: str) -> None:
    steps = [(Step(1, 100.0, 0.0, 0.0, loss, 20),) for loss in losses]
    warnings = check_case([make_trial(at, 100.0, repeat=at, steps=of_trial, case=case) for at, of_trial in enumerate(steps, start=1)])
    assert [warning.kind for warning in warnings] == (["numerics"] if told else [])
    assert told in (warnings[0].detail if told else "")


def _captured(make_trial: Any, name: str, **case: Any) -> Any:
    output = parse_file(CAPTURED / name)
    return make_trial(1, output.totals[0], case=case, steps=output.steps, header=output.header)


@pytest.mark.parametrize(
    ("name", "case"),
    [
        *((f"h200-tf2.21-resnet50-b64-fp32-{end}.stdout", {}) for end in ("1", "2", "3", "display1")),
        ("h200-tf2.21-busy-a.stdout", {"steps": 200}),
        ("h200-tf2.21-busy-b.stdout", {}),
        ("h200-tf2.21-replicated-nccl.stdout", {"variable_update": "replicated"}),
        ("h200-tf2.21-resnet50-b64-fp16.stdout", {"precision": "fp16"}),
        ("h200-tf2.21-resnet50-b256-fp16-xla.stdout", {"batch_size": 256, "precision": "fp16", "xla": True}),
        ("h200-tf2.21-alexnet-b512-fp32.stdout", {"model": "alexnet", "batch_size": 512}),
        *(
            (f"cpu-tf{release}-resnet50.stdout", {"batch_size": 2, "device": "cpu", "warmup_steps": 1})
            for release in ("1.6.0-1.5", "1.9.0-1.9", "1.11.0-1.11", "1.15.5-1.15", "2.20.0-8fb7907")
        ),
    ],
)
def test_captured_logs_are_as_known(make_trial: Any, name: str, case: dict[str, Any]) -> None:
    model = {"model": case.pop("model", "resnet50")}
    found = numerics([_captured(make_trial, name, **(case | model))], KNOWN)
    assert found.finding == "as known"
    assert str(found).startswith("as known (TF ")


def test_other_conditions_are_not_known_and_other_losses_differ(make_trial: Any) -> None:
    trial = _captured(make_trial, "h200-tf2.21-resnet50-b64-fp32-1.stdout")
    for change in (
        {"batch_size": 32},
        {"devices": 2},
        {"warmup_steps": 1},
        {"precision": "fp16", "xla": True},
        {"data_dir": "d"},
        {"flags": (("a", "b"),)},
    ):
        other = msgspec.structs.replace(trial, case=msgspec.structs.replace(trial.case, **change))
        assert str(numerics([other], KNOWN)) == "not known"
    for header in ({}, {"TensorFlow": "1.12"}, {"TensorFlow": "0.0"}, {"TensorFlow": "x"}):
        assert numerics([msgspec.structs.replace(trial, header=header)], KNOWN).finding == "not known"
    assert numerics([msgspec.structs.replace(trial, steps=())], KNOWN).finding == "not known"
    assert numerics([], KNOWN).finding == "not known"
    # Two towers on one GPU compute batch 128.
    two = _captured(make_trial, "h200-tf2.21-resnet50-badgpu.stdout")
    found = numerics([trial, two], KNOWN)
    assert (found.finding, found.step, round(found.difference or 0, 3)) == ("differs", 80, 0.156)
    # The series that ends at step 30 must not hide what comes later.
    lost = msgspec.structs.replace(trial, steps=(*trial.steps[:4], *(msgspec.structs.replace(step, loss=None) for step in trial.steps[4:])))
    assert str(numerics([lost, trial], KNOWN)).startswith("differs (TF 2.21, H200")
    assert "a loss that is not a number at step 40, 11 steps compared" in str(numerics([trial, lost], KNOWN))


def test_tolerance_covers_the_known_series_among_each_other() -> None:
    for one, other in itertools.combinations(KNOWN, 2):
        if one.case == other.case and one.tensorflow == other.tensorflow:
            assert all(
                abs((one.losses[step] or 0) - (other.losses[step] or 0)) <= TOLERANCE * (one.losses[step] or 0)
                for step in one.losses.keys() & other.losses.keys()
            )


def test_rows_are_complete_and_say_what_their_logs_say() -> None:
    rows = yaml.safe_load((DATA / "known_losses.yaml").read_text(encoding="utf-8"))
    assert len({row["source"] for row in rows}) == len(rows)
    with (CAPTURED / "MANIFEST.csv").open(encoding="utf-8", newline="") as file:
        captured = {line["file"] for line in csv.DictReader(file)}
    for row, known in zip(rows, KNOWN, strict=True):
        assert set(row["case"]) <= set(Case.__struct_fields__)
        assert known.losses and max(known.losses) <= LAST_STEP and 0.0 not in known.losses.values()
        name = known.source.rpartition(", ")[2]
        if name.endswith(".stdout"):
            assert name in captured
            output = parse_file(CAPTURED / name)
            assert {step.step: step.loss if step.loss is not None and math.isfinite(step.loss) else None for step in output.steps} == known.losses
            first, last = (tuple(map(int, release.split("."))) for release in known.tensorflow)
            assert first <= tuple(map(int, output.header["TensorFlow"].split("."))) <= last


def test_report_shows_what_was_found(tmp_path: Path, make_session: Any, make_case: Any) -> None:
    steps, header = parse_file(CAPTURED / "h200-tf2.21-resnet50-b64-fp32-1.stdout").steps, {"TensorFlow": "2.21"}
    write_session(tmp_path, make_session())
    trials = make_case((97.0, 100.0, 100.1), [_readings(sm_mhz=1410.0), _readings(), _readings()], steps=steps, header=header)
    for trial in trials:
        append_trial(tmp_path, trial)
    report = write_report(tmp_path)
    assert report.headline.rows[0][-1] == "slow_first_repeat"
    (line,) = report.warnings
    assert line.startswith("resnet50, batch 64: slow_first_repeat: 97.00 images/sec in round 1")
    assert "SM clock fell from 1980 to 1410 MHz, in round 1" in line
    page = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "\n- resnet50, batch 64: loss series: as known (TF 2.21, H200, " in page.replace("`", "")
    assert "SM clock fell from 1980 to 1410 MHz" in page[page.index("## What to know about these figures") :]
    (summary,) = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))["summaries"]
    assert (summary["case_warnings"][0]["kind"], summary["numerics"]["finding"], summary["numerics"]["difference"]) == (
        "slow_first_repeat",
        "as known",
        0.0,
    )
    (row,) = csv.DictReader((tmp_path / "results.csv").read_text(encoding="utf-8").splitlines())
    assert (row["case_warnings"], row["numerics"]) == ("slow_first_repeat", "as known")
    assert summarise(trials)[0].warnings == {}


def test_trials_that_share_a_round_tell_no_course(make_trial: Any) -> None:
    assert check_case([make_trial(at, 100.0, repeat=1) for at in range(1, 5)]) == ()
