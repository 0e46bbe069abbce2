"""Directories of the machine in free text."""

from __future__ import annotations

import pytest

from wrapper.reporter.paths import short_path, without_directories


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("it is what /opt/env/bin/python has", "it is what …/python has"),
        ("No such file: '/home/jane doe/x/imagenet'", "No such file: '…/imagenet'"),
        ('File "C:\\Users\\Jane Doe\\x.py", line 3', 'File "…/x.py", line 3'),
        ("from C:\\Users\\Jane Doe\\data set\\x.py, line 3", "from …/x.py, line 3"),
        ("\\\\server\\share\\x\\y", "…/y"),
        ("(defined at /home/x/benchmark_cnn.py:2980)", "(defined at …/benchmark_cnn.py:2980)"),
        ("at /home/jane doe/env/session.py:1370", "at …/session.py:1370"),
        ("in /home/jane and ~/data/x", "in ~ and …/x"),
        ("file:///home/jane/x.txt", "…/x.txt"),
        ("PATH=/home/a/lib:/home/b/lib", "PATH=…/lib"),
    ],
)
def test_absolute_paths_lose_their_directories(text: str, shown: str) -> None:
    assert without_directories(text) == shown
    assert without_directories(shown) == shown


@pytest.mark.parametrize(
    "text",
    [
        "https://github.com/tensorflow/benchmarks.git",
        "on /job:localhost/replica:0/task:0/device:GPU:0 and '/device:GPU:0'",
        "give /dev/shm more room",
        "1 images/sec and/or 3/4, resnet50/conv1/BatchNorm",
        "it's a '/' in it",
        "logs/001-resnet50.stdout, line 3",
    ],
)
def test_what_is_no_path_of_the_machine_stays(text: str) -> None:
    assert without_directories(text) == text


def test_one_path_may_hold_anything() -> None:
    assert [short_path(text) for text in ("/home/jane doe/image net", "C:\\a (b)\\c d", "imagenet")] == ["…/image net", "…/c d", "imagenet"]
