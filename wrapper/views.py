"""What commands show, as lines and tables for a terminal of 120 columns or less. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec
from rich.table import Table

from wrapper.bootstrapper.doctor import Finding
from wrapper.bootstrapper.offers import Offer
from wrapper.parser.remedies import meanings
from wrapper.reporter.comparison import Comparison, ratio_text, shared_conditions
from wrapper.reporter.comparison_digest import comparison_digest
from wrapper.reporter.comparison_tables import comparison_tables, numbered, source_lines
from wrapper.reporter.cost import Cost
from wrapper.reporter.headline import mean_text
from wrapper.reporter.importer import NEEDED, Imported, ImportedReport
from wrapper.reporter.merging import MergedCell, MergedLine, MergedTable, Ratio
from wrapper.reporter.reference import Reference, Source
from wrapper.reporter.verification import Finding as Discrepancy
from wrapper.reporter.verification import Verification
from wrapper.tables import counted, table

Parts = Iterator[str | Table]

MOST_FIGURES = 50
"""So many published figures are listed; more are counted."""
SHOWN = 20
"""So many kinds of notes on imported logs, and figures that are in no table; all are in the file of --csv."""


def references_parts(references: Sequence[Reference], sources: Mapping[str, Source]) -> Parts:
    """Published figures, each with its conditions and the number of its source."""
    numbers = numbered(one.source for one in references)
    yield table(("Device", "Model", "Batch", "Images/sec", "Conditions", "Source"), (_reference_row(one, numbers) for one in references), "llrrll")
    yield f"{counted(len(references), 'published figure')}; images/sec are the total over all devices, batch sizes per device, and – is not stated"
    yield from source_lines(numbers, sources)


def reference_counts_parts(references: Sequence[Reference], sources: Mapping[str, Source]) -> Parts:
    """How many published figures there are of each device in each source, and how to see them."""
    models: dict[tuple[str, str], list[str]] = {}
    for one in references:
        models.setdefault((one.gpu, one.source), []).append(one.model)
    rows = ((gpu, source, str(len(of)), ", ".join(sorted(set(of)))) for (gpu, source), of in sorted(models.items()))
    yield table(("Device", "Source", "Figures", "Models"), rows, "llrl")
    yield f"{counted(len(references), 'published figure')} of {counted(len(sources.keys() & {one.source for one in references}), 'source')}, counted"
    yield f"Up to {MOST_FIGURES} are listed: narrow them by --gpu, --model, --source, --precision, --batch-size, --devices or --mode"
    yield "All of them, each with its conditions: --all, or --json"


def references_json(references: Sequence[Reference], sources: Mapping[str, Source]) -> str:
    """All that is known of each figure, and of the sources."""
    named = {one.source for one in references}
    content = {"references": references, "sources": [source for name, source in sources.items() if name in named]}
    return msgspec.json.format(msgspec.json.encode(content), indent=1).decode() + "\n"


def sources_parts(references: Sequence[Reference], sources: Mapping[str, Source]) -> Parts:
    """The sources of published figures, with how many each has."""
    numbers = Counter(one.source for one in references)
    rows = ((name, str(number), f"{sources[name].title}, {sources[name].published or 'no date'}") for name, number in sorted(numbers.items()))
    yield table(("Source", "Figures", "Title and date"), rows, "lrl")


def import_parts(imported: Imported, reports: Sequence[ImportedReport]) -> Parts:
    """The cases that can be compared, then what was read, believed and refused."""
    for report in reports:
        valid = [summary for summary in report.summaries if summary.mean is not None]
        if valid:
            yield f"\n{report.conditions}"
            rows = ((one.case.model, str(one.case.batch_size), shared_conditions(one.case), mean_text(one), str(one.n)) for one in valid)
            yield table(("Model", "Batch", "Conditions", "Images/sec", "n"), rows, "lrlrr")
    valid_logs = sum(row.judgement.images_per_sec is not None for row in imported.rows)
    compared = sum(summary.n for report in reports for summary in report.summaries)
    yield f"\n{counted(len(imported.rows), 'log')}, {valid_logs} with a valid figure, {counted(len(imported.refused), 'other file')}"
    if compared < valid_logs:
        yield f"In no table, because the log does not state the precision or the data: {counted(valid_logs - compared, 'valid figure')}"
        untabled = [row for row in imported.rows if row.judgement.images_per_sec is not None and row.unstated & NEEDED]
        yield from (
            f"  {one.case.model}, batch {one.case.batch_size or '?'}: {one.judgement.images_per_sec} images/sec: {one.path}"
            for one in untabled[:SHOWN]
        )
        if len(untabled) > SHOWN:
            yield f"  and {len(untabled) - SHOWN} more, which --csv writes"
    yield table(("Number", "Verdict, or why refused"), ((str(number), reason) for reason, number in imported.counts.items()), "rl")
    noted = Counter(note for row in imported.rows for note in row.notes)
    first = {note: row.path for row in reversed(imported.rows) for note in row.notes}
    for note, number in noted.most_common(SHOWN):
        yield f"note on {counted(number, 'log')}, first {first[note]}: {note}"
    if len(noted) > SHOWN:
        yield f"and {counted(len(noted) - SHOWN, 'more kind')} of notes, which --csv writes"


def comparison_parts(comparisons: Sequence[Comparison], sources: Mapping[str, Source], *, whole: bool) -> Parts:
    """As `comparison_tables` where the whole is asked for, else as `comparison_digest`; with an empty line after each table."""
    gap = "\n"
    for part in (comparison_tables if whole else comparison_digest)(comparisons, sources):
        if isinstance(part, str):
            yield gap + part
        else:
            yield table(part.headers, part.rows, part.align)
        gap = "" if isinstance(part, str) else "\n"


def finding_parts(findings: Sequence[Discrepancy]) -> Parts:
    """What does not hold: the first of it, since one figure that was changed in a log shows in many lines of the files."""
    for finding in findings[:SHOWN]:
        yield f"does not hold: {finding.what}\n  recorded:   {finding.recorded}\n  recomputed: {finding.recomputed}"
    if len(findings) > SHOWN:
        yield f"and {len(findings) - SHOWN} more, which may follow from these"


def verification_parts(verification: Verification) -> Parts:
    """What does not hold, and how much was looked at."""
    yield from finding_parts(verification.findings)
    for name in verification.taken:
        yield f"taken as recorded: the figures of the baseline {name}, whose logs are not here; verify its own report"
    verdict = counted(len(verification.findings), "finding") if verification.findings else "everything holds"
    yield f"{counted(verification.trials, 'trial')} recomputed from their logs, {counted(verification.logs, 'hash')} compared: {verdict}"
    yield "not compared: report.html, releases.html and throughput.svg, which `tfcnn report DIR` makes again from the records"


def doctor_parts(findings: Sequence[Finding]) -> Parts:
    """A line for each finding, in their order, each with its remedy below it."""
    for finding in findings:
        yield f"{finding.status:4}  {finding.subject}: {finding.text}"
        if finding.remedy:
            yield f"      {finding.remedy}"


def doctor_json(findings: Sequence[Finding]) -> str:
    """The worst status, and the findings in their order."""
    content = {"status": findings[0].status, "findings": findings}
    return msgspec.json.format(msgspec.json.encode(content)).decode() + "\n"


def releases_parts(offers: Sequence[Offer]) -> Parts:
    """A line of 80 columns or less for each release, and below the table what the cells have no room for, once for all that share it."""
    yield table(("TensorFlow", "Here", "Ran", "Failed", "Untried", "CUDA", "cuDNN", "GPU code"), map(_offer_row, offers), "llrrrlll")
    days = sorted(offer.proven.date for offer in offers if offer.proven.date)
    when = f", tried by this project until {days[-1]}" if days else ""
    yield f"Ran, failed, untried: how many of the release's models, on a CPU{when}; --json names each with its release's day"
    if any(offer.compiled_at_start for offer in offers):
        yield "* its kernels are compiled for this GPU at the first start, for minutes to an hour"
    if lacking := _by_text((reason.replace(f"TensorFlow {one.release.tensorflow}", "it"), one) for one in offers for reason in one.missing):
        yield "\nWhat is missing (`tfcnn doctor --tensorflow RELEASE` says how to get it)"
        yield from lacking
    if failed := _by_text((f"{models}: {reason}", one) for one in offers for reason, models in _by_reason(one.proven.failed).items()):
        yield "\nFailed on a CPU"
        yield from failed


def releases_json(offers: Sequence[Offer]) -> str:
    """All that is known of each release."""
    return msgspec.json.format(msgspec.json.encode({"releases": offers})).decode() + "\n"


def _offer_row(offer: Offer) -> tuple[str, ...]:
    release, proven, wheel = offer.release, offer.proven, offer.release.wheel
    device = f"{offer.device.upper()}{'*' if offer.compiled_at_start else ''}"
    here = f"{device}, Python {offer.python}" if offer.device else f"no {offer.missing[0].partition(' or ')[0]}"
    counts = [str(len(models)) for models in (proven.ok, [model for model in proven.failed if model], proven.not_tried)]
    held = dict.fromkeys((wheel.own.code[0], wheel.own.code[-1])) if wheel else ()
    code = "–".join(held) + (", PTX" if wheel and wheel.own.ptx else "")
    return (release.tensorflow, here, *counts, release.cuda or "", ".".join((release.cudnn or "").split(".")[:2]), code)


def _by_reason(failed: Mapping[str, str]) -> dict[str, str]:
    """The models that failed for each reason, in words."""
    models: dict[str, list[str]] = {}
    for model, reason in failed.items():
        models.setdefault(reason, []).append(model or "nothing ran")
    return {reason: ", ".join(names) for reason, names in models.items()}


def _by_text(pairs: Iterable[tuple[str, Offer]]) -> list[str]:
    """Each text once, after the releases that it is said of."""
    said: dict[str, list[str]] = {}
    for text, offer in pairs:
        said.setdefault(text, []).append(offer.release.tensorflow)
    return [f"  {', '.join(releases)}: {text}" for text, releases in said.items()]


def merge_parts(merged: Sequence[MergedTable]) -> Parts:
    """A table for each set of conditions: reports down, models and batch sizes across."""
    for one in merged:
        yield f"\n{one.conditions}; images/sec, and in brackets the ratio to the first report that has the case, unless too uncertain, and warnings"
        headers = ("Report", "Device", "TensorFlow", *(f"{model} b{batch_size}" for model, batch_size in one.columns))
        yield table(headers, map(_merged_row, one.lines), "lll" + "r" * len(one.columns))
    kinds = (kind for one in merged for line in one.lines for cell in line.cells if cell for kind in cell.caveats)
    yield from (f"{kind}: {meaning}" for kind, meaning in meanings(kinds))


def cost_parts(cost: Cost) -> Parts:
    """What each case costs, and what is not counted."""
    yield table(cost.table.headers, cost.table.rows, cost.table.align)
    yield from cost.assumptions


def _reference_row(one: Reference, numbers: Mapping[str, int]) -> tuple[str, ...]:
    conditions = [
        *(one.mode, one.precision or "precision not stated", f"XLA {_stated(one.xla)}", f"{one.data} data" if one.data else "data not stated"),
        *filter(None, (one.data_set, one.variable_update, one.all_reduce, one.setup, one.tensorflow and f"TensorFlow {one.tensorflow}")),
        *(["the loss was NaN"] if one.loss_nan else []),
        *([f"caution: {one.caution}"] if one.caution else []),
    ]
    gpu = f"{one.devices} x {one.gpu}" if one.devices > 1 else one.gpu
    return (gpu, one.model, "–" if one.batch_size is None else str(one.batch_size), one.published, ", ".join(conditions), f"[{numbers[one.source]}]")


def _merged_row(line: MergedLine) -> tuple[str, ...]:
    cells = (_merged_cell(figure, ratio) for figure, ratio in zip(line.cells, line.ratios, strict=True))
    return (line.conditions.name, line.conditions.gpu, line.conditions.tensorflow, *cells)


def _merged_cell(figure: MergedCell | None, ratio: Ratio | None) -> str:
    if figure is None:
        return "–"
    said = [*([] if ratio is None else [ratio_text(ratio.value, ratio.ci95)]), *figure.caveats]
    return mean_text(figure.summary) + (f" ({', '.join(said)})" if said else "")


def _stated(value: bool | None) -> str:
    return {None: "not stated", True: "on", False: "off"}[value]
