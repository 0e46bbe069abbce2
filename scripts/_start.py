"""What run_all.py and run_tests.py share: the wrapper's own virtual environment, and starting in it.

This runs before anything is installed, in whatever Python the user has: the standard library of Python 3.6 alone. It runs at every start, too, so
what only the making of the environment needs is imported there.

The environment is `.venv/` in the project. These files of ours are in it: `tfcnn.lock` (one start at a time makes it), `tfcnn.use` (locked by all
that use it, so that it is not made anew under a running sweep), `install.log` (what pip said) and, written last, `ready` (with `ready-test` for the
tests' packages), which holds all that the environment depends on. Where that differs from what it should be (another Python, a changed setup.py, a
moved project, an installation that was broken off), the environment is made anew.
"""

import contextlib
import importlib.util
import os
import sys
from pathlib import Path
from typing import IO, Dict, List, Optional

from _pythons import OLDEST, find_python

PROJECT = Path(__file__).resolve().parent.parent
VENV = PROJECT / ".venv"
PYTHON = VENV / "Scripts" / "python.exe" if sys.platform == "win32" else VENV / "bin" / "python"
LOCK, USE, LOG = VENV / "tfcnn.lock", VENV / "tfcnn.use", VENV / "install.log"

INTERRUPTED = 130
CHOOSES_ENVIRONMENT = ("--environment", "--python", "--tensorflow", "--demo", "--resume", "--help", "-h")
"""Options with which the TensorFlow of the starting Python is of no interest."""
ON_ALL_CORES = ("--numprocesses=logical", "--maxprocesses=4", "--dist=worksteal", "--durations=10", "--durations-min=1")
"""How pytest is called: each process makes a copy of the product and its environments first, so that more than a few do not pay."""


def run_all(arguments: List[str]) -> int:
    """Start `tfcnn run` with these arguments in the wrapper's own environment; does not return on POSIX, the exit code elsewhere."""
    python = make_environment("")
    return _become([python, "-I", "-m", "wrapper", "run", *_own_tensorflow(arguments), *arguments])


def run_tests(arguments: List[str]) -> int:
    """Run linters, type checker and tests, the fast ones first.

    Args:
        arguments: `--no-lint` for the tests alone; all others go to pytest, paths as seen from the project's root (`-n 0` for a single process).

    Returns:
        0 only if everything passed, 130 after Ctrl-C.
    """
    module = [make_environment("test"), "-I", "-m"]
    lint = [["ruff", "check"], ["ruff", "format", "--check"], ["mypy"], ["mypy", "--platform", "win32"]]
    tests = ["pytest", *ON_ALL_CORES, *(argument for argument in arguments if argument != "--no-lint")]
    failed = []
    for check in [*([] if "--no-lint" in arguments else lint), tests]:
        code = _call([*module, *check], PROJECT)
        if code == INTERRUPTED:
            return code
        if code:
            failed.append("pytest" if check is tests else " ".join(check))
    if failed:
        _say("failed: " + ", ".join(failed))
    return 1 if failed else 0


def make_environment(extra: str) -> str:
    """Make sure that the environment is there, with the optional packages `extra` of setup.py; returns its interpreter.

    Raises:
        SystemExit: it can't be made; with what to do, as one paragraph.
    """
    if not (_is_ready("") and _is_ready(extra)):
        if VENV.exists() and not LOCK.exists() and any(VENV.iterdir()):
            raise SystemExit("tfcnn: %s is in the way: it was not made by this script. Rename or remove it, and start again." % VENV)
        try:
            VENV.mkdir(exist_ok=True)
            with LOCK.open("a") as lock:
                _lock(lock, "makes")
                _make(extra)
        except OSError as error:
            raise SystemExit("tfcnn: cannot make %s: %s. Remove that folder, and start again." % (VENV, error)) from error
        except KeyboardInterrupt:
            _say("interrupted; the next start makes the environment anew")
            raise SystemExit(INTERRUPTED) from None
    _hold()
    return str(PYTHON)


def _make(extra: str) -> None:
    if not _is_ready(""):
        started = str(getattr(sys, "_base_executable", sys.executable)) if _in_own_environment() else sys.executable
        base = find_python(started, _environment())
        with USE.open("a") as use:
            _lock(use, "uses")
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
    version = "%d.%d" % sys.version_info[:2] if _can_make_environments() else _version_of_environment()
    try:
        return _marker(extra).read_text(encoding="utf-8", errors="surrogateescape") == _key(version)
    except OSError:
        return False


def _can_make_environments() -> bool:
    return sys.version_info[:2] >= OLDEST and all(importlib.util.find_spec(module) for module in ("venv", "ensurepip"))


def _key(version: str) -> str:
    setup = (PROJECT / "setup.py").read_text(encoding="utf-8")
    return "Python %s\nproject %s\n%s" % (version, PROJECT, setup)


def _version_of_environment() -> str:
    """Major and minor version of the environment's Python, from `pyvenv.cfg`."""
    try:
        lines = (VENV / "pyvenv.cfg").read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return ""
    versions = [line.partition("=")[2].strip() for line in lines if line.startswith("version ")]
    return ".".join(versions[0].split(".")[:2]) if versions else ""


def _empty() -> None:
    """Remove whatever is in the environment but the locks, the marker first."""
    import shutil

    for path in sorted(VENV.iterdir(), key=lambda path: not path.name.startswith("ready")):
        if path in (LOCK, USE):
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


def _lock(lock: IO[str], deed: str) -> None:
    """Hold `lock` until it is closed; wait for whoever has it."""
    if sys.platform == "win32":
        import msvcrt

        while True:
            with contextlib.suppress(OSError):  # it gives up after ten seconds
                msvcrt.locking(lock.fileno(), msvcrt.LK_LOCK, 1)
                return
    else:
        import fcntl

        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _say("waiting for another start that %s the wrapper's own environment ..." % deed)
            fcntl.flock(lock, fcntl.LOCK_EX)


def _hold() -> None:
    """Keep the environment as it is while this process, or the program that it becomes, runs. Windows does so for a program in use by itself."""
    if sys.platform != "win32":
        import fcntl

        with contextlib.suppress(OSError):  # a file system without locks
            held = os.open(str(USE), os.O_RDONLY)  # closed by the end of the process
            os.set_inheritable(held, True)
            fcntl.flock(held, fcntl.LOCK_SH)


def _in_own_environment() -> bool:
    return Path(sys.prefix).resolve() == VENV.resolve()


def _own_tensorflow(arguments: List[str]) -> List[str]:
    """The option that makes the starting Python the benchmark's environment, where it has TensorFlow and the user has not chosen otherwise."""
    if _in_own_environment() or any(argument.partition("=")[0] in CHOOSES_ENVIRONMENT or _names_release(argument) for argument in arguments):
        return []
    found = importlib.util.find_spec("tensorflow")
    if found is None or found.origin is None:  # no origin: an empty folder of that name
        return []
    _say("this Python has TensorFlow, which is what will be measured: %s" % sys.executable)
    return ["--python", sys.executable]


def _names_release(argument: str) -> bool:
    """Whether this is a sweep file that names releases: by its text, because nothing here reads YAML yet."""
    import re

    try:
        text = Path(argument.replace("--sweep=", "", 1)).read_text(encoding="utf-8")
    except (OSError, ValueError):  # no file, no name of one, or no text
        return False
    return re.search(r"""^[{ ]*["']?tensorflow["']?\s*:""", text, re.MULTILINE) is not None


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
