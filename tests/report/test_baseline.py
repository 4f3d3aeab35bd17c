"""An audit against its baseline: only what is new, or worse beyond intervals, fails."""

import json
from dataclasses import replace
from math import sqrt
from types import SimpleNamespace

import pytest
from attributed_report import row as attribution_row
from example_report import coverage, example, number
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from fedaudit.api.errors import InputError
from fedaudit.api.policy import Policy
from fedaudit.api.records import Finding, Measurement
from fedaudit.cli.audit.defenses import finished_report
from fedaudit.report.baseline import check_comparable, compare_with_baseline
from fedaudit.report.document import validate
from fedaudit.report.tables.comparison import baseline_tables

SOURCES = ("tuned", "base", "tuned-not-base", "base-not-tuned", "control")

BASELINE = ("The baseline", "This is not a baseline.")
SECOND = ("The second report", "This report cannot be held against a baseline.")


def rows(hits, n=900):
    found = {"tuned": hits, "tuned-not-base": hits}
    return [coverage(found.get(source, 0), n, source=source, set="all") for source in SOURCES]


def leak(name, label="PERSON"):
    mask = {"label": label, "length": 7, "hmac": name}
    return Finding(id=name, severity="high", label=label, measurement="contextual coverage",
                   evidence=mask)  # fmt: skip


def report(hits=0, leaks=(), n=900, more=(), **changes):
    return example(measurements=[*rows(hits, n), *more], findings=list(leaks), verdict=None,
                   policy=Policy(), **changes).to_json()  # fmt: skip


def with_unjudgeable_row(found):
    """Return a report that is said to pass, with a gate's rate that counts hits among nothing."""
    row = {**found["measurements"][0], "kind": "defense", "metric": "fpr", "value": None,
           "low": None, "high": None, "n": None, "hits": 1, "reason": "-",
           "scope": {"attempt": "a"}}  # fmt: skip
    forged = {**found, "measurements": [*found["measurements"], row]}
    forged["verdict"] = {**found["verdict"], "status": "pass"}
    validate(forged)
    return forged


def test_what_the_baseline_fails_by_itself_fails_nothing_more():
    one = report(300, [leak("a"), leak("b")])
    assert one["verdict"]["status"] == "fail"
    found = compare_with_baseline(one, one)
    assert found.status == "pass"
    assert [(one.appeared, one.went, one.stayed) for one in found.leaks] == [(0, 0, 2)]
    assert not any(one.worse for one in found.numbers)


def test_one_proven_leak_more_is_new():
    found = compare_with_baseline(report(300, [leak("a")]), report(300, [leak("a"), leak("b")]))
    assert found.status == "fail"
    assert found.reasons == ["New and verified: 1 leak (PERSON)."]


def attacked(seed, samples):
    """Return what a report says of how it asked."""
    run = example().to_json()["run"]
    config = {**run["config"], "attacks": {"contextual": {"samples": samples}}}
    return {"run": {**run, "config": config}, "seeds": {"extract": seed}}


@pytest.mark.parametrize("now", [(1, 15), (0, 5)], ids=["seed", "options"])
def test_other_questions_find_other_leaks_in_the_same_model(now):
    """One string more, of 300: by other questions that is nothing new; with more hits it is."""
    before = report(300, [leak("a")]) | attacked(0, 15)
    found = compare_with_baseline(before, report(300, [leak("a"), leak("b")]) | attacked(*now))
    assert found.status == "inconclusive"
    doubt = found.reasons[-1]
    assert doubt.startswith("Not in the baseline, which asked otherwise: 1 verified leak.")
    worse = compare_with_baseline(before, report(400, [leak("a"), leak("b")]) | attacked(*now))
    assert worse.status == "fail"
    alike = compare_with_baseline(before, report(300, [leak("b"), leak("a")]) | attacked(0, 15))
    assert alike.status == "fail"


def configured(config, leaks=("a",)):
    found = report(300, [leak(name) for name in leaks])
    return {**found, "run": {**found["run"], "config": config}}


SETTINGS = [
    ({"protocol": {"new_tokens": 256}}, {"protocol": {"new_tokens": 2}},
     "protocol.new_tokens 256, then 2"),
    ({"epsilon": 0.1}, {"epsilon": 6}, "epsilon 0.1, then 6"),
    ({"alpha": 0.01, "threshold": 4}, {"alpha": 1e-12, "threshold": 4}, "alpha 0.01, then 1e-12"),
    ({"attacks": {"verbatim": {"suffix": 50}}}, {"attacks": {"verbatim": {"suffix": 5}}},
     "verbatim.suffix 50, then 5"),
    ({"steps": {"memorize": {"shorter": True}}}, {"steps": {"memorize": {"shorter": False}}},
     "memorize.shorter True, then False"),
]  # fmt: skip


