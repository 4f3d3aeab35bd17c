"""What smaller budgets would have found: a table an attack, and curves for a page."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log10

from fedaudit.report import query as measurements
from fedaudit.report.number_format import format_hits, format_measurement, number, percent
from fedaudit.report.query import SOURCES, Row, comparable_row, telling_rank
from fedaudit.report.redaction import make_visible
from fedaudit.report.tables import grouping
from fedaudit.report.tables.extraction.expected import is_exact
from fedaudit.report.tables.table import NONE, Table, display_name, laid_out

COVERAGE = "coverage [95 %]"
MOST_CURVES = 6
"""Curves of one figure, in the order of the report."""
MOST_TABLES = 12

WIDTH, HEIGHT, LEFT, EDGE, GAP = 420, 240, 60, 14, 18
"""Geometry of the picture: the plot, the room for its scale, the margin, the gap between names."""
MOST_LETTERS = 32

TITLES = {"coverage": "Coverage against budget", "efficiency": "Found per query against budget"}
SHOWN_KEYS = frozenset(
    {"source", "set", "label", "category", "budget", "samples", "key", "adapter"}
)
"""The keys of a scope that distinguish a sweep's points and curves."""

Point = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """One attack's rows along its budget, all of one source, under one kind of key."""

    name: str
    coverage: tuple[Row, ...]
    efficiency: tuple[Row, ...]
    by_samples: tuple[Row, ...]
    """Coverages of the whole budget with fewer samples a prefix."""
    other_sources: tuple[Row, ...]
    """The same of other sources."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepCurve:
    """A sweep as it is drawn: its line, and the band of its intervals."""

    name: str
    path: str
    band: str
    points: tuple[Point, ...]
    label: float
    """Vertical position of its name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetFigure:
    """Curves over budgets on a log scale."""

    title: str
    curves: tuple[SweepCurve, ...]
    budgets: tuple[tuple[str, float], ...]
    scale: tuple[tuple[str, float], ...]
    height: int
    note: str
    left: int = LEFT
    right: int = LEFT + WIDTH


