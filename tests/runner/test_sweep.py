"""What a sweep file may say, and how a mistake in one is answered."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wrapper.errors import UsageError
from wrapper.runner.batch_size import Fit
from wrapper.runner.sweep import Sweep, check_sweep, load_models, load_sweep, shipped_sweeps
from wrapper.runner.sweep_file import MAX_BYTES
from wrapper.runner.units import parse_duration

MODELS = load_models()
GOOD: dict[str, Any] = {"models": {"resnet50": [64]}}


@pytest.mark.parametrize("name", shipped_sweeps())
def test_every_shipped_sweep_is_complete(name: str) -> None:
    sweep = load_sweep(name, {})
    assert sweep.name == name
    assert sweep.description.endswith(".")
    assert all(model in MODELS for model in sweep.models)


def test_the_default_sweeps_are_as_filed() -> None:
    everything = load_sweep("all", {})
    expected = {"resnet50": 64, "resnet152": 32, "inception3": 64, "inception4": 16, "vgg16": 64, "alexnet": 512, "ssd300": 32}
    assert everything.models == {model: (size,) for model, size in expected.items()}
    assert (everything.repeats, everything.steps, everything.warmup_steps, everything.devices) == (3, 100, 10, (1,))
    official = load_sweep("official", {})
    assert (len(official.models), official.repeats, official.steps, official.warmup_steps) == (5, 5, 100, 10)


@pytest.mark.parametrize(
    ("wrong", "path", "value", "allowed"),
    [
        ({"models": {"resnet50": [0]}}, "models.resnet50[0]", "0", ">= 1"),
        ({"models": {"resnet50": "x"}}, "models.resnet50[0]", "'x'", "int"),
        ({"models": {"resnet50": None}}, "models.resnet50[0]", "None", "int"),
        ({"models": {"resnet50": []}}, "models.resnet50", "[]", "length >= 1"),
        ({"models": {"resnet5": [1]}}, "models.resnet5", "no model", "resnet50"),
        ({"models": {"resnet50": "maximum"}}, "models.resnet50[0]", "'maximum'", "int"),
        ({"models": {"resnet50": [64, "max"]}}, "models.resnet50[1]", "'max'", "int"),
        ({"models": {"resnet50": {"fit": []}}}, "models.resnet50.fit", "[]", "length >= 1"),
        ({"models": {"resnet50": {"fit": [64, 0]}}}, "models.resnet50.fit[1]", "0", ">= 1"),
        ({"models": {"resnet50": {"fit": 64}}}, "models.resnet50.fit", "64", "array"),
        ({"models": {"resnet50": {"fits": [64]}}}, "models.resnet50", "fits", "fit: [64, 32]"),
        ({"models": {5: [1]}}, "models.5", "5", "text"),
        ({"models": 5}, "models", "5", "object"),
        ({"models": {}}, "models", "{}", "length >= 1"),
        ({}, "sweep", "models", "missing"),
        (GOOD | {"precisions": ["fp32", "fp8"]}, "precisions[1]", "'fp8'", "fp32, fp16"),
        (GOOD | {"repeats": 0}, "repeats", "0", ">= 1"),
        (GOOD | {"repeats": "3"}, "repeats", "'3'", "int"),
        (GOOD | {"repeats": True}, "repeats", "True", "int"),
        (GOOD | {"steps": -5}, "steps", "-5", ">= 1"),
        (GOOD | {"warmup_steps": -3}, "warmup_steps", "-3", ">= 1"),
        (GOOD | {"repeat": 3}, "repeat", "no such key", "repeats"),
        (GOOD | {"tensorflow": 1.10}, "tensorflow", "1.1", "Quote it"),
        (GOOD | {"device": "tpu"}, "device", "'tpu'", "auto, cpu, gpu"),
        (GOOD | {"devices": [1, 0]}, "devices[1]", "0", ">= 1"),
        (GOOD | {"variable_update": "horovod"}, "variable_update", "'horovod'", "invalid enum"),
        (GOOD | {"time_limit": "soon"}, "time_limit", "'soon'", "30m"),
        (GOOD | {"time_limit": -1}, "time_limit", "-1", "> 0"),
        (GOOD | {"flags": {"batch_size": 3}}, "flags.batch_size", "'3'", "models"),
        (GOOD | {"flags": {"eval": True}}, "flags.eval", "'true'", "means something else"),
        (GOOD | {"flags": {"--x": 1}}, "flags.--x", "not a flag's name", "without dashes"),
        (GOOD | {"flags": {"a": [1]}}, "flags.a", "[1]", "str"),
        (GOOD | {"name": "../x"}, "name", "'../x'", "letters"),
    ],
)
def test_a_mistake_is_refused_with_path_value_and_what_is_allowed(wrong: dict[str, Any], path: str, value: str, allowed: str) -> None:
    with pytest.raises(UsageError) as error:
        check_sweep(wrong, models=MODELS)
    message = str(error.value)
    assert path in message and value in message and allowed in message
    assert "\n" not in message


@pytest.mark.parametrize("text", ["a\0b", "\ud800", "a\x1b[2Jb", "a\nb", "x" * 5000], ids=["NUL", "surrogate", "escape", "two lines", "long"])
@pytest.mark.parametrize("key", ["data_dir", "name", "tensorflow", "flags", "models", "description"])
def test_text_that_nothing_can_write_is_refused_wherever_it_stands(key: str, text: str) -> None:
    wrong = GOOD | {key: {"num_intra_threads": text} if key in ("flags", "models") else text}
    if (key, text) == ("description", "a\nb"):
        assert check_sweep(wrong, models=MODELS).description == text
        return
    with pytest.raises(UsageError, match=rf"^{key}.*(control character|too long)") as error:
        check_sweep(wrong, models=MODELS)
    assert str(error.value).isprintable() and len(str(error.value)) < 250


@pytest.mark.parametrize(
    "value", [["x" * 4000] * 99, [[["x" * 99] * 9] * 99] * 9, {str(n): "x" for n in range(5000)}, {"x" * 4000: 1}, list(range(10**5))]
)
@pytest.mark.parametrize("key", ["steps", "devices", "precisions", "data_dir", "tensorflow", "models", "flags"])
def test_a_message_stays_short_whatever_the_value(key: str, value: object) -> None:
    wrong = GOOD | {key: {"resnet50": value} if key in ("flags", "models") else value}
    with pytest.raises(UsageError) as error:
        check_sweep(wrong, models=MODELS)
    assert len(str(error.value)) < 400


def test_more_trials_than_anyone_waits_for_are_refused_with_their_number() -> None:
    sizes = list(range(1, 102))
    assert check_sweep({"models": {"resnet50": sizes[:100]}, "repeats": 1000}, models=MODELS).repeats == 1000
    with pytest.raises(UsageError, match="101000 trials"):
        check_sweep({"models": {"resnet50": sizes}, "repeats": 1000}, models=MODELS)
    with pytest.raises(UsageError, match="101000 trials"):
        check_sweep({"models": {"resnet50": sizes}, "max_repeats": 1000, "until": 1}, models=MODELS)


def test_a_single_value_stands_for_a_list_of_one() -> None:
    sweep = check_sweep({"models": {"resnet50": 64}, "devices": 2, "precisions": "fp16", "xla": True}, models=MODELS)
    assert (sweep.models, sweep.devices, sweep.precisions, sweep.xla) == ({"resnet50": (64,)}, (2,), ("fp16",), (True,))


def test_batch_sizes_to_be_found_survive_the_record_of_a_sweep(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("models: {resnet50: max, vgg16: {fit: [64, 48, 32]}, trivial: 8}\n", encoding="utf-8")
    sweep = load_sweep(str(file), {})
    assert sweep.models == {"resnet50": "max", "vgg16": Fit((64, 48, 32)), "trivial": (8,)}
    assert check_sweep(msgspec.json.decode(msgspec.json.encode(msgspec.to_builtins(sweep))), models=MODELS) == sweep
    assert load_sweep(str(file), {"models": {"vgg16": ("max",), "resnet50": ()}}).models == {"vgg16": "max", "resnet50": "max"}


def test_flags_go_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("models: {resnet50: [64, 32], vgg16: [16]}\nrepeats: 4\n", encoding="utf-8")
    sweep = load_sweep(str(file), {"models": {"resnet50": (), "trivial": (8,)}, "steps": 7})
    assert sweep.name == "mine"
    assert sweep.models == {"resnet50": (64, 32), "trivial": (8,)}
    assert (sweep.repeats, sweep.steps) == (4, 7)
    with pytest.raises(UsageError, match="--models alexnet: no batch size"):
        load_sweep(str(file), {"models": {"alexnet": ()}})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("models: {resnet50: [64]}\nmodels: {vgg16: [1]}\n", "stands twice"),
        ("models: [unclosed\n", "not valid YAML"),
        ("- a\n- b\n", "no keys"),
        ("", "no keys"),
        ("a: !!python/object/apply:os.system ['true']\n", "not valid YAML"),
        ("[" * 5000, "not valid YAML"),
        ("a0: &a0 [1, 1]\na1: &a1 [*a0, *a0]\nmodels: {trivial: *a1}\n", "aliases are not read"),
        ("models: {trivial: " + "9" * 5000 + "}\n", "not valid YAML"),
        ("models: {trivial: 0x" + "f" * 5000 + "}\n", "models.trivial: a whole number of 20000 bits is too large"),
        ("# " + "x" * MAX_BYTES, "larger than"),
    ],
)
def test_a_file_that_is_not_a_sweep_is_refused_in_one_line(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "wrong.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match=message) as error:
        load_sweep(str(file), {})
    assert "\n" not in str(error.value)


def test_bytes_that_are_not_text_and_a_missing_file_are_refused(tmp_path: Path) -> None:
    (tmp_path / "wrong.yaml").write_bytes(b"\xff\xfe\x00models")
    for name in (str(tmp_path / "wrong.yaml"), str(tmp_path / "absent.yaml"), str(tmp_path)):
        with pytest.raises(UsageError):
            load_sweep(name, {})


@pytest.mark.parametrize(("text", "seconds"), [("90", 90), ("45s", 45), ("30m", 1800), ("1.5h", 5400), (" 2 h ", 7200)])
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text, "time_limit") == seconds


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(st.characters(), max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["resnet50", "x", "1"]) | st.integers(), inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from(Sweep.__struct_fields__) | st.text(max_size=8), _VALUES, max_size=6))
def test_whatever_yaml_holds_gives_a_sweep_or_one_clear_line(raw: dict[str, Any]) -> None:
    try:
        sweep = check_sweep(raw, models=MODELS)
    except UsageError as error:
        assert str(error)
    else:
        assert sweep.models and sweep.repeats >= 1
