"""Places that tests share."""

from __future__ import annotations

from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[1]


@pytest.fixture(scope="session")
def project() -> Path:
    """The root of this project."""
    return PROJECT


@pytest.fixture(scope="session")
def shared() -> Path:
    """The developers' material beside the project; skips where it is absent."""
    folder = PROJECT.parent / "shared"
    if not folder.is_dir():
        pytest.skip("needs the developers' ../shared")
    return folder
