"""The only place that starts processes.

A child is attended to in a thread of its own: Ctrl-C is raised in the main thread alone, so no second Ctrl-C can break off the ending of a tree.

Where the wrapper itself is killed with SIGKILL, the child ends at its next print, because nobody reads its pipe any more. PR_SET_PDEATHSIG would be
quicker, but can be set only by code between fork and exec, which is unsafe in a process with threads, or by one more program in front of the child.
"""

from __future__ import annotations

import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

import msgspec
import psutil

from wrapper.errors import FatalError
from wrapper.process_tree import KILL_S, MARK, ProcessTree
from wrapper.stamped_log import StampedLog

SETTLE_S = 0.5
"""How long descendants may outlive the child before they are leftovers."""
SLICE_S = 0.1
"""How often time limit and interrupt are looked at; the end of the child is noticed at once. Windows can't interrupt a longer wait by Ctrl-C."""

_PACKAGE_PLACES = frozenset({"PYTHONPATH", "PYTHONUSERBASE", "PYTHONNOUSERSITE"})
_VENV_VARIABLES = frozenset({"VIRTUAL_ENV", "VIRTUAL_ENV_PROMPT", "__PYVENV_LAUNCHER__"})

if sys.platform == "win32":
    _CREATION_FLAGS = subprocess.CREATE_NEW_PROCESS_GROUP  # a Ctrl-C at the terminal reaches the wrapper alone
else:
    _CREATION_FLAGS = 0


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


def run_captured(command: Sequence[str], *, cwd: Path | None = None, environment: Mapping[str, str] | None = None, time_limit_s: float) -> Captured:
    """Run a helper program to its end and return what it printed.

    Args:
        command: program and arguments; no shell.
        environment: all of the child's variables; None: those of this process.
        time_limit_s: seconds after which it is ended with all its descendants.

    Raises:
        FatalError: it can't be started, or took longer than the limit.
        KeyboardInterrupt: passed on when the whole tree has ended.
    """
    with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:  # files: a descendant that keeps a pipe open would make us wait
        execution = _shielded(lambda interrupt: _execute(lambda: _start(command, cwd, environment, stdout, stderr), time_limit_s, interrupt))
        if execution.ended_by == "interrupt":
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

    Returns:
        how it ended; a child that can't be started, a full disk, time-out and Ctrl-C are reported in it, not raised.

    Raises:
        Exception: whatever `on_line` or `on_start` raise, when the whole tree has ended.
    """

    def start_child() -> ProcessTree:
        with stderr_path.open("wb") as stderr:
            return _start(command, cwd, environment, subprocess.PIPE, stderr)

    def follow(pipe: IO[bytes], start: float) -> StampedLog:
        return StampedLog(pipe, stdout_path, times_path, start, on_line)

    return _shielded(lambda interrupt: _execute(start_child, time_limit_s, interrupt, follow, on_start))


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


def _start(
    command: Sequence[str], cwd: Path | None, environment: Mapping[str, str] | None, stdout: IO[bytes] | int, stderr: IO[bytes]
) -> ProcessTree:
    mark = uuid.uuid4().hex
    child = subprocess.Popen(
        list(command),
        cwd=cwd,
        env={**(os.environ if environment is None else environment), MARK: mark},
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=stderr,
        bufsize=0,
        start_new_session=True,
        creationflags=_CREATION_FLAGS,
    )
    return ProcessTree(child, mark)


def _execute(
    start_child: Callable[[], ProcessTree],
    time_limit_s: float,
    interrupt: threading.Event,
    follow: Callable[[IO[bytes], float], StampedLog] | None = None,
    on_start: Callable[[int], None] | None = None,
) -> Execution:
    started, start = datetime.now(UTC).isoformat(timespec="milliseconds"), time.monotonic()
    try:
        tree = start_child()
    except (OSError, ValueError) as error:
        return Execution(exit_code=None, started=started, seconds=0.0, ended_by="error", error=str(error))
    log = follow(tree.child.stdout, start) if follow and tree.child.stdout else None
    leftovers = 0
    try:
        if log:
            log.start()
        if on_start:
            on_start(tree.child.pid)
        ended_by = _watch(tree, log, start + time_limit_s, interrupt)
        end = time.monotonic()
        if ended_by == "exit":
            leftovers = _settle(tree, log)
    finally:
        survivors = tree.end()
        # the leader of a child with many threads is a zombie for some time before it can be collected
        with suppress(subprocess.TimeoutExpired):
            tree.child.wait(KILL_S)
    seconds = (end if ended_by == "exit" else time.monotonic()) - start
    return Execution(
        exit_code=tree.child.poll(), started=started, seconds=seconds, ended_by=ended_by, leftovers=leftovers, error=_complaint(survivors, log)
    )


def _complaint(survivors: set[psutil.Process], log: StampedLog | None) -> str | None:
    if log:
        log.finished.wait(SETTLE_S)
        if log.failure and not isinstance(log.failure, OSError):
            raise log.failure
        if log.failure:
            return f"standard output not kept: {log.failure}"
    return f"processes that could not be ended: {sorted(survivor.pid for survivor in survivors)}" if survivors else None


def _watch(tree: ProcessTree, log: StampedLog | None, deadline: float, interrupt: threading.Event) -> str:
    """Wait for the end of the child itself, or for a reason to end it."""
    while tree.child.poll() is None:
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
                tree.child.wait(patience_s)
    return "exit"


def _settle(tree: ProcessTree, log: StampedLog | None) -> int:
    """Let descendants end by themselves that are about to; the number of those that don't."""
    deadline = time.monotonic() + SETTLE_S
    if log:
        log.finished.wait(SETTLE_S)
    while (members := tree.members()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return len(members)


def _shielded(work: Callable[[threading.Event], Execution]) -> Execution:
    """Do `work` in a thread, where no signal interrupts it; Ctrl-C sets the event that it is given, and is in the result as `ended_by`."""
    interrupt, bell, future = threading.Event(), queue.SimpleQueue[None](), Future[Execution]()

    def run() -> None:
        try:
            future.set_result(work(interrupt))
        except Exception as error:  # raised again below
            future.set_exception(error)
        finally:
            bell.put(None)

    interrupted = False
    try:
        threading.Thread(target=run).start()
        while True:
            try:
                while not future.done():
                    with suppress(queue.Empty):
                        bell.get(timeout=SLICE_S)
                break
            except KeyboardInterrupt:
                interrupted = True
                interrupt.set()
    finally:
        interrupt.set()
    execution = future.result()
    return msgspec.structs.replace(execution, ended_by="interrupt") if interrupted else execution
