"""Look into an interpreter: which TensorFlow it has and which devices that sees, by importing it in a process of its own."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

import msgspec
from packaging.utils import canonicalize_name

from wrapper.bootstrapper.container import Container
from wrapper.bootstrapper.libraries import library_path
from wrapper.bootstrapper.pythons import locate
from wrapper.bootstrapper.release import Release
from wrapper.errors import FatalError
from wrapper.process import Captured, run_captured, scrubbed_environment

IMPORT_LIMIT_S = 900.0
"""Importing from a cold network disk and starting an unknown GPU take minutes; beyond this it hangs."""

_SENTINEL = "tfcnn-inspection:"

# Runs on Python 2.7 and 3.5 to today, with TensorFlow 1.5 to today. The current directory leaves the search path first: a folder named tensorflow
# may lie in it. With allow_growth the look at the devices does not take all of a GPU's memory; TensorFlow before 1.8 can't be asked that way.
INSPECTION = (
    r"""
import sys
sys.path[:] = [entry for entry in sys.path if entry]
import json
def tell(kind, facts):
    sys.stdout.write("\n" + SENTINEL + json.dumps({"type": kind, "facts": facts}) + "\n")
    sys.stdout.flush()
version = ".".join(str(part) for part in sys.version_info[:3])
tell("python", {"prefix": sys.prefix, "python_version": version})
import tensorflow as tf
from tensorflow.python.client import device_lib
try:
    from importlib.metadata import distributions
    packages = {d.metadata["Name"]: d.version for d in distributions() if d.metadata["Name"]}
except ImportError:
    try:
        import pkg_resources
        packages = {d.project_name: d.version for d in pkg_resources.working_set}
    except ImportError:
        packages = {}
cuda = None
if tf.test.is_built_with_cuda():
    cuda = "unknown"
    try:
        cuda = str(tf.sysconfig.get_build_info()["cuda_version"])
    except Exception:
        try:
            from tensorflow.python.platform import build_info
            cuda = str(build_info.cuda_version_number)
        except Exception:
            pass
config = getattr(getattr(tf, "compat", None), "v1", tf).ConfigProto()
config.gpu_options.allow_growth = True
try:
    listed = device_lib.list_local_devices(config)
except TypeError:
    listed = device_lib.list_local_devices()
devices = [
    {"kind": d.device_type, "name": d.name, "description": d.physical_device_desc, "memory_bytes": int(d.memory_limit)}
    for d in listed
    if d.device_type in ("CPU", "GPU")
]
tell("tensorflow", {"tensorflow": tf.__version__, "packages": packages, "devices": devices, "cuda_built": cuda})
"""
).replace("SENTINEL", repr(_SENTINEL))

_DEVICE_TROUBLE = re.compile(
    r"Could not load dynamic library(?! 'libnvinfer)|Could not find cuda|Cannot dlopen some GPU libraries|Skipping registering GPU devices"
    r"|failed call to cuInit|CUDA_ERROR_|kernel driver does not appear to be running|does not match DSO version|Ignoring visible gpu device"
)
"""libnvinfer is TensorRT, which upstream does without."""
_LOG_PREFIX = re.compile(r"^[IWEF\d].*?\S+\.\w+:\d+\] ")
_MAX_DIAGNOSIS_LINES = 20


class SeenDevice(msgspec.Struct, frozen=True, kw_only=True):
    """A device as TensorFlow itself lists it."""

    kind: str
    """"CPU" or "GPU"."""
    name: str
    """TensorFlow's name, such as "/device:GPU:0"."""
    description: str = ""
    """TensorFlow's own words: "device: 0, name: NVIDIA H200, pci bus id: ..., compute capability: 9.0"."""
    memory_bytes: int = 0


