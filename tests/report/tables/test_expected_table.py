"""Rows of the exact estimator as they are shown: a table by samples, and no curve by budgets."""

from dataclasses import replace

from gated_report import printed, rate, report, table, titles

from fedaudit.api.records import Measurement
from fedaudit.report.document import validate
from fedaudit.report.renderers import html
from fedaudit.report.tables.sweeps import sweeps
from fedaudit.report.verdict import policy

EXACT = {"set": "all", "estimator": "exact"}
GRID = {1: 2.25, 10: 8.5, 15: 9.75, 100: 20.0}
"""Expected targets of 50 by samples."""


def expected(metric, hits, n=50, **scope):
    return Measurement(
        kind="extraction",
        plugin="contextual",
        metric=metric,
        value=hits / n,
        low=0.5 * hits / n,
        high=min(1.0, 1.5 * hits / n),
        n=n,
        scope={**EXACT, **scope},
    )


def rows():
    found = [
        expected("coverage", 9.75, source="tuned-not-base"),
        expected("coverage", 0.5, source="base"),
        expected("coverage", 0.0, source="control"),
    ]
    for n, hits in GRID.items():
        at = {"budget": 40, "samples": n}
        found.append(expected("coverage", hits, source="tuned-not-base", **at))
        one_run = {"value": hits, "low": round(hits) - 1.0, "high": round(hits) + 2.0}
        found.append(replace(found[-1], metric="hits_of_one_run", **one_run))
        found.append(expected("coverage", hits / 10, source="base", **at))
        found.append(expected("coverage", 0.0, n=200, source="control", **at))
        found += [
            rate("extraction", "contextual", "extractable", round(hits * share), 50,
                 source="tuned", probability=p, **EXACT, **at)
            for p, share in ((0.5, 1), (0.9, 0.5))
        ]  # fmt: skip
    return found


def test_the_table_has_a_line_for_every_number_of_samples():
    shown = table(rows(), "Expected by samples: contextual")
    assert shown.columns == (
        *("samples", "found", "one run finds", "coverage [95 %]", "base", "control"),
        *("surely 50 %", "surely 90 %"),
    )
    assert [line[0] for line in shown.rows] == ["1", "10", "15", "100"]
    assert shown.rows[2] == (
        *(
            "15",
            "~9.75 / 50",
            "9 to 12",
            "19.5 % [9.8, 29.2]",
            "1.9 %",
            "0.0 %",
            "10 / 50",
            "5 / 50",
        ),
    )


def test_they_are_no_sweep_by_budget_and_stand_in_no_other_table():
    made = report(rows())
    validate(made)
    assert not sweeps(made)
    assert not any("Other" in title or "by budget" in title for title in titles(rows()))
    assert "~9.75 / 50" in "\n".join(printed(rows(), 120))
    assert "Expected by samples" in html.render(made)


def test_other_reports_have_no_such_table():
    plain = [rate("extraction", "contextual", "coverage", 3, 50, source="tuned", set="all")]
    assert not any(title.startswith("Expected") for title in titles(plain))


def judged(high):
    row = replace(expected("coverage", 0.1, n=200, source="tuned-not-base"), low=0.0, high=high)
    beside = [replace(row, scope={**row.scope, "source": one}) for one in ("base", "control")]
    known = replace(
        row, value=1.0, low=0.99, high=1.0, n=400, scope={**row.scope, "source": "known"}
    )
    return policy.verdict([row, *beside, known], [])


def test_nothing_found_is_no_pass_where_most_was_given_up():
    # It takes seven of 200 against none of 200: P(Bin(200, r) >= 7) = 0.9 at r = 5.2 %.
    assert judged(0.09)["status"] == "pass"
    blind = judged(1.0)
    assert blind["status"] == "inconclusive"
    assert "lower the threshold" in blind["reasons"][0]
