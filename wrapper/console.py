"""What the user sees in the terminal. Only `cli` makes one; everything else is handed it."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Self

from rich.console import Console as Terminal
from rich.live import Live
from rich.text import Text

from wrapper.reporter.resuming import own_program, resume_command
from wrapper.tables import counted, plain, table

if TYPE_CHECKING:
    from rich.table import Table

    from wrapper.batch_search import BatchSearch
    from wrapper.bootstrapper.host import Host
    from wrapper.bootstrapper.setup import Setup
    from wrapper.parser.output import Event
    from wrapper.reporter.content import Report
    from wrapper.reporter.noise import Noise
    from wrapper.reporter.side_by_side import SideBySide
    from wrapper.reporter.store import Trial
    from wrapper.runner.plan import PlannedTrial
    from wrapper.runner.sweep import Sweep

PLAIN_INTERVAL_S = 60.0
"""Where the terminal is a file, how far a trial is is shown this often at most."""
WIDEST_TABLE = 120
"""Columns of the terminal; where it is a file, too."""


class Console:
    """Plain lines, tables, and while a trial runs one live line (or plain ones when it is not a terminal).

    Everything is printed as text: rich's markup is not read, so a host's name or upstream's output can't colour or hide anything.
    """

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._live: Live | None = None
        self._started = self._shown = 0.0
        self._head = self._stage = ""
        self._seconds: list[float] = []
        self._left = 0

    @classmethod
    def on_this_terminal(cls) -> Console:
        terminal = Terminal(highlight=False, markup=False, emoji=False, soft_wrap=True)
        # a file has no width: rich would fold tables to 80 columns
        return cls(terminal if terminal.is_terminal else Terminal(highlight=False, markup=False, emoji=False, soft_wrap=True, width=200))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """Give the terminal back as it was, whatever broke a trial off."""
        self._stop_live()

    def say(self, text: str) -> None:
        self._terminal.print(plain(text))

    def show(self, parts: Iterable[str | Table]) -> None:
        """Lines and tables, in their order."""
        for part in parts:
            if isinstance(part, str):
                self.say(part)
            else:
                self._terminal.print(part, width=min(self._terminal.width, WIDEST_TABLE))

    def write(self, text: str) -> None:
        """Text that is to be copied, as it is."""
        self._terminal.out(text, end="", highlight=False)

    def trial_started(self, planned: PlannedTrial, done: int, total: int, release: str = "") -> None:
        """Show what begins.

        Args:
            done: trials that are over, of those of all releases.
            total: of all releases; 0 where that is not known.
            release: named where there are several; a trial's index counts those of its own release.
        """
        of = f" of {total}" if total and not release else ""
        what = f"{planned.case.name}, repeat {planned.repeat}"
        self._head = (
            f"{done + 1} of {total}: TensorFlow {release}, trial {planned.index}, {what}" if release else f"trial {planned.index}{of}: {what}"
        )
        self._left = total - done
        self._started, self._shown, self._stage = time.monotonic(), 0.0, "starting"
        if self._terminal.is_terminal:
            self._live = Live(get_renderable=self._line, console=self._terminal, refresh_per_second=4, transient=True)
            self._live.start()
        else:
            self.say(f"{self._head}{self._time_left()}")

    def line(self, event: Event, seconds: float) -> None:
        """A line of upstream's output, as it comes. Called in another thread."""
        if event.kind == "stage":
            self._stage = event.key
        elif event.kind == "step" and event.step is not None:
            self._stage = f"step {event.step.step}, {event.step.images_per_sec:.1f} images/sec so far"
        if self._live is None and seconds - self._shown >= PLAIN_INTERVAL_S:
            self._shown = seconds
            self.say(f"  {self._stage} ({seconds:.0f} s)")

    def trial_ended(self, trial: Trial) -> None:
        self._stop_live()
        self._seconds.append(trial.execution.seconds)
        judgement = trial.judgement
        if judgement.images_per_sec is not None:
            outcome = f"{judgement.images_per_sec:.2f} images/sec"
        else:
            outcome = f"{judgement.verdict.replace('_', ' ').upper()}: {judgement.reason}"
        warnings = "".join(f" [{warning.kind}]" for warning in judgement.warnings)
        self.say(f"{self._head}: {outcome}{warnings} ({trial.execution.seconds:.1f} s)")

    def show_plan(self, setups: Sequence[Setup], sweep: Sweep, host: Host, trials: Sequence[tuple[str, PlannedTrial]]) -> None:
        for setup in setups:
            self.show_setup(setup)
        gpus = ", ".join(gpu.name for gpu in host.gpus) or "no GPU"
        self.say(f"host:        {host.cpu}, {host.cores_logical} logical cores, {gpus}, {host.os}")
        self.say(
            f"sweep:       {sweep.name}: {counted(len(trials), 'trial')}, {sweep.repeats} of each case, {sweep.warmup_steps} + {sweep.steps} steps"
        )
        same: dict[tuple[str, str], list[PlannedTrial]] = {}
        for release, planned in trials:
            same.setdefault((release, shlex.join(planned.command)), []).append(planned)
        if len(same) < len(trials):
            self.say("order:       every case once, as below, then every case again; each command line stands below once")
        for (release, command), alike in same.items():
            on = f", TensorFlow {release}" if len(setups) > 1 else ""
            repeats = f"repeats {alike[0].repeat} to {alike[-1].repeat}" if len(alike) > 1 else f"repeat {alike[0].repeat}"
            self.say(f"trial{'s' * (len(alike) > 1)} {', '.join(str(one.index) for one in alike)}: {alike[0].case.name}, {repeats}{on}")
            self.say(f"      {command}")

    def show_setup(self, setup: Setup) -> None:
        release, environment = setup.release, setup.environment
        verified = "" if release.verified else " (not verified: this patch was never run by us)"
        self.say(f"release:     TensorFlow {release.tensorflow}{verified}: {setup.reason}")
        self.say(f"upstream:    {release.upstream_commit} ({release.upstream_ref}) in {setup.checkout.path}")
        image = f" in {environment.container.image} by {environment.container.engine}" if environment.container else ""
        self.say(f"environment: {environment.kind}, Python {environment.python_version}, {environment.python}{image}")
        seen = ", ".join(device.description or device.name for device in environment.devices if device.kind == "GPU")
        self.say(f"device:      {setup.device}{f' ({seen})' if seen else ''}")

    def show_report(self, report: Report, directory: Path) -> None:
        self.say(f"\n{report.title}")
        self._terminal.print(table(report.headline.headers, report.headline.rows, report.headline.align))
        self.say("; ".join(f"{name}: {value}" for name, value in report.common.items()))
        for line in report.warnings:
            self.say(f"note: {line}")
        self._explain(report.meanings)
        if report.failures:
            self.say(f"\n{counted(len(report.failures), 'trial')} without a valid figure")
            for failure in report.failures:
                self.say(f"{failure.index:4d}  {failure.case}, repeat {failure.repeat}: {failure.verdict}: {failure.reason}")
                self.say(f"      {failure.remedy}")
                self.say(f"      log: {directory / failure.place}")
                again = resume_command(str(directory), report.session.command, "--retry", str(failure.index), program=own_program())
                self.say(f"      again: {again}")
        for note in filter(None, (*report.notes, report.unfinished, report.notice)):
            self.say(note)
        self.say(f"report: {directory / 'report.md'} and report.html")
        if report.valid and not report.notice:
            self.say(f"beside published results: {own_program()} compare {shlex.quote(str(directory))}")

    def show_side_by_side(self, found: SideBySide, directory: Path) -> None:
        self.say(f"\n{found.title}")
        self.show([table(found.figures.headers, found.figures.rows, found.figures.align), f"{found.caption}."])
        for release, reason, remedy in found.left_out.rows:
            self.say(f"left out: TensorFlow {release}: {reason}. {remedy or ''}")
        for note in found.notes:
            self.say(f"note: {note}")
        self._explain(found.meanings)
        self.say(f"side by side: {directory / 'releases.md'} and releases.html")

    def show_noise(self, noise: Noise) -> None:
        self.say(f"\nA {noise.mean_a:.2f}, B {noise.mean_b:.2f} images/sec, B/A {noise.ratio:.4f}, {noise.n} trials each of the same case in turn")
        self.say(f"standard deviation of a trial: {noise.sd:.2%}")
        self.say(f"smallest difference that can be told apart today: {noise.smallest_difference:.2%} with {noise.n} trials on each side")
        self.say(f"with three trials on each side: {noise.smallest_difference_usual:.2%}")

    def show_batch_sizes(self, searches: Iterable[BatchSearch]) -> None:
        for found in searches:
            rows = []
            for row in found.rows:
                speed = "" if row.images_per_sec is None else f"{row.images_per_sec:.2f}"
                memory = "not known" if row.memory_bytes is None else f"{row.memory_bytes / 2**30:.1f} GiB"
                rows.append((str(row.batch), speed, memory, row.verdict + (", memory pressure" if row.memory_pressure else ""), row.log or ""))
            self._terminal.print(table(("Batch size per device", "Images/sec", "Memory", "Verdict", "Log"), rows, "rrrll"))
            self.say(found.conclusion)
            if found.best:
                self.say(f"highest throughput: {found.best.images_per_sec:.2f} images/sec at batch size {found.best.batch} (short trials, one each)")
            if found.pressure_from:
                self.say(f"memory pressure begins at batch size {found.pressure_from}")

    def _explain(self, meanings: Iterable[tuple[str, str]]) -> None:
        for kind, meaning in meanings:
            self.say(f"{kind}: {meaning}")

    def _stop_live(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _line(self) -> Text:
        seconds = time.monotonic() - self._started
        return Text(plain(f"{self._head}: {self._stage} ({seconds:.0f} s){self._time_left()}"), overflow="ellipsis", no_wrap=True)

    def _time_left(self) -> str:
        if not self._seconds or not self._left:
            return ""
        minutes, seconds = divmod(round(sum(self._seconds) / len(self._seconds) * self._left), 60)
        return f", about {minutes} min {seconds:02d} s left"
