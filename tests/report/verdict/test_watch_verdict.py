from dataclasses import replace

import pytest

from fedaudit.api.records import Measurement
from fedaudit.report.kinds.watch import Watch
from fedaudit.report.verdict.policy import verdict


def row(number, low, high, *, fpr=0.01, unit="record", others=200, n=100, limit=0.1):
    scope = {"round": number, "unit": unit, "fpr": fpr, "others": others, "limit": limit}
    return Measurement(
        kind="watch", plugin="watch", metric="learnt", value=(low + high) / 2, low=low, high=high,
        n=n, hits=3, chance=0.01, scope=scope,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "status", "says"),
    [
        ([row(1, 0, 0.05), row(2, 0, 0.1)], "pass", "at most 10 (10.0 %) can be told"),
        ([row(1, 0, 0.05), row(2, 0, 0.11)], "inconclusive", "up to 11 (11.0 %) of 100 records"),
        ([row(1, 0.11, 0.3), row(2, 0, 0.1)], "fail", "after round 1 at least 11 (11.0 %)"),
        ([row(1, 0.1, 0.1)], "pass", "your limit is 10%"),
        # A bound at any rate fails; a pass is about the strictest.
        ([row(1, 0, 0.1), row(1, 0.2, 0.9, fpr=0.5)], "fail", "at least 20"),
        ([row(1, 0, 0.1), row(1, 0.05, 0.9, fpr=0.5)], "pass", "at most 10"),
        ([row(1, 0, 0, others=99)], "inconclusive", "99 others are too few"),
        ([row(1, 0.2, 0.3, others=99)], "fail", "stop now"),
        ([row(1, 0, 0.05), row(1, 0.5, 0.9, unit="canary", n=12)], "fail", "of 12 canaries"),
        ([row(1, 0.01, 0.05, limit=0.0)], "fail", "at least 1 (1.0 %)"),
    ],
)
def test_the_highest_bound_of_all_rounds_is_held_against_the_limit(rows, status, says):
    found = verdict(rows, [])
    assert found["status"] == status
    assert says in found["reasons"][0]


def test_what_was_not_read_is_said():
    short = row(1, 0, 0.8)
    short = replace(short, scope={**short.scope, "unread": 80})
    found = verdict([short], [])
    assert found["status"] == "inconclusive"
    assert "80 records among them had too few tokens to be read" in found["reasons"][0]
    torn = replace(short, scope={**short.scope, "unread": "all"})
    assert verdict([torn], [])["status"] == "inconclusive"


@pytest.mark.parametrize(
    ("rounds", "named"),
    [
        ([1, 2, 4, 5], "untested: round 3,"),
        ([2, 3], "untested: round 1,"),
        ([0, 5, 7, 10], "untested: rounds 1 to 4, 6 and 8 to 9,"),
        ([10, 20, 30, 40, 50, 60], "untested: rounds 1 to 9, 11 to 19, 21 to 29, 31 to 39, 41 to"
         " 49, and 1 more,"),
        ([10**15], f"untested: rounds 1 to {10**15 - 1},"),
    ],
)  # fmt: skip
def test_a_pass_in_any_round_needs_every_round(rounds, named):
    found = verdict([row(number, 0, 0.05) for number in rounds], [])
    assert found["status"] == "inconclusive"
    assert named in found["reasons"][0]
    assert "can be told in any tested round" in found["reasons"][0]
    leak = [row(number, 0.2, 0.5) for number in rounds]
    assert verdict(leak, [])["status"] == "fail"


@pytest.mark.parametrize("rounds", [[1], [0, 1, 2], [3, 1, 2]])
def test_rounds_without_a_gap_can_pass(rounds):
    assert verdict([row(number, 0, 0.05) for number in rounds], [])["status"] == "pass"


def test_what_was_not_measured_is_no_pass():
    missing = Measurement.missing(
        "the texts differ", kind="watch", plugin="watch", metric="learnt", scope={"unit": "record"}
    )
    found = verdict([missing, row(1, 0, 0, unit="canary")], [])
    assert (found["status"], found["reasons"]) == ("inconclusive", ["watch: the texts differ."])


def test_the_table_has_the_highest_bound_so_far():
    rows = [row(1, 0.2, 0.3), row(2, 0.1, 0.2), row(3, 0.25, 0.5)]
    report = {"measurements": [
        {"kind": r.kind, "plugin": r.plugin, "metric": r.metric, "value": r.value, "low": r.low,
         "high": r.high, "n": r.n, "hits": r.hits, "chance": r.chance, "baseline": None,
         "reason": "", "scope": dict(r.scope)} for r in rows
    ]}  # fmt: skip
    [table] = Watch().tables(report)
    by_now = table.columns.index("at least, by now")
    assert [line[by_now] for line in table.rows] == ["20 (20.0 %)", "20 (20.0 %)", "25 (25.0 %)"]
    assert [line[table.columns.index("at 1%")] for line in table.rows] == [
        "20-30", "10-20", "25-50",
    ]  # fmt: skip
    assert Watch().sentences(report) == [
        "The global models of 3 rounds were tested on 100 records; at least 25 (25.0 %) were "
        "learnt."
    ]
