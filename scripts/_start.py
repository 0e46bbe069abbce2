"""What run_all.py and run_tests.py share: the wrapper's own virtual environment, and starting in it.

This runs before anything is installed, in whatever Python the user has: the standard library of Python 3.6 alone.

The environment is `.venv/` in the project. Three files of ours are in it: `tfcnn.lock` (one start at a time makes it), `install.log` (what pip said)
and, written last, `ready` (with `ready-test` for the tests' packages), which holds all that the environment depends on. Where that differs from what
it should be (another Python, a changed setup.py, a moved project, an installation that was broken off), the environment is made anew.
"""

import contextlib
import importlib.util
import os
import sys
from pathlib import Path
from typing import IO, Dict, Iterator, List, Optional

PROJECT = Path(__file__).resolve().parent.parent
VENV = PROJECT / ".venv"
PYTHON = VENV / "Scripts" / "python.exe" if sys.platform == "win32" else VENV / "bin" / "python"
LOCK, LOG = VENV / "tfcnn.lock", VENV / "install.log"
OLDEST, NEWEST = (3, 11), (3, 14)
"""The Pythons looked for by name; the first is what setup.py asks for."""

INTERRUPTED = 130
CHOOSES_ENVIRONMENT = ("--python", "--tensorflow", "--demo", "--resume", "--help", "-h")
"""Options with which the TensorFlow of the starting Python is of no interest."""


def run_all(arguments: List[str]) -> int:
    """Start `tfcnn run` with these arguments in the wrapper's own environment; does not return on POSIX, the exit code elsewhere."""
    python = make_environment("")
    return _become([python, "-I", "-m", "wrapper", "run", *_own_tensorflow(arguments), *arguments])


def run_tests(arguments: List[str]) -> int:
    """Run linters, type checker and tests, the fast ones first.

    Args:
        arguments: `--no-lint` for the tests alone; all others go to pytest, paths as seen from the project's root.

    Returns:
        0 only if everything passed, 130 after Ctrl-C.
    """
    module = [make_environment("test"), "-I", "-m"]
    lint = [["ruff", "check"], ["ruff", "format", "--check"], ["mypy"], ["mypy", "--platform", "win32"]]
    tests = ["pytest", *(argument for argument in arguments if argument != "--no-lint")]
    failed = []
    for check in [*([] if "--no-lint" in arguments else lint), tests]:
        code = _call([*module, *check], PROJECT)
        if code == INTERRUPTED:
            return code
        if code:
            failed.append(" ".join(check[:3]))
    if failed:
        _say("failed: " + ", ".join(failed))
    return 1 if failed else 0


def make_environment(extra: str) -> str:
    """Make sure that the environment is there, with the optional packages `extra` of setup.py; returns its interpreter.

    Raises:
        SystemExit: it can't be made; with what to do, as one paragraph.
    """
    if _is_ready("") and _is_ready(extra):
        return str(PYTHON)
    if VENV.exists() and not LOCK.exists() and any(VENV.iterdir()):
        raise SystemExit("tfcnn: %s is in the way: it was not made by this script. Rename or remove it, and start again." % VENV)
    VENV.mkdir(exist_ok=True)
    with LOCK.open("a") as lock:
        _lock(lock)
        try:
            _make(extra)
        except OSError as error:
            raise SystemExit("tfcnn: cannot make %s: %s. Remove that folder, and start again." % (VENV, error)) from error
        except KeyboardInterrupt:
            _say("interrupted; the next start makes the environment anew")
            raise SystemExit(INTERRUPTED) from None
    return str(PYTHON)


def _make(extra: str) -> None:
    if not _is_ready(""):
        base = _find_python()
        _say("making the wrapper's own environment (once, about a minute) ...")
        _empty()
        _install([base, "-I", "-m", "venv", str(VENV)])
    elif _is_ready(extra):
        return  # made by another start, while this one waited for the lock
    else:
        _say("adding the packages for the tests (once, about a minute) ...")
    target = "%s[%s]" % (PROJECT, extra) if extra else str(PROJECT)
    _install([str(PYTHON), "-I", "-m", "pip", "install", "--disable-pip-version-check", "-e", target])
    for part in {"", extra}:
        half = VENV / "half"
        half.write_text(_key(_version_of_environment()), encoding="utf-8", errors="surrogateescape")
        half.replace(_marker(part))


def _marker(extra: str) -> Path:
    return VENV / ("ready-" + extra if extra else "ready")


def _is_ready(extra: str) -> bool:
    if not PYTHON.exists():  # also where it is a link to a Python that has been removed
        return False
    # a starting Python that can't be used for the environment has no say in which one it should be
    version = _version(sys.version_info[:2]) if _can_make_environments() else _version_of_environment()
    try:
        return _marker(extra).read_text(encoding="utf-8", errors="surrogateescape") == _key(version)
    except OSError:
        return False


def _can_make_environments() -> bool:
    return sys.version_info[:2] >= OLDEST and all(importlib.util.find_spec(module) for module in ("venv", "ensurepip"))


def _key(version: str) -> str:
    setup = (PROJECT / "setup.py").read_text(encoding="utf-8")
    return "Python %s\nproject %s\n%s" % (version, PROJECT, setup)


def _version(version: "tuple[int, ...]") -> str:
    return "%d.%d" % version


def _version_of_environment() -> str:
    """Major and minor version of the environment's Python, from `pyvenv.cfg`."""
    try:
        lines = (VENV / "pyvenv.cfg").read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return ""
    versions = [line.partition("=")[2].strip() for line in lines if line.startswith("version ")]
    return ".".join(versions[0].split(".")[:2]) if versions else ""