class Environment(msgspec.Struct, frozen=True, kw_only=True):
    """An interpreter with TensorFlow in it, checked by importing it."""

    kind: str
    """"locked" (made by us), "given" (named by the user) or "demo"."""
    path: str
    """The environment's directory (sys.prefix), absolute."""
    python: str
    """The interpreter, absolute."""
    source: str = ""
    """As `--environment` takes it; empty where `kind` says it all."""
    python_version: str
    tensorflow: str
    """As TensorFlow says it."""
    packages: dict[str, str] = {}
    """Installed distributions and their versions."""
    devices: tuple[SeenDevice, ...] = ()
    variables: dict[str, str] = {}
    """Environment variables that a trial in it needs."""
    cuda_built: str | None = None
    """The CUDA version that TensorFlow was built for, "unknown" where a GPU build does not say; None for a CPU build."""
    diagnosis: tuple[str, ...] = ()
    """What TensorFlow said on standard error about devices that it could not use, e.g. a missing library."""
    container: Container | None = None
    """The image that the interpreter is in; None for one on this machine."""

    def has(self, package: str) -> bool:
        """Whether a package is installed, by its normalised name (https://packaging.python.org/specifications/name-normalization/)."""
        return any(canonicalize_name(name) == package for name in self.packages)


class _Python(msgspec.Struct, frozen=True):
    prefix: str
    python_version: str


class _TensorFlow(msgspec.Struct, frozen=True):
    tensorflow: str
    packages: dict[str, str]
    devices: tuple[SeenDevice, ...]
    cuda_built: str | None


class _Told(msgspec.Struct, frozen=True):
    type: str
    facts: msgspec.Raw


def use_environment(python: str, *, device: str) -> Environment:
    """An environment that the user names, checked like one of ours and never installed into.

    Args:
        python: an interpreter, an environment's directory, or a command.
        device: "cpu" hides the GPUs during the check, "gpu" shows them.

    Raises:
        FatalError: not there, not a Python, without TensorFlow, or with one that does not import.
    """
    inherited = scrubbed_environment(os.environ, {}, keep_pythonpath=True)
    return inspect(locate(python), kind="given", device=device, inherited=inherited, variables={})


def look_again(environment: Environment, *, device: str = "gpu") -> Environment:
    """The same environment with what its TensorFlow says now: a driver or a GPU may have come or gone since it was made, perhaps elsewhere.

    Args:
        device: "cpu" hides the GPUs during the check, "gpu" shows them.

    Raises:
        FatalError: its TensorFlow does not import.
    """
    inherited = scrubbed_environment(os.environ, {}, keep_pythonpath=environment.kind == "given")
    try:
        now = inspect(Path(environment.python), kind=environment.kind, device=device, inherited=inherited, variables=environment.variables)
    except FatalError as error:
        raise FatalError(error.what, f"{error.remedy}. If it worked before, delete {environment.path}, and it is made again") from error
    seen = {name: getattr(now, name) for name in ("packages", "devices", "cuda_built", "diagnosis")}
    return msgspec.structs.replace(environment, **seen)


def fit_to_release(environment: Environment, release: Release) -> Environment:
    """A given environment with the variables that the release's trials need.

    Raises:
        FatalError: it lacks a package that upstream needs beside TensorFlow (tf-keras, from TensorFlow 2.16 on).
    """
    missing = [each for each in release.constraints if each.startswith("tf-keras") and not environment.has("tf-keras")]
    if missing:
        raise FatalError(
            f"{environment.python} has TensorFlow {environment.tensorflow} without tf-keras, and upstream does not run without it",
            f'Install it there: "{environment.python}" -m pip install "{missing[0]}"',
        )
    return msgspec.structs.replace(environment, variables=environment.variables | release.environment)


def inspect(python: Path, *, kind: str, device: str, inherited: Mapping[str, str], variables: dict[str, str]) -> Environment:
    """Import TensorFlow in the interpreter `python` and return what it says.

    Args:
        kind: that of the environment, see there.
        device: "cpu" hides all GPUs from it, so that none is occupied; "gpu" lets it see them.
        inherited: the environment variables to start from, scrubbed.
        variables: those that a trial in it needs, set in addition.

    Raises:
        FatalError: not a Python, no TensorFlow in it, or one that does not import (with its own last line of error).
    """
    command = [str(python), "-c", INSPECTION]
    if kind in ("locked", "given"):
        variables = variables | library_path(python.parent.parent, first=kind == "locked")
    captured = run_captured(
        command, cwd=python.parent, environment={**inherited, **variables, **hiding_variables(device)}, time_limit_s=IMPORT_LIMIT_S
    )
    return read_answer(captured, str(python), kind=kind, device=device, variables=variables)


