"""A report's policy and coverage, checked against its own content."""

from dataclasses import asdict, replace

import pytest

from fedaudit.api.records import Measurement
from fedaudit.audit.coverage import coverage
from fedaudit.audit.policy_file import read_policy
from fedaudit.audit.request import ReleaseContext
from fedaudit.audit.verification import verify_assessment
from fedaudit.report.verdict.policy import RULE, verdict

ROWS = [
    Measurement(
        kind="extraction", plugin="contextual", metric="coverage", value=0.1, n=40, hits=4,
        scope={"set": "all"},
    ),
    Measurement(kind="membership", plugin="minkprob", metric="auc", value=0.6, n=50, scope={}),
]  # fmt: skip


def report(policy="strict", **changes):
    """Return what the checks read of an audit's report with `ROWS`."""
    limits = read_policy(policy)
    made = {
        "verdict": {**verdict(ROWS, [], limits), "rule": RULE, "policy": limits.table()},
        "measurements": [asdict(row) for row in ROWS],
        "findings": [],
        "run": {"config": {"round": 2}},
        "coverage": coverage(ROWS, {}, ReleaseContext(), updates=True),
    }
    return made | changes


def states(made):
    return {f"{check.kind} {check.name}": check.state for check in verify_assessment(made)}


def test_what_an_audit_wrote_is_the_same():
    assert states(report()) == {
        "policy strict": "same",
        "attacks membership_inference": "same",
        "attacks exfiltration": "same",
    }
    assert states(report(coverage=None)) == {"policy strict": "same"}


def test_a_known_name_over_other_limits_differs():
    made = report("default")
    made["verdict"]["policy"]["name"] = " Strict"
    assert states(made)["policy  Strict"] == "differs"
    made["verdict"]["policy"]["name"] = "ours"
    assert "policy ours" not in states(made)


def test_a_known_policy_described_as_another_differs():
    made = report("default")
    made["verdict"]["policy"]["description"] = read_policy("strict").description
    assert states(made)["policy default"] == "differs"


def test_updates_may_be_out_of_reach_where_no_round_is_named():
    made = report(run={"config": {"round": None}})
    made["coverage"][5] |= {"status": "not_applicable"}
    assert "attacks reconstruction" not in states(made)


@pytest.mark.parametrize(
    ("place", "change", "name"),
    [
        (2, {"n": 500}, "exfiltration"),
        (2, {"by": ["frequency"]}, "exfiltration"),
        (0, {"status": "not_run"}, "membership_inference"),
        (3, {"status": "run", "n": 500, "by": ["verbatim"]}, "regurgitation"),
        (3, {"status": "not_applicable"}, "regurgitation"),
        (5, {"status": "not_applicable"}, "reconstruction"),
    ],
)
def test_attacks_that_the_measurements_do_not_show_differ(place, change, name):
    made = report()
    assert made["coverage"][place]["class"] == name
    made["coverage"][place] |= change
    found = states(made)
    assert found.pop(f"attacks {name}") == "differs"
    assert set(found.values()) == {"same"}


def test_a_class_that_is_told_twice_differs():
    made = report()
    forged = made["coverage"][2] | {"n": 100_000, "by": ["contextual", "frequency"]}
    made["coverage"].insert(0, forged)
    assert states(made)["attacks exfiltration"] == "differs"


@pytest.mark.parametrize("rule", [RULE - 1, RULE + 1, None])
def test_another_rule_is_no_way_round_the_limits_of_a_policy(rule):
    """With the number of another rule, any limits passed under the name of fedaudit's policy."""
    made = report("default")
    made["verdict"]["rule"] = rule
    assert states(made) == {"policy default": "same", "attacks of all classes": "not checked"}
    made["verdict"]["policy"]["memorization"] = 0.99
    assert states(made)["policy default"] == "differs"
    assert states(report(coverage=None)).keys() == {"policy strict"}


def test_what_cannot_be_judged_is_left_to_the_verdict():
    assert states(report(measurements=[{"kind": "extraction"}])) == {}


def test_what_was_measured_without_a_number_did_not_run():
    row = replace(ROWS[1], value=None, reason="too few")
    rows = coverage([row], {}, ReleaseContext(), updates=True)
    made = report(measurements=[asdict(row)], coverage=rows)
    assert states(made) == {"policy strict": "same"}
