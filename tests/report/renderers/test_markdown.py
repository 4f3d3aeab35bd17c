from functools import cache

import pytest
from example_report import HOSTILE, example, findings, hostile
from hypothesis import given
from hypothesis import strategies as st
from markdown_text import parsed

from fedaudit.report.redaction import is_hidden, make_visible
from fedaudit.report.renderers.markdown import escape, render
from fedaudit.report.tables import overview

STRUCTURE = {
    "heading_open",
    "bullet_list_open",
    "list_item_open",
    "paragraph_open",
    "table_open",
    "tr_open",
    "td_open",
    "th_open",
}


def test_the_example_is_well_formed():
    report = example().to_json()
    blocks, signs, texts = parsed(render(report))
    assert signs <= {"text", "text_special", "strong_open", "strong_close"}
    assert texts[:3] == ["Privacy audit", "Verdict: fail", texts[2]]
    assert texts[2].startswith("Personal data of other parties can be pulled out")
    assert blocks.count("table_open") == 13
    for table in (
        *overview.extraction(report),
        *overview.claim_table(report),
        *overview.utility(report),
    ):
        assert table.title in texts
        assert all(cell in texts for row in (table.columns, *table.rows) for cell in row if cell)


@cache
def harmless(report):
    """Return the blocks of what `report` makes of a harmless text."""
    return parsed(render(report("harmless").to_json()))[0]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_is_only_text(name):
    text = render(hostile(HOSTILE[name]).to_json())
    blocks, signs, texts = parsed(text)
    assert blocks == harmless(hostile)
    assert signs <= {"text", "text_special", "strong_open", "strong_close"}
    assert make_visible(HOSTILE[name]) in texts
    assert not any(is_hidden(char) for char in text if char != "\n")
    for sign in ("<", "://", "www.", "@"):
        assert sign not in text


LINE_STARTS = (
    *("# h", "> q", "- x", "+ x", "* x", "1. x", "12) x", "---", "===", "```", "~~~", "    code"),
    *("| a |", "[x]: https://evil.example", "&lt;b&gt;", "&#60;", "- [ ] task", "$x$", "\\"),
)


def limited(text):
    return example(limits=[text])


@pytest.mark.parametrize("text", LINE_STARTS)
def test_no_line_starts_anything(text):
    blocks, signs, texts = parsed(render(limited(text).to_json()))
    assert blocks == harmless(limited)
    assert signs <= {"text", "text_special", "strong_open", "strong_close"}
    assert text.lstrip(" ") in texts


@given(st.text(min_size=1))
def test_any_text_reads_as_it_is_in_a_cell(text):
    _, _, texts = parsed(f"| a | b |\n| - | - |\n| x{escape(text)}x | y |\n")
    assert texts == ["a", "b", f"x{make_visible(text)}x", "y"]


def test_findings_are_masked_and_counted():
    text = render(example(findings=findings(150)).to_json())
    assert text.count("PERSON(") == 100
    assert "and 50 more in report.json" in text
    assert "Ann Example" not in text
