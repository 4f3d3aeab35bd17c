"""People: how many are exposed, by how many kinds of data, at what cost."""

from collections.abc import Sequence

from fedaudit.api.kind import Kind, Row, Table
from fedaudit.report import query
from fedaudit.report.number_format import number
from fedaudit.report.query import SOURCES
from fedaudit.report.tables.table import NONE, build_table, display_name


class Persons(Kind):
    """How many people's data came out."""

    name = "persons"

    def shows(self, row: Row) -> bool:
        """Tell whether the table shows a row."""
        return row["metric"] in ("persons", "kinds", "most_kinds", "queries_per_person")

    def tables(self, report: Row) -> list[Table]:
        """Return a table per attack with a line for each model and each budget."""
        rows = self.rows(report)
        return [_table(plugin, group) for plugin, group in query.by_plugin(rows).items()]


def _table(plugin: str, rows: Sequence[Row]) -> Table:
    counts = [row for row in rows if row["metric"] == "persons"]
    cells = [
        {
            "model": display_name(SOURCES, row["scope"].get("source")),
            "prefixes": _scope_count(row, "budget"),
            "samples": _scope_count(row, "samples"),
            "people [95 %]": _people(row),
            "of": NONE if row["n"] is None else f"{row['n']:,}",
            "kinds each": _matching_value(row, rows, "kinds"),
            "most": _matching_value(row, rows, "most_kinds"),
            "queries a person": _matching_value(row, rows, "queries_per_person"),
        }
        for row in counts
    ]
    columns = tuple(dict.fromkeys(name for line in cells for name in line))
    exact = any(row["scope"].get("estimator") == "exact" for row in counts)
    notes = ["A person is a group of the victim's records; strings of several people do not count."]
    if exact:
        notes.append("Expected numbers; their bounds hold however one person's strings come out.")
    return build_table(f"People: {plugin}", cells, columns, numeric=columns[1:], notes=notes)


def _scope_count(row: Row, name: str) -> str:
    value = row["scope"].get(name)
    return f"{value:,}" if isinstance(value, int) else ""


def _people(row: Row) -> str:
    return f"{number(row['value'])} [{number(row['low'])}, {number(row['high'])}]"


def _matching_value(row: Row, rows: Sequence[Row], metric: str) -> str:
    match = next((r for r in rows if r["metric"] == metric and r["scope"] == row["scope"]), None)
    return "" if match is None else NONE if match["value"] is None else number(match["value"])
