"""The regression gate: which cases fell below a bound, as JUnit XML and as the JSON of continuous-benchmark actions. Pure."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Sequence

from wrapper.errors import FatalError
from wrapper.reporter.analysis import Summary
from wrapper.reporter.comparison import Comparison, Row
from wrapper.reporter.matching import Conditions

_NO_FIGURE = "no valid figure"
_NOT_IN_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 has no way to write (https://www.w3.org/TR/xml/#charsets)."""


def below(comparison: Comparison, bound: float) -> tuple[str, ...]:
    """The cases that don't pass, each with its reason: a ratio below the bound, or no valid figure. A case without a reference can't fail.

    Args:
        bound: of measured / reference, such as 0.95.

    Raises:
        FatalError: not one case could be compared, so that nothing was tested.
    """
    if not comparison.rows and not comparison.missing:
        raise FatalError(
            f"no case of {comparison.conditions.name} could be compared, so there is nothing to hold the bound against",
            "Name a reference with the same models",
        )
    slow = [_reason(row, bound) for row in comparison.rows if row.ratio < bound]
    return (*slow, *(f"{case.name}: {_NO_FIGURE}" for case in comparison.missing))


def junit_xml(comparisons: Sequence[Comparison], bound: float) -> str:
    """The gate as JUnit XML: a suite for each report, a test case for each row and for each case without a figure; a case without a reference is
    skipped.

    Raises:
        FatalError: as `below`.
    """
    root = ET.Element("testsuites")
    for comparison in comparisons:
        _add_suite(root, comparison, bound)
    ET.indent(root)
    # ElementTree's own declaration would name the encoding of the platform, not that of the file
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def benchmark_json(summaries: Iterable[Summary], conditions: Conditions) -> str:
    """The means as github-action-benchmark reads them with the tool "customBiggerIsBetter" (https://github.com/benchmark-action/github-action-benchmark).

    A case without a figure is left out: the format has no way to say so, and 0 would be a figure.
    """
    entries = [
        {
            "name": f"{conditions.gpu}: {summary.case.name}",
            "unit": "images/sec",
            "value": summary.mean,
            **({"range": f"± {summary.ci95:.2f}"} if summary.ci95 is not None else {}),
            "extra": f"TensorFlow {conditions.tensorflow}, mean of {summary.n}",
        }
        for summary in summaries
        if summary.mean is not None
    ]
    return json.dumps(entries, indent=2, ensure_ascii=False) + "\n"


def _add_suite(root: ET.Element, comparison: Comparison, bound: float) -> None:
    failed = below(comparison, bound)
    suite = ET.SubElement(
        root,
        "testsuite",
        name=_clean(comparison.conditions.name),
        tests=str(len(comparison.rows) + len(comparison.missing) + len(comparison.unmatched)),
        failures=str(len(failed) - len(comparison.missing)),
        errors=str(len(comparison.missing)),
        skipped=str(len(comparison.unmatched)),
    )
    for row in comparison.rows:
        test = ET.SubElement(suite, "testcase", classname=_clean(f"{row.reference.source}.{row.reference.gpu}"), name=_clean(_name(row)))
        if row.ratio < bound:
            ET.SubElement(test, "failure", message=_clean(_reason(row, bound))).text = _clean(row.match.label)
        ET.SubElement(test, "system-out").text = _clean(f"{_ratio(row)}; {row.match.label}; {row.spread}")
    for case in comparison.missing:
        ET.SubElement(ET.SubElement(suite, "testcase", classname="measured", name=_clean(case.name)), "error", message=_NO_FIGURE)
    for unmatched in comparison.unmatched:
        test = ET.SubElement(suite, "testcase", classname=_clean(unmatched.against or "references"), name=_clean(unmatched.case.name))
        ET.SubElement(test, "skipped", message=_clean(unmatched.reason))


def _name(row: Row) -> str:
    return f"{row.summary.case.name} against {row.reference.row}"


def _reason(row: Row, bound: float) -> str:
    return f"{row.summary.case.name}: {_ratio(row)}, below {bound:g}"


def _ratio(row: Row) -> str:
    return f"{row.ratio_text} of {row.reference.source} ({row.reference.gpu})"


def _clean(text: str) -> str:
    return _NOT_IN_XML.sub("\ufffd", text)
