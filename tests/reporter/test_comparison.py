"""Like with like: what is compared with what, how alike it is, and what is never said."""

from __future__ import annotations

import json
import math
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wrapper.errors import FatalError, UsageError
from wrapper.reporter.analysis import Summary
from wrapper.reporter.comparison import Comparison, Unmatched, compare
from wrapper.reporter.comparison_digest import comparison_digest
from wrapper.reporter.comparison_grid import headline_tables
from wrapper.reporter.gate import benchmark_json
from wrapper.reporter.matching import ORDER, Conditions, conditions_of, match, references_from
from wrapper.reporter.reference import Filter, Reference, load_references, select
from wrapper.reporter.store import Session
from wrapper.runner.sweep import Case

CONDITIONS = Conditions(name="mine", gpu="GeForce RTX 2080 Ti", tensorflow="1.12.3", tf32=False)


def summary(model: str = "resnet50", batch_size: int = 64, mean: float | None = 290.0, ci95: float | None = 2.9, **case: Any) -> Summary:
    return Summary(
        case=Case(**{"model": model, "batch_size": batch_size, "device": "gpu"} | case), n=3 if mean else 0, mean=mean, ci95=ci95 if mean else None
    )


def reference(**fields: Any) -> Reference:
    """A published figure with every condition stated, as `summary()` has them."""
    stated = Reference(
        row="r1",
        source="page",
        gpu="Tesla P100",
        devices=1,
        model="resnet50",
        batch_size=64,
        precision="fp32",
        tf32=False,
        xla=False,
        mode="training",
        data="synthetic",
        variable_update="parameter_server",
        parameter_device="gpu",
        optimizer="sgd",
        flags="none",
        tensorflow="1.12",
        images_per_sec=200.0,
        published="200",
        repeats=3,
        steps=100,
    )
    return msgspec.structs.replace(stated, **fields)


@pytest.fixture(scope="module")
def published() -> tuple[Reference, ...]:
    return load_references()


class TestMatch:
    def test_same_conditions(self) -> None:
        found = match(summary(), CONDITIONS, reference())
        assert (found.differences, found.unstated, found.label) == ((), (), "same conditions")

    @pytest.mark.parametrize(
        ("what", "case", "stated"),
        [
            ("mode", {"forward_only": True}, {}),
            ("data set", {}, {"data_set": "cifar10"}),
            ("precision", {}, {"precision": "fp16"}),
            ("devices", {}, {"devices": 8}),
            ("data", {"data_dir": "records"}, {}),
            ("XLA", {"xla": True}, {}),
            ("batch size", {}, {"batch_size": 32}),
            ("TF32", {}, {"tf32": True}),
            ("variable update", {"variable_update": "replicated"}, {}),
            ("all-reduce", {"variable_update": "replicated"}, {"variable_update": "replicated", "all_reduce": "nccl"}),
            ("parameter device", {"flags": (("local_parameter_device", "cpu"),)}, {}),
            ("optimizer", {}, {"optimizer": "momentum"}),
            ("flags", {"flags": (("winograd_nonfused", "false"),)}, {"flags": "none"}),
            ("TensorFlow", {}, {"tensorflow": "1.1"}),
            ("repeats", {}, {"repeats": 5}),
            ("steps", {"steps": 20}, {}),
        ],
    )
    def test_each_condition_is_named_when_it_alone_differs(self, what: str, case: dict[str, Any], stated: dict[str, Any]) -> None:
        found = match(summary(**case), CONDITIONS, reference(**stated))
        assert [difference.what for difference in found.differences] == [what]
        assert found.unstated == ()
        assert what in ORDER and what in found.label

    @pytest.mark.parametrize(
        ("what", "field"),
        [
            *(("precision", "precision"), ("data", "data"), ("XLA", "xla"), ("batch size", "batch_size"), ("TF32", "tf32"), ("steps", "steps")),
            *(("variable update", "variable_update"), ("parameter device", "parameter_device"), ("TensorFlow", "tensorflow"), ("repeats", "repeats")),
            ("flags", "flags"),
        ],
    )
    def test_what_is_not_stated_is_neither_same_nor_different(self, what: str, field: str) -> None:
        found = match(summary(), CONDITIONS, reference(**{field: None}))
        assert found.differences == ()
        assert what in found.unstated
        assert found.label == f"not stated: {what}"

    def test_what_is_not_stated_is_named_also_beside_what_differs(self) -> None:
        found = match(summary(), CONDITIONS, reference(batch_size=32, xla=None, steps=None))
        assert found.label == "batch size 64 against 32; not stated: XLA, steps"

    def test_tf32_does_not_matter_in_fp16(self) -> None:
        found = match(summary(precision="fp16"), msgspec.structs.replace(CONDITIONS, tf32=True), reference(precision="fp16", tf32=None))
        assert found.label == "same conditions"

    @pytest.mark.parametrize(("stated", "same"), [("1.12", True), ("1.12.3", True), ("1.1", False), ("1.12.0", False), ("1.12.3 (git abc)", False)])
    def test_a_release_stated_by_its_minor_version_means_any_patch(self, stated: str, same: bool) -> None:
        assert (match(summary(), CONDITIONS, reference(tensorflow=stated)).differences == ()) == same


