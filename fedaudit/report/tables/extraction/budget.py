"""What smaller budgets would have found: a table an attack."""

from collections.abc import Sequence
from dataclasses import dataclass

from fedaudit.api.kind import Table
from fedaudit.report import query as measurements
from fedaudit.report.number_format import format_hits, format_measurement, number, percent
from fedaudit.report.query import SOURCES, Row, comparable_row, source_rank
from fedaudit.report.tables import grouping
from fedaudit.report.tables.extraction.expected import is_exact
from fedaudit.report.tables.table import NONE, build_table, display_name

COVERAGE = "coverage [95 %]"
MOST_TABLES = 12

TITLES = {"coverage": "Coverage against budget", "efficiency": "Found per query against budget"}
SHOWN_KEYS = frozenset(
    {"source", "set", "label", "category", "budget", "samples", "key", "adapter"}
)
"""The keys of a scope that distinguish a sweep's points and curves."""


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
    best_rank = min(map(source_rank, set_rows))
    best_rows = [row for row in set_rows if source_rank(row) == best_rank]
    most = max(row["scope"]["samples"] for row in best_rows)
    budget = max(row["scope"]["budget"] for row in best_rows)

    def sweep_rows(metric: str, axis: str, fixed: str, value: int) -> tuple[Row, ...]:
        points = (r for r in best_rows if r["metric"] == metric and r["scope"][fixed] == value)
        return tuple(sorted(points, key=lambda row: row["scope"][axis]))

    return Sweep(
        name=f"{plugin}, {grouping.KEYS.get(key, f'key {key}')}" if key else plugin,
        coverage=sweep_rows("coverage", "budget", "samples", most),
        efficiency=sweep_rows("efficiency", "budget", "samples", most),
        by_samples=sweep_rows("coverage", "samples", "budget", budget),
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
    return build_table(
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
