"""The only place that starts processes.

A child is attended to in a thread of its own, so that no second Ctrl-C can break off the ending of a tree. Where the wrapper itself is killed with
SIGKILL, a guard that was started beside the child ends it (`guarded_child.py`).
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

import msgspec
import psutil

from wrapper.errors import FatalError
from wrapper.guarded_child import Call, GuardedChild
from wrapper.process_tree import ProcessTree
from wrapper.shielding import SLICE_S, shielded
from wrapper.stamped_log import StampedLog

SETTLE_S = 0.5
"""How long descendants may outlive the child before they are leftovers."""

_PACKAGE_PLACES = frozenset({"PYTHONPATH", "PYTHONUSERBASE", "PYTHONNOUSERSITE"})
_VENV_VARIABLES = frozenset({"VIRTUAL_ENV", "VIRTUAL_ENV_PROMPT", "__PYVENV_LAUNCHER__"})


class Execution(msgspec.Struct, frozen=True, kw_only=True):
    """How one child process ran and ended."""

    exit_code: int | None
    """None only where the child could not be started or could not be ended; negative for a signal, as in subprocess."""
    started: str
    """UTC, ISO 8601."""
    seconds: float
    """From start to exit, by a monotonic clock."""
    ended_by: str = "exit"
    """"exit" (by itself), "timeout", "interrupt", or "error" (ended because its output could not be kept)."""
    leftovers: int = 0
    """Descendants that were still alive when the child had ended and had to be ended."""
    error: str | None = None
    """Why the child could not be started or ended, or its output not kept (a full disk)."""


class Captured(msgspec.Struct, frozen=True, kw_only=True):
    """What a short helper process printed, decoded as UTF-8 with replacement characters."""

    exit_code: int
    """Negative for a signal, as in subprocess."""
    stdout: str
    stderr: str
    seconds: float


def run_captured(
    command: Sequence[str], *, cwd: Path | None = None, environment: Mapping[str, str] | None = None, time_limit_s: float, cleanup: Sequence[str] = ()
) -> Captured:
    """Run a helper program to its end and return what it printed.

    Args:
        command: program and arguments; no shell.
        environment: all of the child's variables; None: those of this process.
        time_limit_s: seconds after which it is ended with all its descendants.
        cleanup: see `run_logged`.

    Raises:
        FatalError: it can't be started, or took longer than the limit.
        KeyboardInterrupt: passed on when the whole tree has ended.
    """
    with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:  # files: a descendant that keeps a pipe open would make us wait
        call = Call(command, cwd, os.environ if environment is None else environment, cleanup)
        execution, interrupted = shielded(lambda interrupt: _execute(lambda: GuardedChild(call, stdout, stderr), time_limit_s, interrupt))
        if interrupted:
            raise KeyboardInterrupt
        if execution.ended_by == "timeout":
            raise FatalError(f"{subprocess.list2cmdline(command)} did not end within {time_limit_s:g} s and was ended")
        if execution.exit_code is None:
            raise FatalError(f"cannot start {command[0]}: {execution.error}")
        stdout.seek(0)
        stderr.seek(0)
        return Captured(
            exit_code=execution.exit_code,
            stdout=stdout.read().decode("utf-8", "replace"),
            stderr=stderr.read().decode("utf-8", "replace"),
            seconds=execution.seconds,
        )


def run_logged(
    command: Sequence[str],
    *,
    cwd: Path,
    environment: Mapping[str, str],
    stdout_path: Path,
    stderr_path: Path,
    times_path: Path,
    time_limit_s: float,
    on_line: Callable[[bytes, float], None] | None = None,
    on_start: Callable[[int], None] | None = None,
    cleanup: Sequence[str] = (),
) -> Execution:
    """Run a program with both its output streams kept whole, and the arrival of each line of its standard output kept beside them.

    Args:
        command: program and arguments; no shell.
        environment: all of the child's variables.
        stdout_path: gets every byte as it comes, so that nothing printed is lost when the wrapper is killed.
        stderr_path: written by the child itself.
        times_path: CSV `line,seconds`; row N is line N of standard output (ended by a newline, or by the end), seconds since the start of the child.
            Lines that arrive together share a stamp.
        time_limit_s: seconds after which it is ended with all its descendants.
        on_line: gets each line as it arrives, without its newline and cut at 64 KiB, and its stamp. Called in another thread; should
            be quick, because the child waits for it when the pipe is full.
        on_start: gets the process id. Called in another thread.
        cleanup: a command that removes what the program leaves outside of its processes, such as a container. It is run on every way out, also where
            the wrapper is killed, at most `guard.CLEANUP_LIMIT_S`; what it prints and returns is not looked at.

    Returns:
        how it ended; a child that can't be started, a full disk, time-out and Ctrl-C are reported in it, not raised.

    Raises:
        Exception: whatever `on_line` or `on_start` raise, when the whole tree has ended.
    """

    def start_child() -> GuardedChild:
        with stderr_path.open("wb") as stderr:
            return GuardedChild(Call(command, cwd, environment, cleanup, adopting=not cleanup), subprocess.PIPE, stderr)

    def follow(pipe: IO[bytes], start: float) -> StampedLog:
        return StampedLog(pipe, stdout_path, times_path, start, on_line)

    execution, interrupted = shielded(lambda interrupt: _execute(start_child, time_limit_s, interrupt, follow, on_start))
    return msgspec.structs.replace(execution, ended_by="interrupt") if interrupted else execution


def scrubbed_environment(base: Mapping[str, str], extra: Mapping[str, str], *, keep_pythonpath: bool) -> dict[str, str]:
    """The variables for a Python that is not the wrapper's own.

    Args:
        base: the variables to start from, usually `os.environ`.
        extra: set last, whatever they are.
        keep_pythonpath: keep what says where packages are found (PYTHONPATH, PYTHONUSERBASE, PYTHONNOUSERSITE): for an interpreter that the user
            named.

    Returns:
        `base` without the variables that steer Python and without the wrapper's virtual environment; output unbuffered (upstream never flushes) and
        in UTF-8; no byte code written, so that the checkout stays clean.
    """
    own_programs = {str(Path(directory) / ("Scripts" if sys.platform == "win32" else "bin")) for directory in _own_virtual_environments(base)}
    kept = {
        name: value
        for name, value in base.items()
        if name not in _VENV_VARIABLES and (not name.startswith("PYTHON") or (keep_pythonpath and name in _PACKAGE_PLACES))
    }
    if "PATH" in kept:
        kept["PATH"] = os.pathsep.join(entry for entry in kept["PATH"].split(os.pathsep) if entry.rstrip("/\\") not in own_programs)
    return {**kept, "PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONIOENCODING": "utf-8", **extra}


def _own_virtual_environments(base: Mapping[str, str]) -> set[str]:
    active = {base["VIRTUAL_ENV"]} if base.get("VIRTUAL_ENV") else set()
    return active | ({sys.prefix} if sys.prefix != sys.base_prefix else set())


def _execute(
    start_child: Callable[[], GuardedChild],
    time_limit_s: float,
    interrupt: threading.Event,
    follow: Callable[[IO[bytes], float], StampedLog] | None = None,
    on_start: Callable[[int], None] | None = None,
) -> Execution:
    started, start = datetime.now(UTC).isoformat(timespec="milliseconds"), time.monotonic()
    try:
        guarded = start_child()
    except (OSError, ValueError) as error:
        return Execution(exit_code=None, started=started, seconds=0.0, ended_by="error", error=str(error))
    child = guarded.child
    log = follow(child.stdout, start) if follow and child.stdout else None
    leftovers = 0
    try:
        if log:
            log.start()
        if on_start:
            on_start(child.pid)
        ended_by = _watch(child, log, start + time_limit_s, interrupt)
        end = time.monotonic()
        if ended_by == "exit":
            leftovers = _settle(guarded.tree, log)
    finally:
        survivors = guarded.end()
    seconds = (end if ended_by == "exit" else time.monotonic()) - start
    return Execution(
        exit_code=child.poll(), started=started, seconds=seconds, ended_by=ended_by, leftovers=leftovers, error=_complaint(survivors, log)
    )


def _complaint(survivors: set[psutil.Process], log: StampedLog | None) -> str | None:
    if log:
        log.finished.wait(SETTLE_S)
        if log.failure and not isinstance(log.failure, OSError):
            raise log.failure
        if log.failure:
            return f"standard output not kept: {log.failure}"
    return f"processes that could not be ended: {sorted(survivor.pid for survivor in survivors)}" if survivors else None


def _watch(child: subprocess.Popen[bytes], log: StampedLog | None, deadline: float, interrupt: threading.Event) -> str:
    """Wait for the end of the child itself, or for a reason to end it."""
    while child.poll() is None:
        patience_s = min(SLICE_S, deadline - time.monotonic())
        if interrupt.is_set():
            return "interrupt"
        if log and log.failure:
            return "error"
        if patience_s <= 0:
            return "timeout"
        if log and not log.finished.is_set():
            log.finished.wait(patience_s)  # the pipe's end comes with the child's end, without polling
        else:
            with suppress(subprocess.TimeoutExpired):
                child.wait(patience_s)
    return "exit"


def _settle(tree: ProcessTree, log: StampedLog | None) -> int:
    """Let descendants end by themselves that are about to; the number of those that don't."""
    deadline = time.monotonic() + SETTLE_S
    if log:
        log.finished.wait(SETTLE_S)
    while (members := tree.members()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return len(members)
