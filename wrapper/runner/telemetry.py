"""Sample the host and its GPUs while a trial runs.

The readings are plain CSV, one row per reading. At 5 Hz and one GPU that is about 30 kB a minute, so compression would save nothing that matters,
while a plain file keeps all but its last second when the wrapper is killed, and opens in any spreadsheet. Empty cells were not read at that time
(columns that cost more are read less often) or are not offered by the device.
"""

from __future__ import annotations

import csv
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import msgspec
import psutil

from wrapper.runner.gpu_sampler import COLUMNS, FAST_COLUMNS, SECOND_COLUMNS, TRAFFIC_COLUMNS, DeviceEvidence, Gpus, Value, Witness

PERIOD_S = 0.2
CPU_SHARE = 0.008
"""Of one core. A sampler that needs more (many devices, a slow driver) reads less often instead."""
CPU_CREDIT_S = 0.02
"""Spent before the share counts: the first calls are slower, and Windows counts a thread's time in steps of 16 ms."""
SECOND_S = 1.0
"""Between looks at links and processes."""
SELDOM_S = 5.0
"""Between readings of PCIe traffic (one device in turn), which block for 40 ms, and searches for the child's descendants, which read all of /proc."""

HOST_COLUMNS = ("seconds", "cpu_percent", "memory_used_bytes", "child_cpu_percent")
"""Seconds since the child's start; load of all CPUs; host memory in use; CPU of the child and its descendants, 100 being one core."""


class Sampled(msgspec.Struct, frozen=True, kw_only=True):
    """What a sampler leaves besides its file."""

    evidence: tuple[DeviceEvidence, ...] = ()
    notes: tuple[str, ...] = ()
    """What could not be sampled, and since when."""
    readings: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    """CPU time of the sampler itself."""

    @property
    def seen_on(self) -> tuple[int, ...]:
        """The devices on which the trial was present and of which nothing says that it did no work there."""
        return tuple(one.device for one in self.evidence if one.present and one.worked is not False)


