"""Finding a Python on this machine that the wrapper runs in. The standard library of Python 3.6 alone."""

import os
import sys
from pathlib import Path
from typing import Dict, Iterator, List, Optional

OLDEST, NEWEST = (3, 11), (3, 14)
"""The Pythons looked for by name; the first is what setup.py asks for."""


def find_python(started: str, environment: Dict[str, str]) -> str:
    """A Python that the wrapper runs in: the starting one if it can, else another of this machine.

    Args:
        started: the interpreter that runs this.
        environment: the variables for the Pythons that are tried.

    Raises:
        SystemExit: there is none; with what to install.
    """
    for candidate in _candidates(started):
        python = _probe(candidate, environment)
        if python is not None:
            return python
    this = sys.version_info[:2]
    raise SystemExit(
        "tfcnn: no Python %d.%d or later with the modules venv and ensurepip was found (this is %d.%d). Install one: from python.org, with pyenv or"
        " conda, or on Debian and Ubuntu: apt install python%d.%d-venv" % (*OLDEST, *this, *max(this, OLDEST))
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


def _probe(command: List[str], environment: Dict[str, str]) -> Optional[str]:
    """The interpreter's own path, if it is one that the wrapper runs in."""
    import subprocess

    code = "import sys, venv, ensurepip; sys.exit('too old') if sys.version_info < %r else print(sys.executable)" % (OLDEST,)
    try:
        output = subprocess.check_output(
            [*command, "-I", "-c", code], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment, timeout=30
        )
    except (OSError, subprocess.SubprocessError):  # absent, a shim of nothing, too old, or without venv
        return None
    return os.fsdecode(output.strip())
