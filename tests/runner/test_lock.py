"""One sweep at a time on a machine."""

from __future__ import annotations

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
