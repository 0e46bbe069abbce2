"""The commands: argument -> call -> exit code."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from wrapper.arguments import overrides, parser, request, wish
from wrapper.errors import EXIT_BELOW_BOUND, EXIT_INVALID_TRIALS, EXIT_OK, FatalError, Interrupted, UsageError, handle
from wrapper.streams import lasting_streams

if TYPE_CHECKING:
    from wrapper.comparing import Against
    from wrapper.console import Console


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command that `arguments` (by default those of the process) name; returns the exit code (design, rule 5)."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    for name in ("SIGTERM", "SIGHUP", "SIGBREAK"):  # SIGHUP: a lost connection; SIGBREAK: Ctrl-Break, on Windows alone
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) != signal.SIG_IGN:  # nohup ignores SIGHUP
            signal.signal(number, _interrupt)
    with lasting_streams(sys.stdout, sys.stderr):
        return handle(lambda: _command(given), _complain, _keep_traceback)


def _command(given: list[str]) -> int:
    if emptied := next((word for word in given if word.startswith("--") and word.endswith("=--")), None):
        raise UsageError(f"{emptied} gives no value", "Write one")  # argparse would drop the -- and keep an empty list
    options = parser().parse_args(given)
    _check_places(given)
    from wrapper.console import Console

    with Console.on_this_terminal() as console:
        return COMMANDS[options.command](options, console, given)


def _check_places(given: list[str]) -> None:
    """Records name their paths and the command line in UTF-8, and relative paths need a directory to start from."""
    try:
        places = [*given, str(Path.cwd())]
    except FileNotFoundError:
        raise FatalError("the current directory no longer exists", "Change into one that does") from None
    for place in places:
        try:
            place.encode()
        except UnicodeEncodeError:
            raise UsageError(f"{place!r} is not UTF-8, which all records are in", "Give a path that is") from None


def _run(options: argparse.Namespace, console: Console, given: list[str]) -> int:
    from wrapper import pipeline

    if options.retry and not options.resume:
        raise UsageError("--retry names trials of an earlier sweep", "Say which with --resume DIR")
    if options.resume and (options.environment or options.python):  # also where it is named as it was, as the other options are
        raise UsageError("--environment and --python can't be followed: --resume goes on with the sweep as it was", "Leave it out")
    if options.as_published and (options.sweep or options.resume or options.demo):
        raise UsageError("--as-published is a sweep of its own", "Leave --sweep, --resume and --demo out")
    asked = request(options, given, overrides(options), resume=options.resume.resolve() if options.resume else None, retry=tuple(options.retry or ()))
    flow = pipeline.dry_run if options.dry_run else pipeline.run
    if not options.as_published:
        return flow(asked, console)
    from wrapper.bootstrapper.host import gpus_present
    from wrapper.comparing import about_published, as_published_requests

    requests = as_published_requests(asked, options.as_published)
    console.show(about_published(options.as_published, requests, gpu=bool(gpus_present())))
    return max(flow(one, console) for one in requests)


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
    import msgspec

    from wrapper import pipeline

    one = msgspec.structs.replace(wish(options), elsewhere=True)
    wishes = {release: msgspec.structs.replace(one, tensorflow=release) for release in (options.tensorflow or "").split(",") if release}
    return pipeline.bootstrap(wishes or {"": one}, console)


def _doctor(options: argparse.Namespace, console: Console, given: list[str]) -> int:
    from wrapper import views
    from wrapper.bootstrapper.examination import examine
    from wrapper.runner.lock import whose_sweep

    findings = examine(wish(options), deep=options.deep, other_sweep=whose_sweep())
    if options.json:
        console.write(views.doctor_json(findings))
    else:
        console.show(views.doctor_parts(findings))
    return FatalError.exit_code if any(finding.status == "fail" for finding in findings) else EXIT_OK


def _releases(options: argparse.Namespace, console: Console, given: list[str]) -> int:
    from wrapper import views
    from wrapper.bootstrapper.environment import find_pythons
    from wrapper.bootstrapper.host import nvidia_gpus
    from wrapper.bootstrapper.offers import Here, list_offers
    from wrapper.bootstrapper.proven import load_proven
    from wrapper.bootstrapper.release import load_releases
    from wrapper.bootstrapper.surroundings import lacking_libraries
    from wrapper.bootstrapper.wheels import this_system
    from wrapper.runner.sweep import load_models

    gpus, cuda_served, _ = nvidia_gpus()
    here = Here(pythons=find_pythons(), gpus=gpus, cuda_served=cuda_served, system=this_system(), lack=lacking_libraries)
    offers = list_offers(load_releases(), here, load_proven(), load_models())
    if options.json:
        console.write(views.releases_json(offers))
    else:
        console.show(views.releases_parts(offers))
    return EXIT_OK


def _report(options: argparse.Namespace, console: Console, given: list[str]) -> int:
    from wrapper import comparing, pipeline, views
    from wrapper.reporter.axis import is_axis
    from wrapper.reporter.reference import load_sources

    directory = options.directory.resolve()
    if is_axis(directory):
        if options.block or options.price or options.kwh or options.per_hour or options.against or options.baseline or options.strict:
            raise UsageError(f"{directory} holds the reports of several releases", "Name the directory of one of them, or give no more options")
        return pipeline.report_again(directory, console)
    if options.block:
        console.write(comparing.paste_block(directory))
        return EXIT_OK
    prices = {name: getattr(options, name) for name in ("price", "kwh", "per_hour")}
    against = _against(options, [directory])
    compared = [comparing.keep_comparison(directory, against)] if against.entries or against.baseline or against.strict else []
    cost = comparing.report_cost(directory, prices)
    code = pipeline.report_again(directory, console, prices)
    console.show(views.comparison_parts(compared, load_sources(), whole=options.all))
    if cost and any(prices.values()):
        console.show(views.cost_parts(cost))
    return code


def _compare(options: argparse.Namespace, console: Console, given: list[str]) -> int:
    from wrapper import comparing, views
    from wrapper.reporter.reference import load_sources

    if options.junit and options.fail_below is None:
        raise UsageError("--junit writes which cases pass a bound", "Give it with --fail-below, such as 0.95")
    compared = comparing.compare_reports(options.compared, _against(options, options.compared))
    console.show(views.comparison_parts([one.comparison for one in compared], load_sources(), whole=options.all))
    if options.json:
        comparing.write_benchmark_json(options.json, compared)
    if options.fail_below is None:
        return EXIT_OK
    if options.junit:
        comparing.write_junit(options.junit, compared, options.fail_below)
    reasons = comparing.hold_to(options.fail_below, compared)
    console.show(f"below the bound: {reason}" for reason in reasons)
    return EXIT_BELOW_BOUND if reasons else EXIT_OK


def _against(options: argparse.Namespace, reports: Sequence[Path]) -> Against:
    from wrapper.comparing import Against, find_baseline

    baseline = find_baseline(options.baseline, reports, options.reports) if options.baseline else None
    return Against(entries=tuple(options.against), baseline=baseline, strict=options.strict)


def _references(options: argparse.Namespace, console: Console, given: list[str]) -> int:
    from wrapper import views
    from wrapper.reporter.reference import Filter, load_references, load_sources, select, why_none

    wanted = {name: getattr(options, name) for name in ("gpu", "model", "source", "precision", "batch_size", "devices")}
    asked = Filter(**wanted, mode=options.mode and options.mode.replace("-", " "))
    references = load_references()
    found = select(references, asked)
    if not found:
        console.say(why_none(references, asked))
        return EXIT_OK
    if options.json:
        console.write(views.references_json(found, load_sources()))
        return EXIT_OK
    counted = views.reference_counts_parts if len(found) > views.MOST_FIGURES and not options.all else views.references_parts
    console.show((views.sources_parts if options.sources else counted)(found, load_sources()))
    return EXIT_OK


def _import(options: argparse.Namespace, console: Console, given: list[str]) -> int:
    from wrapper import views
    from wrapper.reporter.files import write_text_atomically
    from wrapper.reporter.importer import as_reports, import_logs, rows_csv

    imported = import_logs(options.paths)
    console.show(views.import_parts(imported, as_reports(imported.rows, "imported")))
    if options.csv:
        write_text_atomically(options.csv, rows_csv(imported.rows))
    if not imported.rows:
        raise FatalError("nothing that was named is a log of the benchmark", "Name a log, or a directory that holds logs")
    return EXIT_OK


def _verify(options: argparse.Namespace, console: Console, given: list[str]) -> int:
    from wrapper import views
    from wrapper.comparing import reports_in
    from wrapper.reporter.verification import verify, verify_side_by_side

    beside = verify_side_by_side(options.directory)
    console.show(views.finding_parts(beside))
    found = {directory: verify(directory) for directory in reports_in([options.directory])}
    for directory, verification in found.items():
        if beside or len(found) > 1:
            console.say(f"{directory}:")
        console.show(views.verification_parts(verification))
    return FatalError.exit_code if beside or any(verification.findings for verification in found.values()) else EXIT_OK


def _merge(options: argparse.Namespace, console: Console, given: list[str]) -> int:
    from wrapper import views
    from wrapper.comparing import reports_in
    from wrapper.reporter.merging import merge

    console.show(views.merge_parts(merge(reports_in(options.directories))))
    return EXIT_OK


def _site(options: argparse.Namespace, console: Console, given: list[str]) -> int:
    from wrapper.comparing import make_site
    from wrapper.tables import counted

    site = make_site(options.directories, options.out)
    console.show(f"left out: {name}: {reason}" for name, reason in site.left_out)
    if not site.pages:
        raise FatalError("not one report could be shown", "Name a report, a directory of reports, or one of logs")
    console.say(f"{counted(len(site.pages), 'report')}: {site.index}")
    return EXIT_OK


COMMANDS: dict[str, Callable[[argparse.Namespace, Console, list[str]], int]] = {
    "run": _run,
    "noise": _noise,
    "batch-size": _batch_size,
    "bootstrap": _bootstrap,
    "doctor": _doctor,
    "releases": _releases,
    "report": _report,
    "compare": _compare,
    "references": _references,
    "import": _import,
    "verify": _verify,
    "merge": _merge,
    "site": _site,
}


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt


def _complain(line: str) -> None:
    from wrapper.tables import plain

    sys.stderr.write(plain(" ".join(line.splitlines())) + "\n")


def _keep_traceback() -> str:
    handle_, path = tempfile.mkstemp(prefix="tfcnn-bug-", suffix=".log")
    with os.fdopen(handle_, "w", encoding="utf-8") as file:
        traceback.print_exc(file=file)
    return path
