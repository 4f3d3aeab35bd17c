"""A report as Markdown, for an issue, a wiki or a merge request."""

import html
import re
from collections.abc import Iterator, Sequence

from fedaudit.api.kind import Table
from fedaudit.report.charts import z_by_round
from fedaudit.report.kinds.registry import kinds_of
from fedaudit.report.query import Row
from fedaudit.report.redaction import make_visible
from fedaudit.report.tables import assessment, overview
from fedaudit.report.tables.attribution import attribution
from fedaudit.report.tables.defense import defense_tables
from fedaudit.report.tables.evidence import headline
from fedaudit.report.text import summary
from fedaudit.report.text.attacks import attack_summaries
from fedaudit.report.text.glossary import used_terms
from fedaudit.report.text.searched_kinds import searched_kinds
from fedaudit.report.verdict.recheck import recheck
from fedaudit.system.outputs import SIGNED_TEXT

MOST_FINDINGS = 100


def render(report: Row) -> str:
    """Return a valid report's document as Markdown; its texts cannot become links, HTML or code."""
    lines = [*_lines(report)]
    terms = used_terms(html.unescape("\n".join(lines)), kinds_of(report))
    lines += bullets("Terms", [f"{term}: {meaning}" for term, meaning in terms.items()])
    return "\n".join([*lines, "", SIGNED_TEXT]) + "\n"


def _lines(report: Row) -> Iterator[str]:
    checked = recheck(report)
    yield f"# {summary.title(report)}"
    if checked.message:
        yield from paragraph(checked.message, bold=bool(checked.brief))
    if summary.is_audit(report):
        for sentence in searched_kinds(report):
            yield from paragraph(sentence)
        yield from paragraph(f"Verdict: {headline(report, checked)}", bold=True)
        for sentence in summary.verdict_sentence(report, checked):
            yield from paragraph(sentence)
        yield from bullets("Why", summary.verdict_reasons(report))
    yield from bullets(
        "What was audited", [f"{name}: {value}" for name, value in summary.audited_facts(report)]
    )
    declared = assessment.context_facts(report)
    yield from bullets("Release", [f"{name}: {value}" for name, value in declared])
    for table in (*assessment.judgement_tables(report), *assessment.coverage(report)):
        yield from table_lines(table)
    yield from bullets("What was tried", attack_summaries(report))
    for table in (
        *overview.attack_tables(report),
        *attribution(report),
        *z_by_round.table(report),
        *overview.finding_tables(report, MOST_FINDINGS),
        *defense_tables(report),
        *overview.other_tables(report),
        *overview.claim_table(report),
    ):
        yield from table_lines(table)
    yield from bullets("Limits", report["limits"])


def paragraph(text: str, *, bold: bool = False) -> Iterator[str]:
    """Yield the lines of a paragraph."""
    yield ""
    yield f"**{escape(text)}**" if bold else block(text)


def bullets(title: str, lines: Sequence[str]) -> Iterator[str]:
    """Yield the lines of a titled list; nothing if the list is empty."""
    if lines:
        yield from ("", f"## {title}", "")
    for line in lines:
        yield f"- {block(line)}"


def table_lines(table: Table) -> Iterator[str]:
    """Yield the lines of a titled table with its notes."""
    yield from ("", f"## {escape(table.title)}", "")
    yield _cells(table.columns)
    sides = ("--:" if column in table.numeric else ":--" for column in table.columns)
    yield f"| {' | '.join(sides)} |"
    for row in table.rows:
        yield _cells(row)
    for note in table.notes:
        yield from paragraph(note)


def _cells(row: Sequence[str]) -> str:
    return f"| {' | '.join(map(escape, row))} |"


def escape(text: str) -> str:
    """Return `text` escaped so that Markdown shows it literally within a line or a cell.

    HTML becomes entities. So do the characters that turn bare addresses into links, and the pipe,
    because some readers would show the backslash before an escaped pipe.
    """
    text = html.escape(make_visible(text), quote=False)
    text = re.sub(r"([\\`*_{}\[\]#!~$])", r"\\\1", text)
    text = text.replace("|", "&#124;").replace("@", "&#64;").replace("://", "&#58;//")
    return re.sub(r"(?i)\bwww\.", lambda match: f"{match[0][:3]}&#46;", text)


def block(text: str) -> str:
    """Return `text` escaped for the start of a line: it begins no list, rule, heading or code."""
    text = escape(text.lstrip(" ") or " ")
    return re.sub(
        r"^([-+=]|\d+(?=[.)]))", lambda match: f"&#{ord(match[0][0])};{match[0][1:]}", text
    )
