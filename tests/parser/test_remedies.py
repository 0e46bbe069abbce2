"""The words for verdicts and warnings."""

from __future__ import annotations

import re
from pathlib import Path

from wrapper.parser.remedies import load_words
from wrapper.reporter.checks import check_case
from wrapper.runner.telemetry_summary import telemetry_warnings


def test_each_kind_of_warning_has_its_words(project: Path) -> None:
    sources = [path.read_text(encoding="utf-8") for path in (project / "wrapper").rglob("*.py")]
    kinds = {kind for source in sources for kind in re.findall(r'\bWarning\(\s*kind="(\w+)"', source)}
    assert {"nan_loss", "clock_disagrees", "coarse_total", "telemetry_lost"} <= kinds
    for function in (check_case, telemetry_warnings):
        listed = re.search(r"kinds:? ([\w, ]+)\.", function.__doc__ or "")
        assert listed
        kinds |= set(re.findall(r"\w+_\w+|drift|unstable|numerics|throttled", listed[1]))
    assert kinds | {"incomplete"} == set(load_words().warnings)
    assert not any(words.endswith(".") for words in load_words().warnings.values())