def hiding_variables(device: str) -> dict[str, str]:
    """Variables that hide all GPUs from TensorFlow where the device is "cpu"."""
    return {"CUDA_VISIBLE_DEVICES": "-1", "HIP_VISIBLE_DEVICES": "-1"} if device == "cpu" else {}


def read_answer(captured: Captured, python: str, *, kind: str, device: str, variables: dict[str, str]) -> Environment:
    """What an interpreter says that was given `INSPECTION` to run.

    Args:
        captured: what it printed.
        python: the interpreter; for the others see `inspect`.

    Raises:
        FatalError: see `inspect`.
    """
    try:
        told = _read_told(captured.stdout)
        if "python" not in told:
            raise FatalError(f"{python} is not a Python interpreter{_says(captured)}", "Name one with --python, or the directory of an environment")
        if "tensorflow" not in told:
            raise _import_failure(python, captured)
        about_python = msgspec.json.decode(told["python"], type=_Python)
        about_tensorflow = msgspec.json.decode(told["tensorflow"], type=_TensorFlow)
    except (msgspec.DecodeError, UnicodeError) as error:  # any program can stand at that path
        raise FatalError(f"{python} does not answer as a Python interpreter does ({error})", "Name another one with --python") from error
    return Environment(
        kind=kind,
        path=about_python.prefix,
        python=python,
        python_version=about_python.python_version,
        tensorflow=about_tensorflow.tensorflow,
        packages=dict(sorted(about_tensorflow.packages.items())),
        devices=about_tensorflow.devices,
        variables=variables,
        cuda_built=about_tensorflow.cuda_built,
        diagnosis=() if device == "cpu" else read_diagnosis(captured.stderr),
    )


def read_diagnosis(stderr: str) -> tuple[str, ...]:
    """TensorFlow's lines about devices that it could not use, without date and source position, each once, in their order."""
    lines = (_LOG_PREFIX.sub("", line).strip() for line in stderr.splitlines() if _DEVICE_TROUBLE.search(line))
    return tuple(dict.fromkeys(lines))[:_MAX_DIAGNOSIS_LINES]


def _read_told(stdout: str) -> dict[str, msgspec.Raw]:
    lines = [line.removeprefix(_SENTINEL) for line in stdout.splitlines() if line.startswith(_SENTINEL)]
    told = [msgspec.json.decode(line, type=_Told) for line in lines]
    return {each.type: each.facts for each in told}


def _import_failure(python: str, captured: Captured) -> FatalError:
    last = _last_line(captured.stderr)
    if re.match(r"(ModuleNotFoundError|ImportError): No module named '?tensorflow'?$", last):
        return FatalError(
            f"{python} has no TensorFlow", "Install it there, name another interpreter, or leave --python out to have an environment made"
        )
    if captured.exit_code in (-4, 0xC000001D):  # SIGILL; STATUS_ILLEGAL_INSTRUCTION on Windows
        return FatalError(
            f"TensorFlow in {python} needs processor instructions that this machine lacks",
            "TensorFlow from 1.6 on needs AVX; use 1.5, or a machine that has it",
        )
    return FatalError(
        f"TensorFlow in {python} does not import{_says(captured)}",
        "Its packages don't fit each other or this machine: install them there anew, or leave --python out",
    )


def _says(captured: Captured) -> str:
    last = _last_line(captured.stderr)
    return f": {last}" if last else f" (it ended with exit code {captured.exit_code} and without a message)"


def _last_line(stderr: str) -> str:
    """The last line of an error; of a long explanation that follows "SomeError: message", that line."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    errors = [line for line in lines if re.match(r"[\w.]*(Error|Exception)\b: ?\S", line)]
    return (errors or lines or [""])[-1]
