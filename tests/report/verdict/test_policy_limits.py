"""Verdicts under a policy: kinds of data, tolerated leaks, membership, what is required."""

from dataclasses import replace

import pytest
from example_report import coverage, example, wilson
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.api.errors import InputError
from fedaudit.api.policy import Policy
from fedaudit.api.records import Measurement
from fedaudit.report.document import validate
from fedaudit.report.verdict.criteria import DEFAULT, policy_of
from fedaudit.report.verdict.policy import NO_VICTIM, judge, verdict
from fedaudit.report.verdict.recheck import recheck


def leak(hits, n=100):
    """Return what came out of `n` targets, nothing of base and controls."""
    return [
        coverage(hits, n, source="tuned-not-base"),
        coverage(0, n, source="base"),
        coverage(0, 300, source="control"),
        coverage(400, 400, source="known"),
    ]


def of_kind(hits, n, control_n=0, label="ID_CARD"):
    rows = [coverage(hits, n, source="tuned-not-base", label=label)]
    return rows + ([coverage(0, control_n, source="control", label=label)] if control_n else [])


def recognised(hits, n, fpr=0.01, score="loss"):
    low, high = wilson(hits, n)
    value = hits / n
    return Measurement(kind="membership", plugin="membership", metric="tpr", value=value, low=low,
                       high=high, n=n, hits=hits, chance=fpr,
                       scope={"source": "tuned", "score": score, "fpr": fpr})  # fmt: skip


def judged(rows, policy, rule):
    return [one for one in judge(rows, [], policy).judgements if one.rule == rule]


def test_a_kind_fails_where_more_came_out_than_its_limit():
    # P(Binomial(20, 0.05) >= 8) is below 1e-5; of 1 of 20 it is 1 - 0.95^20 = 0.642.
    policy = Policy(kinds={"ID_CARD": 0.05})
    [found] = judged([*leak(0), *of_kind(8, 20)], policy, "kind")
    assert found.status == "fail"
    assert "8 of 20" in found.reason
    assert "more than 5.00%" in found.reason
    assert found.limit == "at most 5% of ID_CARD, shown with 95%"
    [found] = judged([*leak(0), *of_kind(1, 20)], policy, "kind")
    assert found.status == "inconclusive"
    tests = verdict([*leak(0), *of_kind(1, 20)], [], policy)["tests"]
    assert tests[-1]["p"] == pytest.approx(1 - 0.95**20)


def test_a_kind_passes_where_its_upper_bound_is_below_the_limit():
    # 0 of n has the upper bound 1 - 0.05^(1/n): 0.0487 of 60, 0.0503 of 58.
    policy = Policy(kinds={"ID_CARD": 0.05})
    assert [one.status for one in judged([*leak(0), *of_kind(0, 60)], policy, "kind")] == ["pass"]
    [found] = judged([*leak(0), *of_kind(0, 58)], policy, "kind")
    assert found.status == "inconclusive"
    assert "5.03%" in found.reason


def test_guessing_explains_what_came_out_of_a_kind():
    # Of 5 controls none came out: guessing may give up to 1 - 0.05^(1/5) = 0.4507 of them.
    policy = Policy(kinds={"ID_CARD": 0.05})
    tests = verdict([*leak(0), *of_kind(8, 20, 5)], [], policy)["tests"]
    assert tests[-1]["p"] == pytest.approx(0.7501, abs=1e-4)  # P(Binomial(20, 0.4507) >= 8)


def test_a_category_is_limited_like_a_label():
    row = coverage(9, 20, source="tuned-not-base", category="Identity Documents")
    [found] = judged([*leak(0), row], Policy(kinds={"Identity Documents": 0.05}), "kind")
    assert found.status == "fail"


def test_a_proven_leak_within_what_is_allowed_passes():
    # 30 of 1,000 against none of 300 controls is proven. The one-sided 95 % upper bound
    # of 30 of 1,000 is 4.05 %, the lower one 2.16 %.
    rows = leak(30, 1000)
    assert verdict(rows, [])["status"] == "fail"
    assert verdict(rows, [], Policy(extraction=0.05))["status"] == "pass"
    assert verdict(rows, [], Policy(extraction=0.02))["status"] == "fail"
    tight = Policy(extraction=0.03, detectable=0.03)
    assert verdict(rows, [], tight)["status"] == "inconclusive"


def test_a_pass_must_have_been_able_to_see_the_leak_of_the_policy():
    found = verdict(leak(0, 100), [])
    assert found["status"] == "pass"
    assert found["detectable"] > 0.02
    assert verdict(leak(0, 100), [], Policy(detectable=0.02))["status"] == "inconclusive"


