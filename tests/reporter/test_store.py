"""The records: nothing acknowledged is lost, nothing damaged is read as if it were whole."""

from __future__ import annotations

import json
import math
import os
import re
import signal
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest

from wrapper.errors import FatalError
from wrapper.parser.output import Step
from wrapper.reporter.store import (
    TRIALS_FILE,
    append_trial,
    check_resumable,
    create_report_directory,
    read_records,
    read_session,
    read_trials,
    write_session,
)


def test_directory_is_named_after_date_sweep_release_and_gpu(tmp_path: Path, make_session: Any) -> None:
    assert create_report_directory(tmp_path / "reports", make_session()).name == "2026-11-30-all-1.12.0-nvidia-h200"
    assert create_report_directory(tmp_path / "reports", make_session()).name == "2026-11-30-all-1.12.0-nvidia-h200-2"
    assert create_report_directory(tmp_path / "reports", make_session()).name == "2026-11-30-all-1.12.0-nvidia-h200-3"
    assert create_report_directory(tmp_path, make_session(device="cpu")).name == "2026-11-30-all-1.12.0-cpu"
    assert create_report_directory(tmp_path, make_session(), name_parts=("mine", "2.0", "cpu")).name == "2026-11-30-mine-2.0-cpu"


def test_demo_directory_says_so(tmp_path: Path, make_session: Any) -> None:
    session = make_session(demo=True, device="cpu", sweep={"name": "demo"}, release={"tensorflow": "demo"})
    assert create_report_directory(tmp_path, session).name == "2026-11-30-DEMO-cpu"


@pytest.mark.parametrize(
    "name", ["../../etc", "a:b*?<>|\"'$(rm)`\\", "con", "x" * 500, "tab\tnewline\n\x1b[31m\u202egnp", "dot.", "...", "", "Grafik-Süd é", "-rf"]
)
def test_directory_name_is_safe_on_every_system(tmp_path: Path, make_session: Any, name: str) -> None:
    directory = create_report_directory(tmp_path, make_session(sweep={"name": name}, host={"gpus": [{"name": name, "driver": "1"}]}))
    assert directory.parent == tmp_path
    assert re.fullmatch(r"2026-11-30(-[A-Za-z0-9.]+)+", directory.name)
    assert not directory.name.endswith(".")
    assert ".." not in directory.name
    assert len(directory.name) < 160


def _create(arguments: tuple[str, bytes]) -> str:
    from wrapper.reporter.store import Session

    return create_report_directory(Path(arguments[0]), msgspec.json.decode(arguments[1], type=Session)).name


def test_two_at_once_never_share_a_directory(tmp_path: Path, make_session: Any) -> None:
    encoded = msgspec.json.encode(make_session())
    with ProcessPoolExecutor(max_workers=2) as pool:
        names = list(pool.map(_create, [(str(tmp_path), encoded)] * 40))
    assert len(set(names)) == 40


def test_session_comes_back_as_written(tmp_path: Path, make_session: Any) -> None:
    write_session(tmp_path, make_session())
    assert read_session(tmp_path) == make_session()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["session.json"]


def test_newer_format_asks_for_an_upgrade(tmp_path: Path, make_session: Any) -> None:
    write_session(tmp_path, make_session(format=2))
    with pytest.raises(FatalError, match=r"made by a newer version\. Upgrade"):
        read_session(tmp_path)


@pytest.mark.parametrize(
    ("part", "key", "value"),
    [
        ("host", "gpus", ["x"]),
        ("host", "gpus", {"a": 1}),
        ("host", "gpus", 3),
        ("environment", "packages", ["numpy"]),
        ("environment", "packages", {"numpy": 1}),
    ],
)
def test_a_part_of_another_shape_is_named(tmp_path: Path, make_session: Any, part: str, key: str, value: object) -> None:
    session = make_session()
    write_session(tmp_path, make_session(**{part: getattr(session, part) | {key: value}}))
    with pytest.raises(FatalError, match=rf"session\.json is damaged .*{key}"):
        read_session(tmp_path)


@pytest.mark.parametrize("content", ["", "{", '{"format": 1}', '{"format": "1"}', "[]", "\x00\x00"])
def test_damaged_session_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / "session.json").write_text(content, encoding="utf-8")
    with pytest.raises(FatalError, match=r"session\.json is damaged"):
        read_session(tmp_path)


