"""The table of verbatim extraction: how near continuations come to the true text, by task."""

from collections.abc import Sequence

from fedaudit.report import query as measurements
from fedaudit.report.number_format import measured, number
from fedaudit.report.query import SOURCES, Row, companion, places, reasons
from fedaudit.report.tables.table import NONE, Table, laid_out, named, throughout

DISTANCE, SHARE = "edit distance [95 %]", "word for word [95 %]"
METRICS = ("edit_distance", "edit_deviation")


def verbatim(report: Row) -> list[Table]:
    """Return a table an attack with a line for each task and model."""
    groups = measurements.by_plugin(distances(report))
    return [_table(report, plugin, rows, _least(report, plugin)) for plugin, rows in groups.items()]


def shown(row: Row) -> bool:
    """Tell whether a row is one of those that the table shows."""
    return row["kind"] == "extraction" and (row["metric"] in METRICS or likelihood(row))


def likelihood(row: Row) -> bool:
    """Tell whether a row is the p-value of the least likely document."""
    return bool(row["metric"] == "p_value" and row["scope"].get("test") == "likelihood")


def distances(report: Row) -> list[Row]:
    """Return the mean edit distances of a report, in their order."""
    return [row for row in report["measurements"] if shown(row) and row["metric"] == METRICS[0]]


def _least(report: Row, plugin: str) -> list[str]:
    """Return what there is to say of the least likely document that came out."""
    found = [r for r in report["measurements"] if likelihood(r) and r["plugin"] == plugin]
    return [
        f"That any of {row['n']:,} documents comes out without training on it: "
        f"p {number(row['value'])}."
        for row in found
    ]


def _table(report: Row, plugin: str, rows: Sequence[Row], least: Sequence[str]) -> Table:
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
            *least,
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
