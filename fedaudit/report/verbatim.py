"""The table of verbatim extraction: how near continuations come to the true text, by task."""

from collections.abc import Sequence

from fedaudit.report import rows as measurements
from fedaudit.report.figures import measured, number
from fedaudit.report.rows import SOURCES, Row, companion, places, reasons
from fedaudit.report.table import NONE, Table, laid_out, named, throughout

DISTANCE, SHARE = "edit distance [95 %]", "word for word [95 %]"
METRICS = ("edit_distance", "edit_deviation")


def verbatim(report: Row) -> list[Table]:
    """Return a table an attack with a line for each task and model."""
    groups = measurements.by_plugin(distances(report))
    return [_table(report, plugin, rows) for plugin, rows in groups.items()]


def shown(row: Row) -> bool:
    """Tell whether a row is one of those that the table shows."""
    return row["kind"] == "extraction" and row["metric"] in METRICS


def distances(report: Row) -> list[Row]:
    """Return the mean edit distances of a report, in their order."""
    return [row for row in report["measurements"] if shown(row) and row["metric"] == METRICS[0]]


def _table(report: Row, plugin: str, rows: Sequence[Row]) -> Table:
    shared, own = places(rows)
    cells = [
        {
            "task": str(row["scope"].get("task", "")) or "all",
            "model": named(SOURCES, row["scope"].get("source")),
            "n": NONE if row["n"] is None else f"{row['n']:,}",
            DISTANCE: measured(row),
            "deviation": _own(report, row, "edit_deviation"),
            SHARE: _own(report, row, "coverage"),
            "where": at,
        }
        for row, at in zip(rows, own, strict=True)
    ]
    numeric = ("n", DISTANCE, "deviation", SHARE)
    return laid_out(
        f"Distance from the documents: {plugin}",
        cells,
        ("task", "model", *numeric, "where"),
        numeric=numeric,
        notes=(
            "In tokens; 0 is word for word. The lower, the more the model has learnt by heart.",
            *throughout(shared),
            *reasons(rows),
        ),
    )


def _own(report: Row, row: Row, metric: str) -> str:
    """Return the number of `metric` for the very things that `row` is of."""
    one = companion(report, row, metric)
    if one is None or one["scope"] != row["scope"]:
        return NONE
    return measured(one) if metric == "coverage" else number(one["value"])
