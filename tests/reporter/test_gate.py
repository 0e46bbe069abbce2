"""The regression gate names what fell below, counts what it tested, and never passes for want of a test."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET

import msgspec
import pytest

from wrapper.errors import FatalError
from wrapper.reporter.analysis import Summary
from wrapper.reporter.comparison import compare
from wrapper.reporter.gate import below, benchmark_json, junit_xml
from wrapper.reporter.matching import Conditions
from wrapper.reporter.reference import Reference
from wrapper.runner.sweep import Case

CONDITIONS = Conditions(name="mine", gpu="GeForce RTX 2080 Ti", tensorflow="1.12.3", tf32=False)


def summary(model: str = "resnet50", mean: float | None = 290.0, ci95: float | None = 2.9) -> Summary:
    return Summary(case=Case(model=model, batch_size=64, device="gpu"), n=3 if mean else 0, mean=mean, ci95=ci95 if mean else None)


def reference(row: str = "r1", model: str = "resnet50", source: str = "page") -> Reference:
    return Reference(row=row, source=source, gpu="Tesla P100", devices=1, model=model, mode="training", images_per_sec=200.0, published="200")


def suite_of(text: str) -> ET.Element:
    (suite,) = ET.fromstring(text.encode("utf-8"))
    return suite


def test_names_the_cases_below_the_bound_and_those_without_a_figure() -> None:
    measured = [summary(mean=189.0), summary("vgg16", mean=191.0), summary("alexnet", mean=None)]
    rows = [reference(), reference(row="v", model="vgg16"), reference(row="a", model="alexnet")]
    slow, missing = below(compare(measured, CONDITIONS, rows), 0.95)
    assert slow.startswith("resnet50-") and "0.945" in slow and missing == "alexnet-b64-fp32-gpu1: no valid figure"


def test_the_bound_itself_passes() -> None:
    assert below(compare([summary(mean=190.0)], CONDITIONS, [reference()]), 0.95) == ()


def test_a_gate_that_tested_nothing_does_not_pass() -> None:
    with pytest.raises(FatalError, match="no case of mine could be compared"):
        below(compare([summary("trivial")], CONDITIONS, [reference()]), 0.95)


def test_a_report_without_a_single_figure_does_not_pass() -> None:
    comparison = compare([summary(mean=None)], CONDITIONS, [reference()])
    assert below(comparison, 0.95) == ("resnet50-b64-fp32-gpu1: no valid figure",)
    assert suite_of(junit_xml([comparison], 0.95)).attrib["errors"] == "1"


def test_junit_counts_and_escapes() -> None:
    measured = [summary(mean=100.0), summary("vgg16"), summary("alexnet", mean=None), summary("trivial")]
    rows = [reference(source='<&">\x00\x1b', row="]]>"), reference(row="v", model="vgg16")]
    suite = suite_of(junit_xml([compare(measured, CONDITIONS, rows)], 0.95))
    assert [suite.attrib[key] for key in ("tests", "failures", "errors", "skipped")] == ["4", "1", "1", "1"]
    assert len(suite.findall("testcase")) == 4
    (failure,) = suite.findall("testcase/failure")
    assert '<&">\ufffd\ufffd' in failure.attrib["message"]


def test_junit_says_for_each_row_what_differs_and_what_is_not_stated() -> None:
    apart = msgspec.structs.replace(reference(), batch_size=32)
    suite = suite_of(junit_xml([compare([summary(mean=189.0), summary("vgg16")], CONDITIONS, [apart, reference(row="v", model="vgg16")])], 0.95))
    failed, passed = suite.findall("testcase/system-out")
    assert "batch size 64 against 32; not stated: precision" in (failed.text or "")
    assert (passed.text or "").startswith("1.450 ± 0.014 of page (Tesla P100); not stated: precision")
    assert "batch size 64 against 32; not stated: " in (suite.findtext("testcase/failure") or "")


def test_junit_has_a_suite_for_each_report() -> None:
    other = Conditions(name="theirs", gpu="Tesla P100", tensorflow="1.12.3")
    comparisons = [compare([summary(mean=189.0)], conditions, [reference()]) for conditions in (CONDITIONS, other)]
    root = ET.fromstring(junit_xml(comparisons, 0.95).encode("utf-8"))
    assert [(suite.attrib["name"], suite.attrib["failures"]) for suite in root] == [("mine", "1"), ("theirs", "1")]


def test_benchmark_json_is_what_the_action_reads() -> None:
    (entry,) = json.loads(benchmark_json([summary(mean=290.5, ci95=2.904), summary("vgg16", mean=None)], CONDITIONS))
    assert entry == {
        "name": "GeForce RTX 2080 Ti: resnet50-b64-fp32-gpu1",
        "unit": "images/sec",
        "value": 290.5,
        "range": "± 2.90",
        "extra": "TensorFlow 1.12.3, mean of 3",
    }
