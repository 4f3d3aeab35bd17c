"""What reports show of how far an attacker may believe its candidates."""

from gated_report import report, table

from fedaudit.api.records import Measurement
from fedaudit.report.tables.overview import unshown_rows_table

TITLE = "What an attacker would believe: contextual"


def precision(top, value, low=None, high=None, reason="", **scope):
    return Measurement(
        kind="extraction",
        plugin="contextual",
        metric="precision",
        value=value,
        low=low,
        high=high,
        n=top,
        reason=reason,
        scope={"source": "tuned", "set": "all", "top": top, **scope},
    )


def test_first_candidates_have_a_line_each():
    rows = [
        precision(10, 0.8, 0.5, 1.0),
        precision(20, 0.7, 0.4, 0.9),
        precision(10, 0.25, 0.0, 0.5, label="PERSON"),
    ]
    found = table(rows, TITLE)
    assert found.columns == ("candidates", "kind", "true [95 %]")
    assert found.rows == (
        ("first 10", "all", "80.0 % [50.0, 100.0]"),
        ("first 20", "all", "70.0 % [40.0, 90.0]"),
        ("first 10", "PERSON", "25.0 % [0.0, 50.0]"),
    )
    assert "own strings" in found.notes[0]
    assert not unshown_rows_table(report(rows))


def test_what_cannot_be_estimated_says_why():
    found = table([precision(10, None, reason="no base")], TITLE)
    assert found.rows == (("first 10", "all", "not measured"),)
    assert found.notes == ("Not measured: no base",)
