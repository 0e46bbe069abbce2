"""A log of a pipe, with the arrival of each line noted beside it. Constant memory, however long a line is."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO

CHUNK_BYTES = 65536
LINE_HEAD_BYTES = 65536
"""No more of a line than this is kept for `on_line`."""


class StampedLog(threading.Thread):
    """Copies the child's standard output into its log as it comes, and notes when each line came."""

    def __init__(self, pipe: IO[bytes], stdout_path: Path, times_path: Path, start: float, on_line: Callable[[bytes, float], None] | None) -> None:
        super().__init__(daemon=True)  # a process that can't be killed may keep the pipe open for ever
        self.finished = threading.Event()
        self.failure: Exception | None = None
        self._pipe, self._stdout_path, self._times_path, self._start, self._on_line = pipe, stdout_path, times_path, start, on_line

    def run(self) -> None:
        try:
            with self._pipe, self._stdout_path.open("wb") as log, self._times_path.open("w", encoding="ascii", newline="\n") as times:
                self._copy(log, times)
        except Exception as failure:  # looked at by the thread that attends to the child
            self.failure = failure
        finally:
            self.finished.set()

    def _copy(self, log: IO[bytes], times: IO[str]) -> None:
        times.write("line,seconds\n")
        number = 0
        head = b""  # of the line that is not complete yet
        seconds = 0.0
        while chunk := self._pipe.read(CHUNK_BYTES):
            seconds = time.monotonic() - self._start
            log.write(chunk)
            log.flush()
            *complete, rest = chunk.split(b"\n")
            for part in complete:
                number += 1
                self._note(times, number, seconds, head + part)
                head = b""
            times.flush()
            head = (head + rest)[:LINE_HEAD_BYTES]
        if head:
            self._note(times, number + 1, seconds, head)

    def _note(self, times: IO[str], number: int, seconds: float, line: bytes) -> None:
        times.write(f"{number},{seconds:.6f}\n")
        if self._on_line is not None:
            self._on_line(line[:LINE_HEAD_BYTES], seconds)
