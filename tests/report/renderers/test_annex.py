"""The annex to an impact assessment: everything from the report, masked, harmless, no big words."""

import io
import re
import sys
from datetime import date

import docx
import gated_report
import memorized_report
import pytest
from attributed_report import attributed
from example_report import HOSTILE, example, extraction, hostile
from html_page import Page, shape

from fedaudit.api.errors import InputError, UsageError
from fedaudit.api.records import Finding
from fedaudit.report.checklist import leaks
from fedaudit.report.checklist.questions import QUESTIONS, answers
from fedaudit.report.checklist.validity import NOT_OWNED, ReportOwner
from fedaudit.report.redaction import is_hidden, make_visible
from fedaudit.report.renderers import annex_docx
from fedaudit.report.renderers.annex import ACCUSATION, CONTROLS, TITLE, render
from fedaudit.system.outputs import WORD, write_output

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


def texts_of(report, owned=NOT_OWNED):
    return [" ".join(text.split()) for text in Page(render(report, owned)).texts]


@pytest.mark.parametrize("name", [name for name in REPORTS if name != "attribution"])
def test_every_report_has_an_annex_with_every_question_and_no_big_word(name):
    texts = texts_of(REPORTS[name])
    assert texts.count(TITLE) == 2  # the tab's and the page's
    assert all(one.text in texts for one in QUESTIONS)
    assert not re.search(r"(?i)anonymous|anonymi|complian", " ".join(texts))
    for title in ("What was audited", "Attackers", "What to do now", "Validity", "Signatures"):
        assert title in texts
    for clause in ("35(7)(a)", "35(7)(b)", "35(7)(c)", "35(7)(d)", "35(2)", "35(9)"):
        assert any(clause in text for text in texts)
    assert texts.index("Signatures") > texts.index("Validity") > texts.index("Attackers")


def test_an_accusation_has_an_annex_of_its_own():
    texts = texts_of(REPORTS["attribution"])
    assert texts.count(ACCUSATION) == 2
    assert "heard for the flagged party" in texts
    assert not any("GDPR" in text or "assessment" in text for text in texts)


def test_it_holds_context_digests_coverage_and_blanks_to_sign():
    texts = texts_of(REPORTS["extraction"])
    report = REPORTS["extraction"]
    assert f"digest of the model: SHA-256 {report['target']['sha256']}" in texts
    assert {"release: weights", "attackers: outsider", "declared by: the DPO"} <= set(texts)
    assert "inversion (nobody tried)." in texts
    assert "Expires: ............... (not set: --expires)" in texts
    assert texts.count("data protection officer") == 1


def test_controls_of_other_standards_point_to_the_questions_that_answer_them():
    texts = texts_of(REPORTS["extraction"])
    numbers = {one.number: one.text for one in QUESTIONS}
    assert "member" in numbers[8]
    assert "OWASP AISVS 12.3.4" in texts
    cells = [text for text in texts if re.fullmatch(r"(question \d+: [a-z ]+(; )?)+", text)]
    assert len(cells) == len(CONTROLS)
    answered = {
        f"question {q.number}: {a.status}" for q, a in answers(report=REPORTS["extraction"])
    }
    assert all(part in answered for cell in cells for part in cell.split("; "))


def test_owner_and_expiry_are_those_that_were_declared():
    owned = ReportOwner(owner="Court | 1", expires=date(2027, 6, 30))
    texts = texts_of(REPORTS["extraction"], owned)
    assert {"Expires: 2027-06-30", "Owner: Court | 1"} <= set(texts)
    assert any(text.startswith("By Court | 1 with fedaudit") for text in texts)


def test_a_passage_that_chance_explains_is_no_verified_leak():
    passages = [
        Finding(id=f"verbatim-{p}", severity="medium", label="DOCUMENT",
                measurement="verbatim edit_distance", evidence={"p_value": p})
        for p in (0.0001, 0.4, 1.0)
    ]  # fmt: skip
    report = example(findings=passages).to_json()
    assert [one["id"] for one in leaks.verified(report)] == ["verbatim-0.0001"]
    assert [one["id"] for one in leaks.came_out(report)] == ["verbatim-0.0001"]


def test_laws_outside_the_eu_are_named_only_when_asked():
    report = example(measurements=extraction()).to_json()
    plain, asked = (" ".join(texts_of(report, ReportOwner(laws=laws))) for laws in (False, True))
    assert "CCPA" not in plain
    assert "CCPA" in asked
    assert "GDPR" in plain


@pytest.fixture(scope="module")
def harmless():
    """Return the shape of the page that hostile texts must leave as it is."""
    owned = ReportOwner(owner="harmless", parties={"c1": "harmless"})
    return shape(Page(render(hostile("harmless").to_json(), owned)))


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_is_only_text(name, harmless):
    owned = ReportOwner(owner=HOSTILE[name], parties={"c1": HOSTILE[name]})
    text = render(hostile(HOSTILE[name]).to_json(), owned)
    page = Page(text)
    assert f"Owner: {make_visible(HOSTILE[name])}" in page.texts
    assert not any(is_hidden(char) for char in text if char != "\n")
    assert shape(page) == harmless


@pytest.mark.parametrize("name", REPORTS)
def test_the_file_for_word_says_what_the_page_says(name):
    report = REPORTS[name]
    read = docx.Document(io.BytesIO(annex_docx.render(report)))
    texts = {paragraph.text for paragraph in read.paragraphs}
    texts |= {cell.text for table in read.tables for row in table.rows for cell in row.cells}
    shown = {text for text in Page(render(report)).texts if text.strip()}
    shown = {text for text in shown if "default-src" not in text and "use strict" not in text}
    assert {text for text in shown if not text.lstrip().startswith(":root")} <= texts
    assert read.paragraphs[0].style.name == "Title"


def test_a_file_for_word_is_known_for_our_own(tmp_path):
    path, annex = tmp_path / "annex.docx", annex_docx.render(REPORTS["nothing"])
    for one in (annex, annex_docx.render(REPORTS["extraction"])):
        write_output(path, one, WORD)
    assert annex_docx.render(REPORTS["nothing"]) == annex
    docx.Document().save(path)
    with pytest.raises(InputError, match="is not an annex for Word"):
        write_output(path, annex, WORD)


def test_without_python_docx_one_line_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "docx", None)
    with pytest.raises(UsageError, match=r"fedaudit\[docx\]"):
        annex_docx.render(REPORTS["nothing"])
