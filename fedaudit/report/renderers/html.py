"""A report as one HTML page that loads nothing and runs nothing, for data protection officers."""

import html
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from fedaudit.report import query
from fedaudit.report.charts import coverage_by_budget, heat_map, privacy_utility, z_by_round
from fedaudit.report.charts.heat_map import HeatMap
from fedaudit.report.charts.line_plot import LinePlot
from fedaudit.report.kinds import memorization
from fedaudit.report.kinds.registry import kinds_of
from fedaudit.report.number_format import format_measurement
from fedaudit.report.pii_categories import relevant_clauses
from fedaudit.report.query import SETS, SOURCES, Row
from fedaudit.report.redaction import make_visible
from fedaudit.report.renderers.html_environment import html_environment
from fedaudit.report.tables import assessment, grouping, overview
from fedaudit.report.tables.attribution.methods import attribution
from fedaudit.report.tables.comparison.defenses import defense_tables
from fedaudit.report.tables.cross_client import charted_report, without_pairs
from fedaudit.report.tables.extraction import verbatim
from fedaudit.report.tables.extraction.evidence import headline
from fedaudit.report.tables.extraction.untargeted import group_by_search
from fedaudit.report.text import summary
from fedaudit.report.text.attacks import attack_summaries
from fedaudit.report.text.glossary import used_terms
from fedaudit.report.text.searched_kinds import searched_kinds
from fedaudit.report.verdict.recheck import recheck
from fedaudit.system.outputs import GENERATOR

MOST_FINDINGS = 100
WIDTH = 300
"""Length of the longest bar of a chart."""

MOST_LETTERS = 48
"""The maximum length of a bar's name; the table below the chart has the whole name."""

