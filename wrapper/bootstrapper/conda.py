"""Environments of conda, mamba or micromamba: one made for a release, or one that the user names. They are started here and nowhere else."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
from packaging.version import Version

from wrapper.bootstrapper.inspection import Environment, inspect
from wrapper.bootstrapper.making import INSTALL_LIMIT_S, check_installed, make_whole, read_marker, tail
from wrapper.bootstrapper.placing import Say
from wrapper.bootstrapper.pythons import locate
from wrapper.bootstrapper.release import Release
from wrapper.errors import FatalError, UsageError
from wrapper.process import Captured, run_captured, scrubbed_environment
from wrapper.process_tree import MARK
from wrapper.shipped import DATA, read_table

ASK_LIMIT_S = 120.0
"""For what conda answers without installing; its start takes seconds on a cold disk."""

_EXE = ".exe" if sys.platform == "win32" else ""
_ROOTS = ("miniforge3", "mambaforge", "miniconda3", "anaconda3", "Miniforge3", "Miniconda3", "Anaconda3")
_PROGRAMS = ("Scripts/mamba.exe", "Scripts/conda.exe") if sys.platform == "win32" else ("bin/mamba", "bin/conda")
_OTHER_WAYS = "Install Miniforge (https://conda-forge.org/download/) or set CONDA_EXE, or leave --environment out to have an environment made by uv"
_SYSTEMS = {
    ("linux", "x86_64"): "linux-64",
    ("linux", "aarch64"): "linux-aarch64",
    ("darwin", "x86_64"): "osx-64",
    ("darwin", "arm64"): "osx-arm64",
    ("win32", "amd64"): "win-64",
}
# One line, in single quotes: `conda run` hands it on through a script of the system's shell.
_SENTINEL = "tfcnn-variables:"
_TELL_VARIABLES = f"import json, os; print('{_SENTINEL}' + json.dumps(dict(os.environ)))"
_OF_A_SHELL = frozenset({"PS1", "PWD", "OLDPWD", "SHLVL", "PROMPT", "CONDA_PROMPT_MODIFIER", MARK})


class CondaPackage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A TensorFlow of one of conda's channels: a row of `data/conda.yaml`, which says what each column means."""

    tensorflow: str
    channel: str
    python: str
    cpu: tuple[str, ...]
    cuda: dict[str, str | None]

    def serves(self, device: str, system: str) -> bool:
        """Whether there is a build for "cpu" or "gpu" on a system, by conda's name of it."""
        return system in (self.cuda if device == "gpu" else self.cpu)


def load_packages() -> tuple[CondaPackage, ...]:
    """The table, oldest first."""
    return read_table(DATA / "conda.yaml", dict[str, tuple[CondaPackage, ...]])["packages"]


def conda_system() -> str:
    """Conda's name of this system, such as "linux-64"."""
    machine = platform.machine().lower()
    return _SYSTEMS.get((sys.platform, machine), f"{sys.platform}-{machine}")


def packages_for(asked: str | None, device: str, system: str | None = None, packages: Sequence[CondaPackage] | None = None) -> list[CondaPackage]:
    """The known packages for a release, oldest first: for "1.12.0", for any patch of "1.12", or for None all.

    Args:
        device: "cpu" or "gpu".
        system: conda's name of it; None for this one.
        packages: None for the table's.

    Raises:
        FatalError: there is none; names those that there are.
    """
    system = system or conda_system()
    here = [each for each in (load_packages() if packages is None else packages) if each.serves(device, system)]
    wanted = Version(asked).release if asked else ()
    fitting = [each for each in here if Version(each.tensorflow).release[: len(wanted)] == wanted]
    if not fitting:
        known = ", ".join(each.tensorflow for each in here) or "none"
        what = f"no conda package of TensorFlow {asked or 'any release'} for the {device.upper()} on {system} is known; known are: {known}"
        raise FatalError(what, "Take one of them, or leave --environment out to have an environment made by uv")
    return fitting


