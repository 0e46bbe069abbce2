"""The command that goes on with a sweep."""

from __future__ import annotations

import shlex
import sys

import pytest

from wrapper.reporter.resuming import resume_command

KEPT = {
    "nothing": ([], []),
    "what the records hold": (["--tensorflow", "1.12.0", "--models", "trivial=2", "--reports", "x"], []),
    "where things are": (["--vendor", "my vendor", "--steps", "5", "--upstream=/a/b"], ["--vendor", "my vendor", "--upstream=/a/b"]),
    "how it was measured": (["--unproven-device", "--device", "gpu", "--no-telemetry"], ["--unproven-device", "--no-telemetry"]),
    "a word that is missing": (["--vendor"], ["--vendor"]),
}


@pytest.mark.skipif(sys.platform == "win32", reason="the quotes of a POSIX shell")
@pytest.mark.parametrize(("given", "kept"), KEPT.values(), ids=KEPT.keys())
@pytest.mark.parametrize("directory", ["/reports/one", "/my reports/a;b $(c)'d\"", "DIR"])
def test_it_can_be_pasted_and_says_where_things_are(given: list[str], kept: list[str], directory: str) -> None:
    command = resume_command(directory, ["tfcnn", "run", *given], "--retry", "3")
    assert shlex.split(command) == ["tfcnn", "run", "--resume", directory, "--retry", "3", *kept]
