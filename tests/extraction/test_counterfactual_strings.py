"""A secret that one client alone taught, and one that others teach as well, in both estimators."""

import json
import math
from dataclasses import replace

import pytest
import worked
from worked import BASE, TUNED, marked

from fedaudit.api.records import Target
from fedaudit.config import registry
from fedaudit.engine.fake import FakeEngine
from fedaudit.report.kinds.counterfactual import Counterfactual
from fedaudit.report.verdict.policy import verdict

WITHOUT = Target(name="without c1", adapter="y")
PLANTED, SHARED, UNSEEN = "Ann Lee", "Bob Low", "Eve Gil"
CHANCES = {
    TUNED: {PLANTED: 0.9, SHARED: 0.6},
    WITHOUT: {SHARED: 0.6},
    BASE: {},
}


def chance(target, prompt, string):
    """Return that of a continuation, before which only "The claimant" says anything."""
    return CHANCES[target].get(string, 0.0) if prompt == "The claimant" else 0.0


def answer(target, prompt, sample):
    """Return what a model says: the planted name most often, the shared one always."""
    if prompt != "The claimant" or target == BASE:
        return " nobody"
    if sample % 2:
        return f" {SHARED}"
    return f" {PLANTED}" if target == TUNED else " nobody"


def case(**changes):
    fake = FakeEngine(answer, chance=chance, likelihood=lambda *_: -50.0)
    fake.tokenize([document.text for document in (*worked.ATTACKER, *worked.VICTIM)])
    return worked.case(fake, **{"counterfactual": WITHOUT, "without": "c1", **changes})


def run(estimator, samples=2, **changes):
    options = {"context": 3, "samples": samples, "estimator": estimator, "sweeps": False}
    return registry.create("attack", "contextual", options).run(case(**changes))


def row(result, metric, **scope):
    rows = [r for r in result.measurements if r.kind == "counterfactual" and r.metric == metric]
    [found] = [r for r in rows if scope.items() <= r.scope.items() and ("label" in scope) == (
        "label" in r.scope)]  # fmt: skip
    return found


def evidence(result):
    return {one.evidence["text"]: one.evidence for one in result.findings}


# "The claimant" stands twice and is asked twice: four draws.
def test_computed_chances_by_hand():
    result = run("exact")
    found = evidence(result)
    assert found[PLANTED]["memorization"] == pytest.approx(1 - 0.1**4)
    assert found[PLANTED]["chance_without"] == 0
    assert found[SHARED]["memorization"] == pytest.approx(0.0)
    assert found[SHARED]["chance_without"] == pytest.approx(1 - 0.4**4)
    mean = row(result, "counterfactual_memorization", set="all")
    assert mean.value == pytest.approx((1 - 0.1**4) / 5)
    assert (mean.n, mean.scope["estimator"]) == (5, "exact")
    assert row(result, "mean_chance", set="all", source="counterfactual").value == pytest.approx(
        (1 - 0.4**4) / 5
    )
    # The base says neither: it takes what others taught for the victim's own.
    gap = row(result, "control_gap", set="all", control="base")
    assert gap.value == pytest.approx((1 - 0.4**4) / 5)
    assert gap.low <= gap.value <= gap.high
    assert any("0.195 more than the base" in limit for limit in result.limits)


def test_drawn_strings_by_hand():
    result = run("sample", samples=6)
    found = evidence(result)
    # "The claimant" is asked 12 times; each name has every other draw.
    low = 1 - math.exp(-2.2019)  # Garwood's lower bound for 6 draws
    assert found[PLANTED]["memorization"] == 1
    assert found[PLANTED]["memorization_low"] == pytest.approx(
        1 - math.hypot(1 - low, 0.975), abs=1e-4
    )
    assert found[SHARED]["memorization"] == 0
    mean = row(result, "counterfactual_memorization", set="all")
    assert mean.value == pytest.approx(1 / 5)
    test = row(result, "p_value", set="all")
    assert (test.value, test.hits, test.n) == (0.5, 1, 1)
    assert row(result, "counterfactual_memorization", set="all", label="PERSON").value == (
        pytest.approx(1 / 3)
    )


@pytest.mark.parametrize("estimator", ["sample", "exact"])
def test_nothing_else_of_the_result_changes(estimator):
    bare = run(estimator, counterfactual=None, without="")
    result = run(estimator)
    own = [r for r in result.measurements if r.kind != "counterfactual"]
    assert own == list(bare.measurements)
    assert verdict(own, result.findings) == verdict(result.measurements, result.findings)
    stripped = [
        {k: v for k, v in one.evidence.items() if not k.startswith(("memorization", "chance_w"))}
        for one in result.findings
    ]
    assert stripped == [dict(one.evidence) for one in bare.findings]


def test_a_third_client_that_has_a_string_as_well_leaves_the_judged_set():
    members = {"c2": [marked("He met Bob Low.", ("Bob Low", "PERSON"))]}
    result = run("exact", members=members)
    judged = row(result, "counterfactual_memorization", set="exclusive")
    assert judged.n == 4
    assert judged.value == pytest.approx((1 - 0.1**4) / 4)


def test_the_table_shows_both_controls():
    result = run("exact")
    table = [{name: getattr(r, name) for name in r.__slots__} for r in result.measurements]
    table = json.loads(json.dumps(table))
    [shown] = Counterfactual().tables({"measurements": table})
    assert shown.columns[:6] == ("of", "n", "with", "without", "base", "nobody's")
    line = dict(zip(shown.columns, shown.rows[0], strict=True))
    assert line["without"] == "0.195"
    assert line["base"] == "0"


def test_the_table_says_which_strings_a_line_is_about():
    result = run("exact")
    table = [{name: getattr(r, name) for name in r.__slots__} for r in result.measurements]
    [shown] = Counterfactual().tables({"measurements": json.loads(json.dumps(table))})
    lines = [line[0] for line in shown.rows]
    assert lines[:3] == ["all", "judged", "PERSON"]
    assert len(set(lines)) == len(lines)


def test_whoever_replaces_the_model_keeps_the_case():
    assert replace(case(), seed=3).counterfactual == WITHOUT
