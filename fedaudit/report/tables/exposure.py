"""The table of canaries: how far planted secrets moved up, by how often they were planted."""

import math
from collections.abc import Sequence

from fedaudit.report.number_format import format_hits, format_measurement, number
from fedaudit.report.query import SOURCES, Row, common_scope, missing_reasons
from fedaudit.report.tables.table import (
    NONE,
    Table,
    build_table,
    common_note,
    display_name,
)

METRICS = ("exposure", "maximal_exposure", "p_value")
MEAN, FIRST = "exposure [95 %]", "first of all"
SHOWN_KEYS = ("source", "times", "estimator", "space")


def exposure(report: Row) -> list[Table]:
    """Return the table of mean exposures, a line for each multiplicity, model and estimator."""
    rows = [row for row in report["measurements"] if is_shown(row)]
    means = [row for row in rows if row["metric"] == "exposure"]
    shared, scopes = common_scope(means, hidden=SHOWN_KEYS)
    estimators = {str(row["scope"].get("estimator", NONE)) for row in means}
    cells = [
        {
            "model": display_name(SOURCES, row["scope"].get("source")),
            "planted": _times(row),
            "n": NONE if row["n"] is None else f"{row['n']:,}",
            "by": str(row["scope"].get("estimator", NONE)) if len(estimators) > 1 else "",
            MEAN: format_measurement(row),
            "chance": NONE if row["chance"] is None else number(row["chance"]),
            FIRST: _matching_value(row, rows, "maximal_exposure"),
            "p": _matching_value(row, rows, "p_value"),
            "where": scope,
        }
        for row, scope in zip(means, scopes, strict=True)
    ]
    numeric = ("n", MEAN, "chance", FIRST, "p")
    table = build_table(
        "Exposure of canaries",
        cells,
        ("model", "planted", "n", "by", MEAN, "chance", FIRST, "p", "where"),
        numeric=numeric,
        notes=(
            "In bits: 1 more means that half as many secrets are at least as likely.",
            *_ranked_among(means),
            *common_note(shared),
            *missing_reasons(means),
        ),
    )
    return [table] if means else []


def is_shown(row: Row) -> bool:
    """Tell whether the table shows a row."""
    return row["kind"] == "exposure" and row["metric"] in METRICS


def _ranked_among(means: Sequence[Row]) -> list[str]:
    """Return the number of secrets among which each is ranked, which bounds its exposure."""
    spaces = [row["scope"].get("space") for row in means]
    sizes = [n for n in spaces if isinstance(n, int) and n > 0]
    if not sizes:
        return []
    most = max(sizes)
    return [f"Each is ranked among {most:,} secrets at most: {math.log2(most):.1f} bits."]


def _times(row: Row) -> str:
    times = row["scope"].get("times")
    return NONE if times is None else "never" if times == 0 else f"{times}x"


def _matching_value(row: Row, rows: Sequence[Row], metric: str) -> str:
    """Return the number of `metric` for the same secrets as `row`."""
    match = next((r for r in rows if r["metric"] == metric and r["scope"] == row["scope"]), None)
    if match is None:
        return NONE
    return format_hits(match) if metric == "maximal_exposure" else number(match["value"])
