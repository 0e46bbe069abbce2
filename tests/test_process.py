"""Starting, following and ending children: real processes throughout."""

from __future__ import annotations

import csv
import os
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest

from wrapper.errors import FatalError
from wrapper.process import Execution, run_captured, run_logged, scrubbed_environment

FAKE = Path(__file__).parent / "data" / "fake_upstream.py"
posix = pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals and sessions")

WRAPPER = """
import os, resource, signal, sys
from pathlib import Path
import msgspec
from wrapper.process import run_logged
def interrupt(*_): raise KeyboardInterrupt
signal.signal(signal.SIGTERM, interrupt)
signal.signal(signal.SIGINT, interrupt)
directory = Path(sys.argv[1])
execution = run_logged(sys.argv[2:], cwd=directory, environment=os.environ, stdout_path=Path(os.environ.get("LOG", directory / "stdout")),
                       stderr_path=directory / "stderr", times_path=directory / "times", time_limit_s=60, on_line=lambda line, seconds: None)
def peak_kib():
    status = Path("/proc/self/status")  # of this program alone; ru_maxrss begins with that of the process that started it
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // (1024 if sys.platform == "darwin" else 1)
    return next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
print(msgspec.json.encode({"execution": execution, "peak_kib": peak_kib()}).decode())
"""


def fake(model: str, **flags: object) -> list[str]:
    return [sys.executable, str(FAKE), f"--model={model}", *(f"--{name}={value}" for name, value in flags.items())]


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def run(directory: Path, command: list[str], *, variables: dict[str, str] | None = None, time_limit_s: float = 30, **more: Any) -> Execution:
    places = {"stdout_path": directory / "stdout", "stderr_path": directory / "stderr", "times_path": directory / "times"}
    environment = scrubbed_environment(os.environ, {"FAKE_PIDS": str(directory / "pids"), **(variables or {})}, keep_pythonpath=False)
    return run_logged(command, cwd=directory, environment=environment, time_limit_s=time_limit_s, **{**places, **more})


def stamps(directory: Path) -> list[float]:
    with (directory / "times").open(encoding="ascii", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["line"]) for row in rows] == list(range(1, len(rows) + 1))
    return [float(row["seconds"]) for row in rows]


def descendants(directory: Path) -> list[int]:
    path = directory / "pids"
    return [int(line) for line in path.read_text().split()] if path.exists() else []


def alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def wait_until(condition: Callable[[], bool], seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "did not happen in time"
        time.sleep(0.01)


class Wrapper:
    """A process like ours that runs a trial, so that it can be sent signals."""

    def __init__(self, directory: Path, command: list[str], **variables: str) -> None:
        self.directory = directory
        environment = {**os.environ, "PYTHONUNBUFFERED": "1", "FAKE_PIDS": str(directory / "pids"), **variables}
        self.process = subprocess.Popen([*python(WRAPPER), str(directory), *command], env=environment, stdout=subprocess.PIPE, cwd=FAKE.parents[2])

    def send(self, number: int) -> None:
        self.process.send_signal(number)

    def printed(self) -> bytes:
        path = self.directory / "stdout"
        return path.read_bytes() if path.exists() else b""

    def answer(self) -> dict[str, Any]:
        output, _ = self.process.communicate(timeout=30)
        assert self.process.returncode == 0
        return dict(msgspec.json.decode(output))


# what is kept


def test_an_ordinary_child_is_kept_whole_with_its_streams_apart(tmp_path: Path) -> None:
    execution = run(tmp_path, python("import sys\nprint('a')\nsys.stderr.write('b')\nsys.exit(3)"))
    assert (execution.exit_code, execution.ended_by, execution.leftovers, execution.error) == (3, "exit", 0, None)
    assert (tmp_path / "stdout").read_bytes() == b"a" + os.linesep.encode()
    assert (tmp_path / "stderr").read_bytes() == b"b"


@pytest.mark.parametrize(
    "printed",
    [
        b"",
        b"\n",
        b"a\nb\n",
        b"no newline at the end",
        b"a\n\n\nb",
        b"progress 1\rprogress 2\r\nnext\n",
        bytes(range(256)) * 700,
        b"x" * 200_000 + b"\ny",
    ],
    ids=["nothing", "empty line", "two lines", "unfinished", "blank lines", "carriage returns", "binary", "longer than a chunk"],
)
def test_every_byte_is_kept_and_every_line_has_one_stamp(tmp_path: Path, printed: bytes) -> None:
    (tmp_path / "source").write_bytes(printed)
    heard: list[tuple[bytes, float]] = []
    run(tmp_path, fake("replay"), variables={"FAKE_REPLAY": str(tmp_path / "source")}, on_line=lambda *line: heard.append(line))
    assert (tmp_path / "stdout").read_bytes() == printed
    lines = printed.removesuffix(b"\n").split(b"\n") if printed else []
    assert [line for line, _ in heard] == [line[:65536] for line in lines]
    assert stamps(tmp_path) == pytest.approx([seconds for _, seconds in heard], abs=1e-6)
    assert stamps(tmp_path) == sorted(stamps(tmp_path))


@posix
def test_stamps_follow_the_clock_of_the_child(tmp_path: Path) -> None:
    run(tmp_path, python("import time\nfor _ in range(20):\n    print(time.monotonic(), flush=True)\n    time.sleep(0.01)"))
    printed = [float(line) for line in (tmp_path / "stdout").read_text().split()]
    late = [stamp - moment for stamp, moment in zip(stamps(tmp_path), printed, strict=True)]
    assert statistics.median(abs(value - min(late)) for value in late) < 0.003


def test_lines_are_on_disk_while_the_child_runs(tmp_path: Path) -> None:
    seen: list[bytes] = []
    run(tmp_path, fake("replay"), variables={"FAKE_REPLAY": str(FAKE)}, on_line=lambda line, _: seen.append((tmp_path / "stdout").read_bytes()))
    assert all(content for content in seen)


@posix
def test_a_line_of_300_mb_is_followed_in_constant_memory(tmp_path: Path) -> None:
    ballast = bytearray(os.urandom(4096)) * 50_000  # 200 MB: what this process takes is not counted
    wrapper = Wrapper(tmp_path, fake("long_line"), FAKE_LONG_LINE_BYTES="300000000", LOG=os.devnull)
    del ballast
    answer = wrapper.answer()
    assert answer["execution"]["exit_code"] == 0
    assert answer["peak_kib"] < 150_000


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this system")
@pytest.mark.parametrize("stream", ["stdout_path", "times_path"])
def test_a_full_disk_ends_the_child_and_is_said(tmp_path: Path, stream: str) -> None:
    execution = run(tmp_path, python("import time\nprint(1, flush=True)\ntime.sleep(60)"), **{stream: Path("/dev/full")})
    assert execution.ended_by == "error"
    assert "No space left" in str(execution.error)
    assert execution.seconds < 5


# how it ends


@pytest.mark.parametrize("broken", [["a-program-that-does-not-exist"], [str(Path(__file__).parent)], ["nul\0byte"]])
def test_a_child_that_cannot_start_is_recorded(tmp_path: Path, broken: list[str]) -> None:
    execution = run(tmp_path, broken)
    assert execution.exit_code is None
    assert execution.error


def test_a_missing_log_folder_is_recorded(tmp_path: Path) -> None:
    execution = run(tmp_path, fake("trivial"), stderr_path=tmp_path / "absent" / "stderr")
    assert execution.exit_code is None
    assert "absent" in str(execution.error)


@posix
def test_death_by_signal_is_a_negative_exit_code(tmp_path: Path) -> None:
    execution = run(tmp_path, fake("killed"))
    assert (execution.exit_code, execution.ended_by) == (-signal.SIGKILL, "exit")


@posix
def test_timeout_ends_the_whole_tree_within_five_seconds(tmp_path: Path) -> None:
    execution = run(tmp_path, fake("stubborn"), time_limit_s=2)
    assert execution.ended_by == "timeout"
    assert execution.seconds < 2 + 5
    assert len(descendants(tmp_path)) == 2
    assert not any(alive(pid) for pid in descendants(tmp_path))


@posix
def test_a_descendant_that_holds_the_pipe_is_a_leftover(tmp_path: Path) -> None:
    start = time.monotonic()
    execution = run(tmp_path, fake("orphan"))
    assert (execution.exit_code, execution.ended_by, execution.leftovers) == (0, "exit", 1)
    assert b"total images/sec" in (tmp_path / "stdout").read_bytes()
    assert time.monotonic() - start < 5
    assert not any(alive(pid) for pid in descendants(tmp_path))


def test_a_child_that_closes_its_output_early_is_waited_for(tmp_path: Path) -> None:
    execution = run(tmp_path, python("import os, time\nos.close(1)\ntime.sleep(0.5)\nos._exit(7)"))
    assert execution.exit_code == 7
    assert execution.seconds > 0.5


@posix
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("times", [1, 3])
def test_an_interrupt_ends_the_whole_tree_and_is_returned(tmp_path: Path, number: int, times: int) -> None:
    wrapper = Wrapper(tmp_path, fake("stubborn"))
    wait_until(lambda: len(descendants(tmp_path)) == 2 and b"Running warm up" in wrapper.printed())
    start = time.monotonic()
    for _ in range(times):
        wrapper.send(number)
        time.sleep(0.2)  # apart, so that each is a signal of its own; all within the grace of the stubborn
    assert wrapper.answer()["execution"]["ended_by"] == "interrupt"
    assert time.monotonic() - start < 5
    assert not any(alive(pid) for pid in descendants(tmp_path))


@posix
def test_a_killed_wrapper_loses_nothing_printed(tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(b"line\n" * 10_000)
    wrapper = Wrapper(tmp_path, fake("replay"), FAKE_REPLAY=str(tmp_path / "source"), FAKE_LINE_S="0.02")
    wait_until(lambda: wrapper.printed().count(b"\n") > 10)
    children = psutil.Process(wrapper.process.pid).children()
    wrapper.send(signal.SIGKILL)
    wrapper.process.communicate()
    wait_until(lambda: not any(alive(child.pid) for child in children), 5)
    assert len(stamps(tmp_path)) >= 10


@posix
def test_a_child_of_many_threads_and_much_memory_is_collected_when_it_is_ended(tmp_path: Path) -> None:
    # its leader can't be collected before the last of its threads has ended, and giving back the memory takes that long
    busy = "import threading, time\nkept = bytearray(600 << 20)\nkept[::4096] = b'x' * len(kept[::4096])\n"
    busy += "def work():\n    while True: kept.count(b'y', 0, 200 << 20)\n"
    busy += "for _ in range(8): threading.Thread(target=work).start()\n"
    for _ in range(3):
        execution = run(tmp_path, python(busy), time_limit_s=1.5)
        assert (execution.exit_code, execution.ended_by, execution.error) == (-signal.SIGTERM, "timeout", None)


def test_it_works_in_another_thread(tmp_path: Path) -> None:
    results: list[Execution] = []
    thread = threading.Thread(target=lambda: results.append(run(tmp_path, fake("hang"), time_limit_s=0.5)))
    thread.start()
    thread.join()
    assert results[0].ended_by == "timeout"


@pytest.mark.parametrize("hook", ["on_line", "on_start"])
def test_a_fault_in_a_hook_is_raised_when_the_child_is_gone(tmp_path: Path, hook: str) -> None:
    seen: list[int] = []

    def fault(*_: object) -> None:
        seen.extend(psutil.Process(child.pid).pid for child in psutil.Process().children())
        raise ValueError("a fault of ours")

    with pytest.raises(ValueError, match="a fault of ours"):
        run(tmp_path, fake("hang"), **{hook: fault})
    assert seen
    assert not any(alive(pid) for pid in seen)


def test_only_our_own_processes_are_ended(tmp_path: Path) -> None:
    bystander = subprocess.Popen(python("import time\ntime.sleep(60)"))
    try:
        run(tmp_path, fake("hang"), time_limit_s=0.3)
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


# what it costs


def test_the_overhead_of_a_trial_is_below_a_tenth_of_a_second(tmp_path: Path) -> None:
    def seconds(call: Callable[[], object]) -> float:
        start = time.monotonic()
        call()
        return time.monotonic() - start

    command = fake("trivial", num_batches=10)
    bare = [seconds(lambda: subprocess.run(command, check=True, capture_output=True)) for _ in range(5)]
    ours = [seconds(lambda: run(tmp_path, command)) for _ in range(5)]
    assert statistics.median(ours) - statistics.median(bare) < 0.1


def test_waiting_costs_next_to_no_processor_time(tmp_path: Path) -> None:
    start = time.process_time()
    run(tmp_path, python("import time\ntime.sleep(2)"))
    assert time.process_time() - start < 0.1


# helpers that are captured


def test_captured_output_is_decoded_whatever_it_is() -> None:
    captured = run_captured(python("import os\nos.write(1, b'\\xff\\xc3\\xa9')\nos.write(2, b'e')\nos._exit(4)"), time_limit_s=30)
    assert (captured.exit_code, captured.stdout, captured.stderr) == (4, "\ufffdé", "e")


def test_captured_child_reads_an_empty_standard_input() -> None:
    assert run_captured(python("import sys\nprint(len(sys.stdin.read()))"), time_limit_s=30).stdout.strip() == "0"


def test_captured_program_that_is_missing_is_fatal() -> None:
    with pytest.raises(FatalError, match="a-program-that-does-not-exist"):
        run_captured(["a-program-that-does-not-exist"], time_limit_s=30)


@posix
def test_captured_program_that_takes_too_long_is_fatal_and_gone(tmp_path: Path) -> None:
    environment = {**os.environ, "FAKE_PIDS": str(tmp_path / "pids")}
    with pytest.raises(FatalError, match="within 1 s"):
        run_captured(fake("stubborn"), environment=environment, time_limit_s=1)
    assert not any(alive(pid) for pid in descendants(tmp_path))


@posix
def test_captured_program_that_leaves_a_daemon_does_not_hang() -> None:
    start = time.monotonic()
    assert run_captured(fake("orphan"), time_limit_s=30).exit_code == 0
    assert time.monotonic() - start < 5


# the environment of a child


def test_python_variables_of_the_wrapper_are_dropped() -> None:
    base = {
        "PYTHONPATH": "a",
        "PYTHONHOME": "b",
        "PYTHONSAFEPATH": "1",
        "PYTHONUSERBASE": "c",
        "VIRTUAL_ENV": "v",
        "__PYVENV_LAUNCHER__": "l",
        "HOME": "h",
    }
    own = {"PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONIOENCODING": "utf-8"}
    assert scrubbed_environment(base, {}, keep_pythonpath=False) == {"HOME": "h", **own}
    assert scrubbed_environment(base, {}, keep_pythonpath=True) == {"HOME": "h", "PYTHONPATH": "a", "PYTHONUSERBASE": "c", **own}


def test_extra_variables_win() -> None:
    assert scrubbed_environment({"A": "1"}, {"A": "2", "PYTHONPATH": "p"}, keep_pythonpath=False).items() >= {"A": "2", "PYTHONPATH": "p"}.items()


def test_the_programs_of_the_wrappers_environment_leave_the_path() -> None:
    scripts = "Scripts" if sys.platform == "win32" else "bin"
    own, other = str(Path(os.sep, "own", scripts)), str(Path(os.sep, "other", scripts))
    base = {"VIRTUAL_ENV": str(Path(os.sep, "own")), "PATH": os.pathsep.join([own, own + os.sep, other])}
    assert scrubbed_environment(base, {}, keep_pythonpath=False)["PATH"] == other
