"""The annex to an impact assessment: everything from the report, masked, harmless, no big words."""

import re
from datetime import date

import gated_report
import memorized_report
import pytest
from attributed_report import attributed
from example_report import HOSTILE, example, extraction, hostile
from markdown_text import parsed

from fedaudit.report.checklist.questions import QUESTIONS
from fedaudit.report.checklist.validity import ReportOwner
from fedaudit.report.redaction import is_hidden, make_visible
from fedaudit.report.renderers.annex import render

COVERAGE = [
    {"class": "inversion", "edpb": "55 (iv)", "status": "not_run", "by": [], "access": [],
     "knowledge": [], "n": None, "reason": "nobody tried"},
    {"class": "exfiltration", "edpb": "55 (ii)", "status": "run", "by": ["contextual"],
     "access": ["text"], "knowledge": ["own records"], "n": 500, "reason": ""},
]  # fmt: skip
CONTEXT = {"release": "weights", "positions": ["outsider"], "declared_by": "the DPO"}
REPORTS = {
    "extraction": example(coverage=COVERAGE, context=CONTEXT).to_json(),
    "attribution": example(measurements=attributed()).to_json(),
    "gate": example(measurements=gated_report.deployed()).to_json(),
    "memorization": memorized_report.document(),
    "nothing": example(measurements=[], findings=[]).to_json(),
}


@pytest.mark.parametrize("name", REPORTS)
def test_every_report_has_an_annex_with_every_question_and_no_big_word(name):
    text = render(REPORTS[name])
    _, signs, texts = parsed(text)
    assert signs <= {"text", "text_special", "strong_open", "strong_close"}
    assert all(one.text in texts for one in QUESTIONS)
    assert not re.search(r"(?i)anonymous|anonymi|complian", text)
    for title in ("What was audited", "Attackers", "What to do now", "Validity", "Signatures"):
        assert title in texts


def test_it_holds_context_digests_coverage_and_blanks_to_sign():
    _, _, texts = parsed(render(REPORTS["extraction"]))
    report = REPORTS["extraction"]
    assert f"digest of the model: SHA-256 {report['target']['sha256']}" in texts
    assert {"release: weights", "attackers: outsider", "declared by: the DPO"} <= set(texts)
    assert "inversion (nobody tried)." in texts
    assert "Expires: ............... (not set: --expires)" in texts
    assert texts.count("data protection officer") == 1


def test_owner_and_expiry_are_those_that_were_declared():
    owned = ReportOwner(owner="Court | 1", expires=date(2027, 6, 30))
    _, _, texts = parsed(render(REPORTS["extraction"], owned))
    assert {"Expires: 2027-06-30", "Owner: Court | 1"} <= set(texts)


def test_leaks_are_masked():
    text = render(example(measurements=extraction()).to_json())
    assert "Ann Example" not in text


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_is_only_text(name):
    text = render(hostile(HOSTILE[name]).to_json(), ReportOwner(owner=HOSTILE[name]))
    blocks, signs, texts = parsed(text)
    assert signs <= {"text", "text_special", "strong_open", "strong_close"}
    owner = f"Owner: {make_visible(HOSTILE[name])}"
    assert owner in texts
    assert not any(is_hidden(char) for char in text if char != "\n")
    assert "link_open" not in signs
    assert blocks.count("table_open") == parsed(render(hostile("harmless").to_json()))[0].count(
        "table_open"
    )
