"""A report as one HTML page that loads nothing: first for officers, then for engineers."""

import html
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fedaudit.api.kind import Table
from fedaudit.report.charts import coverage_by_budget, heat_map, privacy_utility, z_by_round
from fedaudit.report.charts.beside_chance import beside_chance
from fedaudit.report.charts.line_plot import LinePlot
from fedaudit.report.checklist.brief import NOT_LOOKED_FOR, brief, byline, kind_name
from fedaudit.report.checklist.measures import measures
from fedaudit.report.checklist.validity import NOT_OWNED, ReportOwner
from fedaudit.report.kinds.memorization import passage_table
from fedaudit.report.kinds.registry import kinds_of
from fedaudit.report.pii_categories import relevant_clauses
from fedaudit.report.query import SEVERITIES, Row
from fedaudit.report.redaction import MASK_FIELDS
from fedaudit.report.renderers.html_environment import render_page
from fedaudit.report.tables import assessment, overview
from fedaudit.report.tables.attribution import attribution
from fedaudit.report.tables.defense import defense_tables
from fedaudit.report.tables.evidence import headline
from fedaudit.report.tables.table import format_cell
from fedaudit.report.text import summary
from fedaudit.report.text.attacks import attack_summaries
from fedaudit.report.text.glossary import term_ids, used_terms
from fedaudit.report.text.searched_kinds import searched_kinds
from fedaudit.report.verdict.recheck import JudgedReport, recheck
from fedaudit.system.numbers import count_of

MOST_FINDINGS = 100
NUMBERS = ("outputs", "outputs_of_base", "p_value")
"""Fields of a finding's evidence that have a column."""
WIDTH = 300
"""Length of a bar that reaches the end of the chart's scale."""


def render(report: Row, owned: ReportOwner = NOT_OWNED) -> str:
    """Return a valid report's document as a self-contained page.

    It loads nothing and runs one script, its own, without which all of it can be read as well.
    """
    content = _content(JudgedReport(report), owned)
    page = render_page("report", content)
    text = html.unescape(re.sub(r"(?s)<(style|script)>.*?</\1>|<[^>]*>", " ", page))
    terms = used_terms(text, kinds_of(report))
    ids = term_ids(terms)
    columns = {name: ids[term] for term in terms for name in _columns_of(content, term)}
    return render_page(
        "report", content | {"terms": terms, "all_term_ids": ids, "term_ids": columns}
    )


def _unsaid(basis: str, reasons: Iterable[str]) -> str:
    """Return what an action follows from, without the reasons that stand above it."""
    for reason in reasons:
        basis = basis.replace(reason, "")
    return " ".join(basis.split())


def _columns_of(content: Mapping[str, Any], term: str) -> Iterator[str]:
    """Yield the headings of tables that are a term, so that they link to what it means."""
    tables = [*content["judged_tables"], *content["covered"]]
    tables += [table for _, _, found in content["sections"] for table in found]
    for table in tables:
        for column in table.columns:
            if term.casefold() in (column.casefold(), column.casefold().removesuffix(" [95 %]")):
                yield column


def _content(report: Row, owned: ReportOwner) -> dict[str, Any]:
    """Return the values that the template lays out, with all texts still unescaped."""
    checked, facts = recheck(report), brief(report, owned)
    chart, reasons = beside_chance(report), summary.verdict_reasons(report)
    return {
        "report": report,
        "title": summary.title(report),
        "byline": byline(report, owned),
        "judged": summary.is_audit(report),
        "checked": checked,
        "headline": headline(report, checked),
        "answer": summary.verdict_sentence(report, checked),
        "before": [fact for fact in facts if fact.question == NOT_LOOKED_FOR],
        "after": [fact for fact in facts if fact.question != NOT_LOOKED_FOR],
        "open_figures": [
            *privacy_utility.figures(report),
            *heat_map.heat_maps(report),
            *z_by_round.figures(report),
        ],
        "chart": chart.scaled(WIDTH),
        "width": WIDTH,
        "judged_tables": assessment.judgement_tables(report),
        "findings": _findings(report),
        "reasons": reasons,
        "actions": [(one.action, _unsaid(one.basis, reasons)) for one in measures(report)],
        "searched": searched_kinds(report),
        "audited": summary.audited_facts(report),
        "declared": assessment.context_facts(report),
        "covered": assessment.coverage(report),
        "tried": attack_summaries(report),
        "sections": [*_sections(report, owned)],
        "terms": {},
        "term_ids": {},
        "all_term_ids": {},
    }