def sweeps(report: Row) -> list[Sweep]:
    """Return the sweep of every attack and kind of key; of a study, that of the first variant."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in _sweep_rows(report):
        groups.setdefault((row["plugin"], grouping.key_text(row)), []).append(row)
    all_sweeps = (_sweep(name, key, _first(rows)) for (name, key), rows in groups.items())
    return [sweep for sweep in all_sweeps if sweep.coverage]


def tables(report: Row) -> list[Table]:
    """Return a table for each sweep, with a line for each power of ten and for the whole budget."""
    return [_table(sweep) for sweep in sweeps(report)[:MOST_TABLES]]


def figures(report: Row) -> list[BudgetFigure]:
    """Return the curves of coverage and of efficiency, all attacks in one picture."""
    all_sweeps = sweeps(report)
    remaining = len(all_sweeps) - MOST_CURVES
    note = f"and {remaining:,} more in report.json." if remaining > 0 else ""
    return [
        _figure(title, [(s.name, getattr(s, metric)) for s in all_sweeps[:MOST_CURVES]], note)
        for metric, title in TITLES.items()
        if any(len(getattr(s, metric)) > 1 for s in all_sweeps[:MOST_CURVES])
    ]


def _sweep_rows(report: Row) -> list[Row]:
    return [
        row
        for row in report["measurements"]
        if row["kind"] == "extraction"
        and row["metric"] in TITLES
        and measurements.is_sweep(row)
        and not is_exact(row)
        and not {"label", "category"} & row["scope"].keys()
        and all(_counts(row["scope"][key]) for key in ("budget", "samples"))
        and None not in (row["value"], row["low"], row["high"])
    ]


def _counts(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _first(rows: Sequence[Row]) -> list[Row]:
    """Return the rows that agree with the first one in all of the scope but SHOWN_KEYS."""

    def rest(row: Row) -> set[tuple[str, str]]:
        return {(k, str(v)) for k, v in row["scope"].items() if k not in SHOWN_KEYS}

    return [row for row in rows if rest(row) == rest(rows[0])]


def _sweep(plugin: str, key: str, rows: Sequence[Row]) -> Sweep:
    subset = min((row["scope"].get("set") for row in rows), key=lambda s: (s != "all", str(s)))
    set_rows = [row for row in rows if row["scope"].get("set") == subset]
    best = min(map(telling_rank, set_rows))
    best_rows = [row for row in set_rows if telling_rank(row) == best]
    most = max(row["scope"]["samples"] for row in best_rows)
    budget = max(row["scope"]["budget"] for row in best_rows)

    def along(metric: str, axis: str, fixed: str, value: int) -> tuple[Row, ...]:
        points = (r for r in best_rows if r["metric"] == metric and r["scope"][fixed] == value)
        return tuple(sorted(points, key=lambda row: row["scope"][axis]))

    return Sweep(
        name=f"{plugin}, {grouping.KEYS.get(key, f'key {key}')}" if key else plugin,
        coverage=along("coverage", "budget", "samples", most),
        efficiency=along("efficiency", "budget", "samples", most),
        by_samples=along("coverage", "samples", "budget", budget),
        other_sources=tuple(row for row in set_rows if row["metric"] == "coverage"),
    )


def _table(sweep: Sweep) -> Table:
    rows = _decades(sweep.coverage)
    cells = [
        {
            "prefixes": number(row["scope"]["budget"]),
            "found": format_hits(row),
            COVERAGE: format_measurement(row),
            "per query": _per_query(sweep, row),
            "base": _matching_value(sweep, row, "base"),
            "control": _matching_value(sweep, row, "control"),
        }
        for row in rows
    ]
    columns = ("prefixes", "found", COVERAGE, "per query", "base", "control")
    source = display_name(SOURCES, rows[0]["scope"].get("source"))
    times = number(rows[0]["scope"]["samples"])
    return laid_out(
        f"Coverage by budget: {sweep.name}",
        cells,
        columns,
        numeric=columns,
        notes=(f"Model: {source}. Each prefix was asked {times} times.", _by_samples(sweep)),
    )


def _decades(rows: Sequence[Row]) -> list[Row]:
    """Return the rows of budgets that are powers of ten, and the last."""
    return [row for row in rows if str(row["scope"]["budget"]).strip("0") == "1" or row is rows[-1]]


def _per_query(sweep: Sweep, row: Row) -> str:
    budget = row["scope"]["budget"]
    return next(
        (number(r["value"]) for r in sweep.efficiency if r["scope"]["budget"] == budget), NONE
    )


def _matching_value(sweep: Sweep, row: Row, source: str) -> str:
    match = comparable_row(sweep.other_sources, row, source)
    return NONE if match is None else percent(match["value"])


def _by_samples(sweep: Sweep) -> str:
    """Return what all prefixes give when each is asked less often."""
    texts = [
        f"{number(r['scope']['samples'])}: {format_measurement(r)}" for r in sweep.by_samples[:-1]
    ]
    return f"All prefixes, by how often each is asked: {'; '.join(texts)}." if texts else ""


def _figure(title: str, series: Sequence[tuple[str, Sequence[Row]]], note: str) -> BudgetFigure:
    every = [row for _, rows in series for row in rows]
    furthest = log10(max(2, *(row["scope"]["budget"] for row in every)))
    rate = every[0]["metric"] == "coverage"
    # The first few queries of an efficiency have such wide intervals that they dwarf the rest.
    highest = 0 if rate else 1.5 * max(row["value"] for row in every)
    top = highest or max(row["high"] for row in every) or 1
    height = max(HEIGHT, GAP * len(series)) + 2 * EDGE

    def across(budget: float) -> float:
        return round(LEFT + EDGE + log10(budget) / furthest * (WIDTH - 2 * EDGE), 1)

    def down(value: float) -> float:
        return round(height - EDGE - min(1, value / top) * (height - 2 * EDGE), 1)

    def points(rows: Sequence[Row], end: str) -> list[Point]:
        return [(across(row["scope"]["budget"]), down(row[end])) for row in rows]

    return BudgetFigure(
        title=title,
        curves=tuple(
            SweepCurve(
                name=_short(name),
                path=_path(points(rows, "value")),
                band=_path([*points(rows, "high"), *reversed(points(rows, "low"))]),
                points=tuple(points(rows, "value")),
                label=EDGE + GAP * index,
            )
            for index, (name, rows) in enumerate(series)
        ),
        budgets=tuple((number(10**n), across(10**n)) for n in range(int(furthest) + 1)),
        scale=tuple(((percent if rate else number)(v), down(v)) for v in (0.0, top / 2, top)),
        height=height,
        note=note,
    )


def _path(points: Sequence[Point]) -> str:
    return " ".join(f"{x:g},{y:g}" for x, y in points)


def _short(name: str) -> str:
    visible = make_visible(name)
    return visible if len(visible) <= MOST_LETTERS else f"{visible[: MOST_LETTERS - 1]}…"
