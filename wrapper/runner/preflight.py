"""What is refused before the first trial: data that is not there, flags that upstream does not know, devices that TensorFlow does not see."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from wrapper.bootstrapper.by_hand import BY_HAND
from wrapper.bootstrapper.inspection import Environment
from wrapper.bootstrapper.release import Release
from wrapper.errors import FatalError, UsageError
from wrapper.runner.plan import upstream_flags
from wrapper.runner.quoting import shown
from wrapper.runner.sweep import Case

T = TypeVar("T")

TRAINING_FILES = {
    "imagenet": "train-*-of-*",
    "coco": "train-*-of-*",
    "cifar10": "data_batch_[1-5]",
    "librispeech": "train-clean-*.tfrecords",
}
"""The file names that upstream's data sets read (its datasets.py)."""
_NAMES_A_PLACE = re.compile(r"_(dir|file|path|file_prefix)$")
"""So end the names of all of upstream's flags that take a path."""


def check_paths(cases: Sequence[Case], contained: bool) -> None:
    """Check that real data is where the sweep says, by the file names that upstream's data sets want, and that the trials will find what they name.

    Args:
        contained: whether they run in a container, which sees the directory of the data, and nothing else that is not upstream's own.

    Raises:
        UsageError: naming the directory and the pattern that no file matches, or the flag.
    """
    for case in cases:
        if case.data_dir:
            _check_data(case, Path(case.data_dir), contained)
        for name, value in case.flags if contained else ():
            if _NAMES_A_PLACE.search(name):
                what = f"flags.{name}: {shown(value)}: no trial in a container can read it, and what it writes there is lost"
                raise UsageError(what, "Leave it out, or take another --environment")


def _check_data(case: Case, directory: Path, contained: bool) -> None:
    if not directory.is_dir():
        raise UsageError(f"data_dir: {directory} is not a directory", "Name the directory with the records, or leave it out for synthetic data")
    pattern = TRAINING_FILES[case.data_name or "imagenet"]
    files = list(directory.glob(pattern))
    if len(files) < (5 if case.data_name == "cifar10" else 1):
        raise UsageError(
            f"data_dir: {directory} has no {case.data_name} training data for {case.model} (files named {pattern})",
            "Upstream reads exactly these names; its own scripts/tf_cnn_benchmarks/test_data/fake_tf_record_data is a tiny set to try with",
        )
    away = next((path for path in files if not path.resolve().is_relative_to(directory.resolve())), None)
    if contained and away:
        raise UsageError(f"data_dir: {away} is a link to {away.resolve()}, which no container sees", "Name the directory where the records are")


def check_flags(cases: Sequence[Case], script: Path) -> None:
    """Check that this upstream knows every flag of the cases.

    Upstream's 1.5 branch ignores an unknown flag in silence, and would then measure something else than what was asked for.

    Args:
        cases: with the flags that the sweep adds.
        script: upstream's main program; flags are defined by name in the Python files beside it.

    Raises:
        UsageError: naming the flag.
    """
    unknown = unknown_flags({name for case in cases for name in upstream_flags(case)}, script)
    if unknown:
        raise UsageError(f"flags.{unknown[0]}: upstream has no such flag in the commit of this release", "Mend its name or leave it out")


def unknown_flags(names: Iterable[str], script: Path) -> list[str]:
    """Those of the flags that no Python file beside upstream's main program defines."""
    source = "\n".join(path.read_text(encoding="utf-8", errors="replace") for path in sorted(script.parent.glob("*.py")))
    return sorted(name for name in names if not re.search(rf"""['"](?:--)?{re.escape(name)}['"]""", source))


def leave_out(models: Sequence[str], release: Release, *, typed: bool) -> tuple[str, ...]:
    """The models of a sweep that a release can't run.

    Args:
        models: the sweep's.
        release: with its own commit of upstream, or with one given by hand, of which nobody knows what it can't run.
        typed: whether the user named the models: then a missing one is refused instead of left out, and tried with a commit given by hand.

    Raises:
        UsageError: naming the model.
    """
    by_hand = release.upstream_ref == BY_HAND
    absent = () if by_hand and typed else tuple(model for model in models if model in release.missing_models)
    if absent and (typed or len(absent) == len(models)):
        raise UsageError(f"models.{absent[0]}: {why_left_out(release)}", "Leave it out, or choose a release that has it")
    return absent


def why_left_out(release: Release) -> str:
    """Why a model is left out, in words."""
    other = " at the release's own commit (--models tries it with this one)" if release.upstream_ref == BY_HAND else ""
    return f"upstream can't run it with TensorFlow {release.tensorflow}{other}"


def without(models: Mapping[str, T], absent: Sequence[str]) -> dict[str, T]:
    return {model: sizes for model, sizes in models.items() if model not in absent}


def check_devices(cases: Sequence[Case], environment: Environment) -> None:
    """Check that TensorFlow sees as many GPUs as the cases ask for.

    Upstream places softly: what finds no GPU would train on the CPU, print `/gpu:0`, and exit with 0.

    Raises:
        FatalError: with the reason that TensorFlow gave.
    """
    asked = max((case.devices for case in cases if case.device == "gpu"), default=0)
    seen = sum(device.kind == "GPU" for device in environment.devices)
    if asked <= seen:
        return
    reasons = [*environment.diagnosis, *(["this build of TensorFlow is for the CPU alone"] if environment.cuda_built is None else [])]
    because = f", which says: {reasons[0]}" if reasons else ""
    place = f"the image {environment.container.image}" if environment.container else environment.python
    raise FatalError(
        f"{asked} GPU{'s' if asked > 1 else ''} asked for, and {seen} seen by TensorFlow {environment.tensorflow} in {place}{because}",
        "Mend that, ask for fewer with --devices or for --device cpu, or start all the same with --unproven-device",
    )
