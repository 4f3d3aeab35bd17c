from dataclasses import replace

import pytest

from fedaudit.api.records import Measurement
from fedaudit.report.verdict.policy import verdict

AT = {"score": "reference", "source": "tuned", "records": "victim", "members": 200, "others": 200}


def row(metric, value, n=200, **more):
    scope = {**AT, **more.pop("scope", {})}
    return Measurement(
        kind="membership", plugin="membership", metric=metric, value=value, n=n, scope=scope, **more
    )


def rows(ranks=0.4, tail=0.6, high=0.04, rate=0.01, **scope):
    return [
        row("p_value", ranks, scope={"test": "ranks", **scope}),
        row("p_value", tail, scope={"test": "tail", **scope}),
        row("tpr", rate, low=0.0, high=high, hits=2, scope={"fpr": 0.01, **scope}),
        row("tpr", 0.9, low=0.8, high=0.95, hits=180, scope={"fpr": 0.001, **scope}),
        # Other scores are shown, not judged.
        row("p_value", 1e-9, scope={"score": "loss", "test": "ranks", **scope}),
    ]


@pytest.mark.parametrize(
    ("given", "status", "says"),
    [
        (rows(), "pass", "2 of 200 records score above what 1% of held-out ones reach"),
        # Holm over two tests: 0.004 becomes 0.008, 0.006 becomes 0.012.
        (rows(ranks=0.004), "fail", "200 records can be told from held-out ones"),
        (rows(tail=0.004), "fail", "p = 0.008"),
        (rows(ranks=0.006), "pass", "no more than chance may give"),
        (rows(high=0.12), "inconclusive", "too few records"),
        (rows()[:2], "inconclusive", "no rate at 1 % is there"),
    ],
)
def test_the_rule(given, status, says):
    found = verdict(given, [])
    assert found["status"] == status
    assert says in found["reasons"][0]


def test_members_known_worse_than_others_are_no_pass():
    """It is not a sign of training either: a failure by the other tests stays one."""
    low = row("p_value", 0.009, scope={"test": "low ranks"})
    found = verdict([*rows(), low], [])
    assert found["status"] == "inconclusive"
    assert "knows these 200 records worse than held-out ones (p = 0.009)" in found["reasons"][0]
    assert verdict([*rows(), replace(low, value=0.011)], [])["status"] == "pass"
    assert verdict([*rows(tail=1e-4), replace(low, value=1e-4)], [])["status"] == "fail"


def test_what_could_not_be_measured_is_said():
    missing = Measurement.missing(
        "these sets differ", kind="membership", plugin="membership", metric="p_value",
        scope={**AT, "test": "ranks"},
    )  # fmt: skip
    found = verdict([missing], [])
    assert found["status"] == "inconclusive"
    assert "these sets differ" in found["reasons"][0]


def test_own_records_are_not_judged():
    found = verdict(rows(ranks=1e-6, records="own"), [])
    assert found["status"] == "inconclusive"
    assert "can be told" not in found["reasons"][0]


def by_group(least=1e-4, high=0.05, groups=20, **scope):
    at = {"groups": groups, "beside": groups, **scope}
    return [
        row("least_p_value", least, scope=at),
        row("tpr_by_group", 0.01, low=0.0, high=high, scope={"fpr": 0.01, **at}),
    ]


@pytest.mark.parametrize(
    ("given", "status", "says"),
    [
        ([*rows(), *by_group()], "pass", "at most 5.00%"),
        # Two groups a side can be dealt in 6 ways, three in 20, four in 70; Holm needs 0.005.
        ([*rows(), *by_group(1 / 6, groups=2)], "inconclusive",
         "2 and 2 groups of members and held-out records are too few to tell: no p value can be "
         "below 0.17, and 0.005 is needed."),
        ([*rows(), *by_group(1 / 70, groups=4)], "inconclusive", "too few to tell"),
        ([*rows(), *by_group(1 / 252, groups=5)], "pass", "no more than chance may give"),
        ([*rows(ranks=0.004), *by_group(1 / 252, groups=5)], "fail", "p = 0.008"),
        # The larger of the two upper bounds counts.
        ([*rows(), *by_group(high=0.12)], "inconclusive", "at most 12.00%: too few records"),
        ([*rows(high=0.12), *by_group()], "inconclusive", "at most 12.00%: too few records"),
    ],
)  # fmt: skip
def test_few_groups_are_no_pass(given, status, says):
    found = verdict(given, [])
    assert found["status"] == status
    assert says in found["reasons"][0]


def test_more_comparisons_need_more_groups():
    # Four tests need 0.0025 each: one in 252 is above it.
    one, two = [*rows(), *by_group(1 / 252)], [*rows(victim="c2"), *by_group(1 / 924, victim="c2")]
    assert verdict([*one, *two], [])["status"] == "inconclusive"
    assert verdict([*rows(), *by_group(1 / 924), *two], [])["status"] == "pass"


def test_several_victims_are_corrected_over_together():
    two = [*rows(ranks=0.004), *rows(victim="c2")]
    # Four tests: 0.016.
    assert verdict(two, [])["status"] == "pass"
    assert verdict([*rows(ranks=0.002), *rows(victim="c2")], [])["status"] == "fail"