@pytest.mark.parametrize(("before", "now", "changes"), SETTINGS)
def test_a_weaker_search_is_not_a_better_model(before, now, changes):
    """With other settings leaks went, and the gate said that nothing was new."""
    found = compare_with_baseline(configured(before), configured(now, ()))
    assert found.status == "inconclusive"
    assert found.reasons == [
        f"Asked otherwise than the baseline: {changes}. Audit both with the same settings."
    ]


@pytest.mark.parametrize("config", [{"device": "cuda"}, {"target": "b"}, {"engine": "vllm:4"},
                                    {"steps": {"extraction": {"round": 9}}}])  # fmt: skip
def test_another_model_or_machine_is_what_a_baseline_is_for(config):
    before = {"device": "cpu", "target": "a", "steps": {"extraction": {"round": 3}}}
    assert compare_with_baseline(configured(before), configured(before | config)).status == "pass"


def test_what_went_is_no_failure_and_what_may_be_no_leak_neither():
    doubtful = replace(leak("c"), severity="unverified")
    before, now = report(300, [leak("a"), leak("b")]), report(300, [leak("a"), doubtful])
    assert compare_with_baseline(before, now).status == "pass"


def test_what_was_told_apart_is_no_leak_that_came_out():
    accuracy = number("probability", "ranking", "inference_accuracy", 0.5, source="tuned")
    told = replace(leak("x"), measurement="ranking inference_accuracy")
    one, two = report(300, more=[accuracy]), report(300, [told], more=[accuracy])
    assert compare_with_baseline(one, two).leaks == []


def test_a_number_is_worse_by_a_one_sided_test_of_its_difference():
    found = compare_with_baseline(report(100), report(140))
    [one] = [one for one in found.numbers if "tuned-not-base" in one.name]
    low, high = one.difference.low, one.difference.high
    assert one.difference.value == pytest.approx(40 / 900)
    # Wilson's intervals of both, put together as Zou and Donner do, by hand
    z = 1.959964

    def wilson(k, n):
        p, mid = k / n, (k + z * z / 2) / (n + z * z)
        half = z / (n + z * z) * sqrt(n * p * (1 - p) + z * z / 4)
        return p, mid - half, mid + half

    (p, pl, pu), (q, ql, qu) = wilson(100, 900), wilson(140, 900)
    assert low == pytest.approx(q - p - sqrt((q - ql) ** 2 + (pu - p) ** 2), abs=1e-5)
    assert high == pytest.approx(q - p + sqrt((qu - q) ** 2 + (p - pl) ** 2), abs=1e-5)
    assert one.p == pytest.approx(norm.sf((q - p) / ((q - p - low) / z)), rel=1e-3)
    assert one.adjusted == pytest.approx(one.p * len(found.numbers))
    assert one.worse == (one.adjusted <= 0.01)
    wider = max(q - p - low, high - (q - p))
    assert one.seen == pytest.approx(2.326348 * wider / z, rel=1e-4)


def test_worse_fails_and_better_does_not():
    little, much = report(200), report(400)
    found = compare_with_baseline(little, much)
    assert found.status == "fail"
    assert any("got worse: 22.2 %, now 44.4 %" in reason for reason in found.reasons)
    assert compare_with_baseline(much, little).status == "pass"


def test_a_judgement_that_fails_now_is_new():
    found = compare_with_baseline(report(0), report(300))
    assert any(reason.startswith("Fails now and did not: contextual") for reason in found.reasons)


def test_what_is_not_measured_any_more_cannot_be_told():
    before, now = report(0), example(measurements=[], findings=[], verdict=None).to_json()
    found = compare_with_baseline(before, now)
    assert found.status == "inconclusive"
    assert "was measured before and is not now" in found.reasons[0]


def test_a_class_that_was_run_and_is_not_now_cannot_be_told():
    row = {"class": "exfiltration", "edpb": "55 (ii)", "status": "run", "by": ["contextual"],
           "access": [], "knowledge": [], "n": 9, "reason": ""}  # fmt: skip
    before, now = report(0, coverage=[row]), report(0, coverage=[{**row, "status": "not_run"}])
    assert compare_with_baseline(before, now).status == "inconclusive"
    assert compare_with_baseline(before, before).status == "pass"