class TestCompare:
    def test_ratio_and_interval(self) -> None:
        (row,) = compare([summary(mean=210.0, ci95=4.2)], CONDITIONS, [reference()]).rows
        assert (row.ratio, row.text) == (1.05, "1.050 ± 0.021 (105.0 %)")
        assert row.ci95 == pytest.approx(0.021)

    def test_an_interval_known_on_both_sides_counts_on_both(self) -> None:
        (row,) = compare([summary(mean=200.0, ci95=6.0)], CONDITIONS, [reference(ci95=8.0)]).rows
        assert row.ci95 == pytest.approx(math.hypot(0.03, 0.04))

    def test_one_trial_has_no_interval(self) -> None:
        (row,) = compare([summary(ci95=None)], CONDITIONS, [reference()]).rows
        assert row.ci95 is None

    @pytest.mark.parametrize(
        ("repeats", "ci95", "words"),
        [
            (1, None, "one run, spread unknown"),
            (5, None, "mean of 5, spread not published"),
            (None, None, "number of runs not stated, spread unknown"),
            (3, 1.0, "mean of 3, its interval included"),
        ],
    )
    def test_the_spread_of_a_reference_is_said_and_not_invented(self, repeats: int | None, ci95: float | None, words: str) -> None:
        (row,) = compare([summary()], CONDITIONS, [reference(repeats=repeats, ci95=ci95)]).rows
        assert row.spread == words

    def test_of_one_gpu_of_one_source_the_nearest_is_taken(self) -> None:
        rows = [reference(row="far", batch_size=256), reference(row="near", batch_size=128), reference(row="xla", xla=True)]
        assert [row.reference.row for row in compare([summary()], CONDITIONS, rows).rows] == ["near"]

    def test_not_stated_is_farther_than_equal_and_nearer_than_different(self) -> None:
        equal, unstated, different = reference(row="equal"), reference(row="unstated", xla=None), reference(row="different", xla=True)
        for rows in ([different, unstated, equal], [different, unstated]):
            assert [row.reference.row for row in compare([summary()], CONDITIONS, rows).rows] == [rows[-1].row]

    def test_overall_names_what_is_not_stated(self) -> None:
        (overall,) = compare([summary()], CONDITIONS, [reference(batch_size=None, xla=None, steps=7)]).overall
        assert (overall.differing, overall.unstated) == (("steps",), ("XLA", "batch size"))

    def test_equally_near_ones_are_all_shown(self) -> None:
        rows = [reference(row="a", machine="one"), reference(row="b", machine="two", images_per_sec=210.0)]
        assert [row.reference.row for row in compare([summary()], CONDITIONS, rows).rows] == ["a", "b"]

    @pytest.mark.parametrize("stated", [{"mode": "forward only"}, {"precision": "fp16"}, {"devices": 2}, {"data_set": "cifar10"}])
    def test_other_measurements_give_no_ratio_but_are_named(self, stated: dict[str, Any]) -> None:
        comparison = compare([summary()], CONDITIONS, [reference(**stated)])
        assert comparison.rows == comparison.overall == ()
        (unmatched,) = comparison.unmatched
        assert unmatched.nearest is not None and unmatched.nearest.reference.row == "r1"
        assert str(next(iter(stated.values()))) in unmatched.reason

    def test_an_unknown_model_is_not_compared_with_another(self) -> None:
        comparison = compare([summary("ssd300")], CONDITIONS, [reference()])
        assert comparison.rows == ()
        assert comparison.unmatched == (
            Unmatched(case=summary("ssd300").case, against="", nearest=None, reason="there is no published figure of ssd300"),
        )

    @pytest.mark.parametrize(
        ("stated", "kept"),
        [
            ({}, True),
            ({"tensorflow": "1.8", "repeats": 1, "steps": 50, "optimizer": None}, True),
            ({"batch_size": 32}, False),
            ({"xla": None}, False),
            ({"data": None}, False),
            ({"tf32": None}, False),
            ({"variable_update": "replicated"}, False),
        ],
    )
    def test_strict_keeps_only_what_is_stated_and_equal(self, stated: dict[str, Any], kept: bool) -> None:
        comparison = compare([summary()], CONDITIONS, [reference(**stated)], strict=True)
        assert bool(comparison.rows) == kept
        assert bool(comparison.unmatched) != kept
        assert all(unmatched.nearest and unmatched.reason for unmatched in comparison.unmatched)

    def test_a_demo_is_never_compared(self) -> None:
        demo = msgspec.structs.replace(CONDITIONS, demo=True)
        with pytest.raises(FatalError, match="demo"):
            compare([summary()], demo, [reference()])
        with pytest.raises(FatalError, match="demo"):
            references_from([summary()], demo)

    def test_overall_names_the_models_that_only_one_has(self) -> None:
        measured = [summary(mean=400.0), summary("vgg16", mean=50.0), summary("trivial")]
        rows = [reference(), reference(row="r2", model="vgg16", images_per_sec=100.0), reference(row="r3", model="alexnet")]
        (overall,) = compare(measured, CONDITIONS, rows).overall
        assert overall.ratio == pytest.approx(1.0)
        assert (overall.models, overall.only_measured, overall.only_reference) == (("resnet50", "vgg16"), ("trivial",), ("alexnet",))

    def test_each_model_counts_once_in_the_overall_ratio(self) -> None:
        measured = [summary(mean=400.0), summary(batch_size=32, mean=400.0), summary("vgg16", mean=100.0)]
        rows = [reference(), reference(row="b32", batch_size=32), reference(row="v", model="vgg16")]
        (overall,) = compare(measured, CONDITIONS, rows).overall
        assert overall.ratio == pytest.approx(math.sqrt(2.0 * 0.5))

    def test_different_conditions_are_never_in_one_mean(self) -> None:
        measured = [summary(), summary(precision="fp16"), summary(devices=2), summary(forward_only=True)]
        rows = [reference(), reference(row="h", precision="fp16"), reference(row="d", devices=2), reference(row="f", mode="forward only")]
        comparison = compare(measured, CONDITIONS, rows)
        assert len(comparison.overall) == len(headline_tables(comparison)) == 4

    @pytest.mark.parametrize(
        ("mean", "text"),
        [
            (0.0334, "0.000167 ± 0.000002 (0.0167 %)"),
            (3.333, "0.0167 ± 0.0002 (1.67 %)"),
            (198.0, "0.990 ± 0.010 (99.0 %)"),
            (20000.0, "100.000 ± 1.000 (10000.0 %)"),
        ],
    )
    def test_a_small_ratio_keeps_three_digits(self, mean: float, text: str) -> None:
        (row,) = compare([summary(mean=mean, ci95=mean / 100)], CONDITIONS, [reference()]).rows
        assert row.text == text


