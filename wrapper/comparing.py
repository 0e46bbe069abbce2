"""Reports and other people's logs beside published figures and each other: the flow of the commands that run nothing, and sweeps as published."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

import msgspec

from wrapper.errors import FatalError, UsageError
from wrapper.opening import Request
from wrapper.reporter.analysis import summarise
from wrapper.reporter.block import block
from wrapper.reporter.comparison import Comparison, compare
from wrapper.reporter.cost import Cost, cost
from wrapper.reporter.files import write_text_atomically
from wrapper.reporter.gate import below, benchmark_json, junit_xml
from wrapper.reporter.importer import Imported, ImportedReport, as_references, as_reports, import_logs
from wrapper.reporter.kept import COMPARISON_FILE, Asked, compare_again, comparing_with, comparison_json
from wrapper.reporter.matching import conditions_of, references_from
from wrapper.reporter.reference import Reference, as_published, load_sources
from wrapper.reporter.report import read_report
from wrapper.reporter.site import Site, write_site
from wrapper.reporter.store import SESSION_FILE, read_session, read_trials

_BELOW = (f"*/{SESSION_FILE}", f"*/*/{SESSION_FILE}")


class Against(msgspec.Struct, frozen=True, kw_only=True):
    """What reports are compared with."""

    entries: tuple[str, ...] = ()
    """Sources, and names of GPUs and CPUs; empty: all published figures, or the baseline alone where there is one."""
    baseline: Path | None = None
    """Another report, or a directory of logs."""
    strict: bool = False


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """A report, and what came of comparing it."""

    report: ImportedReport
    comparison: Comparison


def find_baseline(name: str, reports: Sequence[Path], home: Path) -> Path:
    """The directory that --baseline names: one of the reports compared, by its name; a directory; or a report in `home`, by its name.

    Raises:
        UsageError: there is none.
    """
    named = [path for path in reports if path.resolve().name == name]
    found = next((path for path in (*named, Path(name), home / name) if path.exists()), None)
    if found is None:
        raise UsageError(f"there is no report {name!r} to be the baseline", f"Name a directory, one of the reports compared, or one in {home}")
    return found.resolve()


def compare_reports(reports: Sequence[Path], against: Against) -> tuple[Compared, ...]:
    """Set each report beside references; the baseline is not compared with itself, unless it is all there is.

    Args:
        reports: report directories, or files and trees of other people's logs, which make a report for each machine, GPU and release.
        against: what to compare with.

    Raises:
        FatalError: a report is missing, damaged or a demo, or a tree holds no log that can be compared.
        UsageError: an entry is neither a source nor a GPU or CPU of the references, or the baseline bears a source's name.
    """
    references, entries = comparing_with(_asked(against))
    reports = reports_in(reports)
    measured = [path for path in reports if path.resolve() != against.baseline] or reports
    return tuple(
        Compared(report=report, comparison=compare(report.summaries, report.conditions, references, against=entries, strict=against.strict))
        for path in measured
        for report in _reports(path)
    )


def keep_comparison(directory: Path, against: Against) -> Comparison:
    """Compare a report and write comparison.json beside it, from which its pages are made from now on. Raises as `compare_reports`."""
    report = read_report(directory)
    asked = _asked(against)
    comparison = compare_again(asked, report)
    write_text_atomically(directory / COMPARISON_FILE, comparison_json(asked, comparison))
    return comparison


def hold_to(bound: float, compared: Sequence[Compared]) -> tuple[str, ...]:
    """The cases of all reports that fall below a bound, or have no valid figure, each with its reason.

    Raises:
        FatalError: of a report not one case could be compared.
    """
    return tuple(reason for one in compared for reason in below(one.comparison, bound))


def write_junit(path: Path, compared: Sequence[Compared], bound: float) -> None:
    """The gate for a machine to read; raises FatalError as `hold_to`."""
    write_text_atomically(path, junit_xml([one.comparison for one in compared], bound))


def write_benchmark_json(path: Path, compared: Sequence[Compared]) -> None:
    """The means of one report in the format of continuous-benchmark actions.

    Raises:
        UsageError: there are several reports: such an action follows a case by its name, and theirs are the same.
    """
    if len(compared) > 1:
        raise UsageError(f"--json: {len(compared)} reports are compared, and their cases would have the same names", "Compare one report")
    for one in compared:
        write_text_atomically(path, benchmark_json(one.report.summaries, one.report.conditions))


def paste_block(directory: Path) -> str:
    """A report as a few lines to paste."""
    return block(read_report(directory))


def report_cost(directory: Path, prices: Mapping[str, float | None]) -> Cost | None:
    """What a report's figures cost.

    Args:
        prices: those of `wrapper.reporter.cost.cost`, by name.

    Raises:
        UsageError: a price is not a number above zero.
    """
    return cost(read_report(directory), **prices)


def reports_in(paths: Iterable[Path]) -> tuple[Path, ...]:
    """The report directories among paths and below them, also those of several releases; a path without any stands for itself, to be refused by
    name."""
    return tuple(found for path in paths for found in (sorted(place.parent for depth in _BELOW for place in path.glob(depth)) or [path]))


def make_site(paths: Sequence[Path], directory: Path) -> Site:
    """Make a site of reports, of directories of reports, and of files and trees of other people's logs.

    Raises:
        FatalError: the site can't be written.
    """
    own: list[Path] = []
    imported: list[ImportedReport] = []
    for path in reports_in(paths):
        logs = () if (path / SESSION_FILE).exists() or not path.exists() else as_reports(import_logs([path]).rows, path.resolve().name)
        imported += logs
        own += [] if logs else [path]
    return write_site(own, directory, imported)


def as_published_requests(asked: Request, source: str) -> tuple[Request, ...]:
    """A request for each sweep that a source's conditions take, with the flags of the command line put over it.

    Args:
        asked: what the command line says; its models choose among the source's, where no batch size is given with the source's.
        source: a key of `wrapper.reporter.reference.published_sweeps`.

    Raises:
        UsageError: an unknown source, or models or device counts that it did not measure.
    """
    keys = {key: value for key, value in asked.overrides.items() if key not in ("models", "devices")}
    sweeps = as_published(source, devices=asked.overrides.get("devices", (1,)))
    published = {model: sizes for sweep in sweeps for model, sizes in sweep["models"].items()}
    chosen = asked.overrides.get("models", dict.fromkeys(published, ()))
    unmeasured = [model for model in chosen if model not in published]
    if unmeasured:
        raise UsageError(f"--models: {source} has no figure of {', '.join(unmeasured)}", f"It measured {', '.join(published)}")
    requests = []
    for sweep in sweeps:
        models = {model: list(chosen[model]) or sizes for model, sizes in sweep["models"].items() if model in chosen}
        if models:
            flags = {**sweep["flags"], **keys.get("flags", {})}
            requests.append(msgspec.structs.replace(asked, raw={**sweep, "models": models}, overrides={**keys, "flags": flags}))
    return tuple(requests)


def about_published(source: str, requests: Sequence[Request], *, gpu: bool) -> Iterator[str]:
    """What to know of sweeps as a source published them, before they begin.

    Args:
        source: of which `as_published_requests` made `requests`.
        gpu: whether this machine has one.
    """
    release = load_sources()[source].tensorflow
    yield f"{source} was measured with TensorFlow {release}; the release that is used here is named below, and its figures differ for that reason too"
    if len(requests) > 1:
        yield f"{len(requests)} sweeps, each with a report, because {source} was measured with other flags for other models:"
        for raw in (request.raw or {} for request in requests):
            flags = " ".join(f"--{name}={value}" for name, value in {"variable_update": raw["variable_update"], **raw["flags"]}.items())
            yield f"  {raw['name']}: {', '.join(raw['models'])}: {flags}"
    if not gpu:
        yield (
            "this machine has no NVIDIA GPU: --dry-run plans for a machine that has one, and trials start here only with --unproven-device, which "
            "are judged all the same"
        )


def _asked(against: Against) -> Asked:
    own = _references(against.baseline) if against.baseline else ()
    return Asked(against=against.entries, strict=against.strict, baseline=own)


def _reports(path: Path) -> tuple[ImportedReport, ...]:
    if (path / SESSION_FILE).exists():
        conditions = conditions_of(read_session(path), path.resolve().name)
        return (ImportedReport(conditions=conditions, summaries=summarise(read_trials(path))),)
    imported = import_logs([path])
    reports = as_reports(imported.rows, path.resolve().name)
    return reports or _refuse(path, imported)


def _references(path: Path) -> tuple[Reference, ...]:
    if (path / SESSION_FILE).exists():
        (report,) = _reports(path)
        return references_from(report.summaries, report.conditions)
    imported = import_logs([path])
    return as_references(imported.rows, path.name) or _refuse(path, imported)


def _refuse(path: Path, imported: Imported) -> NoReturn:
    counts = ", ".join(f"{number} {reason}" for reason, number in imported.counts.items()) or "it is empty"
    raise FatalError(f"{path} is no report and holds no log that can be compared ({counts})", "Name a report's directory, or one of logs")
