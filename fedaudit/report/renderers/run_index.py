"""A folder of runs as one HTML page: sortable, nothing loaded, nothing run but its own script."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from fedaudit.report.charts.coverage_by_budget import COLORS, LEGEND, interval_lines
from fedaudit.report.charts.line_plot import LinePlot
from fedaudit.report.index import (
    NO_VERDICT,
    RunEntry,
    Trend,
    counts,
    folder_of,
    problems_table,
    trend_tables,
    trends,
)
from fedaudit.report.number_format import percent
from fedaudit.report.query import group_by
from fedaudit.report.renderers.html_environment import render_page
from fedaudit.report.tables.table import NONE

ORDER = {"fail": 0, "inconclusive": 1, "pass": 2}


def render(entries: Sequence[RunEntry], title: str) -> str:
    """Return the index of `entries`; every text in it is escaped, links stay below the folder."""
    all_trends = trends(entries)
    federations = group_by(all_trends, lambda trend: trend.federation)
    content = {
        "title": title,
        "columns": (
            "run",
            "command",
            "started",
            "model",
            "round",
            "release",
            "verdict",
            "findings",
        ),
        "rows": [_row(entry) for entry in entries if not entry.problem],
        "figures": [*filter(None, map(_figure, federations.values()))],
        "tables": [*trend_tables(all_trends), *problems_table(entries)],
    }
    return render_page("run_index", content)


def _row(entry: RunEntry) -> dict[str, Any]:
    """Return the cells of a run, each with its sort key, and the page that the run links to."""
    verdict = entry.verdict or NO_VERDICT
    worst = [entry.findings.get(level, 0) for level in ("high", "medium", "low")]
    order = sum(count * scale for count, scale in zip(worst, (1e12, 1e6, 1.0), strict=True))
    link = quote(entry.path.with_suffix(".html").as_posix())
    return {
        "page": f"./{link}" if entry.page else "",
        "verdict": verdict if verdict in ORDER else "other",
        "cells": (
            (folder_of(entry), folder_of(entry)),
            (str(entry.run["command"]), str(entry.run["command"])),
            (entry.start_time[:16].replace("T", " "), entry.start_time),
            (entry.model, entry.model),
            (
                NONE if entry.round is None else str(entry.round),
                -1 if entry.round is None else entry.round,
            ),
            (entry.release or NONE, entry.release),
            (verdict, ORDER.get(verdict, 3)),
            (counts(entry), -order),
        ),
    }


def _figure(group: Sequence[Trend]) -> LinePlot | None:
    """Return the figure of a federation's shares by round; None if no share has an interval."""
    shares = [trend for trend in group if trend.share][: len(COLORS)]
    shares = [trend for trend in shares if all(row["high"] is not None for _, row in trend.points)]
    if not shares:
        return None
    return LinePlot(
        title=f"Shares by round: {Path(group[0].federation).name or group[0].federation}",
        note=LEGEND,
        lines=interval_lines((trend.name, trend.points) for trend in shares),
        low=0.0,
        high=max(row["high"] for trend in shares for _, row in trend.points) or 1.0,
        across="round",
        across_scale="whole",
        format_value=percent,
    )