class TestAgainst:
    def test_a_source_a_gpu_and_a_family(self, published: tuple[Reference, ...]) -> None:
        rows = compare([summary()], CONDITIONS, published, against=["tf_org_dgx1", "rtx 2080 ti", "V100"]).rows
        gpus = {row.reference.gpu for row in rows}
        assert {"Tesla P100", "GeForce RTX 2080 Ti", "Tesla V100", "Tesla V100-SXM2-16GB"} <= gpus
        assert not any(gpu.startswith("A100") for gpu in gpus)

    def test_entries_that_overlap_give_each_row_once(self, published: tuple[Reference, ...]) -> None:
        rows = compare([summary()], CONDITIONS, published, against=["tf_org_dgx1", "Tesla P100"]).rows
        names = [row.reference.row for row in rows]
        assert len(names) == len(set(names))

    def test_a_gpu_without_figures_is_said_to_have_none(self, published: tuple[Reference, ...]) -> None:
        comparison = compare([summary()], CONDITIONS, published, against=["NVIDIA H200"])
        assert [(unmatched.against, unmatched.reason) for unmatched in comparison.unmatched] == [
            ("NVIDIA H200", "NVIDIA H200 has no published figure of resnet50")
        ]

    def test_a_name_that_is_nothing_is_refused(self, published: tuple[Reference, ...]) -> None:
        for name, near in (("RTX 2080Ti", "RTX 2080 Ti"), ("tf_org_dgx", "tf_org_dgx1"), ("Turin", "Turing")):
            with pytest.raises(UsageError, match="neither a source nor a GPU") as refused:
                compare([summary()], CONDITIONS, published, against=[name])
            assert near in (refused.value.remedy or "")

    def test_a_cpu_beside_published_cpus(self, published: tuple[Reference, ...]) -> None:
        conditions = Conditions(name="mine", gpu="CPU Ryzen 9 3900X", tensorflow="2.21.0", tf32=False)
        rows = compare([summary("resnet50", 32, 5.0, device="cpu")], conditions, published, against=["CPU"]).rows
        assert rows and all(row.reference.gpu.startswith("CPU ") for row in rows)

    def test_turing_pascal_and_ampere_by_hand(self, published: tuple[Reference, ...]) -> None:
        comparison = compare([summary(mean=294.0)], CONDITIONS, published, against=["lambda_blog_2019_03", "tf_org_dgx1", "A100-SXM4-40GB"])
        ratios = {(row.reference.source, row.reference.gpu): row.ratio for row in comparison.rows}
        assert ratios["lambda_blog_2019_03", "GeForce RTX 2080 Ti"] == 1.0
        assert ratios["tf_org_dgx1", "Tesla P100"] == 294 / 219
        for row in comparison.rows:
            assert row.ratio == 294 / float(row.reference.published)
            if row.reference.gpu == "A100-SXM4-40GB":
                assert "TF32" in row.match.unstated

    def test_published_conditions_repeated_are_the_same_but_for_the_release(self, published: tuple[Reference, ...]) -> None:
        measured = Summary(case=summary(flags=(("local_parameter_device", "cpu"),)).case, n=5, mean=219.0, ci95=1.0)
        (row,) = compare([measured], CONDITIONS, published, against=["tf_org_dgx1"]).rows
        assert row.ratio == 1.0
        assert [difference.what for difference in row.match.differences] == ["TensorFlow"]
        assert row.match.unstated == ("XLA", "flags")