def test_a_kind_that_is_not_looked_for_any_more_cannot_be_told():
    def labelled(*labels):
        kinds = [coverage(1, 9, source="tuned", set="all", label=label) for label in labels]
        return report(300, more=kinds)

    every, narrow = labelled("PERSON", "ID_CARD", "EMAIL"), labelled("EMAIL")
    found = compare_with_baseline(every, narrow)
    assert found.status == "inconclusive"
    assert found.reasons == ["Looked for by contextual before and not now: ID_CARD, PERSON."]
    assert compare_with_baseline(narrow, every).status == "pass"


@pytest.mark.parametrize("targets", [900, 899])
@pytest.mark.parametrize("answers", [60, 59])
def test_an_audit_that_asked_less_cannot_be_told(targets, answers):
    def asked(targets, answers):
        drawn = [coverage(30, answers, source="tuned-not-base", set="all")]
        return report(300, n=targets, more=[replace(row, metric="efficiency") for row in drawn])

    found = compare_with_baseline(asked(900, 60), asked(targets, answers))
    expected = [
        *["Asked less than the baseline: contextual drew answers: 59, before 60."] * (answers < 60),
        *["Asked less than the baseline: contextual looked for targets: 899, before 900."]
        * (targets < 900),
    ]
    assert found.reasons == (expected or found.reasons)
    assert found.status == ("inconclusive" if expected else "pass")
    assert compare_with_baseline(asked(targets, answers), asked(900, 60)).status == "pass"


def guessed(hits, n, of_base=0):
    """Return the report of an audit that blanked `n` strings out and asked for them."""
    scope = {"candidates": 10}
    accuracy = [
        Measurement.rate(
            k, n, kind="probability", plugin="ranking", metric="inference_accuracy",
            scope={**scope, "source": source},
        )
        for source, k in (("tuned", hits), ("base", of_base))
    ]  # fmt: skip
    chance = number("probability", "ranking", "inference_chance", 0.1, n=n, source="tuned", **scope)
    return example(measurements=[*accuracy, chance], findings=[], verdict=None).to_json()


def test_fewer_questions_of_any_kind_cannot_be_told():
    before, now = guessed(5, 16, 3), guessed(1, 2, 2)
    found = compare_with_baseline(before, now)
    assert found.status == "inconclusive"
    less = "Asked less than the baseline: ranking inference_accuracy, n: 2, before 16."
    assert less in found.reasons
    assert compare_with_baseline(now, now).status == "pass"


def test_what_passed_and_is_open_now_cannot_be_told():
    before, now = guessed(0, 200, 40), guessed(0, 3)
    assert [one["verdict"]["status"] for one in (before, now)] == ["pass", "inconclusive"]
    found = compare_with_baseline(before, now)
    assert found.status == "inconclusive"
    assert any(r.startswith("Passed before, and is not settled now: ") for r in found.reasons)
    # Of 3 blanks, one by itself is no sign: what would be seen is more than a third.
    assert found.numbers[0].seen > 1 / 3


def test_other_records_cannot_be_told():
    one = report(300, [leak("a")])
    other = report(300) | {"data": [{**row, "sha256": "f" * 64} for row in one["data"]]}
    found = compare_with_baseline(one, other)
    assert found.status == "inconclusive"
    assert found.reasons == [
        "The reports are about different files of records: numbers and leaks may be of other"
        " targets."
    ]
    assert not set(found.reasons) & set(found.notes)


def test_a_leak_that_could_now_go_unseen_leaves_the_gate_open():
    known = {"source": "known", "set": "all"}
    sharp, blunt = (report(0, more=[coverage(hits, 60, **known)]) for hits in (60, 4))
    assert sharp["verdict"]["detectable"] <= 0.1 < blunt["verdict"]["detectable"]
    found = compare_with_baseline(sharp, blunt)
    assert found.status == "inconclusive"
    assert any("of the targets would have been seen before, now" in r for r in found.reasons)
    assert compare_with_baseline(blunt, sharp).status == "pass"


def test_a_laxer_policy_is_not_how_a_release_gets_better():
    """Under a level of 1e-9 no number would be worse, and no leak of half the targets fails."""
    before, lax = report(100), Policy(name="lax", level=1e-9)
    now = example(measurements=rows(140), findings=[], verdict=None, policy=lax).to_json()
    found = compare_with_baseline(before, now)
    assert any(one.worse for one in found.numbers)
    assert found.status == "fail"
    same = example(measurements=rows(100), findings=[], verdict=None, policy=lax).to_json()
    found = compare_with_baseline(before, same)
    assert found.status == "inconclusive"
    [doubt] = found.reasons
    assert doubt.startswith("The reports were judged under different policies: default, then lax.")


def test_masks_of_another_key_tell_nothing():
    found = compare_with_baseline(report(300, [leak("a")]), report(300, [leak("b")]))
    assert found.status == "inconclusive"
    assert "masked with different keys" in found.reasons[0]


