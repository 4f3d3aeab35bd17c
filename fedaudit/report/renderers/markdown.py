"""A report as Markdown, for an issue, a wiki or a merge request."""

import html
import re
from collections.abc import Iterator, Sequence

from fedaudit.report.charts import z_by_round
from fedaudit.report.query import Row
from fedaudit.report.redaction import make_visible
from fedaudit.report.tables import assessment, overview
from fedaudit.report.tables.attribution.methods import attribution
from fedaudit.report.tables.extraction.evidence import headline
from fedaudit.report.tables.table import Table
from fedaudit.report.text import summary
from fedaudit.report.text.attacks import attack_summaries
from fedaudit.report.text.glossary import used_terms
from fedaudit.report.verdict.recheck import recheck

MOST_FINDINGS = 100


def render(report: Row) -> str:
    """Return a valid report's document as Markdown; no text in it is a link, HTML or code."""
    lines = [*_lines(report)]
    terms = used_terms(html.unescape("\n".join(lines)))
    lines += _list("Terms", [f"{term}: {meaning}" for term, meaning in terms.items()])
    return "\n".join(lines) + "\n"


def _lines(report: Row) -> Iterator[str]:
    checked = recheck(report)
    yield f"# {summary.title(report)}"
    if checked.told:
        yield from _paragraph(checked.told, bold=bool(checked.brief))
    if summary.is_audit(report):
        yield from _paragraph(f"Verdict: {headline(report, checked)}", bold=True)
        for sentence in summary.verdict_sentence(report, checked):
            yield from _paragraph(sentence)
        yield from _list("Why", summary.verdict_reasons(report))
    yield from _list(
        "What was audited", [f"{name}: {value}" for name, value in summary.audited_facts(report)]
    )
    declared = assessment.context_facts(report)
    yield from _list("Release", [f"{name}: {value}" for name, value in declared])
    for table in (*assessment.judged(report), *assessment.coverage(report)):
        yield from _table(table)
    yield from _list("What was tried", attack_summaries(report))
    for table in (
        *overview.attack_tables(report),
        *attribution(report),
        *z_by_round.table(report),
        *overview.finding_tables(report, MOST_FINDINGS),
        *overview.other_tables(report),
        *overview.claim_table(report),
    ):
        yield from _table(table)
    yield from _list("Limits", report["limits"])


def _paragraph(text: str, *, bold: bool = False) -> Iterator[str]:
    yield ""
    yield f"**{escape(text)}**" if bold else _block(text)


def _list(title: str, lines: Sequence[str]) -> Iterator[str]:
    if lines:
        yield from ("", f"## {title}", "")
    for line in lines:
        yield f"- {_block(line)}"


def _table(table: Table) -> Iterator[str]:
    yield from ("", f"## {escape(table.title)}", "")
    yield _cells(table.columns)
    sides = ("--:" if column in table.numeric else ":--" for column in table.columns)
    yield f"| {' | '.join(sides)} |"
    for row in table.rows:
        yield _cells(row)
    for note in table.notes:
        yield from _paragraph(note)


def _cells(row: Sequence[str]) -> str:
    return f"| {' | '.join(map(escape, row))} |"


def escape(text: str) -> str:
    """Return `text` so that Markdown shows it as it is within a line or a cell.

    HTML becomes entities, so do the signs that make bare addresses links, and the pipe, whose
    backslash some readers would show.
    """
    text = html.escape(make_visible(text), quote=False)
    text = re.sub(r"([\\`*_{}\[\]#!~$])", r"\\\1", text)
    text = text.replace("|", "&#124;").replace("@", "&#64;").replace("://", "&#58;//")
    return re.sub(r"(?i)\bwww\.", lambda match: f"{match[0][:3]}&#46;", text)


def _block(text: str) -> str:
    """Return `text` escaped for where a line begins: it starts no list, rule, heading or code."""
    text = escape(text.lstrip(" ") or " ")
    return re.sub(
        r"^([-+=]|\d+(?=[.)]))", lambda match: f"&#{ord(match[0][0])};{match[0][1:]}", text
    )