@pytest.mark.skipif(sys.platform == "win32", reason="makes pipes and links")
@pytest.mark.parametrize("kind", ["pipe", "device", "directory"])
@pytest.mark.parametrize("name", ["session.json", TRIALS_FILE])
def test_records_are_read_from_regular_files_only(tmp_path: Path, name: str, kind: str) -> None:
    if kind == "pipe":
        os.mkfifo(tmp_path / name)
    elif kind == "device":
        (tmp_path / name).symlink_to("/dev/zero")
    else:
        (tmp_path / name).mkdir()
    with pytest.raises(FatalError, match=rf"{re.escape(name)} is no regular file"):
        (read_session if name == "session.json" else read_records)(tmp_path)


def test_directory_without_records_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FatalError, match="not a report directory"):
        read_session(tmp_path / "nowhere")
    assert read_trials(tmp_path) == ()


def test_trials_come_back_as_written_in_order_of_index(tmp_path: Path, make_trial: Any) -> None:
    trials = [make_trial(2, 130.05), make_trial(1, None, judgement={"reason": 'torn "line"\n\x1b[31m \u202e <script>'})]
    for trial in trials:
        append_trial(tmp_path, trial)
    assert read_trials(tmp_path) == (trials[1], trials[0])


def test_later_line_replaces_the_earlier_one(tmp_path: Path, make_trial: Any) -> None:
    for trial in (make_trial(1, None), make_trial(2, 2.0), make_trial(1, 1.0)):
        append_trial(tmp_path, trial)
    assert [trial.judgement.images_per_sec for trial in read_trials(tmp_path)] == [1.0, 2.0]


def test_non_finite_values_can_be_read_back(tmp_path: Path, make_trial: Any) -> None:
    steps = (Step(1, 5.0, 0.0, 0.0, math.nan, 30), Step(10, math.nan, 0.0, 0.0, 1.0, 31), Step(20, 5.0, math.inf, 0.0, 1.0, 32))
    append_trial(tmp_path, make_trial(1, 5.0, steps=steps))
    assert read_trials(tmp_path)[0].steps == (Step(1, 5.0, 0.0, 0.0, None, 30),)


def test_a_cut_anywhere_in_the_last_line_loses_only_that_line(tmp_path: Path, make_trial: Any) -> None:
    first, second, third = (make_trial(index, float(index), judgement={"reason": "é\u202e"}) for index in (1, 2, 3))
    append_trial(tmp_path, first)
    path = tmp_path / TRIALS_FILE
    kept = path.read_bytes()
    append_trial(tmp_path, second)
    whole = path.read_bytes()
    for length in (*range(len(kept), len(whole) - 3, 7), len(whole) - 2, len(whole) - 1, len(whole)):
        path.write_bytes(whole[:length])
        complete = length >= len(whole) - 1
        expected = (first, second) if complete else (first,)
        records = read_records(tmp_path)
        assert records.trials == expected
        assert len(records.notes) == (0 if complete or length == len(kept) else 1)
        append_trial(tmp_path, third)
        assert read_records(tmp_path).trials == (*expected, third)
        assert read_records(tmp_path).notes == records.notes


def test_zeros_after_a_power_cut_are_left_out(tmp_path: Path, make_trial: Any) -> None:
    append_trial(tmp_path, make_trial(1, 1.0))
    with (tmp_path / TRIALS_FILE).open("ab") as file:
        file.write(b"\0" * 4096)
    append_trial(tmp_path, make_trial(2, 2.0))
    assert [trial.index for trial in read_trials(tmp_path)] == [1, 2]


@pytest.mark.parametrize("damage", [b'{"index":', b"{}", b"null", b"\xff\xfe", b"garbage"])
def test_damaged_line_in_the_middle_is_named(tmp_path: Path, make_trial: Any, damage: bytes) -> None:
    append_trial(tmp_path, make_trial(1, 1.0))
    with (tmp_path / TRIALS_FILE).open("ab") as file:
        file.write(damage + b"\n")
    append_trial(tmp_path, make_trial(3, 3.0))
    with pytest.raises(FatalError, match="line 2: not a trial"):
        read_trials(tmp_path)


def test_strictly_typed(tmp_path: Path, make_trial: Any) -> None:
    record = msgspec.to_builtins(make_trial(1, 1.0))
    record["judgement"]["images_per_sec"] = "130.05"
    (tmp_path / TRIALS_FILE).write_text(json.dumps(record) + "\n", encoding="utf-8")
    with pytest.raises(FatalError, match=r"line 1: not a trial \(Expected `float \| null`, got `str`"):
        read_trials(tmp_path)