def _empty() -> None:
    """Remove whatever is in the environment but the lock, the marker first."""
    import shutil

    for path in sorted(VENV.iterdir(), key=lambda path: not path.name.startswith("ready")):
        if path == LOCK:
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(str(path))
        else:
            path.unlink()


def _install(command: List[str]) -> None:
    import subprocess

    with LOG.open("ab") as log:
        code = subprocess.call(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, env=_environment(), cwd=str(PROJECT))
    if code:
        lines = LOG.read_text(encoding="utf-8", errors="replace").splitlines()
        _say("\n".join(lines[-15:]))
        raise SystemExit(
            "tfcnn: the wrapper's own environment could not be made; all that was said is in %s. Without a network, name a folder of wheels with"
            " PIP_NO_INDEX=1 PIP_FIND_LINKS=FOLDER. Start again to try again." % LOG
        )


def _environment() -> Dict[str, str]:
    """The user's variables, those for pip included, but none by which another Python or another place would be used."""
    dropped = ("PYTHONHOME", "PYTHONPATH", "__PYVENV_LAUNCHER__", "PIP_USER", "PIP_TARGET", "PIP_PREFIX")
    return {name: value for name, value in os.environ.items() if name not in dropped}


def _lock(lock: IO[str]) -> None:
    """Hold `lock` until it is closed; wait for whoever has it."""
    if sys.platform == "win32":
        import msvcrt

        while True:
            with contextlib.suppress(OSError):  # it gives up after ten seconds
                msvcrt.locking(lock.fileno(), msvcrt.LK_LOCK, 1)
                return
    else:
        import fcntl

        fcntl.flock(lock, fcntl.LOCK_EX)


def _in_own_environment() -> bool:
    return Path(sys.prefix).resolve() == VENV.resolve()


def _find_python() -> str:
    """A Python that the wrapper runs in: the starting one if it can, else another of this machine.

    Raises:
        SystemExit: there is none; with what to install.
    """
    started = str(getattr(sys, "_base_executable", sys.executable)) if _in_own_environment() else sys.executable
    for candidate in _candidates(started):
        python = _probe(candidate)
        if python is not None:
            return python
    version = _version(sys.version_info[:2] if sys.version_info[:2] >= OLDEST else OLDEST)
    raise SystemExit(
        "tfcnn: no Python %s or later with the modules venv and ensurepip was found (this is %s). Install one: from python.org, with pyenv or conda,"
        " or on Debian and Ubuntu: apt install python%s-venv" % (_version(OLDEST), _version(sys.version_info[:2]), version)
    )


def _candidates(started: str) -> Iterator[List[str]]:
    yield [started]
    for minor in range(NEWEST[1], OLDEST[1] - 1, -1):
        yield ["python3.%d" % minor]
    yield ["python3"]
    if sys.platform == "win32":
        yield ["py", "-3"]
    program = "python.exe" if sys.platform == "win32" else "bin/python"
    pyenv = Path(os.environ.get("PYENV_ROOT", str(Path.home() / ".pyenv" / ("pyenv-win" if sys.platform == "win32" else ""))))
    for version in sorted((pyenv / "versions").glob("3.1*"), key=_by_version, reverse=True):
        yield [str(version / program)]
    for environment in _conda_environments():
        yield [str(environment / program)]


def _by_version(path: Path) -> List[int]:
    return [int(part) for part in path.name.split(".") if part.isdigit()]


def _conda_environments() -> Iterator[Path]:
    conda = os.environ.get("CONDA_EXE")
    if conda:
        yield Path(conda).parent.parent
    known = Path.home() / ".conda" / "environments.txt"  # kept by conda itself
    if known.exists():
        for line in known.read_text(encoding="utf-8", errors="surrogateescape").splitlines():
            yield Path(line.strip())


def _probe(command: List[str]) -> Optional[str]:
    """The interpreter's own path, if it is one that the wrapper runs in."""
    import subprocess

    code = "import sys, venv, ensurepip; sys.exit('too old') if sys.version_info < %r else print(sys.executable)" % (OLDEST,)
    try:
        output = subprocess.check_output(
            [*command, "-I", "-c", code], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=_environment(), timeout=30
        )
    except (OSError, subprocess.SubprocessError):  # absent, a shim of nothing, too old, or without venv
        return None
    return os.fsdecode(output.strip())


def _own_tensorflow(arguments: List[str]) -> List[str]:
    """The option that makes the starting Python the benchmark's environment, where it has TensorFlow and the user has not chosen otherwise."""
    if _in_own_environment() or any(argument.partition("=")[0] in CHOOSES_ENVIRONMENT for argument in arguments):
        return []
    found = importlib.util.find_spec("tensorflow")
    if found is None or found.origin is None:  # no origin: an empty folder of that name
        return []
    _say("this Python has TensorFlow, which is what will be measured: %s" % sys.executable)
    return ["--python", sys.executable]


def _become(command: List[str]) -> int:
    sys.stdout.flush()
    sys.stderr.flush()
    if sys.platform != "win32":
        os.execv(command[0], command)
    return _call(command, None)  # on Windows, exec returns to the shell before the command has ended


def _call(command: List[str], directory: Optional[Path]) -> int:
    """Run a command to its end, also through Ctrl-C, which it gets as well; its exit code, or `INTERRUPTED`."""
    import subprocess

    interrupted = False
    child = subprocess.Popen(command, cwd=str(directory) if directory else None)
    while True:
        try:
            code = child.wait()
            return INTERRUPTED if interrupted else code
        except KeyboardInterrupt:
            interrupted = True


def _say(text: str) -> None:
    sys.stderr.write("tfcnn: %s\n" % text)
    sys.stderr.flush()
