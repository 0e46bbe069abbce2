"""The commands: argument -> call -> exit code."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from wrapper.arguments import overrides, parser, request, wish
from wrapper.errors import EXIT_INVALID_TRIALS, EXIT_OK, Interrupted, UsageError, handle

if TYPE_CHECKING:
    from wrapper.console import Console


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command that `arguments` (by default those of the process) name; returns the exit code (design, rule 5)."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    for name in ("SIGTERM", "SIGBREAK"):  # SIGBREAK: Ctrl-Break, on Windows alone
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), _interrupt)
    return handle(lambda: _command(given), _complain, _keep_traceback)


def _command(given: list[str]) -> int:
    options = parser().parse_args(given)
    from wrapper.console import Console

    return COMMANDS[options.command](options, Console.on_this_terminal(), given)


def _run(options: argparse.Namespace, console: Console, given: list[str]) -> int:
    from wrapper import pipeline

    if options.retry and not options.resume:
        raise UsageError("--retry names trials of an earlier sweep", "Say which with --resume DIR")
    asked = request(options, given, overrides(options), resume=options.resume.resolve() if options.resume else None, retry=tuple(options.retry or ()))
    return pipeline.dry_run(asked, console) if options.dry_run else pipeline.run(asked, console)


def _noise(options: argparse.Namespace, console: Console, given: list[str]) -> int:
    from wrapper import pipeline

    keys = overrides(options) | {"repeats": 2 * options.pairs, "name": "noise"}
    if sum(len(sizes) for sizes in keys.get("models", {}).values()) > 1:
        raise UsageError("--models: noise is measured on one case", "Name one model with one batch size")
    keys.setdefault("models", {"resnet50": ()})
    console.show_noise(pipeline.measure_noise(request(options, given, keys), console))
    return EXIT_OK


def _batch_size(options: argparse.Namespace, console: Console, given: list[str]) -> int:
    from wrapper import pipeline
    from wrapper.runner.batch_size import unrelated

    keys = overrides(options) | {"models": dict.fromkeys(options.names, ("max",)), "name": "batch-size"}
    searches = pipeline.find_batch_sizes(request(options, given, keys), console)
    console.show_batch_sizes(searches)
    if any((ended := unrelated(one.rows)) and ended.verdict == "interrupted" for one in searches):
        return Interrupted.exit_code
    return EXIT_OK if all(one.size is not None for one in searches) else EXIT_INVALID_TRIALS


def _bootstrap(options: argparse.Namespace, console: Console, given: list[str]) -> int:
    from wrapper import pipeline

    console.show_setup(pipeline.bootstrap(wish(options), console))
    return EXIT_OK


def _releases(options: argparse.Namespace, console: Console, given: list[str]) -> int:
    from wrapper.bootstrapper.environment import find_pythons
    from wrapper.bootstrapper.release import load_releases

    console.show_releases(load_releases(), find_pythons())
    return EXIT_OK


def _report(options: argparse.Namespace, console: Console, given: list[str]) -> int:
    from wrapper import pipeline

    return pipeline.report_again(options.directory.resolve(), console)


COMMANDS: dict[str, Callable[[argparse.Namespace, Console, list[str]], int]] = {
    "run": _run,
    "noise": _noise,
    "batch-size": _batch_size,
    "bootstrap": _bootstrap,
    "releases": _releases,
    "report": _report,
}


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt


def _complain(line: str) -> None:
    sys.stderr.write(line + "\n")


def _keep_traceback() -> str:
    handle_, path = tempfile.mkstemp(prefix="tfcnn-bug-", suffix=".log")
    with os.fdopen(handle_, "w", encoding="utf-8") as file:
        traceback.print_exc(file=file)
    return path
