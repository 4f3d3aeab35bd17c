"""Tables of who found what others did not, where several attacks were made."""

from collections.abc import Sequence

from fedaudit.api.kind import Table
from fedaudit.report import query as measurements
from fedaudit.report.number_format import format_hits, format_measurement
from fedaudit.report.query import SOURCES, Row, missing_reasons, source_rank
from fedaudit.report.tables import grouping
from fedaudit.report.tables.table import build_table, display_name, shorten

SHARE = "share [95 %]"
EQUAL = "at equal budget"
EQUAL_NOTE = "At equal budget: both with as many prefixes as stand in brackets."
SHOWN_KEYS = frozenset({"source", "set", "attacks", "not", "only", "budget", "budgets", "samples"})
MAX_ROWS = 20


def overlaps(report: Row) -> list[Table]:
    """Return what attacks found alone and together, and what each found that another did not."""
    rows = [
        row
        for row in report["measurements"]
        if (row["kind"], row["metric"]) == ("extraction", "overlap")
    ]
    if not rows:
        return []
    best_rank = min(map(source_rank, rows))
    top_rows = [row for row in rows if source_rank(row) == best_rank]
    selected = [row for row in top_rows if _other_keys(row) == _other_keys(top_rows[0])]
    note = f"Model: {display_name(SOURCES, selected[0]['scope'].get('source'))}."
    where = measurements.scope_of(selected[0], SHOWN_KEYS)
    notes = (
        note,
        f"Of {where}; for others see report.json." if len(selected) < len(top_rows) else "",
    )
    return [table for table in (_regions(selected, notes), _pairs(selected)) if table.rows]


def _other_keys(row: Row) -> set[tuple[str, str]]:
    return {(key, str(value)) for key, value in row["scope"].items() if key not in SHOWN_KEYS}


def _regions(rows: Sequence[Row], notes: Sequence[str]) -> Table:
    regions = [row for row in rows if "only" in row["scope"]]
    cells = [
        {
            "found by": str(row["scope"]["only"]),
            "found": format_hits(row),
            SHARE: format_measurement(row),
        }
        for row in regions
        if row["hits"]
    ]
    table = build_table(
        "Found by these attacks and no other",
        cells,
        numeric=("found", SHARE),
        notes=notes,
    )
    return shorten(table, MAX_ROWS)


def _pairs(rows: Sequence[Row]) -> Table:
    pairs = [row for row in rows if {"attacks", "not"} <= row["scope"].keys()]
    cells = [
        {
            "found by": str(row["scope"]["attacks"]),
            "not by": str(row["scope"]["not"]),
            "found": format_hits(row),
            SHARE: format_measurement(row),
            EQUAL: _equal(row, pairs),
        }
        for row in pairs
        if not measurements.is_sweep(row) and row["scope"].get("budgets") != "equal"
    ]
    table = build_table(
        "What one attack found and another did not",
        cells,
        numeric=("found", SHARE, EQUAL),
        notes=(EQUAL_NOTE, *missing_reasons(pairs)),
    )
    return shorten(table, MAX_ROWS)


def _equal(row: Row, pairs: Sequence[Row]) -> str:
    """Return the share at the largest budget that both attacks have, and that budget.

    A mean over seeds has none where it was another number in each.
    """
    keys = frozenset({"budget", "budgets", "samples"})
    equal = (pair for pair in pairs if pair["scope"].get("budgets") == "equal")
    same = (
        o for o in equal if grouping.scope_without(o, keys) == grouping.scope_without(row, keys)
    )
    last = next(same, None)
    if last is None:
        return ""
    budget = last["scope"].get("budget")
    return format_hits(last) if budget is None else f"{format_hits(last)} ({budget:,})"
