"""Counterfactual memorization: what training without a client would have given."""

from collections.abc import Sequence

from fedaudit.api.kind import Kind, Row, Table
from fedaudit.report import query
from fedaudit.report.number_format import count, format_measurement
from fedaudit.report.query import SETS, common_scope, missing_reasons, same_scope_row
from fedaudit.report.tables.table import (
    NONE,
    build_table,
    cell_of,
    common_note,
    display_name,
    value_text,
)

MEMORIZED, BEYOND, P = "memorization [95 %]", "beyond the cheap control", "p"
SOURCES = {"tuned": "with", "counterfactual": "without", "base": "base", "control": "nobody's"}
METRICS = ("counterfactual_memorization", "mean_chance", "control_gap", "p_value")


class Counterfactual(Kind):
    """How much likelier a client's strings are than after training without that client."""

    name = "counterfactual"
    shown = frozenset(METRICS)

    def tables(self, report: Row) -> list[Table]:
        """Return a table per attack with a line for each set of strings or records."""
        rows = self.rows(report)
        return [_table(plugin, group) for plugin, group in query.by_plugin(rows).items()]


def _table(plugin: str, rows: Sequence[Row]) -> Table:
    means = [row for row in rows if row["metric"] == METRICS[0]]
    shared, scopes = common_scope(means)

    def beside(row: Row, metric: str, **changes: str) -> str:
        return cell_of(same_scope_row(rows, row, metric, **changes), value_text)

    cells = [
        {
            "of": _strings(row, scope),
            "n": count(row),
            **{name: beside(row, METRICS[1], source=key) for key, name in SOURCES.items()},
            MEMORIZED: format_measurement(row) if row["value"] is not None else NONE,
            P: beside(row, "p_value", test="counterfactual"),
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
