"""A started child and all its descendants: finding and ending them.

A child gets a session of its own and a mark in its environment. Its descendants inherit both, so that the whole tree is found again even where a
parent in it has exited and its children belong to init now (Jenkins finds what a build left behind in the same way). One that left the session and
dropped its environment is found by its parents; on Linux also without them, because orphans come to the wrapper there (`adopt_orphans`).
"""

from __future__ import annotations

import math
import os
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
_PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h


class ProcessTree:
    """A child, started as the leader of a session and with a mark in its environment, and all its descendants."""

    def __init__(self, pid: int, mark: str, *, adopting: bool = False) -> None:
        """
        Args:
            pid: the child's; 0 where it isn't known.
            mark: the child's.
            adopting: this process started the child, and called `adopt_orphans` before with success: the tree is below it then.
        """
        self._pid = pid
        self._mark = mark
        self._adopting = adopting
        self._born = math.inf
        with suppress(psutil.Error):
            self._born = psutil.Process(pid).create_time()

    def members(self) -> set[psutil.Process]:
        """The processes of the tree that are alive, the child included."""
        parents: dict[psutil.Process, int] = {}
        members: set[psutil.Process] = set()
        for process in self._candidates():
            with suppress(psutil.Error, OSError), process.oneshot():  # it has just ended
                if process.status() != psutil.STATUS_ZOMBIE:
                    parents[process] = process.ppid()
                    if self._owns(process):
                        members.add(process)
        while born := _children(members, parents) - members:
            members |= born
        return members

    def _candidates(self) -> Iterator[psutil.Process]:
        if self._adopting:  # a hundred times faster than to look at all processes
            yield from psutil.Process().children(recursive=True)
            return
        for pid in psutil.pids():
            with suppress(psutil.Error):
                yield psutil.Process(pid)

    def _owns(self, process: psutil.Process) -> bool:
        if sys.platform != "win32" and self._pid and os.getsid(process.pid) == self._pid:
            return True
        try:
            mark = process.environ().get(MARK)
        except (psutil.Error, OSError):  # another user's, or one that has made itself unreadable
            mark = None
        return mark == self._mark or (mark is None and self._adopted(process))

    def _adopted(self, process: psutil.Process) -> bool:
        """Whether it is an orphan that came to this process. What this process itself starts is older, in its session, or bears a mark."""
        if sys.platform == "win32" or not self._adopting or process.ppid() != os.getpid():
            return False
        return process.create_time() >= self._born and os.getsid(process.pid) != os.getsid(0)

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
        self._collect(told)
        return members

    def _collect(self, ended: set[psutil.Process]) -> None:
        """Take note of the ends of orphans that came to this process, so that no zombies stay. The child itself is its starter's to collect."""
        if sys.platform != "win32":
            for process in ended:
                if process.pid != self._pid:
                    with suppress(ChildProcessError):
                        os.waitpid(process.pid, os.WNOHANG)


def adopt_orphans(wanted: bool) -> bool:
    """Let descendants whose parent ends become children of this process, so that none gets out of sight, or of init again.

    Returns:
        whether they do now: Linux alone has it.
    """
    if sys.platform != "linux":
        return False
    import ctypes

    return bool(ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, int(wanted), 0, 0, 0) == 0) and wanted


def _children(members: set[psutil.Process], parents: dict[psutil.Process, int]) -> set[psutil.Process]:
    """The children of members. Windows does not clear a parent's id when that has ended, so that an id may be that of a younger process."""
    born = {member.pid: member.create_time() for member in members}
    return {process for process, parent in parents.items() if parent in born and born[parent] <= process.create_time()}
