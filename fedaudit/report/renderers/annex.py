"""A report as the annex to a data protection impact assessment, as an HTML page or for Word.

Everything in the annex follows from the report; questions that the report does not answer are named
as open, and what only the controller knows is left blank. It contains no personal data, since leaks
are masked. An attribution has an annex of its own: an accusation is not an impact assessment.
"""

from collections.abc import Iterator
from typing import NamedTuple

from fedaudit.api.kind import Table
from fedaudit.report.checklist import brief, leaks
from fedaudit.report.checklist.measures import measures
from fedaudit.report.checklist.questions import QUESTIONS, RESISTANCE, answers
from fedaudit.report.checklist.validity import NOT_OWNED, UNTIL, ReportOwner, issued
from fedaudit.report.kinds.persons import Persons
from fedaudit.report.pii_categories import norm_tables
from fedaudit.report.query import Row
from fedaudit.report.renderers.html_environment import render_page
from fedaudit.report.tables import assessment, overview
from fedaudit.report.tables.attribution import attribution
from fedaudit.report.tables.defense import defense_tables
from fedaudit.report.tables.evidence import headline
from fedaudit.report.text import summary
from fedaudit.report.text.searched_kinds import searched_kinds
from fedaudit.report.verdict.recheck import JudgedReport, recheck

TITLE = "Annex to the data protection impact assessment: evidence from tests"
ACCUSATION = "Evidence from a test for marked documents"
BLANK = "..............."
SIGNATURES = ("tested by", "data protection officer", "owner of the system")
HEARD = ("tested by", "owner of the documents", "heard for the flagged party")
NO_ADVICE = "No legal advice: a person decides what follows, and signs below."
OPEN = "A question is open where this report has nothing on it; that is not an answer either way."
MOST_FLAGGED = 100
CONTROLS = (
    ("membership inference", "NIST AI 100-2 E2025; ISO/IEC 27090", (8,)),
    ("attribute and property inference", "NIST AI 100-2 E2025", (9,)),
    ("training data extraction", "NIST AI 100-2 E2025", (5, 6, 7)),
    ("data reconstruction, model inversion", "NIST AI 100-2 E2025; ISO/IEC 27090", (10,)),
    ("privacy budget of each round, epsilon and delta", "OWASP AISVS 12.3.1", (16,)),
    ("audit by canaries in each training cycle", "OWASP AISVS 12.3.4", (11,)),
)
"""Threats and controls as they name them, and the questions below that hold the evidence."""


class Heading(NamedTuple):
    """A heading; 1 is the document's title."""

    level: int
    text: str


class Paragraph(NamedTuple):
    """A paragraph."""

    text: str
    bold: bool = False


class Bullets(NamedTuple):
    """A list."""

    items: tuple[str, ...]


Block = Heading | Paragraph | Bullets | Table
"""What an annex is made of; a table brings its own heading."""


def render(report: Row, owned: ReportOwner = NOT_OWNED) -> str:
    """Return the annex of a valid report's document as a page that loads nothing."""
    blocks = [(type(block).__name__.lower(), block) for block in annex(report, owned)]
    return render_page("annex", {"title": _title(report), "blocks": blocks})


def annex(report: Row, owned: ReportOwner = NOT_OWNED) -> list[Block]:
    """Return what stands in the annex of a valid report's document, in order."""
    report = JudgedReport(report)
    body = _of_accusation if summary.is_attribution(report) else _of_assessment
    return [Heading(1, _title(report)), *_verdict(report, owned), *body(report, owned)]


def _title(report: Row) -> str:
    return ACCUSATION if summary.is_attribution(report) else TITLE


def _verdict(report: Row, owned: ReportOwner) -> Iterator[Block]:
    checked = recheck(report)
    yield Paragraph(f"{brief.byline(report, owned)}.")
    if checked.message:
        yield Paragraph(checked.message, bold=bool(checked.brief))
    yield Paragraph(f"Verdict of the tests: {headline(report, checked)}", bold=True)
    yield from map(Paragraph, summary.verdict_sentence(report, checked))


def _of_assessment(report: Row, owned: ReportOwner) -> Iterator[Block]:
    yield Paragraph(f"{RESISTANCE} {NO_ADVICE}")
    yield from _in_short(report, owned)
    yield Heading(2, "Description of the processing and its purposes, GDPR 35(7)(a)")
    yield Paragraph(f"Purposes and legal basis: {BLANK}")
    yield from _model(report)
    declared = assessment.context_facts(report) or [("release", assessment.NOT_DECLARED)]
    yield Heading(3, "Context, as it was declared")
    yield Bullets(_pairs(declared))
    yield Heading(2, "Necessity and proportionality, GDPR 35(7)(b)")
    yield Paragraph(f"Why personal data must be trained on, and why so much of it: {BLANK}")
    yield Heading(2, "Risks to the rights and freedoms of data subjects, GDPR 35(7)(c)")
    yield leaks.attackers(report)
    yield from (*Persons().tables(report), leaks.likelihood(report))
    yield from _severity(report)
    yield from norm_tables(report, owned.laws)
    yield Heading(3, "What was looked for")
    yield from map(Paragraph, searched_kinds(report) or [" ".join(_searched(report, owned))])
    yield from assessment.coverage(report)
    yield Heading(2, "Measures to address the risks, GDPR 35(7)(d)")
    yield _actions(report)
    yield from defense_tables(report)
    yield Paragraph(f"Risk that remains after the measures, and who accepts it: {BLANK}")
    yield Heading(2, "Advice and views")
    yield Bullets(
        (
            f"Advice of the data protection officer, GDPR 35(2): {BLANK}",
            f"Views of data subjects or their representatives, GDPR 35(9): {BLANK}",
        )
    )
    yield Heading(2, "Evidence for assessors")
    yield from _questions(report)
    yield _controls(report)
    yield from _end(report, owned, SIGNATURES)