_APPENDER = """
import sys
from pathlib import Path
import msgspec
from wrapper.reporter.store import Trial, append_trial
trial = msgspec.json.decode(sys.argv[2], type=Trial)
for index in range(1, 1_000_000):
    append_trial(Path(sys.argv[1]), msgspec.structs.replace(trial, index=index))
    print(index, flush=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL is POSIX")
@pytest.mark.parametrize("acknowledged", [1, 20, 57])
def test_killed_writer_loses_no_acknowledged_trial(tmp_path: Path, make_trial: Any, acknowledged: int) -> None:
    command = [sys.executable, "-c", _APPENDER, str(tmp_path), msgspec.json.encode(make_trial(1, 1.0, log="x" * 20_000)).decode()]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(acknowledged)]
        os.kill(process.pid, signal.SIGKILL)
        lines += process.stdout.readlines()
    last = max(int(line) for line in lines if line.endswith("\n"))
    indexes = [trial.index for trial in read_trials(tmp_path)]
    assert indexes == list(range(1, len(indexes) + 1))
    assert len(indexes) >= last >= acknowledged


@pytest.fixture
def small_disk(tmp_path: Path) -> Any:
    directory = tmp_path / "disk"
    directory.mkdir()
    mounted = (
        sys.platform == "linux"
        and not subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(directory)], capture_output=True).returncode
    )
    if not mounted:
        pytest.skip("needs the right to mount a small file system")
    yield directory
    subprocess.run(["umount", str(directory)], check=True)


def test_full_disk_keeps_what_was_finished(small_disk: Path, make_trial: Any, make_session: Any) -> None:
    append_trial(small_disk, make_trial(1, 1.0))
    write_session(small_disk, make_session())
    with pytest.raises(FatalError, match=r"The disk is full, while recording trial 2 .*, whose result is lost\. Finished trials are kept"):
        append_trial(small_disk, make_trial(2, 2.0, log="x" * 100_000))
    assert [trial.index for trial in read_trials(small_disk)] == [1]
    with pytest.raises(FatalError, match=r"The disk is full, while writing session\.json"):
        write_session(small_disk, make_session(choice="x" * 100_000))
    assert read_session(small_disk) == make_session()
    assert sorted(path.name for path in small_disk.iterdir()) == ["session.json", TRIALS_FILE]


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"release": {"tensorflow": "1.13.1"}}, "release was 1.12.0, is 1.13.1"),
        ({"upstream": {"commit": "f" * 40}}, f"upstream commit was ec056be{'0' * 33}, is {'f' * 40}"),
        ({"environment": {"python_version": "3.6.15", "packages": {"numpy": "1.16.5"}}}, "package numpy was 1.16.4, is 1.16.5"),
        ({"environment": {"python_version": "3.6.15", "packages": {"numpy": "1.16.4", "six": "1"}}}, "package six was absent, is 1"),
        ({"environment": {"python_version": "3.7.16", "packages": {"numpy": "1.16.4"}}}, "Python was 3.6.15, is 3.7.16"),
        ({"device": "cpu"}, "device was gpu, is cpu"),
    ],
)
def test_changed_conditions_refuse_to_resume(make_session: Any, changes: dict[str, Any], named: str) -> None:
    with pytest.raises(FatalError, match=re.escape(named)):
        check_resumable(make_session(), make_session(**changes))


@pytest.mark.parametrize(
    ("hardware", "named"),
    [
        ({"cpu": "another"}, "CPU was Intel(R) Xeon(R) CPU @ 2.20GHz, is another"),
        ({"gpus": []}, "GPU was NVIDIA H200, is absent"),
        ({"gpus": [{"name": "NVIDIA H200", "driver": "580.1"}]}, "GPU driver was 570.86, is 580.1"),
        ({"gpus": [{"name": "NVIDIA H200", "driver": "570.86"}] * 2}, "GPU was NVIDIA H200, is NVIDIA H200, NVIDIA H200"),
    ],
)
def test_changed_hardware_refuses_to_resume(make_session: Any, hardware: dict[str, Any], named: str) -> None:
    session = make_session()
    with pytest.raises(FatalError, match=re.escape(named)):
        check_resumable(session, msgspec.structs.replace(session, host=session.host | hardware))


def test_another_wrapper_version_is_only_noted(make_session: Any) -> None:
    assert check_resumable(make_session(), make_session()) == ()
    assert check_resumable(make_session(), make_session(versions={"tfcnn": "0.2.0", "python": "3.11.7"})) == ("version of tfcnn was 0.1.0, is 0.2.0",)
