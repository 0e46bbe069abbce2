"""Ends what the wrapper started where the wrapper itself was killed before it could: a program of its own beside each child.

    python -I -S guard.py MARK PLACES CLEANUP < pipe

Its standard input is a pipe of which the wrapper alone holds the other end, so that the system closes it however the wrapper ends. Through it comes
the child's process id, and `DONE` when the child and all its descendants have ended; a pipe that closes without that is a wrapper that was killed.
This works alike on Linux, macOS and Windows. Until then the guard imports next to nothing, because it starts at the same time as the child.

What it can't find is a descendant that left the child's session, dropped its environment and lost its parent, all three, before the wrapper
was killed.
"""

from __future__ import annotations

import os
import sys

DONE = b"done\n"
CLEANUP_LIMIT_S = 60.0
"""How long a command may take that removes what the child left outside of its processes."""


def main(mark: str, places: str, cleanup: str) -> None:
    """Wait for the wrapper's end and do then what it left to be done.

    Args:
        mark: that of the child, see `process_tree`.
        places: directories to import from what this needs then, as a list in JSON.
        cleanup: a command to run in the end, or nothing, as a list in JSON.
    """
    told = sys.stdin.buffer.read()
    if told.endswith(DONE):
        os._exit(0)  # at once, because the wrapper waits for it
    import json

    sys.path[:0] = json.loads(places)
    try:
        from wrapper.process_tree import ProcessTree

        ProcessTree(int(told or 0), mark).end()
    finally:
        clean_up(json.loads(cleanup))


def clean_up(command: list[str]) -> None:
    """Run a command that removes what a child left outside of its processes. That there is nothing to remove is not distinguished from success."""
    import subprocess
    from contextlib import suppress

    if command:
        with suppress(OSError, subprocess.SubprocessError):
            nothing = subprocess.DEVNULL
            subprocess.run(command, stdin=nothing, stdout=nothing, stderr=nothing, timeout=CLEANUP_LIMIT_S, check=False)


if __name__ == "__main__":
    main(*sys.argv[1:])
