"""The table of discoverable memorization: how much of the true answers comes back, by task."""

from collections.abc import Mapping, Sequence
from typing import Any

from fedaudit.api.completion import BEYOND_HELD_OUT
from fedaudit.api.kind import Table
from fedaudit.report import query as measurements
from fedaudit.report.number_format import format_measurement, number
from fedaudit.report.query import SOURCES, Row, common_scope, missing_reasons
from fedaudit.report.tables import grouping
from fedaudit.report.tables.table import NONE, build_table, common_note, display_name

SCORE, SHARE = "Rouge-L [95 %]", "leaked [95 %]"
MODELS = {
    **SOURCES,
    "tuned-not-base": "difference",
    "control": "other answers",
    BEYOND_HELD_OUT: "beyond held-out",
}
TEST_METRICS = ("p_value", "detectable_difference")
"""Metrics of the test beyond held-out records, which are shown below the table."""


def discoverable(report: Row) -> list[Table]:
    """Return a table per attack with a line for each task and model."""
    every = [row for row in report["measurements"] if is_shown(row)]
    rows = [row for row in every if not is_test(row)]
    tests = measurements.by_plugin([row for row in every if is_test(row)])
    if len(grouping.variants_of(rows)) > 1:
        # A study's variants are compared after the last round, all tasks together.
        rows = [
            row
            for row in grouping.without_covered_clients(rows)
            if "task" not in row["scope"] and row["scope"].get("passed", 1) == 1
        ]
    return [
        _table(report, plugin, group, _test(tests.get(plugin, ())))
        for plugin, group in measurements.by_plugin(rows).items()
    ]


def is_shown(row: Row) -> bool:
    """Tell whether the table shows a row."""
    return bool(row["kind"] == "extraction" and (row["metric"] == "rouge_l" or is_test(row)))


def is_test(row: Row) -> bool:
    """Tell whether a row is a result of the test beyond held-out records."""
    return row["scope"].get("source") == BEYOND_HELD_OUT and row["metric"] in TEST_METRICS


def _test(rows: Sequence[Row]) -> list[str]:
    """Return the results of the tests in words, in the order of the report."""
    names = {"p_value": "p", "detectable_difference": "a leak seen with 90 %"}
    texts = [f"{names[row['metric']]} {number(row['value'])}" for row in rows if is_test(row)]
    return [f"Beyond held-out records: {', '.join(texts)}."] if texts else []


def _table(report: Row, plugin: str, rows: Sequence[Row], test: Sequence[str]) -> Table:
    shared, scopes = common_scope(rows)
    shares = [row for row in report["measurements"] if row["metric"] == "coverage"]
    cells = [
        {
            "task": str(row["scope"].get("task", "")) or "all",
            "model": display_name(MODELS, row["scope"].get("source")),
            "n": NONE if row["n"] is None else f"{row['n']:,}",
            SCORE: format_measurement(row),
            SHARE: _share(shares, row),
            "where": scope,
        }
        for row, scope in zip(rows, scopes, strict=True)
    ]
    return build_table(
        f"Answers to training prompts: {plugin}",
        cells,
        numeric=("n", SCORE, SHARE),
        notes=(
            "1 is the true answer, word for word. The difference is tuned less base, prompt by "
            "prompt. What answers have in common with others of their task is form, not memory.",
            *test,
            *common_note(shared),
            *missing_reasons(rows),
        ),
    )


def _share(shares: Sequence[Row], row: Row) -> str:
    """Return the share of answers above the threshold, for the same prompts as `row`."""
    like = [
        share
        for share in shares
        if share["plugin"] == row["plugin"] and _without_threshold(share["scope"]) == row["scope"]
    ]
    return format_measurement(like[0]) if like else NONE


def _without_threshold(scope: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in scope.items() if name != "threshold"}
