"""What a report says of how its trials were started."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from wrapper.reporter.facts import command_lines


@pytest.mark.parametrize(
    ("system", "value", "shown"),
    [
        ("Ubuntu 24.04", "/home/jane/cuda/lib64:/opt/env/nvidia/cudnn/lib", "LD_LIBRARY_PATH='…/lib64:…/lib' "),
        ("Ubuntu 24.04", ":/home/jane/secret/lib64", "LD_LIBRARY_PATH=':…/lib64' "),
        ("Windows 10", "C:\\Users\\jane\\cuda\\bin;D:\\x\\lib", 'set "LD_LIBRARY_PATH=…/bin;…/lib"'),
    ],
)
def test_a_list_of_directories_shows_none_of_them(make_trial: Any, system: str, value: str, shown: str) -> None:
    trial = msgspec.structs.replace(make_trial(1, 290.0), variables={"LD_LIBRARY_PATH": value})
    text = "\n".join(command_lines(trial, {"os": system}))
    assert text.startswith(shown.strip()) and "jane" not in text