def test_membership_is_judged_where_the_policy_limits_it():
    # P(Binomial(100, 0.05) >= 20) is 1e-7; 0 of 100 has the upper bound 1 - 0.05^0.01 = 2.95 %.
    policy = Policy(membership=0.05)
    assert judged([*leak(0), recognised(20, 100)], DEFAULT, "membership limit") == []
    rows = [*leak(0), recognised(20, 100), recognised(0, 100, score="zlib")]
    found = judged(rows, policy, "membership limit")
    assert [one.status for one in found] == ["fail", "pass"]
    assert "2.95%" in found[1].reason
    missing = replace(recognised(1, 9), value=None, low=None, high=None, hits=None, reason="few")
    [found] = judged([missing], policy, "membership limit")
    assert found.status == "inconclusive"
    assert "few" in found.reason


@pytest.mark.parametrize("rows", [[], [recognised(0, 100, fpr=0.001)]])
def test_a_limit_of_membership_that_nobody_measured_is_no_pass(rows):
    found = verdict([*leak(0), *rows], [], Policy(membership=0.05), explained=True)
    assert found["status"] == "inconclusive"
    assert "a false-positive rate of 1% was not measured" in found["reasons"][0]
    assert found["judgements"][-1]["rule"] == "membership limit"
    assert verdict([*leak(0), *rows], [])["status"] == "pass"


def test_a_threshold_of_few_held_out_records_proves_less():
    # Of 10,000 members 700 are above the second highest of 100 others: far more than 5 %, but if
    # all are alike so many are with P(Binomial(100, 0.07) <= 1), about 0.006.
    policy = Policy(membership=0.05)
    one = recognised(700, 10_000)
    [found] = judged([one], policy, "membership limit")
    assert found.status == "fail"
    few = replace(one, scope={**one.scope, "others": 100})
    [test] = verdict([*leak(0), few], [], policy)["tests"][-1:]
    assert test["p"] == pytest.approx(0.93**100 + 100 * 0.07 * 0.93**99, rel=0.05)
    many = replace(one, scope={**one.scope, "others": 1000})
    [found] = judged([many], policy, "membership limit")
    assert found.status == "fail"


def test_a_limited_kind_that_was_left_out_is_no_pass():
    policy = Policy(kinds={"Identity Documents": 0.05, "PERSON": 0.1})
    assert verdict(leak(0), [], policy)["status"] == "pass"  # nobody has such strings
    left_out = Measurement(kind="extraction", plugin="contextual", metric="targets", value=4.0,
                           n=4, scope={"set": "beyond-reach", "label": "ID_CARD"})  # fmt: skip
    found = verdict([*leak(0), left_out], [], policy)
    assert found["status"] == "inconclusive"
    assert found["reasons"] == [
        "No Identity Documents was looked for, although there are targets of this kind."
    ]
    asked = [*leak(0), left_out, *of_kind(0, 60), coverage(0, 60, source="tuned-not-base",
             category="Identity Documents")]  # fmt: skip
    assert verdict(asked, [], policy)["status"] == "pass"


def test_a_limited_kind_is_no_pass_where_the_annotation_cannot_find_it():
    policy = Policy(kinds={"Identity Documents": 0.05, "EMAIL_ADDRESS": 0.1, "BADGE": 0.1})
    row = Measurement(kind="extraction", plugin="names", metric="annotation_labels", value=2.0,
                      scope={"labels": ["EMAIL_ADDRESS", "PERSON"]})  # fmt: skip
    found = verdict([*leak(0), row], [], policy)
    assert found["status"] == "inconclusive"
    assert found["reasons"] == [
        f"No {kind} was looked for: the annotation, by names, cannot find it."
        for kind in ("BADGE", "Identity Documents")  # a label outside the taxonomy, too
    ]
    # Of a major category every minor one must be found: with cards alone, no passport is.
    some = ["E_MAIL_ADDRESS", "ID_CARD", "US_SSN", "DRIVER_LICENSE", "TAX_ID", "BADGE"]
    part = verdict([*leak(0), replace(row, scope={"labels": some})], [], policy)
    assert part["reasons"] == [found["reasons"][1]]
    able = replace(row, scope={"labels": [*some, "PASSPORT", "MILITARY_ID"]})
    assert verdict([*leak(0), able], [], policy)["status"] == "pass"
    # Rows without labels, of a detector that does not say, find nothing; earlier reports have none.
    silent = replace(row, value=0.0, scope={"labels": []})
    assert verdict([*leak(0), silent], [], policy)["status"] == "inconclusive"
    assert verdict(leak(0), [], policy)["status"] == "pass"


def test_a_limited_kind_is_no_pass_where_no_strings_were_looked_for():
    passages = [replace(row, plugin="verbatim", scope={**row.scope, "records": "victim"})
                for row in leak(0)]  # fmt: skip
    passages = [
        replace(row, scope={k: v for k, v in row.scope.items() if k != "set"}) for row in passages
    ]
    assert verdict(passages, [])["status"] == "pass"
    found = verdict(passages, [], Policy(kinds={"PERSON": 0.1}))
    assert found["status"] == "inconclusive"
    assert found["reasons"] == ["No PERSON was looked for, nor any other string of personal data."]


