"""What ends a command, and how it is said."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from wrapper.cli import main
from wrapper.errors import FatalError, handle

EXAMPLE = Path(__file__).parents[1] / "reports" / "example"


@pytest.mark.parametrize(
    ("what", "said"),
    [("it is gone", "it is gone. Restore it"), ("is it there?", "is it there? Restore it"), ("see its help.", "see its help. Restore it")],
)
def test_a_sentence_ends_once(what: str, said: str) -> None:
    assert str(FatalError(what, "Restore it")) == said


def refuse(number: int, name: str | None) -> int:
    raise OSError(number, os.strerror(number), name)


@pytest.mark.parametrize("name", ["reports", None])
@pytest.mark.parametrize(
    ("number", "code"), [(errno.EACCES, 1), (errno.EPERM, 1), (errno.ENOSPC, 1), (errno.EROFS, 1), (errno.EIO, 1), (errno.EBADF, 3)]
)
def test_what_the_system_refuses_is_no_bug(number: int, code: int, name: str | None) -> None:
    said: list[str] = []
    assert handle(lambda: refuse(number, name), said.append, lambda: "kept.log") == code
    assert len(said) == 1 and os.strerror(number) in said[0] and (code == 3) == ("a bug" in said[0])


COMMANDS = (
    *(["verify"], ["report"], ["compare"], ["import"], ["merge"], ["run", "--resume"]),
    ["compare", str(EXAMPLE), "--baseline"],
)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="needs a user to whom a directory can be closed")
@pytest.mark.parametrize("below", ["", "x"])
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_directory_that_may_not_be_looked_into(command: list[str], below: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0)
    try:
        code = main([*command, str(closed / below)])
    finally:
        closed.chmod(0o700)
    assert code in (1, 2) and "a bug" not in capsys.readouterr().err


@pytest.mark.parametrize(
    "command",
    [["import", str(EXAMPLE), "--csv", "below/x.csv"], ["site", "below/x", str(EXAMPLE)], ["compare", str(EXAMPLE), "--json", "below/x.json"]],
    ids=" ".join,
)
def test_where_nothing_was_measured_no_sweep_is_to_be_gone_on_with(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "below").write_text("a file, below which nothing can be made", encoding="utf-8")
    assert main(command) == 1
    said = capsys.readouterr().err
    assert "name another place" in said and "--resume" not in said
