"""The tables that people keep by hand explain themselves."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from wrapper.bootstrapper.release import TABLE

TABLES = ("releases.yaml", "wheels.yaml", "conda.yaml", "images.yaml", "commits.yaml")


def fields(content: Any) -> Iterator[str]:
    """The keys of all mappings that are names of fields, not versions, systems, commits or environment variables."""
    for key, value in content.items() if isinstance(content, dict) else ():
        if re.fullmatch("[a-z_]+", str(key)):
            yield key
        yield from fields(value)
    for each in content if isinstance(content, list) else ():
        yield from fields(each)


@pytest.mark.parametrize("name", TABLES)
def test_the_header_explains_each_field_and_names_where_it_was_read(name: str) -> None:
    text = TABLE.with_name(name).read_text(encoding="utf-8")
    header = "".join(line for line in text.splitlines(keepends=True) if line.startswith("#"))
    assert text.startswith(header), "the explanations stand at the top"
    content = yaml.safe_load(text)
    rows = content.popitem()[1] if len(content) == 1 else content  # the one key that holds all rows is the table's name
    unexplained = {field for field in fields(rows) if not re.search(rf"\b{field}\b", header)}
    assert not unexplained
    assert "https://" in header or "scripts/" in header
