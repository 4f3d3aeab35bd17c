"""What an exact walk says of any number of samples: a table an attack."""

from collections.abc import Sequence

from fedaudit.api.kind import Table
from fedaudit.report import query as measurements
from fedaudit.report.number_format import format_hits, format_measurement, number, percent
from fedaudit.report.query import SOURCES, Row, comparable_row, set_rank, source_rank
from fedaudit.report.tables import grouping
from fedaudit.report.tables.table import NONE, build_table, display_name, shorten

COVERAGE = "coverage [95 %]"
ONE_RUN = "one run finds"
TABLE_KEYS = frozenset({"source", "set", "budget", "samples", "probability"})
"""The keys of a scope that distinguish the rows of one table."""
MAX_TABLES = 12


def is_exact(row: Row) -> bool:
    """Tell whether a row was computed and not sampled."""
    return bool(row["scope"].get("estimator") == "exact")


def expected(report: Row) -> list[Table]:
    """Return a table for each attack and kind of key; of a study, that of the first variant."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in report["measurements"]:
        if is_exact(row) and measurements.is_sweep(row) and "label" not in row["scope"]:
            groups.setdefault((row["plugin"], grouping.key_text(row)), []).append(row)
    tables = [_table(plugin, key, rows) for (plugin, key), rows in groups.items()]
    return [table for table in tables if table.rows][:MAX_TABLES]


def _table(plugin: str, key: str, rows: Sequence[Row]) -> Table:
    selected = [row for row in rows if _other_keys(row) == _other_keys(rows[0])]
    subset = min(map(set_rank, selected))
    selected = [row for row in selected if set_rank(row) == subset]
    coverages = [row for row in selected if row["metric"] == "coverage"]
    best_rank = min(map(source_rank, coverages), default=0)
    best_rows = sorted(
        (row for row in coverages if source_rank(row) == best_rank),
        key=lambda r: r["scope"]["samples"],
    )
    needed = sorted({r["scope"]["probability"] for r in selected if r["metric"] == "extractable"})
    columns = ("samples", "found", ONE_RUN, COVERAGE, "base", "control", *map(_surely, needed))
    cells = [
        {
            "samples": number(row["scope"]["samples"]),
            "found": format_hits(row),
            ONE_RUN: _one_run(selected, row),
            COVERAGE: format_measurement(row),
            **{source: _matching_value(coverages, row, source) for source in ("base", "control")},
            **{_surely(p): _extractable(selected, row, p) for p in needed},
        }
        for row in best_rows
    ]
    source = display_name(SOURCES, best_rows[0]["scope"].get("source")) if best_rows else ""
    title = f"Expected by samples: {plugin}"
    table = build_table(
        f"{title}, {grouping.KEYS.get(key, f'key {key}')}" if key else title,
        cells,
        columns,
        numeric=columns,
        notes=(
            f"Model: {source}. Computed, not sampled: what is found if every prefix is asked so "
            "often.",
            "One run finds: 95 % of runs do. The interval of the coverage is for other targets of "
            "their kind.",
            "Surely: targets that the tuned model gives with at least this probability.",
        ),
    )
    return shorten(table, 2 * MAX_TABLES)


def _other_keys(row: Row) -> set[tuple[str, str]]:
    return {(key, str(value)) for key, value in row["scope"].items() if key not in TABLE_KEYS}


def _surely(probability: float) -> str:
    return f"surely {100 * probability:g} %"


def _matching_value(rows: Sequence[Row], row: Row, source: str) -> str:
    match = comparable_row(rows, row, source)
    return NONE if match is None else percent(match["value"])


def _one_run(rows: Sequence[Row], row: Row) -> str:
    """Return how many targets 19 of 20 runs find: `15 to 21`."""
    fits = (r for r in rows if r["metric"] == "hits_of_one_run" and r["scope"] == row["scope"])
    match = next(fits, None)
    return NONE if match is None else f"{number(match['low'])} to {number(match['high'])}"


def _extractable(rows: Sequence[Row], row: Row, probability: float) -> str:
    """Return how many targets the tuned model gives with `probability` in the samples of `row`."""
    scope = {"samples": row["scope"]["samples"], "source": "tuned", "probability": probability}
    fits = (
        candidate
        for candidate in rows
        if candidate["metric"] == "extractable" and scope.items() <= candidate["scope"].items()
    )
    match = next(fits, None)
    return NONE if match is None else format_hits(match)