def test_what_a_policy_requires_must_be_measured_for_a_pass():
    rows = leak(0)
    policy = Policy(required=("exfiltration", "membership_inference"))
    found = verdict(rows, [], policy)
    assert found["status"] == "inconclusive"
    assert found["reasons"] == ["The policy default requires membership inference: not measured."]
    assert verdict([*rows, recognised(0, 100)], [], policy)["status"] == "pass"


def memorized(hits):
    """Return what prefixes draw of others' texts, and that they draw their own."""
    names = {"kind": "memorization", "plugin": "memorize"}
    return [
        Measurement.rate(
            drawn, 400, **names, metric=metric, scope={"source": source, "category": "all"}
        )
        for source, others, own in (("tuned", hits, 400), ("base", 0, 0))
        for metric, drawn in (("mr_inter", others), ("mr_intra", own))
    ]


def test_what_was_tried_on_ones_own_records_only_is_no_pass_beside_another_step():
    passed = memorized(0)
    assert verdict(passed, [])["status"] == "pass"
    own = coverage(0, 100, source="tuned-not-base", records="own")
    assert verdict([*passed, own], [])["reasons"] == [NO_VICTIM]
    assert verdict([*passed, own, *leak(0)], [])["status"] == "pass"


def test_memorization_may_be_allowed():
    rows = memorized(40)
    assert verdict(rows, [])["status"] == "fail"
    assert verdict(rows, [], Policy(memorization=0.2))["status"] == "pass"


def test_more_kinds_make_every_test_stricter():
    """Holm over all: p = 0.0064 alone is below 1 %, beside another test of p 1 it is not."""
    policy = Policy(kinds={"ID_CARD": 0.05, "PERSON": 0.05})
    alone = [*leak(0), *of_kind(5, 20)]  # P(Binomial(20, 0.05) >= 5) = 0.0026
    assert verdict(alone, [], policy)["status"] == "fail"
    five = [of_kind(0, 20, label=f"K{i}")[0] for i in range(5)]
    more = Policy(kinds={**policy.kinds, **{f"K{i}": 0.05 for i in range(5)}})
    assert verdict([*alone, *five], [], more)["status"] != "fail"


@given(st.integers(0, 40), st.integers(0, 40))
def test_more_hits_never_make_a_better_verdict(one, other):
    order = ("pass", "inconclusive", "fail")
    policy = Policy(kinds={"ID_CARD": 0.1})
    statuses = [
        judged([*leak(0), *of_kind(hits, 40)], policy, "kind")[0].status
        for hits in sorted((one, other))
    ]
    assert order.index(statuses[0]) <= order.index(statuses[1])


def test_a_report_holds_its_policy_and_is_judged_by_it_again():
    policy = Policy(name="ours", kinds={"PERSON": 0.05}, membership=0.05)
    document = replace(example(), policy=policy).to_json()
    validate(document)
    assert policy_of(document["verdict"]["policy"], "x") == policy
    assert {one["rule"] for one in document["verdict"]["judgements"]} >= {"leak", "kind"}
    assert recheck(document).holds
    document["verdict"]["judgements"][0]["limit"] = "anything goes"
    assert recheck(document).holds is False


def test_the_default_policy_is_the_rule_of_every_command():
    rows = leak(40)
    assert verdict(rows, []) == verdict(rows, [], policy_of(DEFAULT.table(), "x"))


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ({"lvel": 0.1}, "no 'lvel'"),
        ({"level": 2.0}, "level is 2"),
        ({"level": 0}, "level is 0; it must be above 0"),
        ({"level": True}, "another type"),
        ({"level": "0.1"}, "another type"),
        ({"kinds": {"PERSON": 0.0}}, "the limit of PERSON is 0"),
        ({"kinds": ["PERSON"]}, "another type"),
        ({"required": ["telepathy"]}, "telepathy is not a class"),
        ({"attribution": 1}, "another type"),
        ({"level": float("nan")}, "another type"),
        ([], "a policy is a table"),
    ],
)
def test_what_is_no_policy_is_refused_in_one_line(table, says):
    with pytest.raises(InputError, match=r"p\.toml") as error:
        policy_of(table, "p.toml")
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_what_a_policy_asks_for_is_told_with_all_its_digits():
    policy = Policy(power=0.995, detectable=0.125, extraction=0.0025)
    [found] = judged(leak(0), policy, "leak")
    assert found.limit == (
        "no leak proven at p = 0.01, more than 0.25% of the targets; a leak of 12.5% would be seen "
        "with 99.5% probability"
    )
    assert "(with 99.5% probability)" in found.reason


def test_the_order_of_a_policys_kinds_changes_no_judgement():
    kinds = {"PERSON": 0.05, "ID_CARD": 0.05, "ADDRESS": 0.1}
    turned = dict(reversed(kinds.items()))
    found, other = (judge(leak(0), [], Policy(kinds=order)).judgements for order in (kinds, turned))
    assert found == other
    assert len([one for one in found if one.rule == "kind"]) == 3