class Sampler:
    """Made before the child starts (it takes the idle readings), told when the child runs, stopped when it has ended."""

    def __init__(self, path: Path, gpus: Gpus) -> None:
        self._path = path
        self._gpus = gpus
        self._witnesses = [Witness(device) for device in gpus.devices]
        self._notes: list[str] = []
        self._lost: set[int] = set()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._sampled = Sampled(notes=tuple(gpus.notes))

    def start(self, pid: int, started: float, find_root: Callable[[], int | None] | None = None) -> None:
        """Begin to sample.

        Args:
            pid: the child.
            started: `time.monotonic()` at its start: the zero of the column `seconds`.
            find_root: where the work is done by processes that don't descend from the child (a container's): asked each second, until it knows, for
                the one that they descend from. Until then no process is taken for one of the trial or of others.
        """
        self._thread = threading.Thread(target=self._run, args=(pid, started, find_root), name="telemetry", daemon=True)
        self._thread.start()

    def stop(self) -> Sampled:
        """End sampling, close the file, and conclude. May be called again."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        return self._sampled

    def _run(self, pid: int, started: float, find_root: Callable[[], int | None] | None) -> None:
        budget = _Budget()
        table = _Table(self._path)
        try:
            self._sample(pid, started, find_root, budget, table)
        except Exception as error:  # readings must never cost a trial, whatever goes wrong with them
            self._notes.append(f"sampling ended {time.monotonic() - started:.1f} s after the start: {error}")
        self._notes += table.close()
        meaningful = any(witness.sees_processes() for witness in self._witnesses)
        self._sampled = Sampled(
            evidence=tuple(witness.evidence(ids_mean_something=meaningful) for witness in self._witnesses),
            notes=(*self._gpus.notes, *self._notes),
            readings=budget.readings,
            seconds=budget.seconds(),
            cpu_seconds=budget.cpu_seconds(),
        )

    def _sample(self, pid: int, started: float, find_root: Callable[[], int | None] | None, budget: _Budget, table: _Table) -> None:
        """Write a row per reading until the sampler is stopped, and a last one then: the end of the timed window lies between two readings."""
        table.write([*HOST_COLUMNS, *(f"gpu{witness.device.index}_{column}" for witness in self._witnesses for column in COLUMNS)])
        tree = _Tree(pid)
        root = pid if find_root is None else None
        next_second = next_seldom = 0.0
        turn = 0
        psutil.cpu_percent(None)  # the first call has nothing to compare with
        stopped = False
        while not stopped:
            stopped = self._stop.wait(budget.pause())
            now = budget.begin_reading()
            every_second, seldom = stopped or now >= next_second, not stopped and now >= next_seldom
            if every_second and root is None and find_root is not None:
                root = find_root()
                tree = _Tree(root or pid)
            if seldom:
                tree.search()
                next_seldom, turn = now + SELDOM_S, turn + 1
            row: list[Value] = [round(now - started, 3), psutil.cpu_percent(None), psutil.virtual_memory().used, tree.cpu_percent(now)]
            for at, witness in enumerate(self._witnesses):
                columns = [*FAST_COLUMNS, *(SECOND_COLUMNS if every_second else ())]
                columns += TRAFFIC_COLUMNS if seldom and turn % len(self._witnesses) == at else ()
                row += self._read(witness, columns, root if every_second else None, now - started)
            table.write(row)
            if every_second:
                next_second = now + SECOND_S
                table.flush()

    def _read(self, witness: Witness, columns: Iterable[str], pid: int | None, seconds: float) -> list[Value]:
        device = witness.device
        reading = device.read(columns)
        witness.note_reading(reading)
        if pid is not None:
            witness.note_processes(pid)
        if device.lost and device.index not in self._lost:
            self._lost.add(device.index)
            self._notes.append(f"GPU {device.index} was lost {seconds:.1f} s after the start: {device.lost}")
        return [reading.get(column) for column in COLUMNS]


@contextmanager
def sampling(path: Path, device_indices: Iterable[int], *, nvml: Any = None) -> Iterator[Sampler]:
    """Open the devices and take the idle readings; on leaving, stop the sampler and close NVML.

    Call `start` on what it yields when the child runs, and `stop` when it has ended; the result is what `stop` returns.

    Args:
        path: the CSV file to write; its directory exists.
        device_indices: NVML's numbers of the devices to watch (`Gpu.index`); none for the host part alone.
        nvml: what stands in for the `pynvml` module.
    """
    gpus = Gpus(device_indices, nvml)
    sampler = Sampler(path, gpus)
    try:
        yield sampler
    finally:
        sampler.stop()
        gpus.close()


class _Table:
    """The CSV file. A disk that is full costs the readings, not the evidence: what follows is still looked at, and no longer written."""

    def __init__(self, path: Path) -> None:
        self._file: IO[str] | None = None
        self._error: OSError | None = None
        with self._noting_errors():
            self._file = path.open("w", encoding="utf-8", newline="")
            self._writer = csv.writer(self._file, lineterminator="\n")

    def write(self, row: list[Value]) -> None:
        if self._file is not None and self._error is None:
            with self._noting_errors():
                self._writer.writerow(row)

    def flush(self) -> None:
        if self._file is not None and self._error is None:
            with self._noting_errors():
                self._file.flush()

    def close(self) -> list[str]:
        """Returns a note where not every reading could be written."""
        if self._file is not None:
            with self._noting_errors():
                self._file.close()
        return [f"not all readings are on disk: {self._error}"] if self._error else []

    @contextmanager
    def _noting_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self._error = error


class _Budget:
    """The sampler's pace: `PERIOD_S`, or slower where that would take more than `CPU_SHARE` of a core."""

    def __init__(self) -> None:
        self.readings = 0
        self._began = self._last = time.monotonic()
        self._cpu_began = time.thread_time()

    def begin_reading(self) -> float:
        """Count a reading; returns its time on the monotonic clock."""
        self.readings += 1
        self._last = time.monotonic()
        return self._last

    def pause(self) -> float:
        """Seconds to wait before the next reading."""
        affordable = self._began + (self.cpu_seconds() - CPU_CREDIT_S) / CPU_SHARE
        return max(0.0, max(self._last + PERIOD_S, affordable) - time.monotonic())

    def seconds(self) -> float:
        return time.monotonic() - self._began

    def cpu_seconds(self) -> float:
        """CPU time of the calling thread since the budget was made in it."""
        return time.thread_time() - self._cpu_began


class _Tree:
    """The child and its descendants, for the CPU time that they use."""

    def __init__(self, pid: int) -> None:
        self._members: dict[int, psutil.Process] = {}
        self._times: dict[int, float] = {}
        self._read_at: float | None = None
        with suppress(psutil.Error):
            self._members[pid] = psutil.Process(pid)
        self._root = self._members.get(pid)

    def search(self) -> None:
        """Look for descendants that came since."""
        if self._root is not None:
            with suppress(psutil.Error):
                self._members.update({child.pid: child for child in self._root.children(recursive=True)})

    def cpu_percent(self, now: float) -> float | None:
        """CPU time per wall time since the last call, in percent of one core; None at first and when nobody is left."""
        used = 0.0
        for pid, process in list(self._members.items()):
            try:
                times = process.cpu_times()
            except psutil.Error:
                del self._members[pid]
                continue
            total = times.user + times.system
            used += total - self._times.get(pid, total)
            self._times[pid] = total
        before, self._read_at = self._read_at, now
        return round(100 * used / (now - before), 1) if self._members and before is not None else None
