"""Source inference: how often a record is put down to the client that it is of."""

from collections.abc import Sequence

from fedaudit.api.kind import Kind, Row, Table
from fedaudit.report import query
from fedaudit.report.number_format import format_measurement, percent
from fedaudit.report.query import common_scope, missing_reasons, scope_but
from fedaudit.report.tables.table import NONE, build_table, common_note

EVERYBODY = "all"
RIGHT, GUESSING = "found [95 %]", "guessing"
AREAS = {"loss": "AUC of models [95 %]", "text": "AUC of words [95 %]"}
"""Titles by scope.score."""


class Source(Kind):
    """Which client a record is of, as the server can tell from the clients' models."""

    name = "source"
    compared = frozenset({"auc", "source_accuracy"})

    def shows(self, row: Row) -> bool:
        """Tell whether the table shows a row."""
        of_client = row["metric"] == "auc" and {"score", "client"} <= row["scope"].keys()
        return bool(row["metric"] == "source_accuracy" or of_client)

    def tables(self, report: Row) -> list[Table]:
        """Return a table per attack, with a line for each client."""
        rows = self.rows(report)
        return [_table(plugin, group) for plugin, group in query.by_plugin(rows).items()]


def _table(plugin: str, rows: Sequence[Row]) -> Table:
    shares = [row for row in rows if row["metric"] == "source_accuracy"]
    shared, scopes = common_scope(shares, {"client", "others"})
    cells = [
        {**_cells(share, rows), "where": scope} for share, scope in zip(shares, scopes, strict=True)
    ]
    columns = list(dict.fromkeys(name for line in cells for name in line if name != "where"))
    return build_table(
        f"Source: {plugin}",
        cells,
        (*columns, "where"),
        numeric=columns[1:],
        notes=(
            "Found: records put down to their client because its model knows them best. AUC: of "
            "a record of the client and one of another, how often the first is more like the "
            "client's, by the models' losses, or by its words alone without any model; 0.5 is "
            "guessing.",
            *common_note(shared),
            *missing_reasons(rows),
        ),
    )


def _cells(share: Row, rows: Sequence[Row]) -> dict[str, str]:
    client = share["scope"].get("client")
    cells = {
        "client": str(client or EVERYBODY),
        "records": f"{share['n']:,}",
        RIGHT: format_measurement(share),
        GUESSING: NONE if share["chance"] is None else percent(share["chance"]),
    }
    for row in rows:
        if row["metric"] == "auc" and client and scope_but(row, "score") == share["scope"]:
            title = AREAS.get(str(row["scope"]["score"]), str(row["scope"]["score"]))
            cells[title] = format_measurement(row) if row["value"] is not None else NONE
    return cells
