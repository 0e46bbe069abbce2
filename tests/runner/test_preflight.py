"""What is refused before the first trial."""

from __future__ import annotations

from pathlib import Path

import pytest

from wrapper.bootstrapper.by_hand import with_commit
from wrapper.bootstrapper.release import load_releases, resolve_release
from wrapper.errors import UsageError
from wrapper.runner.preflight import check_data_dir, check_flags, leave_out, why_left_out
from wrapper.runner.sweep import Case


def case(**more: object) -> Case:
    return Case(**({"model": "resnet50", "batch_size": 2, "device": "cpu", "data_name": "imagenet"} | more))  # type: ignore[arg-type]


def test_real_data_must_have_the_names_that_upstream_reads(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not a directory"):
        check_data_dir([case(data_dir=str(tmp_path / "absent"))])
    with pytest.raises(UsageError, match=r"train-\*-of-\*"):
        check_data_dir([case(data_dir=str(tmp_path))])
    (tmp_path / "train-00000-of-00008").touch()
    check_data_dir([case(data_dir=str(tmp_path))])
    with pytest.raises(UsageError, match="data_batch"):
        check_data_dir([case(data_dir=str(tmp_path), data_name="cifar10", model="resnet20")])
    for number in range(1, 6):
        (tmp_path / f"data_batch_{number}").touch()
    check_data_dir([case(data_dir=str(tmp_path), data_name="cifar10", model="resnet20"), case()])


def test_a_flag_that_this_upstream_lacks_is_refused(tmp_path: Path) -> None:
    names = ("model", "batch_size", "num_batches", "num_warmup_batches", "display_every", "device", "num_gpus", "data_format", "variable_update")
    (tmp_path / "flags.py").write_text("\n".join(f"DEFINE('{name}')" for name in (*names, "data_name")), encoding="utf-8")
    script = tmp_path / "main.py"
    script.write_text("# new_flag is not defined by being mentioned\n", encoding="utf-8")
    check_flags([case()], script)
    with pytest.raises(UsageError, match=r"flags\.new_flag"):
        check_flags([case(flags=(("new_flag", "1"),))], script)


def test_missing_models_are_left_out_of_a_shipped_sweep_and_refused_when_typed() -> None:
    release = resolve_release("2.21.0", load_releases())
    assert leave_out(("resnet50", "ssd300"), release, typed=False) == ("ssd300",)
    assert leave_out(("resnet50",), release, typed=True) == ()
    for models, typed in ((("resnet50", "ssd300"), True), (("ssd300",), False)):
        with pytest.raises(UsageError, match=r"models\.ssd300: upstream can't run it with TensorFlow 2\.21\.0\. Leave"):
            leave_out(models, release, typed=typed)


def test_what_another_commit_cannot_run_is_left_to_its_trials_where_it_was_typed() -> None:
    release = with_commit(resolve_release("2.21.0", load_releases()), "f" * 40)
    assert leave_out(("resnet50", "ssd300"), release, typed=True) == ()
    assert leave_out(("resnet50", "ssd300"), release, typed=False) == ("ssd300",)
    assert "--models tries it" in why_left_out(release)
