"""What was started ends whichever way the wrapper goes: real processes, killed for real."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from wrapper.process import Execution, run_captured, run_logged

posix = pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals and sessions")
linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux hands orphans to another process than init")

WRAPPER = """
import json, os, sys
from pathlib import Path
from wrapper.process import run_captured, run_logged
way, directory, command, cleanup = sys.argv[1], Path(sys.argv[2]), json.loads(sys.argv[3]), json.loads(sys.argv[4])
if way == "captured":
    run_captured(command, cwd=directory, time_limit_s=60)
else:
    run_logged(command, cwd=directory, environment=os.environ, stdout_path=directory / "stdout", stderr_path=directory / "stderr",
               times_path=directory / "times", time_limit_s=60, cleanup=cleanup)
"""

# each child tells that it is ready by the ids of all its processes, and then prints nothing
CHILD = """
import os, signal, subprocess, sys, time
def tell(*pids):
    with open("pids.new", "w") as file:
        file.write(" ".join(map(str, pids)))
    os.replace("pids.new", "pids")
def start(code, **options):
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.DEVNULL, **options)
nap = "import time; time.sleep(60)"
"""
KINDS = {
    "silent": "tell(os.getpid())",
    "deaf to SIGTERM": "signal.signal(signal.SIGTERM, signal.SIG_IGN); tell(os.getpid())",
    "with a descendant": "tell(os.getpid(), start(nap).pid)",
    "with a session of a descendant's": "tell(os.getpid(), start(nap, start_new_session=True).pid)",
    "with a descendant that dropped all": "tell(os.getpid(), start(nap, start_new_session=True, env={}).pid)",
}
POSIX_KINDS = {
    "without its environment": 'os.execve(sys.executable, [sys.executable, \'-c\', \'import os, time\\nopen("pids", "w").write(str(os.getpid()))\\n'
    "time.sleep(60)'], {})",
    "with an orphan": """
if os.fork() == 0:
    os.setsid()
    if os.fork():
        os._exit(0)
    tell(os.getppid(), os.getpid())
    time.sleep(60)
