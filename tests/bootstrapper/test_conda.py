"""Environments of conda: the exact command lines, and the flow with a stand-in for conda that makes virtual environments.

The real channels can't be asked here; what the table says of them is checked against itself and the table of releases.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

import msgspec
import pytest
from packaging.version import Version
from test_environment import DEVICE_LIB, GOOD

from wrapper.bootstrapper import conda
from wrapper.bootstrapper.conda import (
    create_command,
    find_tools,
    load_packages,
    make_conda_environment,
    packages_for,
    planned_conda_environment,
    specifications,
    use_conda_environment,
)
from wrapper.bootstrapper.making import MARKER
from wrapper.bootstrapper.release import load_releases, resolve_release
from wrapper.bootstrapper.setup import Wish, choose, foresee
from wrapper.bootstrapper.source import Source
from wrapper.errors import FatalError, UsageError

RELEASE = resolve_release("1.12.0", load_releases())
STAND_IN = """#!{python}
import json, os, subprocess, sys, venv
arguments = sys.argv[1:]
with open({log!r}, "a") as log:
    log.write(json.dumps(arguments) + "\\n")
prefix = arguments[arguments.index("--prefix") + 1] if "--prefix" in arguments else ""
if arguments[0] == "create":
    if os.path.exists({broken!r}):
        os.mkdir(prefix)
        sys.exit(open({broken!r}).read())
    venv.create(prefix, symlinks=True)
    os.mkdir(os.path.join(prefix, "conda-meta"))
    packages = "%s/lib/python%d.%d/site-packages" % (prefix, *sys.version_info[:2])
    for path, text in json.loads({files!r}).items():
        os.makedirs(os.path.dirname(os.path.join(packages, path)), exist_ok=True)
        with open(os.path.join(packages, path), "w") as file:
            file.write(text)
elif arguments[:2] == ["env", "list"]:
    print(json.dumps({{"envs": json.loads({known!r})}}))
else:
    path = os.path.join(prefix, "bin") + os.pathsep + os.environ["PATH"]
    active = {{"CONDA_PREFIX": prefix, "PATH": path, "LD_LIBRARY_PATH": prefix + "/lib", "PS1": "(env)"}}
    if not os.path.exists({inactive!r}):
        os.environ.update(active)
    sys.exit(subprocess.call(arguments[3:]))
