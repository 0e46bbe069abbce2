"""From a sweep to command lines."""

from __future__ import annotations

from wrapper.runner.plan import expand, plan_trials, recorded_sizes, stand_in, trial_variables, upstream_flags
from wrapper.runner.sweep import Case, check_sweep, load_models

MODELS = load_models()


def test_cases_are_the_product_of_all_axes_and_have_different_names() -> None:
    sweep = check_sweep(
        {"models": {"resnet50": [64, 32], "vgg16": [16]}, "precisions": ["fp32", "fp16"], "devices": [1, 2], "xla": [False, True]}, models=MODELS
    )
    cases = expand(sweep, device="gpu", data_names=MODELS, resolve=stand_in)
    assert len(cases) == 3 * 2 * 2 * 2
    assert len({case.name for case in cases}) == len(cases)


def test_repeats_go_round() -> None:
    sweep = check_sweep({"models": {"resnet50": [64], "vgg16": [16]}}, models=MODELS)
    trials = plan_trials(expand(sweep, device="gpu", data_names=MODELS, resolve=stand_in), rounds=range(1, 4), python="python", script="script")
    assert [(trial.case.model, trial.repeat) for trial in trials] == [(model, repeat) for repeat in (1, 2, 3) for model in ("resnet50", "vgg16")]
    assert [trial.index for trial in trials] == [1, 2, 3, 4, 5, 6]
    assert trials[2].log_name == "003-resnet50-b64-fp32-gpu1-r2"
    assert len({trial.log_name for trial in trials}) == len(trials)


def test_everything_that_a_figure_depends_on_is_on_the_command_line() -> None:
    flags = upstream_flags(Case(model="resnet50", batch_size=64, device="gpu", devices=2, flags=(("allow_growth", "true"),)))
    assert flags == {
        "model": "resnet50",
        "batch_size": "64",
        "num_batches": "100",
        "num_warmup_batches": "10",
        "display_every": "10",
        "device": "gpu",
        "num_gpus": "2",
        "data_format": "NCHW",
        "variable_update": "parameter_server",
        "allow_growth": "true",
    }


def test_a_cpu_trial_uses_nhwc_and_is_shown_no_gpu() -> None:
    case = Case(model="resnet50", batch_size=2, device="cpu", steps=5)
    flags = upstream_flags(case)
    assert (flags["device"], flags["data_format"], flags["display_every"]) == ("cpu", "NHWC", "1")
    assert trial_variables(case, {})["CUDA_VISIBLE_DEVICES"] == "-1"


def test_switches_and_data_become_flags() -> None:
    case = Case(model="ssd300", batch_size=2, device="gpu", precision="fp16", xla=True, forward_only=True, data_name="coco", data_dir="/data")
    flags = upstream_flags(case)
    assert {name: flags[name] for name in ("use_fp16", "xla", "forward_only", "data_name", "data_dir")} == {
        "use_fp16": "true",
        "xla": "true",
        "forward_only": "true",
        "data_name": "coco",
        "data_dir": "/data",
    }


def test_a_model_for_another_data_set_brings_its_name_along_and_real_data_is_named() -> None:
    plain = check_sweep({"models": {"resnet20": [2], "resnet50": [2]}}, models=MODELS)
    assert [case.data_name for case in expand(plain, device="cpu", data_names=MODELS, resolve=stand_in)] == ["cifar10", None]
    real = check_sweep({"models": {"resnet50": [2]}, "data_dir": "records"}, models=MODELS)
    (case,) = expand(real, device="cpu", data_names=MODELS, resolve=stand_in)
    assert (case.data_name, case.data) == ("imagenet", "real")


def test_the_release_sets_variables() -> None:
    variables = trial_variables(Case(model="trivial", batch_size=1, device="gpu"), {"TF_USE_LEGACY_KERAS": "1"})
    assert variables == {"TF_CPP_MIN_LOG_LEVEL": "0", "CUDA_DEVICE_ORDER": "PCI_BUS_ID", "TF_USE_LEGACY_KERAS": "1"}


def test_batch_sizes_to_be_found_are_asked_for_case_by_case() -> None:
    sweep = check_sweep(
        {"models": {"resnet50": "max", "vgg16": {"fit": [64, 32]}, "trivial": [8, 4]}, "precisions": ["fp32", "fp16"], "steps": 7}, models=MODELS
    )
    cases = expand(sweep, device="gpu", data_names=MODELS, resolve=lambda case, wanted: [100 if case.precision == "fp32" else 200])
    assert [(case.model, case.precision, case.batch_size, case.steps) for case in cases] == [
        (model, precision, size, 7)
        for precision, found in (("fp32", 100), ("fp16", 200))
        for model, size in (("resnet50", found), ("vgg16", found), ("trivial", 8), ("trivial", 4))
    ]
    assert expand(sweep, device="gpu", data_names=MODELS, resolve=recorded_sizes(cases)) == cases
    checked = expand(sweep, device="gpu", data_names=MODELS, resolve=stand_in)
    assert [case.batch_size for case in checked] == 2 * [1, 64, 32, 8, 4]
