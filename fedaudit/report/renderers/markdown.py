"""A report as Markdown, for an issue, a wiki or a merge request."""

import html
from collections.abc import Iterator

from fedaudit.report.charts import z_by_round
from fedaudit.report.kinds.registry import kinds_of
from fedaudit.report.query import Row
from fedaudit.report.renderers.markdown_blocks import bullets, paragraph, table_lines
from fedaudit.report.tables import assessment, overview
from fedaudit.report.tables.attribution.methods import attribution
from fedaudit.report.tables.comparison.defenses import defense_tables
from fedaudit.report.tables.extraction.evidence import headline
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
