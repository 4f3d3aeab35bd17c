"""What the table of verbatim extraction says below its rows."""

import pytest
from example_report import number

from fedaudit.report.tables.completion import verbatim


def notes(**scope):
    """Return the notes of a report with one distance and one test."""
    rows = (
        number("extraction", "verbatim", "edit_distance", 0.5, source="tuned"),
        number("extraction", "verbatim", "p_value", 0.25, source="tuned-not-base", **scope),
    )
    fields = ("kind", "plugin", "metric", "value", "low", "high", "n", "hits", "scope", "reason")
    [table] = verbatim({"measurements": [{f: getattr(r, f) for f in fields} for r in rows]})
    return " ".join(table.notes)


def test_both_tests_are_said_in_words():
    assert "of not measured documents comes out without training on it: p 0.25" in notes(
        test="likelihood"
    )
    says = notes(test="held-out", groups=1200, beside=3)
    assert "(1,200 groups) came out than of held-out ones (3 groups): p 0.25." in says


@pytest.mark.parametrize("scope", [{}, {"groups": "many", "beside": None}, {"groups": [2]}])
def test_a_strangers_report_without_these_counts_is_shown(scope):
    assert "(- groups) came out than of held-out ones (- groups)" in notes(test="held-out", **scope)
