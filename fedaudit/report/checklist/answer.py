"""What answers to an assessor's questions are made of: measurements in words."""

from collections.abc import Sequence

from fedaudit.report import query
from fedaudit.report.number_format import first_of, format_measurement, format_rate, is_rate
from fedaudit.report.query import Row

MOST_ROWS = 4
"""How many measurements an answer names; of others it gives the number."""


def result(row: Row) -> str:
    """Return a measurement with its n and its interval."""
    text = format_rate(row) if is_rate(row["metric"]) else format_measurement(row)
    return text if row["hits"] is not None or row["n"] is None else f"{text}, n {row['n']:,}"


def measured_rows(report: Row, *names: str) -> list[Row]:
    """Return the rows of some metrics that have a value, without those of smaller budgets."""
    rows = (row for row in report["measurements"] if row["metric"] in names)
    return [row for row in rows if row["value"] is not None and not query.is_sweep(row)]


def missing_reason(report: Row, name: str) -> str:
    """Return why a class of attacks has no number."""
    reasons = (entry["reason"] for entry in report.get("coverage", ()) if entry["class"] == name)
    return f"{next(filter(None, reasons), 'it was not run')}."


def results_text(rows: Sequence[Row]) -> str:
    """Return the first measurements in words, and how many more there are; "" for none."""
    if not rows:
        return ""
    return "; ".join(first_of([f"{_name(row)} {result(row)}" for row in rows], MOST_ROWS)) + "."


def _name(row: Row) -> str:
    keys = (
        "attacker",
        "victim",
        "client",
        "mark",
        "key",
        "score",
        "fpr",
        "times",
        "candidates",
        "records",
        "test",
    )
    where = query.scope_text(row, keys)
    control = " control" if row["scope"].get("source") in ("control", "beyond-held-out") else ""
    name = f"{row['plugin']} {row['metric'].replace('_', ' ')}{control}"
    return f"{name} ({where})" if where else name
