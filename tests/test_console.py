"""What is printed while a sweep runs: to a terminal, and to what is none."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from e2e_kit import Product, only_report
from rich.console import Console as Terminal

from wrapper.console import Console
from wrapper.parser.output import read_line
from wrapper.parser.verdict import Judgement
from wrapper.process import Execution
from wrapper.reporter.store import Trial
from wrapper.runner.plan import PlannedTrial, plan_trials
from wrapper.runner.sweep import Case

pytest_plugins = ["e2e_kit"]

HOSTILE = "\x1b]0;owned\x07\x1b[2J\x9b31m[bold red]\r"
POSIX = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pseudo-terminals of this kind")


def printed_by(console_call, **options: object) -> str:
    file = io.StringIO()
    console_call(Console(Terminal(file=file, highlight=False, markup=False, emoji=False, soft_wrap=True, **options)))
    return file.getvalue()


@pytest.mark.parametrize("terminal", [True, False])
def test_text_of_others_cannot_steer_the_terminal(terminal: bool) -> None:
    printed = printed_by(lambda console: console.say(f"host {HOSTILE} :smile: /path 12 'x' https://example.invalid"), force_terminal=terminal)
    assert printed == "host ?]0;owned??[2J?31m[bold red]? :smile: /path 12 'x' https://example.invalid\n"


STAGE, STEP = b"Running warm up\n", b"7\timages/sec: 225.3 +/- 0.0 (jitter = 0.0)\t7.051\n"


@pytest.mark.parametrize(("ends", "minutes"), [(59, 0), (61, 1), (185, 3)])
def test_a_file_gets_a_line_when_a_trial_starts_and_ends_and_one_a_minute(ends: int, minutes: int) -> None:
    def watch(console: Console) -> None:
        planned, trial = a_trial(1)
        console.trial_started(planned, 0, 1)
        for second in range(1, ends):
            event = read_line(STAGE if second < 30 else STEP)
            assert event is not None
            console.line(event, float(second))
        console.trial_ended(trial)

    head, *between, end = printed_by(watch).splitlines()
    assert head == "trial 1 of 1: trivial-b2-fp32-cpu1, repeat 1" and end.startswith(f"{head}: 1.00 images/sec")
    assert between == [f"  step 7, 225.3 images/sec so far ({minute * 60} s)" for minute in range(1, minutes + 1)]


def a_trial(index: int) -> tuple[PlannedTrial, Trial]:
    case = Case(model="trivial", batch_size=2, device="cpu")
    (planned,) = plan_trials([case], rounds=[1], python="python", script="script", first_index=index)
    execution = Execution(exit_code=0, started="2026-01-01T00:00:00Z", seconds=90.0)
    judgement = Judgement(verdict="ok", images_per_sec=1.0)
    return planned, Trial(index=index, case=case, repeat=1, command=planned.command, execution=execution, judgement=judgement, log="log")


@pytest.mark.parametrize(
    ("total", "left"), [(3, ", about 3 min 00 s left"), (0, "")], ids=["of a sweep", "of a search, which ends nobody knows when"]
)
def test_the_time_left_is_shown_where_it_is_known(total: int, left: str) -> None:
    def watch(console: Console) -> None:
        planned, trial = a_trial(1)
        console.trial_started(planned, 0, total)
        console.trial_ended(trial)
        console.trial_started(a_trial(2)[0], min(1, total), total)

    lines = printed_by(watch).splitlines()
    assert "left" not in lines[0]
    assert lines[2] == f"trial 2{' of 3' if total else ''}: trivial-b2-fp32-cpu1, repeat 1{left}"


def on_a_terminal(product: Product, *arguments: str, **variables: str) -> tuple[int, str]:
    """Run a command of the product in a pseudo-terminal of 100 columns; exit code and all that the terminal got."""
    import fcntl
    import pty
    import struct
    import termios

    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
    plain = {
        name: value for name, value in product.variables(TERM="xterm", **variables).items() if name not in ("NO_COLOR", "FORCE_COLOR", "COLUMNS")
    }
    process = subprocess.Popen(
        product.command(*arguments), cwd=product.root, env=plain, stdin=slave, stdout=slave, stderr=slave, start_new_session=True
    )
    os.close(slave)
    received = b""
    try:
        while True:
            received += os.read(master, 65536)
    except OSError:  # how Linux says that nobody holds the other end any more
        pass
    finally:
        os.close(master)
        process.wait(timeout=30)
    return process.returncode, received.decode("utf-8")


def shown_cursor(received: str) -> bool:
    return received.rfind("\x1b[?25h") >= received.rfind("\x1b[?25l")


@POSIX
def test_the_live_line_of_a_terminal(product: Product, interpreters: dict[str, str], tmp_path: Path) -> None:
    arguments = product.sweep(tmp_path / "reports", "--models", "trivial=2,vgg16=2", "--steps", "20", "--repeats", "1")
    code, received = on_a_terminal(product, *arguments, FAKE_BEHAVIOURS="vgg16=hostile", FAKE_STEP_S="0.05")
    assert code == 4, received
    assert re.search(r"trial 1 of 2: trivial-b2-fp32-cpu1, repeat 1: step \d+, [\d.]+ images/sec so far \(\d+ s\)", received)
    assert "\x1b[2K" in received and "\x1b[?25l" in received, "no line was ever repainted"
    assert shown_cursor(received)
    assert re.search(r"trial 1 of 2: trivial-b2-fp32-cpu1, repeat 1: [\d.]+ images/sec", received)

    assert "owned" in received, "the hostile error was not shown at all"
    assert not re.search(r"\x1b\]|\x1b\[2J|\x1b\[31m|\x07", received)
    assert "\x1b" not in (only_report(tmp_path / "reports") / "report.md").read_text(encoding="utf-8")


@POSIX
def test_the_cursor_comes_back_when_records_cannot_be_written(product: Product, interpreters: dict[str, str], tmp_path: Path) -> None:
    reports = tmp_path / "reports"
    arguments = product.sweep(reports, "--models", "trivial=2", "--repeats", "1")
    code, received = on_a_terminal(product, *arguments, FAKE_BEHAVIOURS="trivial=squat", FAKE_REPORTS=str(reports))
    assert code == 1, received
    assert "trials.jsonl" in received
    assert shown_cursor(received)
