"""Places that tests share."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[1]

# Started in the background (nohup, `&` in a script) the tests inherit ignored signals, and would hand them on to the programs that they test.
signal.signal(signal.SIGINT, signal.default_int_handler)
if hasattr(signal, "SIGHUP"):
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest tests go first: begun last by one process, they would let the others wait."""
    items.sort(key=lambda item: item.get_closest_marker("real") is None)


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
