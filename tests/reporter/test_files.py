"""What every record is read and written by."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from wrapper.errors import FatalError
from wrapper.reporter.axis import AXIS_FILE, read_axis
from wrapper.reporter.kept import COMPARISON_FILE, read_asked
from wrapper.reporter.store import SESSION_FILE, TRIALS_FILE, read_records, read_session

DEEP = 100_000
READERS: dict[str, Callable[[Path], Any]] = {
    SESSION_FILE: read_session,
    TRIALS_FILE: read_records,
    AXIS_FILE: read_axis,
    COMPARISON_FILE: read_asked,
}


@pytest.mark.parametrize(
    "content",
    [b"", b"\n", b"{", b"[" * DEEP, b'{"a":' * DEEP, b'{"sweep":' + b"[" * DEEP, b"\xff", b"\0", b"null", b"1e999"],
    ids=lambda text: repr(text[:9]),
)
@pytest.mark.parametrize(("name", "read"), READERS.items(), ids=READERS)
def test_whatever_a_record_holds_it_is_read_or_refused_by_name(name: str, read: Callable[[Path], Any], content: bytes, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content + b"\n{}\n" if name == TRIALS_FILE and content.strip() else content)
    if name == TRIALS_FILE and not content.strip():
        assert read(tmp_path).trials == ()
        return
    with pytest.raises(FatalError, match=name.replace(".", r"\.")):
        read(tmp_path)
