"""A report as a few lines of Markdown to paste into an issue or a forum. Pure."""

from __future__ import annotations

from wrapper.parser.remedies import meanings
from wrapper.reporter.content import Report
from wrapper.reporter.facts import drivers, hardware, known, started_by
from wrapper.reporter.headline import mean_text, significant
from wrapper.reporter.markdown import Markdown, code_block, inline, table
from wrapper.reporter.paths import without_directories

MOST_LINES = 40
_CASES = 15
_FAILURES = 3
_WARNINGS = 5


def block(report: Report) -> str:
    """The figures with what they were measured on and the exact command, in at most `MOST_LINES` lines."""
    shown = report.summaries[:_CASES]
    spreads = ["–" if one.sd_percent is None else f"{significant(one.sd_percent, 2)} %" for one in shown]
    rows = [
        (_text(report.labels[one.case]), mean_text(one), one.n, spread, ", ".join(report.caveats(one)) or "–")
        for one, spread in zip(shown, spreads, strict=True)
    ]
    session, release, host = report.session, report.session.release, report.session.host
    common = "; ".join(f"{name}: {value}" for name, value in report.common.items())
    warned = meanings(kind for one in report.summaries for kind in report.caveats(one))
    facts = [
        f"Hardware: {hardware(session)}, driver {drivers(session) or 'not used'}; {known(host, 'cpu')}; {known(host, 'os')}",
        f"TensorFlow {known(release, 'tensorflow')}, Python {known(session.environment, 'python_version')}, "
        f"tf_cnn_benchmarks at {known(session.upstream, 'commit')[:12]}, measured {session.created[:10]}",
        *([f"The same for all: {common}"] if common else []),
        *([f"{len(report.summaries)} cases, of which the first {_CASES} are shown"] if len(report.summaries) > _CASES else []),
        *([f"Unfinished: {report.unfinished}"] if report.unfinished else []),
        *(f"{kind}: {meaning}" for kind, meaning in warned[:_WARNINGS]),
        *(f"No figure: {one.case}, repeat {one.repeat}: {one.verdict}" for one in report.failures[:_FAILURES]),
        *([f"{len(report.failures)} trials without a figure in all"] if len(report.failures) > _FAILURES else []),
    ]
    parts = [
        f"**{_text(report.title)}**",
        *([f"**{_text(report.notice)}**"] if report.notice else []),
        table(("Case", "Images/sec (mean ± 95 % interval)", "n", "Spread (sd)", "Warnings"), rows, "lrrrl"),
        "\n".join(f"- {_text(fact)}" for fact in facts),
        code_block([started_by(session)]),
    ]
    return "\n\n".join(parts) + "\n"


def _text(value: object) -> Markdown:
    return inline(without_directories(str(value)))