MOST_BARS = 40
"""The maximum number of bars in a chart; the table has a line for each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One bar of a chart: its name, and how far its value and interval reach."""

    name: str
    caption: str
    source: str
    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """What one attack found, as bars."""

    title: str
    bars: tuple[Bar, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PageFigure:
    """A picture with its caption; `svg` is markup."""

    title: str
    note: str
    svg: str


def render(report: Row) -> str:
    """Return a valid report's document as a self-contained page: no script, nothing loaded."""
    environment = html_environment()
    template = files("fedaudit.report").joinpath("template.html.j2").read_text(encoding="utf-8")
    page, content = environment.from_string(template), _content(report)
    text = re.sub(r"(?s)<style>.*?</style>|<[^>]*>", " ", page.render(content))
    return page.render({**content, "glossary": used_terms(html.unescape(text), kinds_of(report))})


def _content(report: Row) -> dict[str, Any]:
    """Return the values that the template lays out, with all texts still unescaped."""
    checked = recheck(report)
    return {
        "report": report,
        "generator": GENERATOR,
        "title": summary.title(report),
        "judged": summary.is_audit(report),
        "checked": checked,
        "headline": headline(report, checked),
        "searched": searched_kinds(report),
        "answer": summary.verdict_sentence(report, checked),
        "reasons": summary.verdict_reasons(report),
        "audited": summary.audited_facts(report),
        "declared": assessment.context_facts(report),
        "covered": [*assessment.coverage(report), *assessment.judgement_tables(report)],
        "tried": attack_summaries(report),
        "charts": charts(report),
        "plots": _figures(
            *coverage_by_budget.figures(report),
            *privacy_utility.figures(report),
            *heat_map.heat_maps(report),
        ),
        "passages": memorization.passage_table(
            {"findings": overview.worst_findings(report)}, MOST_FINDINGS
        ),
        "extraction": [*overview.attack_tables(report), *relevant_clauses(report)],
        "attribution": attribution(report),
        "z_plots": _figures(*z_by_round.figures(report)),
        "leaks": overview.leak_table(report, MOST_FINDINGS),
        "flagged": overview.flagged_table(report, MOST_FINDINGS),
        "defenses": defense_tables(report),
        "rest": [*overview.other_tables(report), *overview.claim_table(report)],
        "glossary": {},
        "width": WIDTH,
    }


def _figures(*plots: LinePlot | HeatMap) -> list[PageFigure]:
    return [PageFigure(title=plot.title, note=plot.note, svg=plot.svg()) for plot in plots]


def charts(report: Row) -> list[Chart]:
    """Return a chart for each attack with prompts, and for every attack under keys or on variants.

    The longest interval of a chart takes its whole width.
    """
    groups = {
        f"Coverage by the attack {plugin}": group
        for plugin, group in query.by_plugin(query.total_coverages(charted_report(report))).items()
    }
    recalls = group_by_search(query.untargeted_rows(report, labelled=False))
    for name, group in recalls.items():
        groups[f"Recall by the attack {name}"] = group
    for plugin, group in query.by_plugin(query.inference_rows(report, labelled=False)).items():
        groups[f"Accuracy of the attack {plugin}"] = group
    bars_by_title = {title: _bars(group) for title, group in groups.items()} | _kinds(report)
    bars_by_title |= {
        f"Edit distance by the attack {plugin}": _distances(group)
        for plugin, group in query.by_plugin(verbatim.distance_rows(report)).items()
    }
    return [_chart(title, bars) for title, bars in bars_by_title.items() if bars]


def _kinds(report: Row) -> dict[str, list[tuple[str, Row]]]:
    """Return each attack's results by kind of PII, as in the table."""
    bars_by_title = {}
    for plugin, group in query.by_plugin(
        query.coverages(without_pairs(report), labelled=True)
    ).items():
        if not any("key" in row["scope"] for row in group):
            rows = query.largest_label_rows(
                grouping.single_group(group) if grouping.has_many_lines(group) else group
            )
            named = [
                (make_visible(str(row["scope"]["label"])), row)
                for row in rows
                if _has_interval(row)
            ]
            bars_by_title[f"Kinds of PII by the attack {plugin}"] = named[:MOST_BARS]
    return bars_by_title


def _distances(group: Sequence[Row]) -> list[tuple[str, Row]]:
    """Return the mean edit distances of every task, or over all tasks for each variant."""
    is_study = len({grouping.variant_of(row) for row in group}) > 1
    rows = [
        row for row in group if _has_interval(row) and not (is_study and "task" in row["scope"])
    ]
    return [(_name(row, {"variant"} if is_study else ()), row) for row in rows][:MOST_BARS]


def _has_interval(row: Row) -> bool:
    return row["value"] is not None and row["high"] is not None


def _bars(group: Sequence[Row]) -> list[tuple[str, Row]]:
    """Return the rows to draw, by name: every source, or one for each variant and key."""
    viewed = grouping.has_many_lines(group)
    if not viewed and group[0]["metric"] != "coverage":
        return []
    hidden = grouping.column_scopes(group)
    rows = grouping.preferred_source_rows(group) if viewed else group
    return [(_name(row, hidden), row) for row in rows if row["value"] is not None][:MOST_BARS]


def _chart(title: str, bars: Sequence[tuple[str, Row]]) -> Chart:
    scale = WIDTH / (max(row["high"] for _, row in bars) or 1)
    return Chart(title=title, bars=tuple(_bar(name, row, scale) for name, row in bars))


def _bar(name: str, row: Row, scale: float) -> Bar:
    reach = {end: round(scale * row[end], 1) for end in ("value", "low", "high")}
    source = str(row["scope"].get("source", "tuned"))
    return Bar(name=name, caption=format_measurement(row), source=source, **reach)


def _name(row: Row, hidden: Collection[str]) -> str:
    """Return a bar's name in a few words, starting with variant and key if they differ."""
    scope = row["scope"]
    count = scope.get("candidates") if row["metric"] in query.INFERENCE else None
    name_parts = (
        grouping.variant_of(row) if "variant" in hidden else "",
        f"key {grouping.key_text(row)}" if grouping.key_text(row) else "",
        SOURCES.get(scope.get("source")),
        SETS.get(scope.get("set")),
        "" if count is None else f"{count} candidates",
        query.scope_of(row, {*hidden, "client", "detection"} if hidden else ()),
    )
    name = make_visible(", ".join(filter(None, name_parts)))
    return name if len(name) <= MOST_LETTERS else f"{name[: MOST_LETTERS - 1]}…"
