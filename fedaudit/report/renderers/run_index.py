"""A folder of runs as one HTML page: sortable, nothing loaded, nothing run but its own script."""

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import quote

from fedaudit.report.index.entries import RunEntry
from fedaudit.report.index.tables import (
    NO_VERDICT,
    counts,
    folder_of,
    problems_table,
    trend_tables,
)
from fedaudit.report.index.trends import Trend, trends
from fedaudit.report.number_format import percent
from fedaudit.report.renderers.html_environment import html_environment
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
    environment = html_environment()
    texts = {
        name: files("fedaudit.report").joinpath(name).read_text(encoding="utf-8")
        for name in ("run_index.html.j2", "run_index.js")
    }
    digest = hashlib.sha256(texts["run_index.js"].encode()).digest()
    found = trends(entries)
    return environment.from_string(texts["run_index.html.j2"]).render(
        title=title,
        script=_Script(texts["run_index.js"]),
        hash=base64.b64encode(digest).decode(),
        columns=("run", "command", "started", "model", "round", "release", "verdict", "findings"),
        rows=[_row(one) for one in entries if not one.problem],
        figures=[*filter(None, map(_figure, _federations(found)))],
        tables=[*trend_tables(found), *problems_table(entries)],
        box=(WIDTH, HEIGHT, LEFT, TOP),
    )


class _Script(str):
    """Our own script, which goes into the page as it is."""

    __slots__ = ()

    def __html__(self) -> str:
        return self


def _row(one: RunEntry) -> dict[str, Any]:
    """Return the cells of a run, each with what it is sorted by, and the page that it links to."""
    verdict = one.verdict or NO_VERDICT
    worst = [one.findings.get(level, 0) for level in ("high", "medium", "low")]
    order = sum(count * scale for count, scale in zip(worst, (1e12, 1e6, 1.0), strict=True))
    place = quote(one.path.with_suffix(".html").as_posix())
    return {
        "page": f"./{place}" if one.page else "",
        "verdict": verdict if verdict in ORDER else "other",
        "cells": (
            (folder_of(one), folder_of(one)),
            (str(one.run["command"]), str(one.run["command"])),
            (one.started[:16].replace("T", " "), one.started),
            (one.model, one.model),
            (NONE if one.round is None else str(one.round), -1 if one.round is None else one.round),
            (one.release or NONE, one.release),
            (verdict, ORDER.get(verdict, 3)),
            (counts(one), -order),
        ),
    }


def _federations(found: Sequence[Trend]) -> list[list[Trend]]:
    names = dict.fromkeys(one.federation for one in found)
    return [[one for one in found if one.federation == name] for name in names]


def _figure(own: Sequence[Trend]) -> TrendFigure | None:
    """Return the shares of a federation drawn by round; None where none has an interval."""
    drawn = [one for one in own if one.share][:MOST_CURVES]
    drawn = [one for one in drawn if all(row["high"] is not None for _, row in one.points)]
    if not drawn:
        return None
    rounds = sorted({number for one in drawn for number, _ in one.points})
    top = max(row["high"] for one in drawn for _, row in one.points) or 1.0
    span = rounds[-1] - rounds[0]

    def x(number: int) -> float:
        return round(LEFT + WIDTH * (number - rounds[0]) / span, 1)

    def y(value: float) -> float:
        return round(TOP + HEIGHT * (1 - value / top), 1)

    return TrendFigure(
        title=f"Shares by round: {Path(own[0].federation).name or own[0].federation}",
        curves=tuple(_curve(one, x, y) for one in drawn),
        rounds=tuple((str(number), x(number)) for number in rounds),
        scale=tuple((percent(top * part), y(top * part)) for part in (0, 0.5, 1)),
    )


def _curve(one: Trend, x: Any, y: Any) -> TrendCurve:
    middle = tuple((x(number), y(row["value"])) for number, row in one.points)
    upper = [(x(number), y(row["high"])) for number, row in one.points]
    lower = [(x(number), y(row["low"])) for number, row in reversed(one.points)]
    return TrendCurve(
        name=one.name, points=middle, path=_path(middle), band=_path([*upper, *lower])
    )


def _path(points: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x},{y}" for x, y in points)
