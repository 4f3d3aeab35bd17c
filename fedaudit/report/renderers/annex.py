"""A report as the annex to a data protection impact assessment, in Markdown.

Everything in the annex follows from the report; questions that the report does not answer are named
as open. It contains no personal data, since leaks are masked.
"""

from collections.abc import Iterator

from fedaudit.api.kind import Table
from fedaudit.report.checklist import leaks
from fedaudit.report.checklist.measures import measures
from fedaudit.report.checklist.questions import QUESTIONS, answers
from fedaudit.report.checklist.stated import RESISTANCE
from fedaudit.report.checklist.validity import UNTIL, ReportOwner, issued
from fedaudit.report.kinds.persons import Persons
from fedaudit.report.query import Row
from fedaudit.report.renderers.markdown_blocks import bullets, paragraph, table_lines
from fedaudit.report.tables import assessment
from fedaudit.report.tables.comparison.defenses import defense_tables
from fedaudit.report.tables.extraction.evidence import headline
from fedaudit.report.text import summary
from fedaudit.report.text.searched_kinds import searched_kinds
from fedaudit.report.verdict.recheck import recheck
from fedaudit.system.outputs import SIGNED_TEXT

NOBODY = ReportOwner()
TITLE = "Annex to the data protection impact assessment: evidence from tests"
BLANK = "..............."
SIGNATURES = ("tested by", "data protection officer", "owner of the system")
NO_ADVICE = "No legal advice: a person decides what follows, and signs below."
OPEN = "A question is open where this report has nothing on it; that is no answer either way."


def render(report: Row, owned: ReportOwner = NOBODY) -> str:
    """Return a valid report's document as an annex in Markdown without links or HTML."""
    return "\n".join([*_lines(report, owned), "", SIGNED_TEXT]) + "\n"


def _lines(report: Row, owned: ReportOwner) -> Iterator[str]:
    checked = recheck(report)
    yield f"# {TITLE}"
    if checked.message:
        yield from paragraph(checked.message, bold=bool(checked.brief))
    for sentence in searched_kinds(report):
        yield from paragraph(sentence)
    yield from paragraph(f"Verdict of the tests: {headline(report, checked)}", bold=True)
    for sentence in summary.verdict_sentence(report, checked):
        yield from paragraph(sentence)
    yield from paragraph(f"{RESISTANCE} {NO_ADVICE}")
    yield from bullets("What was audited", list(_audited_models(report)))
    declared = assessment.context_facts(report) or [("release", assessment.NOT_DECLARED)]
    yield from bullets("Context, as it was declared", _pairs(declared))
    yield from table_lines(leaks.attackers(report))
    yield from bullets("Whose data", _parties(report))
    for table in (*Persons().tables(report), leaks.likelihood(report)):
        yield from table_lines(table)
    yield from _severity(report)
    for table in assessment.coverage(report):
        yield from table_lines(table)
    yield from table_lines(_measures(report))
    for table in defense_tables(report):
        yield from table_lines(table)
    for table in _questions(report):
        yield from table_lines(table)
    yield from bullets("Limits of the tests", report["limits"])
    yield from _validity(report, owned)
    yield from table_lines(_signatures())


def _audited_models(report: Row) -> Iterator[str]:
    """Yield the audited models with complete digests, so that the reader can compare them."""
    target = report["target"]
    for name, key in (("digest of the model", "sha256"), ("digest of the base", "base_sha256")):
        if target.get(key):
            yield f"{name}: SHA-256 {target[key]}"
    facts = [pair for pair in summary.audited_facts(report) if pair[0] != "sha256"]
    yield from _pairs(facts)


def _pairs(facts: list[tuple[str, str]]) -> list[str]:
    return [f"{name}: {value}" for name, value in facts]


def _parties(report: Row) -> list[str]:
    named = leaks.parties(report) or ["the report does not say"]
    return [*named, "The sections below count people where the report does, and strings elsewhere."]


def _severity(report: Row) -> Iterator[str]:
    table = leaks.severity(report)
    if table.rows:
        yield from table_lines(table)
    else:
        yield from bullets(table.title, ["No string, passage or record of anybody came out."])


def _measures(report: Row) -> Table:
    rows = tuple((measure.action, measure.basis) for measure in measures(report))
    return Table(title="What to do now", columns=("measure", "what it follows from"), rows=rows)


def _questions(report: Row) -> Iterator[Table]:
    """Yield the table of an assessor's questions, and that of questions that plugins bring."""
    rows = tuple(
        (str(question.number), question.text, question.source, answer.status, answer.text)
        for question, answer in answers(report)
    )
    yield _question_table("Twenty questions of an assessor", rows[: len(QUESTIONS)])
    if more := rows[len(QUESTIONS) :]:
        yield _question_table("Questions about what plugins measured", more)


def _question_table(title: str, rows: tuple[tuple[str, ...], ...]) -> Table:
    open_ = sum(row[3] == "open" for row in rows)
    return Table(
        title=title,
        columns=("", "question", "source", "status", "answer"),
        rows=rows,
        notes=(f"{open_} of {len(rows)} are open. {OPEN}",),
    )


def _validity(report: Row, owned: ReportOwner) -> Iterator[str]:
    version = report["environment"]["versions"].get("fedaudit", "not known")
    lines = [
        f"Issued: {issued(report)}",
        f"Expires: {owned.expires or f'{BLANK} (not set: --expires)'}",
        f"Owner: {owned.owner or f'{BLANK} (not set: --owner)'}",
        f"Made with: fedaudit {version}, run {report['run']['id']}",
        UNTIL,
        "The report itself is report.json; fedaudit report --verify checks it, --attest signs it.",
    ]
    yield from bullets("Validity", lines)


def _signatures() -> Table:
    rows = tuple((name, BLANK, BLANK, BLANK) for name in SIGNATURES)
    return Table(title="Signatures", columns=("", "name", "date", "signature"), rows=rows)
