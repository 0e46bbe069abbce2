"""Standard output and error that outlive their reader."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from wrapper.streams import Lasting, lasting_streams

POSIX = pytest.mark.skipif(sys.platform == "win32", reason="a POSIX shell")
PRINTS = """
import sys
from wrapper.streams import lasting_streams
with lasting_streams(sys.stdout, sys.stderr):
    for number in range(20_000):
        print("a line \\u00b1", number)
        print("another", number, file=sys.stderr)
sys.exit(7)
"""


@pytest.mark.parametrize("encoding", ["ascii", "cp437", "cp1252", "utf-8", "utf-16"])
def test_characters_that_an_encoding_lacks_are_replaced(encoding: str) -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding, errors="strict")
    Lasting(stream).write("1 ± 2 – \U0001f600 \udcff\n")
    stream.flush()
    assert raw.getvalue().decode(encoding).startswith("1 ") and raw.getvalue().decode(encoding).endswith("\n")


def test_what_can_be_written_is_written_as_it_is() -> None:
    stream = io.StringIO()
    assert Lasting(stream).write("± ok\n") == 5
    assert stream.getvalue() == "± ok\n"


def test_a_reader_that_goes_away_stops_nothing_and_the_streams_are_put_back() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    before = sys.stdout, sys.stderr
    # it can be closed without an error: nothing is left in it that nobody takes
    with os.fdopen(writer, "w", encoding="utf-8") as stream, lasting_streams(stream, None):
        for _ in range(2):
            assert sys.stdout.write("a line " * 10_000) == 70_000
            sys.stdout.flush()
            sys.stderr.write("an error")
    assert (sys.stdout, sys.stderr) == before


@POSIX
@pytest.mark.parametrize("redirection", ["2>&1 | head -1", ">&- 2>&-", "> /dev/full 2>&1", "2>&1 >&- | head -1"])
def test_whatever_becomes_of_the_streams_the_exit_code_stays(redirection: str, tmp_path: Path) -> None:
    script = f'{{ "$0" -c "$1"; echo $? > {tmp_path}/code; }} {redirection}'
    subprocess.run(["sh", "-c", script, sys.executable, PRINTS], check=False, capture_output=True, timeout=60)
    assert (tmp_path / "code").read_text() == "7\n"
