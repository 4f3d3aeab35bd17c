"""The table of verbatim extraction: how near continuations come to the true text, by task."""

from collections.abc import Sequence

from fedaudit.api.kind import Table
from fedaudit.report import query as measurements
from fedaudit.report.number_format import format_measurement, number
from fedaudit.report.query import SOURCES, Row, common_scope, companion_row, missing_reasons
from fedaudit.report.tables.table import NONE, build_table, common_note, display_name

DISTANCE, SHARE = "edit distance [95 %]", "word for word [95 %]"
METRICS = ("edit_distance", "edit_deviation")
TESTS = {
    "likelihood": "That any of {n} documents comes out without training on it: p {p}.",
    "held-out": "That no more of {n} documents ({groups} groups) came out than of held-out ones"
    " ({beside} groups): p {p}.",
}
"""The tests of an attack that are told below its table, in words."""


def verbatim(report: Row) -> list[Table]:
    """Return a table per attack with a line for each task and model."""
    groups = measurements.by_plugin(distance_rows(report))
    return [
        _table(report, plugin, rows, _test_notes(report, plugin)) for plugin, rows in groups.items()
    ]


def is_shown(row: Row) -> bool:
    """Tell whether the table shows a row."""
    return row["kind"] == "extraction" and (
        row["metric"] in METRICS or any(_is_of_test(row, test) for test in TESTS)
    )


def _is_of_test(row: Row, test: str) -> bool:
    return bool(row["metric"] == "p_value" and row["scope"].get("test") == test)


def distance_rows(report: Row) -> list[Row]:
    """Return the mean edit distances of a report, in their order."""
    return [row for row in report["measurements"] if is_shown(row) and row["metric"] == METRICS[0]]


def _test_notes(report: Row, plugin: str) -> list[str]:
    """Return what came of each test, in words."""
    return [
        words.format(
            n=number(row["n"]),
            p=number(row["value"]),
            **{side: _count_text(row["scope"].get(side)) for side in ("groups", "beside")},
        )
        for test, words in TESTS.items()
        for row in report["measurements"]
        if row["plugin"] == plugin and row["kind"] == "extraction" and _is_of_test(row, test)
    ]


def _count_text(value: object) -> str:
    return number(value) if isinstance(value, int) else NONE


def _table(report: Row, plugin: str, rows: Sequence[Row], tests: Sequence[str]) -> Table:
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
            *tests,
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