MODELS = ("alexnet", "resnet50", "vgg16", "inception3")
figures = st.floats(min_value=0.01, max_value=1e6)


def reports(device: str) -> st.SearchStrategy[list[Summary]]:
    built = st.builds(
        summary,
        model=st.sampled_from(MODELS),
        batch_size=st.sampled_from((16, 32, 64)),
        mean=st.none() | figures,
        ci95=st.none() | st.floats(min_value=0, max_value=10),
        precision=st.sampled_from(("fp32", "fp16")),
        devices=st.sampled_from((1, 2)),
        device=st.just(device),
    )
    return st.lists(built, min_size=1, max_size=8, unique_by=lambda one: one.case)


summaries = st.sampled_from(("cpu", "gpu")).flatmap(reports)
references = st.lists(
    st.builds(
        reference,
        row=st.uuids().map(str),
        source=st.sampled_from(("page", "logs")),
        model=st.sampled_from(MODELS),
        batch_size=st.none() | st.sampled_from((16, 32, 64)),
        precision=st.sampled_from(("fp32", "fp16", None)),
        xla=st.sampled_from((True, False, None)),
        devices=st.sampled_from((0, 1, 2)),
        images_per_sec=figures,
    ),
    max_size=12,
    unique_by=lambda built: built.row,
)


def as_set(comparison: Comparison) -> set[str]:
    rows = {f"{row.summary.case.name} {row.reference.row} {row.ratio} {row.ci95} {row.match.label}" for row in comparison.rows}
    overall = {f"{overall}" for overall in comparison.overall}
    nearest = {f"{un.case.name} {un.against} {un.reason} {un.nearest and un.nearest.distance}" for un in comparison.unmatched}
    return rows | overall | nearest


