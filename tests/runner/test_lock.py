"""One sweep at a time on a machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from wrapper.errors import FatalError
from wrapper.runner.lock import one_sweep_at_a_time

HOLD = """
import sys
from pathlib import Path
from wrapper.runner.lock import one_sweep_at_a_time
with one_sweep_at_a_time("reports/first", folder=Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def hold(folder: Path) -> subprocess.Popen[str]:
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None and holder.stdout.readline() == "held\n"
    return holder


def test_the_second_is_refused_and_told_whose_the_first_is(tmp_path: Path) -> None:
    with hold(tmp_path) as holder:
        with pytest.raises(FatalError, match=rf"process {holder.pid}, in 'reports/first'"), one_sweep_at_a_time("second", folder=tmp_path):
            pass
        holder.communicate()
    with one_sweep_at_a_time("second", folder=tmp_path):
        pass


def test_a_killed_holder_leaves_nothing_behind(tmp_path: Path) -> None:
    with hold(tmp_path) as holder:
        holder.kill()
    with one_sweep_at_a_time("second", folder=tmp_path):
        pass


def test_a_place_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(FatalError, match="file"), one_sweep_at_a_time("x", folder=tmp_path / "file"):
        pass


def test_the_machines_lock_does_not_follow_the_users_temporary_directory(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "from wrapper.runner.lock import FOLDER; print(FOLDER)"]
    shown = {subprocess.check_output(command, env=os.environ | {"TMPDIR": str(place)}) for place in (tmp_path, "/")}
    assert sys.platform == "win32" or len(shown) == 1


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A file of the user's that a stranger's link leads to."""
    path = tmp_path / "victim"
    path.write_text("mine", encoding="utf-8")
    return path


@pytest.mark.skipif(sys.platform == "win32", reason="makes links and pipes")
@pytest.mark.parametrize("plant", ["symlink_to", "hardlink_to", "mkfifo"])
def test_what_stands_in_the_notes_place_is_neither_written_nor_waited_for(tmp_path: Path, victim: Path, plant: str) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    note = folder / "sweep.json"
    if plant == "mkfifo":
        os.mkfifo(note)
    else:
        getattr(note, plant)(victim)
    with one_sweep_at_a_time("first", folder=folder):
        assert victim.read_text(encoding="utf-8") == "mine"
        assert note.is_file() and not note.is_symlink()


@pytest.mark.skipif(sys.platform == "win32", reason="makes links and pipes")
@pytest.mark.parametrize("kind", ["pipe", "link", "endless", "binary"])
def test_a_planted_note_is_not_believed(tmp_path: Path, kind: str) -> None:
    folder, note = tmp_path / "folder", tmp_path / "folder" / "sweep.json"
    with hold(folder) as holder:
        true_note = tmp_path / "true.json"
        note.rename(true_note)
        if kind == "pipe":
            os.mkfifo(note)
        elif kind == "link":
            note.symlink_to(true_note)
        elif kind == "endless":
            note.symlink_to("/dev/zero")
        else:
            note.write_bytes(b'{"user": "\xff", "pid": 1, "directory": ""}')
        with pytest.raises(FatalError, match="whose is not known"), one_sweep_at_a_time("second", folder=folder):
            pass
        holder.communicate()


@pytest.mark.skipif(sys.platform == "win32", reason="makes links and pipes")
@pytest.mark.parametrize("kind", ["pipe", "link"])
def test_a_lock_that_is_no_file_is_refused(tmp_path: Path, victim: Path, kind: str) -> None:
    lock = tmp_path / "sweep.lock"
    if kind == "pipe":
        os.mkfifo(lock)
    else:
        lock.symlink_to(victim)
    with pytest.raises(FatalError, match=r"sweep\.lock is a link or no file"), one_sweep_at_a_time("x", folder=tmp_path):
        pass
    assert victim.read_text(encoding="utf-8") == "mine"


@pytest.mark.skipif(sys.platform == "win32", reason="makes links")
def test_a_folder_that_is_a_link_is_refused_and_what_it_leads_to_keeps_its_mode(tmp_path: Path) -> None:
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    (tmp_path / "tfcnn").symlink_to(private)
    with pytest.raises(FatalError, match="is a link"), one_sweep_at_a_time("x", folder=tmp_path / "tfcnn"):
        pass
    assert private.stat().st_mode & 0o777 == 0o700
    assert list(private.iterdir()) == []
