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
        (rows(), "pass", "2 of 200 records are above what 1% of held-out ones reach"),
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


def test_several_victims_are_corrected_over_together():
    two = [*rows(ranks=0.004), *rows(victim="c2")]
    # Four tests: 0.016.
    assert verdict(two, [])["status"] == "pass"
    assert verdict([*rows(ranks=0.002), *rows(victim="c2")], [])["status"] == "fail"
