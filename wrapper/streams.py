"""Standard output and standard error, of which no trouble may end a sweep of hours."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, TextIO, cast


class Lasting:
    """A text stream that takes whatever is written to it, also when its encoding lacks a character and when its reader has gone."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        encoding = self._stream.encoding or "utf-8"
        with self._lasting():
            self._stream.write(text.encode(encoding, "replace").decode(encoding))
        return len(text)

    def flush(self) -> None:
        with self._lasting():
            self._stream.flush()

    @contextlib.contextmanager
    def _lasting(self) -> Iterator[None]:
        """What can't be written, such as after `| head` or a lost terminal, goes nowhere from then on.

        So does what Python still holds back, which would otherwise fail when it exits: https://docs.python.org/3/library/signal.html#note-on-sigpipe
        """
        try:
            yield
        except (OSError, ValueError):  # ValueError: the stream was closed
            with contextlib.suppress(OSError, ValueError):
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, self._stream.fileno())
                os.close(nowhere)


@contextlib.contextmanager
def lasting_streams(output: TextIO | None, errors: TextIO | None) -> Iterator[None]:
    """Let standard output and error be `Lasting` for the duration.

    Args:
        output, errors: `sys.stdout` and `sys.stderr`; None where the process was started without them.
    """
    with (
        Path(os.devnull).open("w", encoding="utf-8") as nowhere,
        contextlib.redirect_stdout(cast(IO[str], Lasting(output or nowhere))),
        contextlib.redirect_stderr(cast(IO[str], Lasting(errors or nowhere))),
    ):
        yield
