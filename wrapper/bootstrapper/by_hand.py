"""A commit of upstream that the user names for a release, in place of the one that the release is known to run."""

from __future__ import annotations

import re

import msgspec

from wrapper.bootstrapper.release import Release, load_releases
from wrapper.shipped import DATA, read_table

BY_HAND = "given by hand with --commit"
"""The `upstream_ref` of such a commit."""

_OF_AGE = re.compile(r"ImportError|ModuleNotFoundError|AttributeError|TypeError|NameError|FATAL Flags|Unknown command line flag|Invalid model name")
"""What upstream's code ends with where it calls a TensorFlow of another time, or is given flags and models of another time."""


def with_commit(release: Release, commit: str) -> Release:
    """The release with another commit of upstream; the same where it is the release's own."""
    return release if commit == release.upstream_commit else msgspec.structs.replace(release, upstream_commit=commit, upstream_ref=BY_HAND)


def load_dates() -> dict[str, str]:
    """The day (YYYY-MM-DD) of each commit that a release names."""
    return read_table(DATA / "commits.yaml", dict[str, str])


def age(release: Release, date: str) -> str:
    """How a commit given by hand stands to its TensorFlow, as a sentence; empty where it is of the same day as the known one.

    Args:
        release: with that commit.
        date: of the commit, YYYY-MM-DD.
    """
    row = [row for row in load_releases() if row.minor == release.minor][-1]
    proven = load_dates().get(row.upstream_commit, date)
    if date == proven:
        return ""
    return (
        f"This commit, of {date}, is {'older' if date < proven else 'newer'} than this TensorFlow: {release.tensorflow} is known to run with "
        f"{row.upstream_commit[:12]} of {proven}; leave --commit out to take that."
    )


def is_of_age(verdict: str, reason: str) -> bool:
    """Whether a trial failed in a way that a commit too old or too new for its TensorFlow explains."""
    if verdict == "library_missing":
        return "No module named" in reason
    return verdict in ("version_mismatch", "bad_flag", "unknown_model") or (verdict == "failed" and bool(_OF_AGE.search(reason)))
