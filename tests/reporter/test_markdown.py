"""Hostile text, read back by a real Markdown parser: it must come out as text, in its own cell."""

from __future__ import annotations

import html
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from wrapper.reporter.markdown import clean, code_block, inline, table

HOSTILE = [
    "a | b",
    "a \\| b",
    "\\",
    "\\\\|",
    "`",
    "``|``",
    "`a` <b>",
    "<script>alert(1)</script>",
    "<!-- hidden",
    "[click](http://example.org)",
    "![x](y)",
    "http://example.org www.example.org someone@example.org",
    "*bold* _it_ __x__ ~~gone~~ $x$",
    "&amp; &#42;",
    "line\nbreak\r\n| x | y |",
    "\x1b[31mred\x1b[0m \x1b]8;;http://example.org\x07link",
    "\u202egnp.exe \u2066x\u2069 zero\u200bwidth",
    "a\u2028b\x85c\0d",
    "# heading",
    "- item",
    "",
    "   ",
    "resnet50_v1.5",
    "Intel(R) Xeon(R) CPU @ 2.20GHz",
    "Grafik-Süd 図",
]


def _cells(markdown: str) -> list[str]:
    rendered = MarkdownIt("commonmark").enable("table").render(markdown)
    assert not re.search(r"<(?!/?(table|thead|tbody|tr|th|td|code)\b)", rendered), rendered
    cells = re.findall(r"<td[^>]*>(.*?)</td>", rendered)
    return [html.unescape(re.sub(r"</?code>", "", cell)) for cell in cells]


def _assert_in_own_cell(text: str) -> None:
    shown = clean(text)
    # A code span drops one space at each end, and a table trims its cells.
    assert [cell.strip() for cell in _cells(table(("A", "B", "C"), [("left", text, "right")]))] == ["left", shown, "right"]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_stays_text_in_its_cell(text: str) -> None:
    _assert_in_own_cell(text)


@settings(max_examples=300, deadline=None)
@given(st.text(st.sampled_from("ab |\\`*_<>[]()!&#~:/.@-=+1\n\t\x1b\u202e\u200bé"), max_size=24))
def test_any_text_stays_text_in_its_cell(text: str) -> None:
    _assert_in_own_cell(text)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.text(st.sampled_from("a `~\n\\<\x1b"), max_size=12), min_size=1, max_size=4))
def test_nothing_closes_a_code_block(lines: list[str]) -> None:
    rendered = MarkdownIt("commonmark").render(f"before\n\n{code_block(lines)}\n\n*after*\n")
    expected = html.escape("\n".join(clean(line) for line in lines))
    assert rendered == f"<p>before</p>\n<pre><code>{expected}\n</code></pre>\n<p><em>after</em></p>\n"


@pytest.mark.parametrize("text", HOSTILE)
def test_cleaned_text_can_not_move_or_hide(text: str) -> None:
    assert not re.search(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]", clean(text))


def test_ordinary_names_are_left_readable() -> None:
    for name in ("resnet50_v1.5", "Intel(R) Xeon(R) CPU @ 2.20GHz", "NVIDIA GeForce RTX 2080 Ti", "logs/001-resnet50.stdout", "435.2 ± 5.1", "–"):
        assert inline(name) == name


def test_missing_cells_are_a_dash(make_trial: Any) -> None:
    assert _cells(table(("A",), [(None,)])) == ["–"]