def _sections(report: Row, owned: ReportOwner) -> Iterator[tuple[str, list[LinePlot], list[Table]]]:
    """Yield the folded sections that have something: title, figures, tables."""
    extraction = [
        *overview.attack_tables(report, laws=owned.laws),
        *relevant_clauses(report, owned.laws),
    ]
    worst = {"findings": overview.worst_findings(report)}
    sections: tuple[tuple[str, list[LinePlot], list[Table]], ...] = (
        ("What came out", coverage_by_budget.figures(report), extraction),
        ("What defences would have bought and cost", [], defense_tables(report)),
        ("Who trained on marked documents", [], attribution(report)),
        (
            "Passages and flagged clients",
            [],
            [*passage_table(worst, MOST_FINDINGS), *overview.flagged_table(report, MOST_FINDINGS)],
        ),
        (
            "Defences, utility, costs and claims",
            [],
            [*overview.other_tables(report), *overview.claim_table(report)],
        ),
    )
    yield from (section for section in sections if section[1] or section[2])


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingLine:
    """One finding: its cells with sort keys, and all of its evidence."""

    id: str
    level: str
    cells: tuple[tuple[str, object], ...]
    evidence: list[tuple[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingLines:
    """The worst findings, as a table that is filtered and sorted."""

    title: str
    columns: tuple[str, ...]
    rows: list[FindingLine]
    levels: list[str]
    notes: list[str]


def _findings(report: Row) -> FindingLines:
    findings = overview.worst_findings(report)
    counts = Counter(str(finding["severity"]) for finding in findings)
    remaining = len(findings) - MOST_FINDINGS
    total = f"{len(findings):,} finding{'s' * (len(findings) != 1)}"
    return FindingLines(
        title=f"{total}: {', '.join(f'{n:,} {level}' for level, n in counts.items())}",
        columns=("severity", "leak", "kind", "by", "times", "base", "p", "more"),
        rows=[_finding(one) for one in findings[:MOST_FINDINGS]],
        levels=[*counts],
        notes=[summary.MORE.format(remaining)] if remaining > 0 else [],
    )


def _finding(finding: Row) -> FindingLine:
    evidence = finding["evidence"]
    texts = (
        (finding["severity"], SEVERITIES.index(finding["severity"])),
        *((text, text) for text in (overview.leak_name(finding), kind_name(finding["label"]))),
        (finding["measurement"], finding["measurement"]),
        *(
            (format_cell(value), value if isinstance(value, int | float) else "")
            for value in map(evidence.get, NUMBERS)
        ),
    )
    return FindingLine(
        id=finding["id"],
        level=finding["severity"],
        cells=texts,
        evidence=[*map(_fact, sorted(evidence.items(), key=_rank))],
    )


def _rank(item: tuple[str, Any]) -> tuple[int, str]:
    """Put the prompt first, and last the mask, which the table shows."""
    name = item[0]
    return (name != "prompt") + (name in MASK_FIELDS), name


def _fact(item: tuple[str, Any]) -> tuple[str, str]:
    """Return a field of a finding's evidence with its value, both in words."""
    name, value = item
    if name == "prompt" and isinstance(value, Mapping) and {"number", "tokens"} <= value.keys():
        before = ", ".join(map(kind_name, value.get("before") or ()))
        behind = f" before: {before}" if before else ""
        quoted = f"; masked: {value['text']}" if value.get("text") else ""
        return "drawn first by", (
            f"prompt {value['number']:,}: {count_of(value['tokens'], 'token')} of the attacker's "
            f"text{behind}{quoted}"
        )
    return name.replace("_", " "), format_cell(value)