def specifications(package: CondaPackage, constraints: Sequence[str], device: str, system: str) -> tuple[str, ...]:
    """What conda is asked for: Python, TensorFlow's build for the device with its CUDA, and what upstream needs beside it.

    defaults selects a build by a package's name (https://docs.anaconda.com/working-with-conda/applications/tensorflow/), conda-forge by its build
    string. TensorFlow's own wheels use Eigen, so does the build for the CPU here.

    Args:
        constraints: those of the release, as pip writes them; conda has these packages under the same names.
    """
    cuda = package.cuda.get(system)
    if package.channel != "defaults":
        tensorflow = [f"tensorflow={package.tensorflow}={'cuda' if device == 'gpu' else 'cpu'}*"]
    elif device == "gpu":
        tensorflow = [f"tensorflow-gpu={package.tensorflow}", f"cudatoolkit={cuda}"]
    else:
        tensorflow = [f"tensorflow-eigen={package.tensorflow}"]
    return (f"python={package.python}", *tensorflow, *(each.replace("==", "=").removesuffix(".*") for each in constraints))


def create_command(tool: Path, prefix: Path, channel: str, wanted: Sequence[str]) -> tuple[str, ...]:
    """The command line that makes an environment; conda, mamba and micromamba understand it alike."""
    return (str(tool), "create", "--yes", "--quiet", "--prefix", str(prefix), "--override-channels", "--channel", channel, *wanted)


def find_tools(variables: Mapping[str, str], home: Path) -> tuple[Path, ...]:
    """The conda, mamba and micromamba of this machine, the one that is to be used first: activated, on the PATH, or where installers put them.

    Args:
        variables: MAMBA_EXE, CONDA_EXE, PATH; on Windows also ProgramData and LocalAppData.
        home: the user's home directory.

    Raises:
        FatalError: there is none.
    """
    found = dict.fromkeys(path.absolute() for path in _candidates(variables, home) if path.is_file())
    if not found:
        raise FatalError("this machine has no conda, mamba or micromamba, or it is not on the PATH", _OTHER_WAYS)
    return tuple(found)


def planned_conda_environment(release: Release, device: str, vendor: Path) -> Environment:
    """Where the environment for a release lies, or will lie. Raises FatalError for one that no package is known of."""
    package = packages_for(release.tensorflow, device)[-1]
    directory = _directory(release, package, device, vendor)
    made = read_marker(directory)
    return made or Environment(
        kind="to be made",
        path=str(directory),
        python=str(directory / ("python.exe" if sys.platform == "win32" else "bin/python")),
        source="conda",
        python_version=package.python,
        tensorflow=release.tensorflow,
        variables=release.environment,
    )


def make_conda_environment(release: Release, device: str, *, vendor: Path, say: Say) -> Environment:
    """The environment for a release in `vendor`, made by conda, or as it was left by an earlier call. The user's own are not touched.

    Args:
        device: "cpu" or "gpu".
        vendor: the directory that holds all environments; made where it is missing.
        say: told in a line what takes long.

    Raises:
        FatalError: no conda, no network, a full disk, no such package, or a TensorFlow that does not import. Nothing half-made is left.
    """
    tool = find_tools(os.environ, Path.home())[0]
    package = packages_for(release.tensorflow, device)[-1]
    directory = _directory(release, package, device, vendor)

    def fill() -> Environment:
        say(f"making the environment for TensorFlow {release.tensorflow} with {tool}, downloading what is not cached")
        wanted = specifications(package, release.constraints, device, conda_system())
        captured = _ask(tool, create_command(tool, directory, package.channel, wanted)[1:], limit_s=INSTALL_LIMIT_S)
        check_installed(captured, f"installing {' '.join(wanted)} from the channel {package.channel}", tool.stem)
        say(f"importing TensorFlow {release.tensorflow} and looking at its devices")
        return _look(tool, directory, kind="conda", source="conda", device=device, variables=release.environment)

    made = make_whole(directory, fill, say)
    # activation holds today's PATH, which is not what it was when the environment was made
    return msgspec.structs.replace(made, variables=_activation(tool, directory, keep_pythonpath=False) | release.environment)


def use_conda_environment(name: str, *, device: str) -> Environment:
    """A conda environment that the user names or gives the path of, as it is; it is never installed into.

    Args:
        device: "cpu" hides the GPUs during the check, "gpu" shows them.

    Raises:
        FatalError: no conda, no such environment, without TensorFlow, or with one that does not import.
    """
    tool, prefix = _find_named(name, find_tools(os.environ, Path.home()))
    return _look(tool, prefix, kind="given", source=f"conda:{name}", device=device, variables={})


def _directory(release: Release, package: CondaPackage, device: str, vendor: Path) -> Path:
    """Named by all that decides what is in it."""
    wanted = specifications(package, release.constraints, device, conda_system())
    digest = hashlib.sha256("\0".join((package.channel, *wanted)).encode()).hexdigest()[:10]
    return vendor.resolve() / "environments" / f"{release.tensorflow}-{device}-conda-{digest}"


