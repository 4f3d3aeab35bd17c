"""The tables of completed training texts: how near answers come to the true text, by task."""

from collections.abc import Mapping, Sequence

from fedaudit.api.completion import BEYOND_HELD_OUT
from fedaudit.api.kind import Table
from fedaudit.report.number_format import count, format_measurement, number
from fedaudit.report.query import SOURCES, Row, by_plugin, same_scope_row, scope_but
from fedaudit.report.tables import grouping
from fedaudit.report.tables.table import NONE, Columns, cell_of, model_name, row_table, value_text

METRICS = ("edit_distance", "edit_deviation")
TESTS = {
    "likelihood": "That any of {n} documents comes out without training on it: p {p}.",
    "held-out": "That no more of {n} documents ({groups} groups) came out than of held-out ones"
    " ({beside} groups): p {p}.",
}
"""The tests of an attack that are told below its table, in words."""
MODELS = {
    **SOURCES,
    "tuned-not-base": "difference",
    "control": "other answers",
    BEYOND_HELD_OUT: "beyond held-out",
}
TEST_METRICS = {"p_value": "p", "detectable_difference": "a leak seen with 90 %"}
"""Metrics of the test beyond held-out records, which are told below the table, in words."""


def verbatim(report: Row) -> list[Table]:
    """Return a table per attack with a line for each task and model: how far texts are off."""
    rows = [row for row in report["measurements"] if in_verbatim(row)]
    distances = by_plugin(row for row in rows if row["metric"] == METRICS[0])
    return [_distances(report, plugin, group) for plugin, group in distances.items()]


def in_verbatim(row: Row) -> bool:
    """Tell whether the table shows a row."""
    return row["kind"] == "extraction" and (
        row["metric"] in METRICS or any(_is_of_test(row, test) for test in TESTS)
    )


def _is_of_test(row: Row, test: str) -> bool:
    return bool(row["metric"] == "p_value" and row["scope"].get("test") == test)


def _distances(report: Row, plugin: str, rows: Sequence[Row]) -> Table:
    beside = [row for row in report["measurements"] if row["plugin"] == plugin]
    tests = [
        (f"Of {victim}: " if (victim := grouping.victim_of(row)) else "")
        + words.format(
            n=number(row["n"]),
            p=number(row["value"]),
            **{side: _count_text(row["scope"].get(side)) for side in ("groups", "beside")},
        )
        for test, words in TESTS.items()
        for row in beside
        if row["kind"] == "extraction" and _is_of_test(row, test)
    ]
    columns = {
        "edit distance [95 %]": format_measurement,
        "deviation": lambda r: cell_of(same_scope_row(beside, r, METRICS[1]), value_text),
        "word for word [95 %]": lambda r: cell_of(
            same_scope_row(beside, r, "coverage"), format_measurement
        ),
    }
    note = "In tokens; 0 is word for word. The lower, the more the model has learnt by heart."
    return _table(f"Distance from the documents: {plugin}", rows, SOURCES, columns, (note, *tests))


def _count_text(value: object) -> str:
    return number(value) if isinstance(value, int) else NONE


def discoverable(report: Row) -> list[Table]:
    """Return a table per attack with a line for each task and model: how much comes back."""
    every = [row for row in report["measurements"] if in_discoverable(row)]
    rows = [row for row in every if not _is_beyond(row)]
    if len(grouping.variants_of(rows)) > 1:
        # A study's variants are compared after the last round, all tasks together.
        rows = [
            row
            for row in grouping.without_covered_clients(rows)
            if "task" not in row["scope"] and row["scope"].get("passed", 1) == 1
        ]
    return [_answers(report, plugin, group) for plugin, group in by_plugin(rows).items()]


def in_discoverable(row: Row) -> bool:
    """Tell whether the table shows a row."""
    return bool(row["kind"] == "extraction" and (row["metric"] == "rouge_l" or _is_beyond(row)))


def _is_beyond(row: Row) -> bool:
    return row["scope"].get("source") == BEYOND_HELD_OUT and row["metric"] in TEST_METRICS


def _answers(report: Row, plugin: str, rows: Sequence[Row]) -> Table:
    beside = [row for row in report["measurements"] if row["plugin"] == plugin]
    shares = [{**row, "scope": scope_but(row, "threshold")} for row in beside]
    tests = ", ".join(
        f"{TEST_METRICS[row['metric']]} {value_text(row)}"
        for row in beside
        if row["kind"] == "extraction" and _is_beyond(row)
    )
    columns = {
        "Rouge-L [95 %]": format_measurement,
        "leaked [95 %]": lambda r: cell_of(
            same_scope_row(shares, r, "coverage"), format_measurement
        ),
    }
    notes = (
        "1 is the true answer, word for word. The difference is tuned less base, prompt by "
        "prompt. What answers have in common with others of their task is form, not memory.",
        f"Beyond held-out records: {tests}." if tests else "",
    )
    return _table(f"Answers to training prompts: {plugin}", rows, MODELS, columns, notes)


def _table(
    title: str,
    rows: Sequence[Row],
    models: Mapping[str, str],
    measured: Columns,
    notes: Sequence[str],
) -> Table:
    columns = {
        "task": lambda row: str(row["scope"].get("task", "")) or "all",
        "model": lambda row: model_name(row, models),
        "n": count,
        **measured,
    }
    return row_table(title, rows, columns, numeric=("n", *measured), hidden=(), notes=notes)
