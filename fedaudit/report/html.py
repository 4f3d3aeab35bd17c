"""A report as one HTML page that loads nothing and runs nothing, for data protection officers."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from fedaudit.report import rows, story, tables
from fedaudit.report.figures import measured
from fedaudit.report.redaction import visible
from fedaudit.report.rows import SETS, SOURCES, Row

MOST_FINDINGS = 100
WIDTH, STEP, LETTER = 300, 26, 7
"""The chart's geometry: how long the longest bar is, the height of a line, a letter's width."""

MOST_LETTERS = 48
"""Of a bar's name; the table below the chart has it all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One bar of a chart: what it is of, and how far its value and interval reach."""

    name: str
    told: str
    source: str
    y: int
    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """The coverages of one attack, as bars."""

    title: str
    bars: tuple[Bar, ...]
    left: int
    """Where the bars begin, right of their names."""
    height: int


def render(report: Row) -> str:
    """Return a valid report's document as a self-contained page: no script, nothing loaded."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_visible,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    template = files("fedaudit.report").joinpath("template.html.j2").read_text(encoding="utf-8")
    return environment.from_string(template).render(_content(report))


def _content(report: Row) -> dict[str, Any]:
    """Return what the template lays out; every text in it is still raw."""
    return {
        "report": report,
        "title": story.title(report),
        "judged": story.judged(report),
        "answer": story.answer(report),
        "audited": story.audited(report),
        "tried": story.tried(report),
        "charts": charts(report),
        "extraction": [
            *tables.extraction(report),
            *tables.labels(report),
            *tables.inference(report),
        ],
        "findings": tables.findings(report, MOST_FINDINGS),
        "rest": [*tables.utility(report), *tables.others(report), *tables.claims(report)],
        "glossary": story.GLOSSARY,
        "width": WIDTH,
        "step": STEP,
    }


def charts(report: Row) -> list[Chart]:
    """Return one chart per attack; its longest interval takes the whole width."""
    groups = rows.by_plugin(row for row in rows.totals(report) if row["value"] is not None)
    return [_chart(plugin, group) for plugin, group in groups.items()]


def _chart(plugin: str, known: Sequence[Row]) -> Chart:
    scale = WIDTH / (max(row["high"] for row in known) or 1)
    bars = tuple(_bar(row, STEP * index, scale) for index, row in enumerate(known))
    return Chart(
        title=f"Coverage by the attack {plugin}",
        bars=bars,
        left=LETTER * (max(len(bar.name) for bar in bars) + 2),
        height=STEP * len(bars),
    )


def _bar(row: Row, y: int, scale: float) -> Bar:
    reach = {end: round(scale * row[end], 1) for end in ("value", "low", "high")}
    source = str(row["scope"].get("source", "tuned"))
    return Bar(name=_name(row), told=measured(row), source=source, y=y, **reach)


def _name(row: Row) -> str:
    scope = row["scope"]
    parts = (SOURCES.get(scope.get("source")), SETS.get(scope.get("set")), rows.place(row))
    name = visible(", ".join(filter(None, parts)))
    return name if len(name) <= MOST_LETTERS else f"{name[: MOST_LETTERS - 1]}…"


def _visible(value: Any) -> Any:
    """Spell out hidden characters in all that the template prints; autoescape does the rest."""
    own = hasattr(value, "__html__")  # a macro's output, already through here
    return visible(value) if isinstance(value, str) and not own else value
