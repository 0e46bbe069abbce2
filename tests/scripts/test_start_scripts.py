"""The two start scripts, on bare Pythons, in copies of the project whose path has a space and letters beyond ASCII.

The copies hold the real scripts and a stand-in for the package, which needs nothing from a network: its build backend is below.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
BARE = str(getattr(sys, "_base_executable", sys.executable))
PROGRAMS = ".venv/Scripts/python.exe" if sys.platform == "win32" else ".venv/bin/python"

BACKEND = """
import os, zipfile

def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    name, info = "standin-1-py3-none-any.whl", "standin-1.dist-info/"
    with zipfile.ZipFile(os.path.join(wheel_directory, name), "w") as wheel:
        wheel.writestr("standin_path.py", "import sys; sys.path.append(%r)" % os.getcwd())
        wheel.writestr("standin.pth", "import standin_path")
        wheel.writestr(info + "METADATA", "Metadata-Version: 2.1\\nName: standin\\nVersion: 1\\nProvides-Extra: test\\n")
        wheel.writestr(info + "WHEEL", "Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr(info + "RECORD", "")
    return name

def build_wheel(*arguments, **more):
    raise NotImplementedError
"""
MAIN = """
import json, os, sys, time
if "--hang" in sys.argv:
    print("hanging", flush=True)
    time.sleep(60)
print(json.dumps({"arguments": sys.argv[1:], "prefix": sys.prefix, "directory": os.getcwd(), "version": list(sys.version_info[:2])}))
sys.exit(4 if "--fail" in sys.argv else 0)
"""


def pyenv(version: str) -> str:
    found = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    if not found:
        pytest.skip(f"no Python {version} among the versions of pyenv")
    return str(found[-1])


def copy_project(directory: Path) -> Path:
    project = directory / "ein Prüfstand für 画像"
    shutil.copytree(PROJECT / "scripts", project / "scripts", ignore=shutil.ignore_patterns("__pycache__"))
    (project / "wrapper").mkdir()
    (project / "wrapper" / "__init__.py").touch()
    (project / "wrapper" / "__main__.py").write_text(MAIN, encoding="utf-8")
    (project / "backend.py").write_text(BACKEND, encoding="utf-8")
    (project / "setup.py").write_text("# a stand-in\n", encoding="utf-8")
    build = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    (project / "pyproject.toml").write_text(build, encoding="utf-8")
    return project


def start(
    project: Path, *arguments: str, python: str = BARE, script: str = "run_all", cwd: Path | None = None, **variables: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [python, str(project / "scripts" / f"{script}.py"), *arguments],
        cwd=cwd or project,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
        timeout=300,
    )


def no_other_python(empty: Path) -> dict[str, str]:
    """Variables with which no other Python is found on this machine."""
    return {"PATH": str(empty), "HOME": str(empty), "USERPROFILE": str(empty), "PYENV_ROOT": str(empty), "CONDA_EXE": ""}


def ended_well(result: subprocess.CompletedProcess[str]) -> dict[str, object]:
    assert result.returncode == 0, result.stderr
    return dict(json.loads(result.stdout))


@pytest.fixture(scope="module")
def first_starts(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[subprocess.CompletedProcess[str]]]:
    """A project, and the outcome of its first two starts, at the same time."""
    project = copy_project(tmp_path_factory.mktemp("made"))
    with ThreadPoolExecutor() as threads:
        return project, list(threads.map(lambda _: start(project), range(2)))


@pytest.fixture
def made(first_starts: tuple[Path, list[subprocess.CompletedProcess[str]]]) -> Path:
    """A project whose environment is made."""
    return first_starts[0]


# making it


def test_two_first_starts_at_once_make_it_once(first_starts: tuple[Path, list[subprocess.CompletedProcess[str]]]) -> None:
    project, results = first_starts
    assert [ended_well(result)["prefix"] for result in results] == [str(project / ".venv")] * 2
    assert sum("making the wrapper's own environment" in result.stderr for result in results) == 1


def test_a_second_start_makes_nothing_and_says_nothing(made: Path) -> None:
    result = start(made, "--models", "vgg16=4", "a b")
    assert ended_well(result)["arguments"] == ["run", "--models", "vgg16=4", "a b"]
    assert result.stderr == ""


def test_a_failed_installation_says_why_and_what_to_do_and_the_next_start_makes_it_anew(tmp_path: Path) -> None:
    project = copy_project(tmp_path)
    good = (project / "pyproject.toml").read_text(encoding="utf-8")
    (project / "pyproject.toml").write_text(good.replace("[]", '["a-package-that-is-not-there"]', 1), encoding="utf-8")
    result = start(project, PIP_NO_INDEX="1")
    assert result.returncode == 1
    assert "a-package-that-is-not-there" in result.stderr
    assert "PIP_FIND_LINKS" in result.stderr
    assert "Traceback" not in result.stderr
    (project / "pyproject.toml").write_text(good, encoding="utf-8")
    (project / ".venv" / "half-made").touch()
    project = project.rename(project.with_name("moved"))
    assert ended_well(start(project))["prefix"] == str(project / ".venv")
    assert not (project / ".venv" / "half-made").exists()


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("setup.py", b"# changed"),
        (".venv/ready", b"\xff\x00"),
        (".venv/ready", None),
        (".venv/pyvenv.cfg", None),
        (PROGRAMS, None),
    ],
    ids=["setup.py changed", "marker damaged", "marker gone", "half an environment", "its Python gone"],
)
def test_an_environment_that_no_longer_fits_is_made_anew(made: Path, tmp_path: Path, file: str, content: bytes | None) -> None:
    # a copy of the files that decide, in the place of the original; the real making is above
    kept = tmp_path / "kept"
    (made / file).rename(kept)
    try:
        if content is not None:
            (made / file).write_bytes(content)
        result = start(made, python=pyenv("3.6"), **no_other_python(tmp_path))
        assert "no Python 3.11 or later" in result.stderr, "it would have been used as it is"
    finally:
        kept.replace(made / file)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows keeps a program that is in use by itself")
def test_an_environment_in_use_is_not_made_anew(made: Path) -> None:
    command = [BARE, str(made / "scripts" / "run_all.py")]
    setup = (made / "setup.py").read_text(encoding="utf-8")
    with subprocess.Popen([*command, "--hang"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as user:
        assert user.stdout is not None
        assert user.stdout.readline() == b"hanging\n"
        (made / "setup.py").write_text("# changed", encoding="utf-8")
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as maker:
            assert maker.stderr is not None
            assert maker.stderr.readline() == "tfcnn: waiting for another start that uses the wrapper's own environment ...\n"
            maker.send_signal(signal.SIGINT)
            assert maker.wait(timeout=10) == 130
        user.kill()
    (made / "setup.py").write_text(setup, encoding="utf-8")
    assert start(made).stderr == ""


def test_another_python_makes_it_anew(made: Path) -> None:
    marker = made / ".venv" / "ready"
    content = marker.read_text(encoding="utf-8")
    other = content.replace("Python 3.", "Python 3.9", 1)
    marker.write_text(other, encoding="utf-8")
    try:
        code = f"import sys; sys.path.insert(0, {str(made / 'scripts')!r}); import _start; print(_start._is_ready(''))"
        assert subprocess.run([BARE, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "False"
    finally:
        marker.write_text(content, encoding="utf-8")


def test_a_folder_that_is_not_ours_is_left_alone(tmp_path: Path) -> None:
    project = copy_project(tmp_path)
    (project / ".venv").mkdir()
    (project / ".venv" / "mine").touch()
    result = start(project)
    assert result.returncode == 1
    assert "Rename or remove it" in result.stderr
    assert [path.name for path in (project / ".venv").iterdir()] == ["mine"]


# starting in it


def test_it_starts_from_any_directory_whatever_lies_there(made: Path, tmp_path: Path) -> None:
    for name in ("wrapper", "json", "_start"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('the wrong module')", encoding="utf-8")
    assert ended_well(start(made, cwd=tmp_path, PYTHONPATH=str(tmp_path / "absent")))["directory"] == str(tmp_path)


def test_the_exit_code_is_passed_on(made: Path) -> None:
    assert start(made, "--fail").returncode == 4


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_signals_reach_the_command(made: Path) -> None:
    process = subprocess.Popen([BARE, str(made / "scripts" / "run_all.py"), "--hang"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout is not None
    assert process.stdout.readline() == b"hanging\n"
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=10) == -signal.SIGTERM
    process.stdout.close()


def test_a_second_start_costs_less_than_three_tenths_of_a_second(made: Path) -> None:
    def fastest(command: list[str]) -> float:
        seconds = []
        for _ in range(5):
            begin = time.monotonic()
            subprocess.run(command, check=True, capture_output=True)
            seconds.append(time.monotonic() - begin)
        return min(seconds)

    assert fastest([BARE, str(made / "scripts" / "run_all.py")]) - fastest([str(made / PROGRAMS), "-I", "-m", "wrapper", "run"]) < 0.3


# which Python


def test_python_3_6_starts_the_wrapper_in_a_newer_one(made: Path) -> None:
    assert ended_well(start(made, python=pyenv("3.6")))["version"] >= [3, 11]


@pytest.mark.skipif(sys.platform == "win32", reason="pyenv's layout on POSIX")
def test_python_3_6_finds_a_newer_one_among_pyenvs(made: Path, tmp_path: Path) -> None:
    versions = tmp_path / "pyenv" / "versions"
    versions.mkdir(parents=True)
    (versions / "3.12.99").symlink_to(tmp_path)  # no Python in it
    (versions / "3.11.0").symlink_to(Path(sys.base_prefix))
    code = f"import os, sys; sys.path.insert(0, {str(made / 'scripts')!r}); import _pythons\n"
    code += "print(_pythons.find_python(sys.executable, dict(os.environ)))"
    environment = {**os.environ, **no_other_python(tmp_path), "PYENV_ROOT": str(tmp_path / "pyenv")}
    found = subprocess.run([pyenv("3.6"), "-c", code], capture_output=True, text=True, check=True, env=environment).stdout.strip()
    assert Path(found).samefile(BARE)


def test_without_a_newer_python_it_says_what_to_install(tmp_path: Path) -> None:
    result = start(copy_project(tmp_path), python=pyenv("3.6"), **no_other_python(tmp_path))
    assert result.returncode == 1
    assert result.stderr.startswith("tfcnn: no Python 3.11 or later")
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("script", ["run_all", "run_tests"])
def test_python_2_7_is_told_in_one_line(script: str) -> None:
    result = start(PROJECT, python=pyenv("2.7"), script=script)
    assert result.returncode == 1
    assert result.stderr == "tfcnn: this is Python 2.7, which is too old; start it with Python 3.6 or later\n"


@pytest.fixture
def with_tensorflow(tmp_path: Path) -> str:
    """A folder with a TensorFlow that must not be imported."""
    (tmp_path / "tensorflow").mkdir()
    (tmp_path / "tensorflow" / "__init__.py").write_text("raise SystemExit('it was imported')", encoding="utf-8")
    return str(tmp_path)


def test_the_tensorflow_of_the_starting_python_is_used_and_this_is_said(made: Path, with_tensorflow: str) -> None:
    result = start(made, "--steps", "5", PYTHONPATH=with_tensorflow)
    assert ended_well(result)["arguments"] == ["run", "--python", BARE, "--steps", "5"]
    assert result.stderr == f"tfcnn: this Python has TensorFlow, which is what will be measured: {BARE}\n"


CHOICES = (
    *(("--tensorflow", "1.12.0"), ("--tensorflow=1.12.0",), ("--tensorflow", "1.12.0,2.21"), ("--tensorflow", "2.21", "--commit", "1234567")),
    *(("--environment", "conda"), ("--environment=docker:an/image",), ("--python", "p"), ("--demo",), ("--resume", "d"), ("--help",)),
)


@pytest.mark.parametrize("choice", CHOICES, ids=" ".join)
def test_the_users_choice_goes_before_the_starting_python(made: Path, with_tensorflow: str, choice: tuple[str, ...]) -> None:
    result = start(made, *choice, PYTHONPATH=with_tensorflow)
    assert ended_well(result)["arguments"] == ["run", *choice]
    assert result.stderr == ""


@pytest.mark.parametrize(
    ("text", "chosen"), [('name: two\ntensorflow: ["1.12.0", "2.21"]\n', True), ("# tensorflow: none\nmodels: {trivial: 2}\n", False)]
)
def test_the_releases_of_a_sweep_file_go_before_the_starting_python(
    made: Path, with_tensorflow: str, text: str, chosen: bool, tmp_path: Path
) -> None:
    file = tmp_path / "a sweep.yaml"
    file.write_text(text, encoding="utf-8")
    for sweep in (["--sweep", str(file)], [f"--sweep={file}"]):
        own = [] if chosen else ["--python", BARE]
        assert ended_well(start(made, *sweep, PYTHONPATH=with_tensorflow))["arguments"] == ["run", *own, *sweep]


def test_another_commit_is_tried_on_the_tensorflow_of_the_starting_python(made: Path, with_tensorflow: str) -> None:
    result = start(made, "--commit", "1234567", PYTHONPATH=with_tensorflow)
    assert ended_well(result)["arguments"] == ["run", "--python", BARE, "--commit", "1234567"]


def test_a_folder_named_tensorflow_is_no_tensorflow(made: Path, tmp_path: Path) -> None:
    (tmp_path / "tensorflow").mkdir()
    assert ended_well(start(made, PYTHONPATH=str(tmp_path)))["arguments"] == ["run"]


def test_started_by_its_own_environment_it_is_the_same(made: Path) -> None:
    assert ended_well(start(made, python=str(made / PROGRAMS)))["arguments"] == ["run"]


# the tests' script


@pytest.fixture
def stand_in_tools(made: Path) -> Path:
    """Stand-ins for the tools in the environment of the project: they say what they were called with, and fail where FAIL names them."""
    code = "import os, sys\nprint('{0}', *sys.argv[1:])\nsys.exit(3 if os.environ.get('FAIL') == '{0}' else 0)\n"
    for tool in ("ruff", "mypy", "pytest"):
        (made / f"{tool}.py").write_text(code.format(tool), encoding="utf-8")
    return made


def test_the_tests_run_after_the_linters_and_say_the_last_word(stand_in_tools: Path) -> None:
    result = start(stand_in_tools, "-k", "name", script="run_tests")
    assert result.returncode == 0, result.stderr
    *linters, tests = result.stdout.splitlines()
    assert linters == ["ruff check", "ruff format --check", "mypy", "mypy --platform win32"]
    assert tests.startswith("pytest -") and tests.endswith(" -k name")


def test_the_linters_can_be_left_out(stand_in_tools: Path) -> None:
    (tests,) = start(stand_in_tools, "--no-lint", "-x", script="run_tests").stdout.splitlines()
    assert tests.startswith("pytest -") and tests.endswith(" -x")


@pytest.mark.parametrize("tool", ["ruff", "mypy", "pytest"])
def test_one_failure_fails_the_whole_but_the_rest_still_runs(stand_in_tools: Path, tool: str) -> None:
    result = start(stand_in_tools, script="run_tests", FAIL=tool)
    assert result.returncode == 1
    assert len(result.stdout.splitlines()) == 5
    assert f"failed: {tool}" in result.stderr


# the real thing


@pytest.mark.real
def test_on_a_fresh_clone_the_start_scripts_are_enough(tmp_path: Path) -> None:
    if not (PROJECT / ".git").exists():
        pytest.skip("the project is not a git checkout here")
    project = tmp_path / "ein frischer Klön"
    subprocess.run(["git", "clone", "--quiet", str(PROJECT), str(project)], check=True)
    asked = ("--no-lint", "tests/test_process.py", "-k", "variables")
    result = start(project, *asked, script="run_tests", cwd=tmp_path, PIP_COMPILE="0")  # bytecode that is hardly used takes half the time
    if "could not be made" in result.stderr:
        pytest.skip(f"the packages can't be reached: {result.stderr[-300:]}")
    assert result.returncode == 0, result.stdout + result.stderr
    assert " passed" in result.stdout.splitlines()[-1]
    usage = start(project, "--help", cwd=tmp_path)
    assert usage.stdout.startswith("usage: tfcnn run")
    assert usage.stderr == ""
    status = subprocess.run(["git", "-C", str(project), "status", "--porcelain"], check=True, capture_output=True, text=True)
    assert status.stdout == ""