"""


class Conda:
    """A stand-in for conda on the PATH, and what it was asked."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.log, self.broken, self.inactive = folder, folder / "asked", folder / "broken", folder / "inactive"
        self.program = folder / "conda"
        self.know()

    def know(self, *prefixes: Path) -> None:
        """Write the program, which knows these environments."""
        files = {
            "tensorflow/__init__.py": GOOD.format(version="1.12.0"),
            "tensorflow/python/__init__.py": "",
            "tensorflow/python/client/__init__.py": "",
            "tensorflow/python/client/device_lib.py": DEVICE_LIB,
        }
        values = {"log": self.log, "broken": self.broken, "inactive": self.inactive}
        text = STAND_IN.format(
            python=sys.executable,
            files=json.dumps(files),
            known=json.dumps([str(prefix) for prefix in prefixes]),
            **{name: str(value) for name, value in values.items()},
        )
        self.program.write_text(text, encoding="utf-8")
        self.program.chmod(0o755)

    def asked(self) -> list[list[str]]:
        return [json.loads(line) for line in self.log.read_text(encoding="utf-8").splitlines()]


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Conda:
    if sys.platform == "win32":
        pytest.skip("the stand-in is a script with a first line that names its interpreter")
    folder = tmp_path / "pro grams"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("CONDA_EXE", "MAMBA_EXE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(conda, "conda_system", lambda: "linux-64")
    return Conda(folder)


def test_every_row_is_complete_and_of_a_known_release() -> None:
    packages = load_packages()
    versions = [Version(package.tensorflow) for package in packages]
    assert versions == sorted(set(versions))
    for package in packages:
        assert resolve_release(package.tensorflow, load_releases()).tensorflow == package.tensorflow
        assert package.channel in ("defaults", "conda-forge") and re.fullmatch(r"3\.\d+", package.python)
        assert set(package.cpu) | set(package.cuda) <= {"linux-64", "linux-aarch64", "osx-64", "osx-arm64", "win-64"}
        assert not any(system.startswith("osx") for system in package.cuda), "no NVIDIA driver since macOS 10.14"
        for cuda in package.cuda.values():
            assert (package.channel == "defaults") == (cuda is not None)


@pytest.mark.parametrize(
    ("version", "device", "system", "wanted"),
    [
        ("1.12.0", "gpu", "win-64", "defaults python=3.6 tensorflow-gpu=1.12.0 cudatoolkit=9.0"),
        ("1.12.0", "cpu", "win-64", "defaults python=3.6 tensorflow-eigen=1.12.0"),
        ("1.15.0", "gpu", "linux-64", "defaults python=3.7 tensorflow-gpu=1.15.0 cudatoolkit=10.0 protobuf<3.21"),
        ("2.10.0", "gpu", "linux-64", "conda-forge python=3.10 tensorflow=2.10.0=cuda* numpy<2"),
        ("2.17.0", "cpu", "osx-arm64", "conda-forge python=3.11 tensorflow=2.17.0=cpu* tf-keras=2.17"),
    ],
)
def test_the_command_line_is_exact(version: str, device: str, system: str, wanted: str) -> None:
    (package,) = packages_for(version, device, system)
    release = resolve_release(version, load_releases())
    channel, *specs = wanted.split()
    assert list(specifications(package, release.constraints, device, system)) == specs
    command = create_command(Path("/c/mamba"), Path("/v/e"), package.channel, specs)
    start = [str(Path("/c/mamba")), "create", "--yes", "--quiet", "--prefix", str(Path("/v/e")), "--override-channels", "--channel", channel]
    assert list(command) == [*start, *specs]


def test_a_minor_means_the_patches_that_conda_has_and_nothing_means_all() -> None:
    assert [package.tensorflow for package in packages_for("1.10", "cpu", "linux-64")] == ["1.10.0"]
    assert packages_for(None, "gpu", "win-64")[-1].tensorflow == "2.3.0"


@pytest.mark.parametrize(
    ("asked", "device", "system"), [("1.12.3", "cpu", "linux-64"), ("2.20", "gpu", "linux-64"), ("2.2", "gpu", "win-64"), (None, "gpu", "osx-64")]
)
def test_what_is_not_known_is_refused_and_what_is_known_named(asked: str | None, device: str, system: str) -> None:
    with pytest.raises(FatalError, match=f"TensorFlow {asked or 'any release'} for the {device.upper()} on {system}") as caught:
        packages_for(asked, device, system)
    assert ("1.12.0" in caught.value.what) == (asked is not None)


def test_the_activated_tool_comes_first_then_the_path_then_where_installers_put_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    suffix = ".exe" if sys.platform == "win32" else ""
    installed = tmp_path / "miniconda3" / ("Scripts" if sys.platform == "win32" else "bin") / f"conda{suffix}"
    activated, on_path = tmp_path / f"a{suffix}", tmp_path / "path" / f"mamba{suffix}"
    for tool in (installed, activated, on_path):
        tool.parent.mkdir(parents=True, exist_ok=True)
        tool.touch(0o755)
    variables = {"CONDA_EXE": str(activated), "MAMBA_EXE": str(tmp_path / "gone"), "PATH": str(on_path.parent)}
    assert find_tools(variables, tmp_path)[:3] == (activated, on_path, installed)
    monkeypatch.setattr(conda, "_candidates", lambda *_: iter([tmp_path / "gone"]))
    with pytest.raises(FatalError, match="no conda, mamba or micromamba"):
        find_tools(variables, tmp_path)


def test_made_by_conda_and_used_again_with_what_activation_sets(stand_in: Conda, tmp_path: Path) -> None:
    vendor = tmp_path / "ven dor"
    planned = planned_conda_environment(RELEASE, "cpu", vendor)
    made = make_conda_environment(RELEASE, "cpu", vendor=vendor, say=lambda line: None)
    assert (planned.kind, planned.path, planned.python) == ("to be made", made.path, made.python)
    assert (made.kind, made.source, made.tensorflow) == ("conda", "conda", "1.12.0")
    assert made.variables["CONDA_PREFIX"] == made.path and made.variables["LD_LIBRARY_PATH"] == f"{made.path}/lib"
    assert made.variables["PATH"].split(os.pathsep)[0] == f"{made.path}/bin"
    assert not {"PS1", "TFCNN_PROCESS_MARK", "CONDA_REGISTER_ENVS", "HOME"} & set(made.variables)
    assert make_conda_environment(RELEASE, "cpu", vendor=vendor, say=lambda line: None) == made
    assert planned_conda_environment(RELEASE, "cpu", vendor).kind == "conda"
    creations = [asked for asked in stand_in.asked() if asked[0] == "create"]
    assert creations == [list(create_command(stand_in.program, Path(made.path), "defaults", ("python=3.6", "tensorflow-eigen=1.12.0"))[1:])]


@pytest.mark.parametrize(
    ("complaint", "told"),
    {
        "PackagesNotFoundError: The following packages are not available from current channels": "a package is not to be had",
        "CondaHTTPError: HTTP 000 CONNECTION FAILED for url": "the packages can't be fetched",
        "NoSpaceLeftError: No space left on devices.": "the disk is full",
        "ChecksumMismatchError: Conda detected a mismatch": "a package is not what the lock says",
        "UnsatisfiableError: conflicts": "conda failed while installing python=3.6 tensorflow-eigen=1.12.0",
    }.items(),
)
def test_what_conda_complains_of_is_told_and_nothing_is_left(stand_in: Conda, tmp_path: Path, complaint: str, told: str) -> None:
    stand_in.broken.write_text(complaint, encoding="utf-8")
    with pytest.raises(FatalError, match=told) as caught:
        make_conda_environment(RELEASE, "cpu", vendor=tmp_path / "vendor", say=lambda line: None)
    assert complaint in caught.value.what
    assert not list((tmp_path / "vendor" / "environments").glob("[!.]*"))


def test_an_environment_that_is_not_activated_is_refused_without_showing_variables(
    stand_in: Conda, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", "not to be shown")
    stand_in.inactive.touch()
    with pytest.raises(FatalError, match="can't activate") as caught:
        make_conda_environment(RELEASE, "cpu", vendor=tmp_path, say=lambda line: None)
    assert "not to be shown" not in str(caught.value)


def test_a_named_environment_is_used_as_it_is(stand_in: Conda, tmp_path: Path) -> None:
    made = make_conda_environment(RELEASE, "cpu", vendor=tmp_path, say=lambda line: None)
    mine = Path(made.path).parent / "mine"
    Path(made.path).rename(mine)
    (mine / MARKER).unlink()
    stand_in.know(tmp_path / "other", mine)
    before = sorted(mine.rglob("*"))
    for name in ("mine", str(mine)):
        choice = choose(Wish(source=Source("conda", name), device="cpu", upstream="file:///none", vendor=tmp_path / "v"), lambda line: None)
        environment = choice.environment
        assert environment is not None and (environment.kind, environment.source) == ("given", f"conda:{name}")
        assert (environment.path, choice.release.tensorflow) == (str(mine), "1.12.0")
        assert environment.variables["CONDA_PREFIX"] == str(mine)
    assert sorted(mine.rglob("*")) == before
    assert [asked[0] for asked in stand_in.asked()].count("create") == 1


def test_a_name_that_means_none_or_several_is_refused(stand_in: Conda, tmp_path: Path) -> None:
    stand_in.know(tmp_path / "a" / "tf", tmp_path / "b" / "tf", tmp_path / "one")
    with pytest.raises(UsageError, match="no conda environment is called gpu; there are one, tf"):
        use_conda_environment("gpu", device="cpu")
    with pytest.raises(FatalError, match="several conda environments are called tf"):
        use_conda_environment("tf", device="cpu")
    with pytest.raises(FatalError, match="has no conda-meta") as caught:
        use_conda_environment(str(tmp_path), device="cpu")
    assert f"python:{tmp_path}" in caught.value.remedy


def test_the_newest_that_conda_has_is_chosen_and_foreseen(stand_in: Conda, tmp_path: Path) -> None:
    wish = Wish(source=Source("conda"), device="cpu", upstream="file:///none", vendor=tmp_path)
    choice = choose(wish, lambda line: None)
    assert (choice.release.tensorflow, choice.environment) == (load_packages()[-1].tensorflow, None)
    assert foresee(choice, wish).environment.kind == "to be made"
    assert choose(msgspec.structs.replace(wish, tensorflow="1.10"), lambda line: None).release.tensorflow == "1.10.0"
