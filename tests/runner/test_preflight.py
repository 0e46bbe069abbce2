"""What is refused before the first trial."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from wrapper.bootstrapper.by_hand import with_commit
from wrapper.bootstrapper.release import load_releases, resolve_release
from wrapper.errors import UsageError
from wrapper.runner.preflight import check_flags, check_paths, leave_out, why_left_out
from wrapper.runner.sweep import Case


def case(**more: object) -> Case:
    return Case(**({"model": "resnet50", "batch_size": 2, "device": "cpu", "data_name": "imagenet"} | more))  # type: ignore[arg-type]


def test_real_data_must_have_the_names_that_upstream_reads(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not a directory"):
        check_paths([case(data_dir=str(tmp_path / "absent"))], False)
    with pytest.raises(UsageError, match=r"train-\*-of-\*"):
        check_paths([case(data_dir=str(tmp_path))], False)
    (tmp_path / "train-00000-of-00008").touch()
    check_paths([case(data_dir=str(tmp_path))], False)
    with pytest.raises(UsageError, match="data_batch"):
        check_paths([case(data_dir=str(tmp_path), data_name="cifar10", model="resnet20")], False)
    for number in range(1, 6):
        (tmp_path / f"data_batch_{number}").touch()
    check_paths([case(data_dir=str(tmp_path), data_name="cifar10", model="resnet20"), case()], False)


@pytest.mark.parametrize("value", ["out", "/data/out", "./out"])
@pytest.mark.parametrize("name", ["train_dir", "trace_file", "backbone_model_path", "partitioned_graph_file_prefix"])
def test_a_path_that_no_container_sees_is_refused(name: str, value: str) -> None:
    check_paths([case(flags=((name, value),))], False)
    with pytest.raises(UsageError, match=rf"flags\.{name}: .*{value}.*: no trial in a container can read it"):
        check_paths([case(flags=((name, value),))], True)
    check_paths([case(flags=(("num_intra_threads", "2"),))], True)


@pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege there")
def test_records_that_are_links_out_of_their_directory_are_no_data_in_a_container(tmp_path: Path) -> None:
    data, elsewhere = tmp_path / "data", tmp_path / "elsewhere"
    data.mkdir()
    (data / "real").touch()
    (data / "train-00000-of-00008").symlink_to("real")
    check_paths([case(data_dir=str(data))], True)
    elsewhere.touch()
    (data / "train-00001-of-00008").symlink_to(elsewhere)
    check_paths([case(data_dir=str(data))], False)
    with pytest.raises(UsageError, match=r"train-00001-of-00008 is a link to .*elsewhere, which no container sees"):
        check_paths([case(data_dir=str(data))], True)


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