class TestProperties:
    @settings(max_examples=50, deadline=None)
    @given(summaries)
    def test_a_report_against_itself_is_one(self, measured: list[Summary]) -> None:
        comparison = compare(measured, CONDITIONS, references_from(measured, CONDITIONS), strict=True)
        assert all(row.ratio == 1.0 and row.match.label == "same conditions" for row in comparison.rows)
        assert {row.summary.case for row in comparison.rows} == {case.case for case in measured if case.mean is not None}
        assert all(overall.ratio == 1.0 and not overall.only_measured and not overall.only_reference for overall in comparison.overall)

    @settings(max_examples=50, deadline=None)
    @given(summaries, references, st.randoms(use_true_random=False), st.booleans())
    def test_order_does_not_matter(self, measured: list[Summary], rows: list[Reference], random: Any, strict: bool) -> None:
        shuffled, mixed = random.sample(measured, len(measured)), random.sample(rows, len(rows))
        assert as_set(compare(measured, CONDITIONS, rows, strict=strict)) == as_set(compare(shuffled, CONDITIONS, mixed, strict=strict))

    @settings(max_examples=50, deadline=None)
    @given(summaries, references)
    def test_a_missing_cell_never_becomes_a_number(self, measured: list[Summary], rows: list[Reference]) -> None:
        comparison = compare(measured, CONDITIONS, rows)
        assert set(comparison.missing) == {case.case for case in measured if case.mean is None}
        assert not {row.summary.case for row in comparison.rows} & set(comparison.missing)
        assert all(row.ratio > 0 for row in comparison.rows)
        for table in headline_tables(comparison):
            for line in table.lines:
                have = {
                    row.summary.case.model
                    for row in comparison.rows
                    if (row.reference.gpu, row.reference.source) == (line.gpu, line.source)
                    and table.conditions in {t.conditions for t in headline_tables(msgspec.structs.replace(comparison, rows=(row,)))}
                }
                assert [cell is not None for cell in line.cells] == [model in have for model in table.models]
                assert all(cell is None or cell.ratio > 0 for cell in line.cells)
        assert all(entry["value"] > 0 for entry in json.loads(benchmark_json(measured, CONDITIONS)))

    @settings(max_examples=50, deadline=None)
    @given(summaries, references)
    def test_every_case_is_accounted_for(self, measured: list[Summary], rows: list[Reference]) -> None:
        comparison = compare(measured, CONDITIONS, rows)
        groups = [{row.summary.case for row in comparison.rows}, {un.case for un in comparison.unmatched}, set(comparison.missing)]
        assert set.union(*groups) == {case.case for case in measured}
        assert sum(map(len, groups)) == len(measured)


class TestHeadline:
    def test_models_across_gpus_down(self) -> None:
        measured = [summary(mean=300.0), summary("vgg16", mean=150.0)]
        rows = [
            reference(),
            reference(row="v", model="vgg16", images_per_sec=100.0),
            reference(row="t", gpu="GeForce RTX 2080 Ti", images_per_sec=400.0, batch_size=128),
        ]
        (table,) = headline_tables(compare(measured, CONDITIONS, rows))
        assert (table.gpu, table.models, table.figures) == ("GeForce RTX 2080 Ti", ("resnet50", "vgg16"), (300.0, 150.0))
        slow, fast = table.lines
        assert (slow.gpu, slow.text, table.over) == ("Tesla P100", "150.0 %", "All 2 models (geometric mean)")
        assert [cell and cell.text for cell in slow.cells] == ["150.0 %", "150.0 %"]
        assert fast.cells[1] is None
        assert fast.cells[0] and fast.cells[0].batch_sizes == ((64, 128),) and fast.cells[0].differing == ("batch size",)

    def test_a_mean_over_fewer_models_never_stands_beside_one_over_all(self) -> None:
        measured = [summary(mean=300.0), summary("vgg16", mean=150.0)]
        rows = [reference(), reference(row="v", model="vgg16"), reference(row="t", gpu="Tesla T4", images_per_sec=1.0)]
        (table,) = headline_tables(compare(measured, CONDITIONS, rows))
        assert [(line.gpu, line.overall is None, line.text) for line in table.lines] == [
            ("Tesla P100", False, "106.1 %"),
            ("Tesla T4", True, "only 1 of 2"),
        ]

    def test_a_cell_says_what_differs_and_what_is_not_stated_in_any_row_behind_it(self) -> None:
        rows = [reference(row="a", steps=7), reference(row="b", steps=7), reference(row="c", gpu="Tesla T4", xla=None)]
        (table,) = headline_tables(compare([summary()], CONDITIONS, rows))
        labels = {line.gpu: [cell and cell.label for cell in line.cells] for line in table.lines}
        assert labels == {"Tesla P100": ["differs in steps"], "Tesla T4": ["not stated: XLA"]}


