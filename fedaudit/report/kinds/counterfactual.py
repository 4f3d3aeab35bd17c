"""Counterfactual memorization: what training without a client would have given."""

from collections.abc import Sequence

from fedaudit.api.kind import Kind, Row, Table
from fedaudit.report import query
from fedaudit.report.number_format import format_measurement, number
from fedaudit.report.query import SETS, common_scope, missing_reasons
from fedaudit.report.tables.table import NONE, build_table, common_note, display_name

MEMORIZED, BEYOND, P = "memorization [95 %]", "beyond the cheap control", "p"
SOURCES = {"tuned": "with", "counterfactual": "without", "base": "base", "control": "nobody's"}
METRICS = ("counterfactual_memorization", "mean_chance", "control_gap", "p_value")


class Counterfactual(Kind):
    """How much likelier a client's strings are than after training without that client."""

    name = "counterfactual"

    def shows(self, row: Row) -> bool:
        """Tell whether the table shows a row."""
        return row["metric"] in METRICS

    def tables(self, report: Row) -> list[Table]:
        """Return a table per attack with a line for each set of strings or records."""
        rows = self.rows(report)
        return [_table(plugin, group) for plugin, group in query.by_plugin(rows).items()]


def _table(plugin: str, rows: Sequence[Row]) -> Table:
    means = [row for row in rows if row["metric"] == METRICS[0]]
    shared, scopes = common_scope(means)
    cells = [
        {
            "of": _strings(row, scope),
            "n": NONE if row["n"] is None else f"{row['n']:,}",
            **{name: _matching_value(row, rows, source) for source, name in SOURCES.items()},
            MEMORIZED: format_measurement(row) if row["value"] is not None else NONE,
            P: _p_value(row, rows),
        }
        for row, scope in zip(means, scopes, strict=True)
    ]
    numeric = ("n", *SOURCES.values(), MEMORIZED, P)
    return build_table(
        f"Counterfactual: {plugin}",
        cells,
        ("of", *numeric),
        numeric=numeric,
        notes=(
            "Memorization: the mean with the client in training less that without; 0 is nothing "
            "that others did not teach as well. Where `without` is above `base` and `nobody's`, "
            "these cheap controls overstate what the client's own records gave away.",
            *common_note(shared),
            *missing_reasons(means),
        ),
    )


def _strings(row: Row, scope: str) -> str:
    """Return which strings or records a row is about: their set or kind, and the rest of its scope.

    By kind there are rows of all strings only.
    """
    given = row["scope"]
    kind = given.get("label") or (display_name(SETS, given["set"]) if "set" in given else "")
    return ", ".join(filter(None, (kind, scope))) or "all"


def _matching_value(row: Row, rows: Sequence[Row], source: str) -> str:
    """Return the mean of one source for the same strings as `row`."""
    scope = {**row["scope"], "source": source}
    match = next((r for r in rows if r["metric"] == "mean_chance" and r["scope"] == scope), None)
    return NONE if match is None else number(match["value"])


def _p_value(row: Row, rows: Sequence[Row]) -> str:
    scope = {**row["scope"], "test": "counterfactual"}
    match = next((r for r in rows if r["metric"] == "p_value" and r["scope"] == scope), None)
    return NONE if match is None else number(match["value"])