""",
}


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def child(code: str) -> list[str]:
    return python(f"{CHILD}\n{code}\ntime.sleep(60)")


def wait_until(condition: Callable[[], object], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "did not happen in time"
        time.sleep(0.02)


def alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


class Wrapper:
    """A process like ours that waits for a child, with the guard beside it."""

    def __init__(self, directory: Path, code: str, *, way: str = "logged", cleanup: tuple[str, ...] = ()) -> None:
        self._told = directory / "pids"
        command = [*python(WRAPPER), way, str(directory), json.dumps(child(code)), json.dumps(cleanup)]
        self.process = subprocess.Popen(command, cwd=Path(__file__).parents[1], start_new_session=True)
        wait_until(self._told.exists)
        wait_until(lambda: self._told.read_text())
        self.started = [int(pid) for pid in self._told.read_text().split()]
        self.everybody = [self.process.pid, *self.started, *(child.pid for child in psutil.Process(self.process.pid).children(recursive=True))]

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def wait_for_the_end_of_all(self) -> None:
        wait_until(lambda: not any(alive(pid) for pid in self.everybody))


@pytest.fixture
def wrap(tmp_path: Path) -> Iterator[Callable[..., Wrapper]]:
    wrappers: list[Wrapper] = []

    def make(code: str, **options: object) -> Wrapper:
        wrappers.append(Wrapper(tmp_path, code, **options))  # type: ignore[arg-type]
        return wrappers[-1]

    yield make
    for pid in (pid for wrapper in wrappers for pid in wrapper.everybody if alive(pid)):
        psutil.Process(pid).kill()


def run(directory: Path, command: list[str], *, time_limit_s: float = 30, cleanup: tuple[str, ...] = ()) -> Execution:
    places = {name: directory / name.removesuffix("_path") for name in ("stdout_path", "stderr_path", "times_path")}
    return run_logged(command, cwd=directory, environment=os.environ, time_limit_s=time_limit_s, cleanup=cleanup, **places)


def leaving_a_mark(directory: Path) -> tuple[str, ...]:
    """A command that adds a line to a file."""
    return (sys.executable, "-c", "import sys\nopen(sys.argv[1], 'a').write('cleaned up\\n')", str(directory / "mark"))


# the wrapper is killed


@pytest.mark.parametrize("kind", KINDS)
def test_a_killed_wrapper_leaves_neither_a_child_nor_a_guard(wrap: Callable[..., Wrapper], kind: str) -> None:
    wrapper = wrap(KINDS[kind])
    assert all(alive(pid) for pid in wrapper.started)
    assert len(wrapper.everybody) > len(wrapper.started) + 1  # the guard
    wrapper.kill()
    wrapper.wait_for_the_end_of_all()


@posix
@pytest.mark.parametrize("kind", POSIX_KINDS)
def test_a_killed_wrapper_leaves_nothing_on_posix(wrap: Callable[..., Wrapper], kind: str) -> None:
    wrapper = wrap(POSIX_KINDS[kind])
    wrapper.kill()
    wrapper.wait_for_the_end_of_all()


def test_a_killed_wrapper_leaves_no_helper_program(wrap: Callable[..., Wrapper]) -> None:
    wrapper = wrap(KINDS["deaf to SIGTERM"], way="captured")
    wrapper.kill()
    wrapper.wait_for_the_end_of_all()


@posix
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGHUP])
def test_a_signal_to_the_wrappers_whole_group_leaves_nothing(wrap: Callable[..., Wrapper], number: int) -> None:
    wrapper = wrap(KINDS["with a descendant"])
    os.killpg(wrapper.process.pid, number)
    wrapper.process.wait()
    wrapper.wait_for_the_end_of_all()


def test_what_a_child_leaves_outside_is_removed_when_the_wrapper_is_killed(wrap: Callable[..., Wrapper], tmp_path: Path) -> None:
    wrapper = wrap(KINDS["silent"], cleanup=leaving_a_mark(tmp_path))
    assert not (tmp_path / "mark").exists()
    wrapper.kill()
    wait_until((tmp_path / "mark").exists)
    wrapper.wait_for_the_end_of_all()


# the wrapper lives


@pytest.mark.parametrize("limit_s", [30, 1])
def test_what_a_child_leaves_outside_is_removed_once(tmp_path: Path, limit_s: float) -> None:
    run(tmp_path, python(f"import time; time.sleep({0 if limit_s == 30 else 60})"), time_limit_s=limit_s, cleanup=leaving_a_mark(tmp_path))
    assert (tmp_path / "mark").read_text() == "cleaned up\n"


@pytest.mark.parametrize("cleanup", [("a-program-that-does-not-exist",), (sys.executable, "-c", "import sys; sys.exit(1)")])
def test_nothing_to_remove_is_no_error(tmp_path: Path, cleanup: tuple[str, ...]) -> None:
    assert run(tmp_path, python("pass"), cleanup=cleanup).error is None


def test_no_guard_is_left_when_the_child_has_ended_or_could_not_start(tmp_path: Path) -> None:
    before = set(psutil.Process().children())
    run(tmp_path, python("pass"))
    run(tmp_path, ["a-program-that-does-not-exist"])
    run_captured(python("pass"), time_limit_s=30)
    assert set(psutil.Process().children()) <= before


def test_a_child_is_measured_also_where_its_guard_was_ended(tmp_path: Path) -> None:
    # what an earlier test left to be collected is a zombie, which has no command line
    killing = """
import psutil, sys
alive = [each for each in psutil.Process().parent().children() if each.status() != psutil.STATUS_ZOMBIE]
guards = [each for each in alive if each.cmdline()[1:3] == ["-I", "-S"]]
for each in guards:
    each.kill()
sys.exit(70 + len(guards))
"""
    execution = run(tmp_path, python(killing))
    assert (execution.exit_code, execution.error) == (71, None)


@linux
def test_an_orphan_that_dropped_all_is_found_at_the_childs_end_and_no_zombie_stays(tmp_path: Path) -> None:
    forking = """
orphan = "import os, time\\nif os.fork(): os._exit(0)\\nopen('pids', 'w').write(str(os.getpid()))\\ntime.sleep(60)"
start(orphan, start_new_session=True, env={}).wait()
while not (os.path.exists("pids") and open("pids").read()):
    time.sleep(0.01)
os._exit(0)
"""
    before = set(psutil.Process().children())
    execution = run(tmp_path, child(forking))
    assert (execution.exit_code, execution.ended_by, execution.leftovers) == (0, "exit", 1)
    assert not alive(int((tmp_path / "pids").read_text()))
    assert set(psutil.Process().children()) <= before


@posix
def test_a_process_of_its_own_session_that_somebody_else_started_is_left_alone(tmp_path: Path) -> None:
    bystander = subprocess.Popen(python("import time; time.sleep(60)"), start_new_session=True)
    try:
        wait_until(lambda: psutil.Process(bystander.pid).status() == psutil.STATUS_SLEEPING)
        run(tmp_path, child("pass"), time_limit_s=0.5)
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()