def test_a_mean_that_is_badly_known_is_named_under_the_short_table() -> None:
    rows = [reference(row=f"r{index}", gpu=f"GPU {index}", model=model) for index in range(20) for model in ("resnet50", "vgg16")]
    measured = [summary(mean=2.6, ci95=8.1), summary("vgg16", mean=150.0, ci95=1.0), summary("alexnet", mean=9.0, ci95=None)]
    text = [part for part in comparison_digest([compare(measured, CONDITIONS, rows)], {}) if isinstance(part, str)]
    uncertain = [part for part in text if part.startswith("Too uncertain")]
    assert uncertain == ["Too uncertain to rely on: resnet50-b64-fp32-gpu1, whose 95 % interval is ± 312 % of the mean; repeat it more often"]


def session(**fields: Any) -> Session:
    gpu = {"name": "NVIDIA A100-SXM4-40GB", "compute_capability": "8.0"}
    whole = Session(
        created="2020-01-01T00:00:00Z",
        sweep={},
        release={"tensorflow": "2.4.4"},
        upstream={},
        environment={},
        host={"cpu": "AMD Ryzen 9 3900X 12-Core Processor", "gpus": [gpu]},
        versions={},
        device="gpu",
    )
    return msgspec.structs.replace(whole, **fields)


class TestConditions:
    def test_of_a_session(self) -> None:
        expected = Conditions(name="r", gpu="A100-SXM4-40GB", tensorflow="2.4.4", tf32=True, measured="2020-01-01")
        assert conditions_of(session(), "r") == expected

    def test_of_a_cpu_session(self) -> None:
        found = conditions_of(session(device="cpu", demo=True), "r")
        assert (found.gpu, found.tf32, found.demo) == ("CPU Ryzen 9 3900X", False, True)

    @pytest.mark.parametrize(
        ("capability", "release", "tf32"),
        [
            ("7.5", {"tensorflow": "2.4.4"}, False),
            ("9.0", {"tensorflow": "2.21.0"}, True),
            ("8.6", {"tensorflow": "1.15.5"}, None),
            ("8.6", {"tensorflow": "2.4.4", "environment": {"NVIDIA_TF32_OVERRIDE": "0"}}, False),
            (None, {"tensorflow": "2.4.4"}, None),
            ("8.0", {"tensorflow": "nightly"}, None),
        ],
    )
    def test_tf32(self, capability: str | None, release: dict[str, Any], tf32: bool | None) -> None:
        gpu = {"name": "NVIDIA Secret", "compute_capability": capability}
        assert conditions_of(session(host={"gpus": [gpu]}, release=release), "r").tf32 is tf32

    def test_different_gpus_are_all_named(self) -> None:
        gpus = [{"name": name} for name in ("Tesla T4", "NVIDIA Secret", "Tesla T4")]
        assert conditions_of(session(host={"gpus": gpus}), "r").gpu == "Tesla T4 and NVIDIA Secret"


def test_published_rows_compare_with_themselves(published: tuple[Reference, ...]) -> None:
    """Each published condition that a case can have comes back as the row it is from."""
    for row in select(published, Filter(source="tf_org_gce", devices=1)):
        flags = (("local_parameter_device", "cpu"),)
        case = summary(row.model, row.batch_size or 0, row.images_per_sec, data_dir="records" if row.data == "real" else None, flags=flags)
        (found,) = compare([case], CONDITIONS, published, against=["tf_org_gce"]).rows
        assert (found.reference.row, found.ratio) == (row.row, 1.0)