def _of_accusation(report: Row, owned: ReportOwner) -> Iterator[Block]:
    yield Paragraph(
        "A flag is evidence that a party trained on marked documents, not proof, and says nothing "
        f"of why. The party is heard first, and can repeat the test on its own update. {NO_ADVICE}"
    )
    yield from _in_short(report, owned)
    yield Heading(2, "What was tested")
    yield from _model(report)
    yield from overview.flagged_table(report, MOST_FLAGGED)
    yield from attribution(report)
    yield _actions(report)
    yield from _end(report, owned, HEARD)


def _in_short(report: Row, owned: ReportOwner) -> Iterator[Block]:
    rows = tuple((fact.question, " ".join(fact.answer)) for fact in brief.brief(report, owned))
    yield Heading(2, "In short")
    yield Table(title="First answers", columns=("question", "answer"), rows=rows)


def _actions(report: Row) -> Table:
    columns = ("measure", "what it follows from")
    return Table(title="What to do now", columns=columns, rows=tuple(measures(report)))


def _end(report: Row, owned: ReportOwner, signatures: tuple[str, ...]) -> Iterator[Block]:
    if report["limits"]:
        yield Heading(2, "Limits of the tests")
        yield Bullets(tuple(report["limits"]))
    yield Heading(2, "Validity")
    version = report["environment"]["versions"].get("fedaudit", "not known")
    yield Bullets(
        (
            f"Issued: {issued(report)}",
            f"Expires: {owned.expires or f'{BLANK} (not set: --expires)'}",
            f"Owner: {owned.owner or f'{BLANK} (not set: --owner)'}",
            f"Made with: fedaudit {version}, run {report['run']['id']}",
            UNTIL,
            "The report itself is report.json; fedaudit report --verify checks it, --attest signs "
            "it.",
        )
    )
    rows = tuple((name, BLANK, BLANK, BLANK) for name in signatures)
    yield Table(title="Signatures", columns=("role", "name", "date", "signature"), rows=rows)


def _searched(report: Row, owned: ReportOwner) -> tuple[str, ...]:
    facts = {fact.question: fact.answer for fact in brief.brief(report, owned)}
    return facts.get(brief.NOT_LOOKED_FOR, ("The report does not say.",))


def _model(report: Row) -> Iterator[Block]:
    """Yield the audited models with complete digests, so that the reader can compare them."""
    target = report["target"]
    digests = (("digest of the model", "sha256"), ("digest of the base", "base_sha256"))
    lines = [f"{name}: SHA-256 {target[key]}" for name, key in digests if target.get(key)]
    facts = [pair for pair in summary.audited_facts(report) if pair[0] != "sha256"]
    yield Heading(3, "What was audited")
    yield Bullets((*lines, *_pairs(facts)))


def _pairs(facts: list[tuple[str, str]]) -> tuple[str, ...]:
    return tuple(f"{name}: {value}" for name, value in facts)


def _severity(report: Row) -> Iterator[Block]:
    table = leaks.severity(report)
    if table.rows:
        yield table
    else:
        yield Heading(3, table.title)
        nothing = "No string, passage or record of anybody came out."
        yield Paragraph(nothing if leaks.looked_for(report) else leaks.NOT_LOOKED_FOR)


def _questions(report: Row) -> Iterator[Table]:
    """Yield the table of an assessor's questions, and that of further ones on what was measured."""
    rows = tuple(
        (str(question.number), question.text, question.source, answer.status, answer.text)
        for question, answer in answers(report)
    )
    yield _question_table("Twenty questions of an assessor", rows[: len(QUESTIONS)])
    if more := rows[len(QUESTIONS) :]:
        yield _question_table("Questions about what else was measured", more)


def _question_table(title: str, rows: tuple[tuple[str, ...], ...]) -> Table:
    open_ = sum(row[3] == "open" for row in rows)
    return Table(
        title=title,
        columns=("number", "question", "source", "status", "answer"),
        rows=rows,
        notes=(f"{open_} of {len(rows)} are open. {OPEN}",),
    )


def _controls(report: Row) -> Table:
    """Return which answers are evidence for which control of other standards."""
    statuses = {question.number: answer.status for question, answer in answers(report)}
    rows = tuple(
        (name, source, "; ".join(f"question {number}: {statuses[number]}" for number in numbers))
        for name, source, numbers in CONTROLS
    )
    return Table(
        title="Controls of other standards, and the evidence for them",
        columns=("threat or control", "standard", "evidence above"),
        rows=rows,
    )
