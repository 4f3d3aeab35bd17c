"""The table of a claimed epsilon: what is proved of it, and what could be."""

from collections.abc import Sequence

from fedaudit.report.number_format import format_measurement, number
from fedaudit.report.query import Row, missing_reasons
from fedaudit.report.tables.table import NONE, Table, build_table

SOURCES = {
    "tuned": "audited",
    "noiseless": "without noise",
    "shuffled": "coins tossed anew",
}
ESTIMATORS = {"f_dp": "f-DP, Gaussian", "one_run": "any mechanism"}
METRICS = ("epsilon_cap", "epsilon_low", "auc")


def epsilon_tables(report: Row) -> list[Table]:
    """Return the table of the bounds, a line for each model, position and test."""
    rows = [row for row in report["measurements"] if is_shown(row)]
    bounds = [row for row in rows if row["metric"] == "epsilon_low"]
    cells = [
        {
            "model": SOURCES.get(str(row["scope"].get("source")), NONE),
            "seen as": str(row["scope"].get("position", NONE)),
            "test": _test(row),
            "right": _right(row),
            "AUC [95 %]": _area(row, rows),
            "epsilon at least": number(row["value"]),
            "at most provable": _cap(row, rows),
            "claimed": NONE if row["baseline"] is None else number(row["baseline"]),
        }
        for row in bounds
    ]
    if not cells:
        return []
    columns = tuple(cells[0])
    return [
        build_table(
            "Claimed epsilon",
            cells,
            columns,
            numeric=columns[3:],
            notes=(*_unit(bounds[0]), *missing_reasons(bounds)),
        )
    ]


def is_shown(row: Row) -> bool:
    """Tell whether the table shows a row."""
    return row["kind"] == "epsilon" and row["metric"] in METRICS


def _test(row: Row) -> str:
    name = str(row["scope"].get("estimator", ""))
    return ESTIMATORS.get(name, name) + (" (judged)" if row["scope"].get("judged") else "")


def _right(row: Row) -> str:
    scope = row["scope"]
    return f"{scope['correct']} / {scope['guesses']}" if "guesses" in scope else NONE


def _area(row: Row, rows: Sequence[Row]) -> str:
    scope = {key: row["scope"].get(key) for key in ("source", "position", "client")}
    match = next((r for r in rows if r["metric"] == "auc" and r["scope"] == scope), None)
    return NONE if match is None else format_measurement(match)


def _cap(row: Row, rows: Sequence[Row]) -> str:
    test = row["scope"].get("estimator")
    match = next(
        (r for r in rows if r["metric"] == "epsilon_cap" and r["scope"].get("estimator") == test),
        None,
    )
    return NONE if match is None else number(match["value"])


def _unit(row: Row) -> list[str]:
    scope = row["scope"]
    return [
        f"Unit: {scope.get('unit')}; neighbours: {scope.get('neighbouring')}; public: "
        f"{scope.get('public')}; delta {scope.get('delta')}, {scope.get('canaries')} canaries of "
        f"{scope.get('client')}, p {scope.get('p')}."
    ]
