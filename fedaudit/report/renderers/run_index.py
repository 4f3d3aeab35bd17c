"""A folder of runs as one HTML page: sortable, nothing loaded, nothing run but its own script."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

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
from fedaudit.report.renderers.html_environment import render_page
from fedaudit.report.tables.table import NONE

WIDTH, HEIGHT, LEFT, TOP = 480, 180, 56, 12
MOST_CURVES = 6
ORDER = {"fail": 0, "inconclusive": 1, "pass": 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class TrendCurve:
    """One number by round, as points of a figure."""

    name: str
    path: str
    band: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrendFigure:
    """The shares of one federation by round."""

    title: str
    curves: tuple[TrendCurve, ...]
    rounds: tuple[tuple[str, float], ...]
    scale: tuple[tuple[str, float], ...]


def render(entries: Sequence[RunEntry], title: str) -> str:
    """Return the index of `entries`; every text in it is escaped, links stay below the folder."""
    all_trends = trends(entries)
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
        "figures": [*filter(None, map(_figure, _federations(all_trends)))],
        "tables": [*trend_tables(all_trends), *problems_table(entries)],
        "box": (WIDTH, HEIGHT, LEFT, TOP),
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


def _federations(all_trends: Sequence[Trend]) -> list[list[Trend]]:
    names = dict.fromkeys(trend.federation for trend in all_trends)
    return [[trend for trend in all_trends if trend.federation == name] for name in names]


def _figure(group: Sequence[Trend]) -> TrendFigure | None:
    """Return the figure of a federation's shares by round; None if no share has an interval."""
    shares = [trend for trend in group if trend.share][:MOST_CURVES]
    shares = [trend for trend in shares if all(row["high"] is not None for _, row in trend.points)]
    if not shares:
        return None
    rounds = sorted({number for trend in shares for number, _ in trend.points})
    top = max(row["high"] for trend in shares for _, row in trend.points) or 1.0
    span = rounds[-1] - rounds[0]

    def x(number: int) -> float:
        return round(LEFT + WIDTH * (number - rounds[0]) / span, 1)

    def y(value: float) -> float:
        return round(TOP + HEIGHT * (1 - value / top), 1)

    return TrendFigure(
        title=f"Shares by round: {Path(group[0].federation).name or group[0].federation}",
        curves=tuple(_curve(trend, x, y) for trend in shares),
        rounds=tuple((str(number), x(number)) for number in rounds),
        scale=tuple((percent(top * fraction), y(top * fraction)) for fraction in (0, 0.5, 1)),
    )


def _curve(trend: Trend, x: Any, y: Any) -> TrendCurve:
    middle = tuple((x(number), y(row["value"])) for number, row in trend.points)
    upper = [(x(number), y(row["high"])) for number, row in trend.points]
    lower = [(x(number), y(row["low"])) for number, row in reversed(trend.points)]
    return TrendCurve(
        name=trend.name, points=middle, path=_path(middle), band=_path([*upper, *lower])
    )


def _path(points: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x},{y}" for x, y in points)