def test_no_baseline_whose_verdict_does_not_follow_or_whose_audit_did_not_end():
    one = report(300)
    assert check_comparable(one, *BASELINE) is one
    with pytest.raises(InputError, match="Do not rely on this report"):
        check_comparable({**one, "verdict": {**one["verdict"], "status": "pass"}}, *BASELINE)
    with pytest.raises(InputError, match="did not end"):
        check_comparable({**one, "status": "interrupted"}, *BASELINE)


@given(st.integers(0, 900), st.sets(st.sampled_from("abcdef")))
def test_no_report_is_worse_than_itself(hits, names):
    one = report(hits, [leak(name) for name in sorted(names)])
    found = compare_with_baseline(one, one)
    assert found.status == "pass"
    assert all(change.p >= 0.5 for change in found.numbers)


def test_tables_say_what_is_new_and_what_is_worse_first():
    found = compare_with_baseline(report(200, [leak("a")]), report(400, [leak("a"), leak("b")]))
    leaks, numbers = baseline_tables(found)
    assert leaks.rows == (("contextual coverage", "PERSON", "1", "0", "1"),)
    assert numbers.rows[0][-1] == "yes"
    assert numbers.rows[0][1:3] == ("22.2 %", "44.4 %")  # 200 and 400 of 900
    assert numbers.rows[0][3].startswith("+22.2 points [+")
    assert "points" in numbers.rows[0][5]
    assert "Throughout" not in numbers.notes


def test_a_report_whose_verdict_was_changed_is_held_against_nothing():
    one = report(300, [leak("a")])
    assert check_comparable(one, *SECOND) == one
    for entry in one["verdict"]["judgements"]:
        entry["status"] = "pass"
    one["verdict"]["status"] = "pass"
    with pytest.raises(InputError, match="cannot be held against a baseline"):
        check_comparable(one, *SECOND)


def test_a_report_that_cannot_be_judged_is_held_against_nothing_and_is_no_baseline():
    """One row that no rule can read got any verdict through the gate."""
    one = with_unjudgeable_row(report(300))
    with pytest.raises(InputError, match="cannot be held against a baseline"):
        check_comparable(one, *SECOND)
    with pytest.raises(InputError, match="This is not a baseline"):
        check_comparable(one, *BASELINE)


@pytest.mark.parametrize("status", ["interrupted", "error"])
def test_an_audit_that_did_not_end_is_held_against_nothing(status):
    with pytest.raises(InputError, match="The second report is of an audit that did not end"):
        check_comparable({**report(300), "status": status}, *SECOND)


def test_a_finished_audit_whose_verdict_was_changed_is_not_gone_on_with(tmp_path):
    one = report(300, [leak("a")])
    session = SimpleNamespace(folder=tmp_path, fingerprint=SimpleNamespace(run=one["run"]["id"]))
    assert finished_report(session) is None
    (tmp_path / "report.json").write_text(json.dumps(one))
    assert finished_report(session) == one
    one["verdict"]["status"] = "pass"
    (tmp_path / "report.json").write_text(json.dumps(one))
    assert finished_report(session) is None


def attributed(**scores):
    """Return the report of an attribution in which clients have these statistics; 5 flags."""
    return example(
        measurements=[client_row(name, z) for name, z in scores.items()],
        findings=[], verdict=None, policy=Policy(),
    ).to_json()  # fmt: skip


def client_row(name, z):
    return attribution_row("fed_attr", "stouffer_z", z, n=2, baseline=5.0, client=name, mark="m",
                           reason="" if z is not None else "nothing to test")  # fmt: skip


def test_an_attribution_is_the_same_question_whoever_has_the_highest_statistic():
    found = compare_with_baseline(attributed(c1=1.0, c2=2.0), attributed(c1=2.0, c2=1.0))
    assert (found.status, len(found.reasons)) == ("pass", 1)
    found = compare_with_baseline(attributed(c1=7.0, c2=6.0), attributed(c1=6.0, c2=7.0))
    assert found.status == "pass"


def test_a_client_that_is_flagged_beside_others_is_new():
    found = compare_with_baseline(attributed(c1=7.0, c2=1.0), attributed(c1=7.0, c2=6.0))
    assert found.status == "fail"
    assert found.reasons[0].startswith("Fails now and did not: fed_attr: 2 of 2 clients")


def test_an_attribution_that_is_not_decided_any_more_leaves_the_gate_open():
    found = compare_with_baseline(attributed(c1=7.0, c2=1.0), attributed(c1=1.0, c2=None))
    assert found.status == "inconclusive"
    assert found.reasons == ["The attribution by fed_attr was decided before and is not now."]
