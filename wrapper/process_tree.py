"""A started child and all its descendants: finding and ending them.

A child gets a session of its own and a mark in its environment. All its descendants inherit both, so that the whole tree is found again even where a
parent in it has exited and its children belong to init now (Jenkins finds what a build left behind in the same way).
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

import psutil

MARK = "TFCNN_PROCESS_MARK"
"""The environment variable that holds the mark."""
GRACE_S = 2.0
"""How long a tree has to end by itself after SIGTERM, before it is killed."""
KILL_S = 2.0
"""How long killed processes are waited for: one that hangs in a driver can't be ended by anybody."""
POLL_S = 0.02


class ProcessTree:
    """A child, started as the leader of a session and with `mark` in its environment, and all its descendants."""

    def __init__(self, child: subprocess.Popen[bytes], mark: str) -> None:
        self.child = child
        self._mark = mark

    def members(self) -> set[psutil.Process]:
        """The processes of the tree that are alive, the child included."""
        self.child.poll()  # a child that has ended is collected, so that it is not found as a zombie
        return set(self._find())

    def _find(self) -> Iterator[psutil.Process]:
        for pid in psutil.pids():
            with suppress(psutil.Error, OSError):  # it has just ended, or is another user's
                process = psutil.Process(pid)
                if self._owns(process) and process.status() != psutil.STATUS_ZOMBIE:
                    yield process

    def _owns(self, process: psutil.Process) -> bool:
        if sys.platform != "win32" and os.getsid(process.pid) == self.child.pid:
            return True
        return process.environ().get(MARK) == self._mark

    def end(self) -> set[psutil.Process]:
        """End the whole tree: SIGTERM, a grace of `GRACE_S`, then SIGKILL (Windows knows the latter alone).

        Returns:
            the processes that could not be ended.
        """
        return self._signal(psutil.Process.terminate, GRACE_S) and self._signal(psutil.Process.kill, KILL_S)

    def _signal(self, tell: Callable[[psutil.Process], None], patience_s: float) -> set[psutil.Process]:
        """Tell every member once, those that are born meanwhile too; the members that are still there when the patience ends."""
        told: set[psutil.Process] = set()
        deadline = time.monotonic() + patience_s
        while (members := self.members()) and time.monotonic() < deadline:
            for member in members - told:
                with suppress(psutil.Error):
                    tell(member)
            told |= members
            time.sleep(POLL_S)
        return members
