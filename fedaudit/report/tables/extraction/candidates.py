"""The table of an attacker without a victim: how often it is right to believe its candidates."""

from fedaudit.api.kind import Table
from fedaudit.report import query as measurements
from fedaudit.report.number_format import format_measurement
from fedaudit.report.query import Row, missing_reasons, scope_of
from fedaudit.report.tables.table import build_table

RIGHT = "true [95 %]"
NOTE = "Estimated from the attacker's own strings, assuming that others' were learnt as these were."


def candidates(report: Row) -> list[Table]:
    """Return a table for each attack that listed candidates: how many of the first are true."""
    precisions = [row for row in report["measurements"] if row["metric"] == "precision"]
    return [_first(plugin, rows) for plugin, rows in measurements.by_plugin(precisions).items()]


def _first(plugin: str, rows: list[Row]) -> Table:
    has_value = any(row["value"] is not None for row in rows)
    cells = [
        {
            "candidates": f"first {row['scope'].get('top', '?')}",
            "kind": str(row["scope"].get("label", "all")),
            RIGHT: format_measurement(row),
            "where": scope_of(row, {"top"}),
        }
        for row in rows
    ]
    return build_table(
        f"What an attacker would believe: {plugin}",
        cells,
        ("candidates", "kind", RIGHT, "where"),
        numeric=(RIGHT,),
        notes=(NOTE if has_value else "", *missing_reasons(rows)),
    )