def _candidates(variables: Mapping[str, str], home: Path) -> Iterator[Path]:
    yield from (Path(variables[name]) for name in ("MAMBA_EXE", "CONDA_EXE") if variables.get(name))
    # on Windows the PATH has conda.bat at best, whose shell would read "numpy<2" as a redirection
    on_path = (shutil.which(f"{name}{_EXE}", path=variables.get("PATH", "")) for name in ("mamba", "micromamba", "conda"))
    yield from (Path(each) for each in on_path if each)
    places = [home, *(Path(variables[name]) for name in ("ProgramData", "LocalAppData") if variables.get(name)), Path("/opt"), Path("/usr/local")]
    yield from (place / root / program for place in places for root in _ROOTS for program in _PROGRAMS)
    yield from (root / program for root in (Path("/opt/conda"), Path("/opt/homebrew/Caskroom/miniforge/base")) for program in _PROGRAMS)
    yield home / ".local" / "bin" / "micromamba"


def _find_named(name: str, tools: Sequence[Path]) -> tuple[Path, Path]:
    path = Path(name).expanduser().absolute()
    if path.is_dir():
        if not (path / "conda-meta").is_dir():
            raise FatalError(f"{path} is no conda environment: it has no conda-meta", f"Name it with --environment python:{name}")
        return tools[0], path
    known = {tool: _environments(tool) for tool in tools}
    for tool, prefixes in known.items():
        fitting = [prefix for prefix in prefixes if prefix.name == name]
        if len(fitting) > 1:
            raise FatalError(f"several conda environments are called {name}: {', '.join(map(str, fitting))}", "Name it by its path")
        if fitting:
            return tool, fitting[0]
    names = sorted({prefix.name for prefixes in known.values() for prefix in prefixes})
    raise UsageError(f"no conda environment is called {name}; there are {', '.join(names) or 'none'}", "Name one of them, or one by its path")


def _environments(tool: Path) -> list[Path]:
    captured = _ask(tool, ["env", "list", "--json"], limit_s=ASK_LIMIT_S)
    try:
        return [Path(prefix) for prefix in json.loads(captured.stdout)["envs"]]
    except (ValueError, LookupError, TypeError):
        raise FatalError(f"{tool} could not list its environments: {tail(captured.stderr)}", "Name the environment by its path") from None


def _look(tool: Path, prefix: Path, *, kind: str, source: str, device: str, variables: dict[str, str]) -> Environment:
    keep = kind == "given"
    active = _activation(tool, prefix, keep_pythonpath=keep) | variables
    inherited = scrubbed_environment(os.environ, {}, keep_pythonpath=keep)
    environment = inspect(locate(str(prefix)), kind=kind, device=device, inherited=inherited, variables=active)
    return msgspec.structs.replace(environment, source=source)


def _activation(tool: Path, prefix: Path, *, keep_pythonpath: bool) -> dict[str, str]:
    """The variables that activating an environment sets, its own activation scripts included.

    Its interpreter is then started directly: `conda run` would hold back its output, and stand between it and our signals.
    """
    captured = _ask(tool, ["run", "--prefix", str(prefix), "python", "-c", _TELL_VARIABLES], limit_s=ASK_LIMIT_S, keep_pythonpath=keep_pythonpath)
    told = [line.removeprefix(_SENTINEL) for line in captured.stdout.splitlines() if line.startswith(_SENTINEL)]
    active: dict[str, str] = json.loads(told[-1]) if told else {}
    if Path(active.get("CONDA_PREFIX", "")).resolve() != prefix.resolve():  # conda may run the command without activating
        raise FatalError(f"{tool} can't activate {prefix}: {tail(captured.stderr)}", "See whether it can be activated by hand")
    before = _variables(keep_pythonpath)
    return {name: value for name, value in active.items() if before.get(name) != value and name not in _OF_A_SHELL and not name.startswith("_")}


def _ask(tool: Path, arguments: Sequence[str], *, limit_s: float, keep_pythonpath: bool = False) -> Captured:
    return run_captured([str(tool), *arguments], environment=_variables(keep_pythonpath), time_limit_s=limit_s)


def _variables(keep_pythonpath: bool) -> dict[str, str]:
    """Without the wrapper's own Python settings; and conda shall not enter our environments into the user's list."""
    return scrubbed_environment(os.environ, {"CONDA_REGISTER_ENVS": "false"}, keep_pythonpath=keep_pythonpath)
