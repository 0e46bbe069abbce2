"""What the text of --environment means."""

from __future__ import annotations

from pathlib import Path

import pytest

from wrapper.arguments import parser, wish
from wrapper.bootstrapper.source import Source, parse_source
from wrapper.errors import UsageError


@pytest.mark.parametrize(
    ("text", "source"),
    {
        "locked": Source(),
        "python:C:\\Program Files\\Python\\python.exe": Source("python", "C:\\Program Files\\Python\\python.exe"),
        "python: my env": Source("python", "my env"),
        "conda": Source("conda"),
        "conda:tf1": Source("conda", "tf1"),
        "docker": Source("docker"),
        "podman:docker.io/tensorflow/tensorflow:1.12.0-gpu": Source("podman", "docker.io/tensorflow/tensorflow:1.12.0-gpu"),
    }.items(),
)
def test_it_is_read_and_written_again(text: str, source: Source) -> None:
    assert parse_source(text) == source
    assert parse_source(source.text) == source


INJECTED = ["conda:--help", "conda: -p/", "docker:-v/:/x", "docker:--privileged", "podman:--help", "podman: --all-tags"]


@pytest.mark.parametrize(
    "text", ["", "venv", "Conda", "conda:", "conda: ", "python", "python:", "locked:1.12", "C:\\Python36", ":", "docker,conda", *INJECTED]
)
def test_what_is_wrong_is_refused(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_source(text)
    assert text in caught.value.what or repr(text) in caught.value.what
    assert caught.value.remedy


def test_both_forms_at_once_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parser().parse_args(["run", "--python", "python3", "--environment", "conda"])
    assert "not allowed with argument" in capsys.readouterr().err


def test_the_short_form_means_the_long_one() -> None:
    short, long, neither = (wish(parser().parse_args(["bootstrap", *given])) for given in (["--python", "p"], ["--environment", "python:p"], []))
    assert short == long and short.source == Source("python", "p") and neither.source == Source()


def test_a_path_without_its_kind_is_told_how_to_be_written(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=f"--environment python:{tmp_path}"):
        parse_source(str(tmp_path))
