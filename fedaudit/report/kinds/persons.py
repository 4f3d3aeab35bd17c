"""People: how many are exposed, by how many kinds of data, at what cost."""

from collections.abc import Callable, Sequence

from fedaudit.api.kind import Kind, Row, Table
from fedaudit.report import query
from fedaudit.report.number_format import count, number
from fedaudit.report.query import same_scope_row
from fedaudit.report.tables.table import NONE, cell_of, model_name, row_table


class Persons(Kind):
    """How many people's data came out."""

    name = "persons"
    shown = frozenset({"persons", "kinds", "most_kinds", "queries_per_person"})

    def tables(self, report: Row) -> list[Table]:
        """Return a table per attack with a line for each model and each budget."""
        rows = self.rows(report)
        return [_table(plugin, group) for plugin, group in query.by_plugin(rows).items()]


def _table(plugin: str, rows: Sequence[Row]) -> Table:
    counts = [row for row in rows if row["metric"] == "persons"]

    def beside(metric: str) -> Callable[[Row], str]:
        return lambda row: cell_of(same_scope_row(rows, row, metric), _value, "")

    columns = {
        "model": model_name,
        "prefixes": lambda row: _scope_count(row, "budget"),
        "samples": lambda row: _scope_count(row, "samples"),
        "people [95 %]": _people,
        "of": count,
        "kinds each": beside("kinds"),
        "most": beside("most_kinds"),
        "queries a person": beside("queries_per_person"),
    }
    notes = ["A person is a group of the victim's records; strings of several people do not count."]
    if any(row["scope"].get("estimator") == "exact" for row in counts):
        notes.append("Expected numbers; their bounds hold however one person's strings come out.")
    return row_table(
        f"People: {plugin}",
        counts,
        columns,
        numeric=tuple(columns)[1:],
        notes=notes,
        unmeasured=(),
    )


def _scope_count(row: Row, name: str) -> str:
    value = row["scope"].get(name)
    return f"{value:,}" if isinstance(value, int) else ""


def _people(row: Row) -> str:
    return f"{number(row['value'])} [{number(row['low'])}, {number(row['high'])}]"


def _value(row: Row) -> str:
    return NONE if row["value"] is None else number(row["value"])
