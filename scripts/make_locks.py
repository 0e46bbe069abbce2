"""Make the lock files of wrapper/data/locks/ from the table of releases: `python scripts/make_locks.py [RELEASE ...]`.

Each lock is resolved as of its row's date, for every platform, and for the row's Pythons from the lowest on where that can be solved, else from the
proven one on. A lock holds hashes and no address, so that a mirror serves as well.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from packaging.version import Version

from wrapper.bootstrapper.environment import LOCKS, find_pythons, resolution_options, run_uv
from wrapper.bootstrapper.pythons import Interpreter
from wrapper.bootstrapper.release import Release, load_releases, resolve_release

HOW = ["--universal", "--generate-hashes", "--no-header", "--no-annotate"]


def compile_lock(release: Release, device: str, minor: str, interpreter: Interpreter) -> tuple[str, str]:
    """The text of a lock for Python `minor` and later, or "" and why there is none.

    Args:
        interpreter: of that minor version, to build source packages with.
    """
    with tempfile.TemporaryDirectory() as folder:
        wanted, lock = Path(folder) / "wanted.txt", Path(folder) / "lock.txt"
        wanted.write_text("\n".join(release.requirements(device)) + "\n", encoding="utf-8")
        how = [*HOW, f"--python-version={minor}", *resolution_options(release, device)]
        captured = run_uv(["pip", "compile", *how, f"--python={interpreter.path}", str(wanted), f"--output-file={lock}"])
        if captured.exit_code != 0:
            return "", captured.stderr
        command = " ".join(["uv pip compile", *how])
        header = f"# {', '.join(release.requirements(device))}. Made by scripts/make_locks.py with\n# {command}\n"
        return header + lock.read_text(encoding="utf-8"), ""


def make_lock(release: Release, device: str, pythons: tuple[Interpreter, ...]) -> str:
    """Write the lock of one release and device; say in a line for which Pythons it serves."""
    trouble = ""
    for minor in [*sorted(release.python[1:], key=Version), release.python[0]]:
        interpreter = next((python for python in pythons if python.minor == minor), None)
        if interpreter is None:
            trouble = f"no Python {minor} here"
        else:
            text, trouble = compile_lock(release, device, minor, interpreter)
            if text:
                (LOCKS / f"{release.tensorflow}-{device}.txt").write_text(text, encoding="utf-8", newline="\n")
                return f"{release.tensorflow} {device}: from Python {minor} on"
    raise SystemExit(f"{release.tensorflow} {device}: {trouble}")


def main() -> None:
    """Make the locks that the command line names, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("releases", nargs="*", metavar="RELEASE", help="such as 1.12.0; all where none is named")
    names = parser.parse_args().releases
    table, pythons = load_releases(), find_pythons()
    for release in [resolve_release(name, table) for name in names] or table:
        for device in ("cpu", "gpu"):
            print(make_lock(release, device, pythons), flush=True)


if __name__ == "__main__":
    main()
