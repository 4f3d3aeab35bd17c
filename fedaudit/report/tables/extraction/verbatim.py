"""The table of verbatim extraction: how near continuations come to the true text, by task."""

from collections.abc import Sequence

from fedaudit.report import query as measurements
from fedaudit.report.number_format import format_measurement, number
from fedaudit.report.query import SOURCES, Row, common_scope, companion_row, missing_reasons
from fedaudit.report.tables.table import NONE, Table, build_table, common_note, display_name

DISTANCE, SHARE = "edit distance [95 %]", "word for word [95 %]"
METRICS = ("edit_distance", "edit_deviation")


def verbatim(report: Row) -> list[Table]:
    """Return a table per attack with a line for each task and model."""
    groups = measurements.by_plugin(distance_rows(report))
    return [
        _table(report, plugin, rows, _likelihood_notes(report, plugin))
        for plugin, rows in groups.items()
    ]


def is_shown(row: Row) -> bool:
    """Tell whether a row is one of those that the table shows."""
    return row["kind"] == "extraction" and (row["metric"] in METRICS or is_likelihood(row))


def is_likelihood(row: Row) -> bool:
    """Tell whether a row is the p-value of the least likely document."""
    return bool(row["metric"] == "p_value" and row["scope"].get("test") == "likelihood")


def distance_rows(report: Row) -> list[Row]:
    """Return the mean edit distances of a report, in their order."""
    return [row for row in report["measurements"] if is_shown(row) and row["metric"] == METRICS[0]]


def _likelihood_notes(report: Row, plugin: str) -> list[str]:
    """Return the test of the least likely document that came out, in words."""
    tests = [r for r in report["measurements"] if is_likelihood(r) and r["plugin"] == plugin]
    return [
        f"That any of {row['n']:,} documents comes out without training on it: "
        f"p {number(row['value'])}."
        for row in tests
    ]


def _table(report: Row, plugin: str, rows: Sequence[Row], least: Sequence[str]) -> Table:
    shared, scopes = common_scope(rows)
    cells = [
        {
            "task": str(row["scope"].get("task", "")) or "all",
            "model": display_name(SOURCES, row["scope"].get("source")),
            "n": NONE if row["n"] is None else f"{row['n']:,}",
            DISTANCE: format_measurement(row),
            "deviation": _matching_value(report, row, "edit_deviation"),
            SHARE: _matching_value(report, row, "coverage"),
            "where": scope,
        }
        for row, scope in zip(rows, scopes, strict=True)
    ]
    numeric = ("n", DISTANCE, "deviation", SHARE)
    return build_table(
        f"Distance from the documents: {plugin}",
        cells,
        ("task", "model", *numeric, "where"),
        numeric=numeric,
        notes=(
            "In tokens; 0 is word for word. The lower, the more the model has learnt by heart.",
            *least,
            *common_note(shared),
            *missing_reasons(rows),
        ),
    )


def _matching_value(report: Row, row: Row, metric: str) -> str:
    """Return the number of `metric` for the same documents as `row`."""
    companion = companion_row(report, row, metric)
    if companion is None or companion["scope"] != row["scope"]:
        return NONE
    return format_measurement(companion) if metric == "coverage" else number(companion["value"])
