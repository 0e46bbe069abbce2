"""Work that no Ctrl-C breaks off."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import TypeVar

SLICE_S = 0.1
"""How often Ctrl-C is looked for: Windows can't interrupt a longer wait by it."""

_Result = TypeVar("_Result")


def shielded(work: Callable[[threading.Event], _Result]) -> tuple[_Result, bool]:
    """Do `work` in a thread, where no signal interrupts it: Ctrl-C is raised in the main thread alone.

    Args:
        work: gets an event that is set when Ctrl-C is pressed; it should end soon then.

    Returns:
        what it returned, and whether Ctrl-C was pressed.

    Raises:
        Exception: what `work` raises.
    """
    interrupt, bell, future = threading.Event(), queue.SimpleQueue[None](), Future[_Result]()

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
    return future.result(), interrupted
