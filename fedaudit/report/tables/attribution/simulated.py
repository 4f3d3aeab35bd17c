"""The table of what simulated federations say of an attribution's settings."""

from collections.abc import Mapping, Sequence

from fedaudit.api.kind import Table
from fedaudit.report.number_format import format_rate, percent
from fedaudit.report.query import Row
from fedaudit.report.tables.attribution.clients import rows_of_part
from fedaudit.report.tables.grouping import client_of
from fedaudit.report.tables.table import build_table

NOTE = (
    "Federations with these clients, rounds, sets and null marks: in how many a marked client is"
    " found, and somebody innocent is flagged."
)


def simulated_table(rows: Sequence[Row]) -> Table:
    """Return a line for each strength of a mark: how many are found, and how many wrongly."""
    simulated = rows_of_part(rows, "simulated")
    by_strength: dict[str, dict[str, Row]] = {}
    for row in simulated:
        if "strength" in row["scope"]:
            by_strength.setdefault(_marked(row["scope"]), {})[row["metric"]] = row
    cells = [
        {
            "marked": marked,
            "found": _rate(by_metric.get("marked_found")),
            "somebody innocent flagged": _rate(by_metric.get("innocent_flagged")),
        }
        for marked, by_metric in by_strength.items()
    ]
    return build_table(
        "Attribution: what these settings can tell",
        cells,
        ("marked", "found", "somebody innocent flagged"),
        numeric=("found", "somebody innocent flagged"),
        notes=(NOTE, _most_flagged(simulated)),
    )


def _marked(scope: Mapping[str, object]) -> str:
    strength = scope["strength"]
    if not (isinstance(strength, float) and strength):
        return "nobody"
    return f"one client, Z {strength:g}{' (usual strength)' if 'rounds' in scope else ''}"


def _rate(row: Row | None) -> str:
    return format_rate(row) if row else ""


def _most_flagged(simulated: Sequence[Row]) -> str:
    """Return the innocent client that is flagged most often; nothing if none is flagged."""
    of_clients = [row for row in simulated if "client" in row["scope"] and row["n"]]
    if not of_clients:
        return ""
    most = max(of_clients, key=lambda row: (row["value"] or 0, row["high"] or 0, client_of(row)))
    return (
        f"No client is flagged more often while it is innocent than {client_of(most)}: "
        f"{percent(most['value'])}, {percent(most['high'])} at most."
    )
