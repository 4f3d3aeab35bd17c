"""What attacks found that others did not, also as means over seeds of unlike budgets."""

import pytest
from study_report import study_report

from fedaudit.api.records import Measurement
from fedaudit.report.tables.extraction import overlaps


def pair(hits, n, **scope):
    found = {"source": "tuned", "set": "all", "attacks": "frequency", "not": "contextual"}
    return Measurement(
        kind="extraction", plugin="frequency", metric="overlap", value=hits / n, n=n, hits=hits,
        low=0.0, high=1.0, scope={**found, **scope},
    )  # fmt: skip


@pytest.mark.parametrize(("budget", "says"), [({"budget": 1200}, "1 / 4 (1,200)"), ({}, "1 / 4")])
def test_the_equal_budget_is_said_where_it_is_one_number(budget, says):
    rows = [pair(2, 5), pair(1, 4, budgets="equal", **budget)]
    [table] = overlaps(study_report(*rows).to_json())
    assert [(line[0], line[1], line[2], line[-1]) for line in table.rows] == [
        ("frequency", "contextual", "2 / 5", says)
    ]
