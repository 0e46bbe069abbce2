"""The tables of published figures are complete and consistent, and say what was published."""

from __future__ import annotations

import csv
import importlib.util
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from wrapper.errors import UsageError
from wrapper.reporter.reference import (
    DATA,
    Filter,
    Reference,
    as_published,
    canonical_gpu,
    gpu_names,
    load_gpus,
    load_references,
    load_sources,
    published_sweeps,
    select,
    why_none,
)
from wrapper.runner.plan import expand, stand_in, upstream_flags
from wrapper.runner.sweep import check_sweep, load_models

PROJECT = Path(__file__).parents[2]
COLLECTED = PROJECT.parent / "shared" / "references"
WITH_FIGURES = frozenset(reference.gpu for reference in load_references())
needs_collected = pytest.mark.skipif(not COLLECTED.is_dir(), reason="the collected tables are not beside the project")


@pytest.fixture(scope="module")
def references() -> tuple[Reference, ...]:
    return load_references()


@pytest.fixture(scope="module")
def cleaning() -> ModuleType:
    spec = importlib.util.spec_from_file_location("clean_references", PROJECT / "scripts" / "clean_references.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class TestTables:
    def test_every_collected_row_is_there_once(self, references: tuple[Reference, ...]) -> None:
        assert len(references) == 4851
        assert {reference.row for reference in references} == {f"training-{n}" for n in range(1, 2799)} | {f"inference-{n}" for n in range(1, 2054)}

    def test_every_source_exists_and_is_used(self, references: tuple[Reference, ...]) -> None:
        sources = load_sources()
        assert {reference.source for reference in references} == set(sources)
        assert {source.weight for source in sources.values()} == {"official", "vendor", "site", "user"}

    def test_every_gpu_has_a_name_of_its_own(self, references: tuple[Reference, ...]) -> None:
        gpus = load_gpus()
        assert {reference.gpu for reference in references} <= {gpu.gpu for gpu in gpus}
        names = [canonical for gpu in gpus for canonical in (gpu.gpu, *gpu.aliases)]
        assert all(canonical_gpu(name, gpus) == gpu.gpu for gpu in gpus for name in (gpu.gpu, *gpu.aliases)), "an alias means two GPUs"
        assert len(names) == len(set(names))

    def test_no_value_is_out_of_range_or_unknown(self, references: tuple[Reference, ...]) -> None:
        # what upstream never had comes from a fork (ggg17226_2018)
        models = set(load_models()) | {"alexnet_owt", "resnet18", "resnet34", "vgg13"}
        for reference in references:
            assert 1 < reference.images_per_sec < 300_000, reference
            assert 0 <= reference.devices <= 128, reference
            assert reference.batch_size is None or 1 <= reference.batch_size <= 4096, reference
            assert reference.repeats in (None, 1, 2, 3, 5), reference
            assert reference.steps is None or 10 <= reference.steps <= 200_182, reference
            assert reference.model in models, reference
            assert reference.mode in ("training", "forward only"), reference
            assert reference.precision in ("fp32", "fp16", None), reference
            assert reference.data in ("synthetic", "real", None), reference
            assert reference.data_set in ("imagenet", "cifar10", None), reference
            assert reference.variable_update in ("parameter_server", "replicated", "distributed_replicated", "horovod", None), reference
            assert reference.all_reduce in ("nccl", "none", None), reference
            assert reference.parameter_device in ("cpu", "gpu", None), reference
            assert reference.optimizer in ("sgd", "momentum", "rmsprop", None), reference

    def test_tf32_is_ruled_out_only_where_the_hardware_has_none(self, references: tuple[Reference, ...]) -> None:
        architectures = {gpu.gpu: gpu.architecture for gpu in load_gpus()}
        newer = {reference.tf32 for reference in references if architectures[reference.gpu] in ("Ampere", "Ada Lovelace", "Hopper")}
        assert newer == {None}
        assert all(reference.tf32 is False for reference in references if architectures[reference.gpu] == "Turing" and reference.precision == "fp32")

    def test_figures_of_logs_that_contradict_themselves_say_so(self, references: tuple[Reference, ...]) -> None:
        found = select(
            references,
            Filter(source="lambda_logs_2020_21", model="inception3", gpu="RTX A6000", precision="fp16", mode="training", batch_size=256),
        )
        assert [(one.devices, "per device, but" in (one.caution or "")) for one in found] == [(2, True), (4, True), (8, True)]

    def test_files_are_small(self) -> None:
        assert all(path.stat().st_size < 1 << 20 for path in DATA.iterdir())

    def test_loading_is_quick(self) -> None:
        times = []
        for _ in range(3):
            start = time.perf_counter()
            load_references()
            times.append(time.perf_counter() - start)
        assert min(times) < 0.3


def table(text: str) -> list[list[str]]:
    return [line.split() for line in text.strip().splitlines()]


# As printed on https://www.tensorflow.org/performance/benchmarks (May 2017): GPUs, then inception3, resnet50, resnet152, alexnet, vgg16.
MODELS_OF_THE_PAGE = ("inception3", "resnet50", "resnet152", "alexnet", "vgg16")
PUBLISHED = {
    ("tf_org_dgx1", "synthetic"): "1 142 219 91.8 2987 154 \n 2 284 422 181 5658 295 \n 4 569 852 356 10509 584 \n 8 1131 1734 716 17822 1081",
    ("tf_org_dgx1", "real"): "1 142 218 91.4 2890 154 \n 2 278 425 179 4448 284 \n 4 551 853 359 7105 534 \n 8 1079 1630 708 N/A 898",
    ("tf_org_gce", "synthetic"): "1 30.5 51.9 20.0 656 35.4 \n 2 57.8 99.0 38.2 1209 64.8 \n 4 116 195 75.8 2328 120 \n 8 227 387 148 4640 234",
    ("tf_org_gce", "real"): "1 30.6 51.2 20.0 639 34.2 \n 2 58.4 98.8 38.3 1136 62.9 \n 4 115 194 75.4 2067 118 \n 8 225 381 148 4056 230",
    ("tf_org_ec2", "synthetic"): "1 30.8 51.5 19.7 684 36.3 \n 2 58.7 98.0 37.6 1244 69.4 \n 4 117 195 74.9 2479 141 \n 8 230 384 149 4853 260",
    ("tf_org_ec2", "real"): "1 30.5 51.3 19.7 674 36.3 \n 2 59.0 94.9 38.2 1227 67.5 \n 4 118 188 75.2 2201 136 \n 8 228 373 149 N/A 242",
}
BATCH_SIZES = {"tf_org_dgx1": (64, 64, 64, 512, 64), "tf_org_gce": (64, 64, 32, 512, 32), "tf_org_ec2": (64, 64, 32, 512, 32)}


class TestPublishedTables:
    @pytest.mark.parametrize(("source", "data"), PUBLISHED)
    def test_tensorflow_org_to_the_last_digit(self, references: tuple[Reference, ...], source: str, data: str) -> None:
        for devices, *figures in table(PUBLISHED[source, data]):
            for model, batch_size, figure in zip(MODELS_OF_THE_PAGE, BATCH_SIZES[source], figures, strict=True):
                found = select(references, Filter(source=source, model=model, batch_size=batch_size, devices=int(devices)))
                found = tuple(reference for reference in found if reference.data == data)
                assert [reference.published for reference in found] == ([] if figure == "N/A" else [figure])
                assert all(reference.images_per_sec == float(figure) for reference in found)

    def test_lambda_2019_to_the_last_digit(self, references: tuple[Reference, ...]) -> None:
        # https://lambdalabs.com/blog/2080-ti-deep-learning-benchmarks: resnet50, resnet152, inception3, inception4
        published = {
            "GeForce RTX 2080 Ti": "294 110 194 79",
            "GeForce RTX 2080": "213 83 142 56",
            "TITAN RTX": "330 129 221 96",
            "TITAN V": "300 107 208 77",
            "Tesla V100-SXM3-32GB": "405 155 259 112",
            "TITAN Xp": "236 90 151 63",
            "GeForce GTX 1080 Ti": "209 81 136 58",
        }
        for gpu, figures in published.items():
            for model, figure in zip(("resnet50", "resnet152", "inception3", "inception4"), figures.split(), strict=True):
                found = select(references, Filter(source="lambda_blog_2019_03", gpu=gpu, model=model))
                assert [reference.published for reference in found] == [figure]

    @needs_collected
    @pytest.mark.parametrize("collected", ["training", "inference"])
    def test_every_figure_and_condition_is_the_collected_one(self, references: tuple[Reference, ...], collected: str) -> None:
        cleaned = {reference.row: reference for reference in references}
        with (COLLECTED / f"{collected}.csv").open(encoding="utf-8", newline="") as file:
            for number, line in enumerate(csv.DictReader(file), start=1):
                reference = cleaned[f"{collected}-{number}"]
                assert reference.published == line["images_per_sec"]
                assert reference.source == line["source"]
                assert (reference.model, str(reference.devices)) == (line["model"], line["devices"])
                assert (reference.precision or "", reference.data or "", reference.tensorflow or "") == (
                    line["precision"],
                    line["data"],
                    line["tensorflow"],
                )
                assert str(reference.batch_size or "") == line["batch_size"]
                assert {None: "", True: "yes", False: "no"}[reference.xla] == line["xla"]
                assert line["variable_update"].startswith(reference.variable_update or "")
                assert reference.loss_nan == ("loss=nan" in line["note"])


class TestCleaning:
    @needs_collected
    def test_the_tables_are_what_the_script_makes(self, cleaning: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "gpus.csv").write_bytes((DATA / "gpus.csv").read_bytes())
        monkeypatch.setattr(cleaning, "TARGET", tmp_path)
        monkeypatch.setattr("sys.argv", ["clean_references.py", str(COLLECTED)])
        assert cleaning.main() == 0
        for name in ("results.csv", "sources.csv"):
            assert (tmp_path / name).read_bytes() == (DATA / name).read_bytes()

    @needs_collected
    def test_specifications_are_the_collected_ones(self) -> None:
        collected = list(csv.DictReader((COLLECTED / "hardware_specs.csv").open(encoding="utf-8", newline="")))
        figures = {tuple(float(line[column] or 0) for column in ("memory_gb", "memory_bandwidth_gb_s", "fp32_tflops")) for line in collected}
        stated = [gpu for gpu in load_gpus() if gpu.specs_source]
        assert len(stated) >= len(collected) - 1
        for gpu in stated:
            assert (gpu.memory_gb or 0, gpu.memory_bandwidth_gb_s or 0, gpu.fp32_tflops or 0) in figures, gpu

    def test_a_note_that_no_rule_understands_stops_it(self, cleaning: ModuleType) -> None:
        with pytest.raises(ValueError, match="clock locked"):
            cleaning.read_note("1 run x 10 batches; clock locked")

    def test_a_note_becomes_columns(self, cleaning: ModuleType) -> None:
        assert cleaning.read_note("5 runs averaged; each 10 warm-up + 100 timed steps; optimizer sgd; loss=nan") == {
            "repeats": "5",
            "warmup_steps": "10",
            "steps": "100",
            "optimizer": "sgd",
            "loss_nan": "true",
        }


class TestNames:
    @pytest.mark.parametrize(
        ("printed", "canonical"),
        [
            ("NVIDIA GeForce RTX 2080 Ti", "GeForce RTX 2080 Ti"),
            ("GeForce RTX 2080 Ti", "GeForce RTX 2080 Ti"),
            ("rtx 2080 ti", "GeForce RTX 2080 Ti"),
            ("GeForce_RTX_2080_Ti", "GeForce RTX 2080 Ti"),
            ("NVIDIA GeForce RTX 2080", "GeForce RTX 2080"),
            ("Tesla V100-SXM2-16GB", "Tesla V100-SXM2-16GB"),
            ("NVIDIA A100-SXM4-40GB", "A100-SXM4-40GB"),
            ("NVIDIA RTX A6000", "RTX A6000"),
            ("Quadro RTX 6000", "Quadro RTX 6000"),
            ("NVIDIA H200", "H200"),
            ("NVIDIA TITAN X (Pascal)", "TITAN X (Pascal)"),
            ("AMD Radeon VII", "Radeon VII"),
            ("Intel(R) Xeon(R) CPU E5-2686 v4 @ 2.30GHz", "CPU Xeon E5-2686 v4"),
        ],
    )
    def test_what_drivers_print(self, printed: str, canonical: str) -> None:
        assert canonical_gpu(printed) == canonical

    @pytest.mark.parametrize("name", ["RTX 6000", "NVIDIA RTX 6000 Ada Generation", "RTX 2080 Super", "2080", "NVIDIA", "", "A100", "V100-SXM2"])
    def test_no_guess(self, name: str) -> None:
        assert canonical_gpu(name) is None

    def test_a_suffix_always_makes_another_gpu(self) -> None:
        gpus = load_gpus()
        for gpu in gpus:
            for suffix in (" Ti", " Super", " D", " Laptop GPU", " with Max-Q Design", "0", "-80GB"):
                assert canonical_gpu(gpu.gpu + suffix, gpus) != gpu.gpu

    def test_a_family_gathers_its_members(self) -> None:
        assert {"Tesla V100", "Tesla V100-SXM2-16GB", "Tesla V100-SXM3-32GB"} < gpu_names("V100", WITH_FIGURES)
        assert gpu_names("A100", WITH_FIGURES) == {"A100-SXM4-40GB", "A100-PCIE-40GB"}
        assert gpu_names("rtx 2080", WITH_FIGURES) == {"GeForce RTX 2080"}

    def test_an_architecture_gathers_its_gpus_and_the_cpus(self) -> None:
        assert {"GeForce RTX 2080 Ti", "Tesla T4"} < gpu_names("Turing", WITH_FIGURES)
        assert all(name.startswith("CPU ") for name in gpu_names("cpu", WITH_FIGURES)) and len(gpu_names("cpu", WITH_FIGURES)) == 4

    def test_an_unknown_name_is_refused_with_its_neighbours(self) -> None:
        with pytest.raises(UsageError, match="2080 Ti"):
            gpu_names("RTX 2080Ti", WITH_FIGURES)

    @pytest.mark.parametrize("name", ["H100", "2070", "RTX 2070Ti", "V100X"])
    def test_only_what_has_figures_is_offered(self, name: str) -> None:
        with pytest.raises(UsageError) as caught:
            gpu_names(name, WITH_FIGURES)
        offered = caught.value.remedy.partition(": ")[2].split(", ")
        assert all(gpu_names(one, WITH_FIGURES) & WITH_FIGURES for one in offered)


class TestSelect:
    def test_by_all_at_once(self, references: tuple[Reference, ...]) -> None:
        found = select(
            references, Filter(gpu="Tesla P100", model="resnet50", source="tf_org_dgx1", precision="fp32", batch_size=64, devices=8, mode="training")
        )
        assert sorted(reference.published for reference in found) == ["1630", "1734"]

    def test_by_nothing_is_everything(self, references: tuple[Reference, ...]) -> None:
        assert select(references, Filter()) == references

    @pytest.mark.parametrize(
        ("asked", "near"),
        [
            ({"gpu": "RTX 2080 Tie"}, "GeForce RTX 2080 Ti"),
            ({"model": "resnet5"}, "resnet50"),
            ({"source": "tf_org_dgx2"}, "tf_org_dgx1"),
        ],
    )
    def test_of_a_name_that_nobody_knows_the_nearest_is_named(self, references: tuple[Reference, ...], asked: dict[str, Any], near: str) -> None:
        with pytest.raises(UsageError) as refused:
            select(references, Filter(**asked))
        assert str(*asked.values()) in refused.value.what and near in (refused.value.remedy or "")

    @pytest.mark.parametrize(
        ("asked", "near"),
        [
            ({"gpu": "RTX 2070"}, "GeForce RTX 2070 with Max-Q Design, "),
            ({"gpu": "NVIDIA H200"}, "A100-PCIE-40GB"),
            ({"model": "ncf"}, "Known: "),
            ({"batch_size": 63}, "64"),
            ({"devices": 100}, "10"),
        ],
    )
    def test_where_nothing_was_published_the_nearest_is_named(self, references: tuple[Reference, ...], asked: dict[str, Any], near: str) -> None:
        assert select(references, Filter(**asked)) == ()
        why = why_none(references, Filter(**asked))
        assert str(*asked.values()) in why and near in why

    def test_what_nothing_has_together_is_counted_without_each(self, references: tuple[Reference, ...]) -> None:
        asked = Filter(source="tf_org_dgx1", precision="fp16")
        assert select(references, asked) == ()
        fp16, source = (
            sum(getattr(one, field) == value for one in references) for field, value in (("precision", "fp16"), ("source", "tf_org_dgx1"))
        )
        assert why_none(references, asked).endswith(f"There are {fp16} without --source, {source} without --precision")

    @pytest.mark.parametrize("asked", [{"model": "resnet5"}, {"source": "tf_org"}, {"mode": "inference"}, {"precision": "tf32"}, {"gpu": "GTX 9"}])
    def test_what_does_not_exist_is_refused(self, references: tuple[Reference, ...], asked: dict[str, str]) -> None:
        with pytest.raises(UsageError):
            select(references, Filter(**asked))


class TestAsPublished:
    @pytest.mark.parametrize("source", published_sweeps())
    @pytest.mark.parametrize("devices", [(1,), (1, 2, 4, 8)])
    def test_each_planned_case_was_published(self, references: tuple[Reference, ...], source: str, devices: tuple[int, ...]) -> None:
        models = load_models()
        planned = set()
        for raw in as_published(source, devices=devices):
            sweep = check_sweep(raw, models=models)
            assert (sweep.repeats, sweep.steps, sweep.warmup_steps) == (5, 100, 10)
            for case in expand(sweep, device="gpu", data_names=models, resolve=stand_in):
                flags = upstream_flags(case)
                (reference,) = (
                    found
                    for found in select(references, Filter(source=source, model=case.model, batch_size=case.batch_size, devices=case.devices))
                    if found.data == "synthetic"
                )
                assert flags["variable_update"] == reference.variable_update
                assert flags.get("all_reduce_spec", "none") == (reference.all_reduce or "none")
                assert flags.get("local_parameter_device") == reference.parameter_device
                assert flags["optimizer"] == reference.optimizer
                assert (sweep.repeats, case.steps, case.warmup_steps) == (reference.repeats, reference.steps, reference.warmup_steps)
                planned.add(reference.row)
        assert planned == {
            reference.row for reference in references if reference.source == source and reference.data == "synthetic" and reference.devices in devices
        }

    def test_names_are_unique(self) -> None:
        names = [raw["name"] for source in published_sweeps() for raw in as_published(source)]
        assert len(set(names)) == len(names)

    def test_an_unknown_source_is_refused_with_the_known_ones(self) -> None:
        with pytest.raises(UsageError, match="tf_org_dgx1, tf_org_gce, tf_org_ec2"):
            as_published("lambda_blog_2019_03")

    @pytest.mark.parametrize("devices", [(3,), (1, 16), ()])
    def test_a_device_count_that_was_not_measured_is_refused(self, devices: tuple[int, ...]) -> None:
        with pytest.raises(UsageError, match="1, 2, 4, 8"):
            as_published("tf_org_dgx1", devices=devices)
