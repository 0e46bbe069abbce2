"""What a report says about the machine, the software and the commands, as rows of text. Pure."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Mapping
from pathlib import PureWindowsPath
from typing import Any

from wrapper.reporter.paths import short_path
from wrapper.reporter.store import Session, Trial

UNKNOWN = "not known"
_PACKAGES = ("tensorflow", "tensorflow-gpu", "tensorflow-cpu", "tf-keras", "keras", "numpy", "protobuf", "nvidia-cudnn-cu12", "nvidia-nccl-cu12")
"""Packages that a figure may depend on; all are in session.json."""

Rows = list[tuple[str, str]]


def hardware(session: Session) -> str:
    """What the sweep ran on, in one phrase."""
    if session.device != "gpu":
        return known(session.host, "cpu")
    names = [known(gpu, "name") for gpu in session.gpus]
    return " and ".join(dict.fromkeys(names)) or "an unknown GPU"


def drivers(session: Session) -> str:
    """The versions of the GPU driver, empty where no GPU was used."""
    if session.device != "gpu":
        return ""
    return ", ".join(dict.fromkeys(known(gpu, "driver") for gpu in session.gpus))


def host_rows(host: Mapping[str, Any]) -> Rows:
    """The machine."""
    rows = [
        ("CPU", known(host, "cpu")),
        ("Cores", f"{known(host, 'cores_physical')} physical, {known(host, 'cores_logical')} logical"),
        ("Memory", _gib(host.get("memory_bytes"))),
        ("Disk", known(host, "disk")),
        ("Machine", _machine(host)),
        ("Operating system", known(host, "os")),
    ]
    gpus = host.get("gpus") or []
    for number, gpu in enumerate(gpus):
        rows += [(f"GPU {number}", _gpu(gpu)), (f"GPU {number}, driver", known(gpu, "driver")), (f"GPU {number}, PCIe link", _link(gpu))]
    if not gpus:
        rows.append(("GPU", str(host.get("gpu_error") or "none seen")))
    return rows


def _image(environment: Mapping[str, Any]) -> str:
    """The image of an environment in a container, as others can fetch it."""
    container = environment.get("container") or {}
    if not container:
        return ""
    what = container.get("digest") or f"{known(container, 'image_id')}, which was made there"
    return f"{known(container, 'engine')}, image {known(container, 'image')}, {what}"


def software_rows(session: Session) -> Rows:
    """TensorFlow, its environment, upstream, and this program."""
    release, environment = session.release, session.environment
    packages = environment.get("packages") or {}
    kinds = {
        "locked": "made from a lock file",
        "conda": "made by conda",
        "given": "named by the user, used as it was",
        "demo": "DEMO, no TensorFlow",
    }
    seen = f", {release['seen']}" if release.get("seen") else ""
    verified = f"yes{seen}" if release.get("verified") else "no: this pair of TensorFlow and upstream was never run by this project"
    return [
        ("TensorFlow", known(environment, "tensorflow") if environment.get("tensorflow") else known(release, "tensorflow")),
        ("Release chosen", session.choice or UNKNOWN),
        ("Release verified", verified),
        ("Upstream commit", known(session.upstream, "commit")),
        ("Upstream branch or date", known(release, "upstream_ref")),
        ("Upstream fetched from", known(session.upstream, "address")),
        ("Python", known(environment, "python_version")),
        ("Environment", _image(environment) or kinds.get(str(environment.get("kind")), UNKNOWN)),
        ("CUDA, cuDNN of the release", f"{known(release, 'cuda')}, {known(release, 'cudnn')}" if session.device == "gpu" else "not used"),
        ("Packages", ", ".join(f"{name} {packages[name]}" for name in _PACKAGES if name in packages) or UNKNOWN),
        ("Measured with", ", ".join(f"{name} {version}" for name, version in session.versions.items()) or UNKNOWN),
        ("Started at", session.created),
    ]


def started_by(session: Session) -> str:
    """The command line of the sweep, as it was started: with the `--python` that run_all.py adds."""
    return shlex.join(session.command) or UNKNOWN


def command_lines(trial: Trial, host: Mapping[str, Any]) -> list[str]:
    """How a trial was started, in the shell of the system that it ran on, without the directories of that machine; in full it stands in
    trials.jsonl."""
    programs = [PureWindowsPath(part).name for part in trial.command[:2]]  # the interpreter and upstream's script
    command = [*programs, *map(_argument, trial.command[2:])]
    windows = "windows" in str(host.get("os")).lower()
    separator = ";" if windows else ":"
    variables = {name: _places(value, separator) if name.endswith("PATH") else short_path(value) for name, value in trial.variables.items()}
    if windows:
        return [*(f'set "{name}={value}"' for name, value in variables.items()), subprocess.list2cmdline(command)]
    assigned = [f"{name}={shlex.quote(value)}" for name, value in variables.items()]
    return [" ".join([*assigned, shlex.join(command)])]


def _places(text: str, separator: str) -> str:
    """The same for a list of directories."""
    return separator.join(map(short_path, text.split(separator)))


def _argument(text: str) -> str:
    name, equals, value = text.partition("=")
    return f"{name}={short_path(value)}" if equals else short_path(text)


def known(facts: Mapping[str, Any], key: str) -> str:
    """A fact as text, or that it is not known."""
    value = facts.get(key)
    return UNKNOWN if value is None or value == "" else str(value)


def _gib(size: object) -> str:
    return f"{size / 2**30:.1f} GiB" if isinstance(size, int) and size > 0 else UNKNOWN


def _machine(host: Mapping[str, Any]) -> str:
    kind = ", virtual" if host.get("virtual") else ""
    return known(host, "machine") + kind + (", in a container" if host.get("container") else "")


def _gpu(gpu: Mapping[str, Any]) -> str:
    capability = f", compute capability {gpu['compute_capability']}" if gpu.get("compute_capability") else ""
    limit = f", power limit {gpu['power_limit_w']:.0f} W" if gpu.get("power_limit_w") else ""
    return f"{known(gpu, 'name')}, {_gib(gpu.get('memory_bytes'))}{capability}{limit}{', external' if gpu.get('external') else ''}"


def _link(gpu: Mapping[str, Any]) -> str:
    generation = f"generation {known(gpu, 'pcie_generation')} (at most {known(gpu, 'pcie_generation_max')})"
    return f"{generation}, {known(gpu, 'pcie_width')} lanes (at most {known(gpu, 'pcie_width_max')})"
