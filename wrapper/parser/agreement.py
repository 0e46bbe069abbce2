"""Whether upstream ran what it was asked to run, by its own header and step lines."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from wrapper.parser.line import Step
from wrapper.parser.output import Output
from wrapper.runner.plan import upstream_flags
from wrapper.runner.sweep import Case

_DEVICE = re.compile(r"'[^']*?(cpu|gpu):\d+'", re.IGNORECASE)
# 1.5 to 1.11 print "forward-only", 1.12 "BenchmarkMode.FORWARD_ONLY", 1.13 and later "forward only".
_MODES = {"train": "training", "eval": "evaluation"}
# Models that print another name than the one that `--model` takes (models/lenet_model.py, models/nasnet_model.py).
_PRINTED_NAMES = {"lenet": "lenet5", "nasnetlarge": "nasnet"}


class Disagreement(msgspec.Struct, frozen=True, kw_only=True):
    """Something that upstream did otherwise than asked, or than the rest of what it printed says."""

    key: str
    asked: str
    printed: str

    def __str__(self) -> str:
        return f"{self.key}: upstream printed {self.printed} instead of {self.asked}"


def disagreements(case: Case, output: Output, release_minor: str | None = None) -> tuple[Disagreement, ...]:
    """Compare what was asked for with what upstream says that it did.

    Args:
        case: what was asked for.
        output: what upstream printed.
        release_minor: TensorFlow's release as "major.minor"; None where it is not known.

    Returns:
        every difference. Upstream replaces impossible values by its own in silence (a batch size of 0 or less by the model's default), so
        each key that the case fixes is compared; a key that this upstream does not print is not.
    """
    header = output.header
    printed_devices = tuple(kind.lower() for kind in _DEVICE.findall(header.get("Devices", "")))
    pairs = [
        ("TensorFlow", release_minor or header.get("TensorFlow"), header.get("TensorFlow")),
        ("Model", case.model, _model(case.model, header.get("Model", "nothing"))),
        ("Mode", case.mode, _mode(header.get("Mode", "nothing"))),
        ("Batch size per device", str(case.batch_size), header.get("Batch size per device", "nothing")),
        ("Batch size global", str(case.global_batch_size), header.get("Batch size global", "nothing")),
        ("Devices", _devices((case.device,) * case.devices), _devices(printed_devices)),
        ("Num batches", str(case.steps), header.get("Num batches")),
        ("Data format", upstream_flags(case)["data_format"], header.get("Data format")),
        ("Variables", case.variable_update, header.get("Variables")),
        *_dataset(case, header.get("Dataset")),
    ]
    different = [
        Disagreement(key=key, asked=str(asked), printed=printed) for key, asked, printed in pairs if printed is not None and asked != printed
    ]
    return (*different, *_missing_steps(case, output))


def prints_number_of_steps(output: Output) -> bool:
    """Whether this is upstream 1.8 or later: 1.5 neither prints "Num batches" nor counts its steps exactly (it polls every 0.25 s)."""
    return "Num batches" in output.header


def last_step(output: Output) -> Step | None:
    return output.steps[-1] if output.steps else None


def _model(asked: str, printed: str) -> str:
    return asked if printed == _PRINTED_NAMES.get(asked) else printed


def _mode(printed: str) -> str:
    words = printed.removeprefix("BenchmarkMode.").lower().replace("_", " ").replace("-", " ")
    return _MODES.get(words, words)


def _devices(kinds: tuple[str, ...]) -> str:
    return " + ".join(f"{kinds.count(kind)} {kind}" for kind in sorted(set(kinds))) or "none"


def _dataset(case: Case, printed: str | None) -> Iterator[tuple[str, str, str]]:
    if printed is None:
        return
    yield "Dataset", case.data, "synthetic" if printed.endswith("(synthetic)") else "real"
    if case.data_name:
        yield "Dataset", case.data_name, printed.split(" ", 1)[0]


def _missing_steps(case: Case, output: Output) -> Iterator[Disagreement]:
    """Too few steps, as when a training directory is resumed: the total is then that of a shorter run."""
    last = last_step(output)
    if last is None or not prints_number_of_steps(output):
        return
    every = abs(int(upstream_flags(case)["display_every"])) or 1
    expected = case.steps - case.steps % every or 1
    if last.step != expected:
        yield Disagreement(key="Last step shown", asked=str(expected), printed=str(last.step))
