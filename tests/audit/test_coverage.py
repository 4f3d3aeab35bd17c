"""Which classes of attacks were run, read off the measurements, and why not the others."""

import pytest
from example_report import coverage as came_out
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.api.errors import UsageError
from fedaudit.api.policy import ATTACK_CLASSES
from fedaudit.api.records import Measurement
from fedaudit.audit.coverage import EDPB, NO_ATTACK, NO_UPDATES, coverage
from fedaudit.audit.request import ReleaseContext
from fedaudit.report.kinds.registry import class_of

NOTHING = ReleaseContext()


def row(kind, plugin, metric, value=0.5, n=40, **scope):
    reason = "" if value is not None else "too few"
    return Measurement(kind=kind, plugin=plugin, metric=metric, value=value, n=n, reason=reason,
                       scope=scope)  # fmt: skip


def by_class(rows, left_out=(), context=NOTHING, *, updates=True):
    return {one["class"]: one for one in coverage(rows, dict(left_out), context, updates=updates)}


@pytest.mark.parametrize(
    ("one", "name"),
    [
        (came_out(1, 9, set="all", source="tuned"), "exfiltration"),
        (row("extraction", "verbatim", "coverage", records="victim"), "regurgitation"),
        (row("extraction", "discoverable", "coverage", threshold=1), "regurgitation"),
        (row("extraction", "verbatim", "edit_distance", records="victim"), "regurgitation"),
        (row("extraction", "untargeted", "extraction_recall"), "exfiltration"),
        (row("probability", "ranking", "inference_accuracy"), "attribute_inference"),
        (row("membership", "membership", "auc"), "membership_inference"),
        (row("memorization", "memorize", "mr_inter"), "regurgitation"),
        (row("exposure", "canary", "exposure"), "regurgitation"),
        (row("inversion", "somebody", "recovered"), "inversion"),
        (row("utility", "simulation", "accuracy"), ""),
        (row("extraction", "contextual", "queries", set="all"), ""),
        (row("attribution", "fed_attr", "stouffer_z"), ""),
    ],
)
def test_a_measurement_is_of_one_class(one, name):
    assert class_of(one) == name


def test_all_six_classes_are_there_in_the_order_of_the_opinion():
    found = coverage([], {}, NOTHING, updates=True)
    assert [one["class"] for one in found] == list(ATTACK_CLASSES) == list(EDPB)
    assert {one["status"] for one in found} == {"not_run"}
    assert all(one["reason"] for one in found)


def test_what_was_run_says_by_what_with_what():
    rows = [came_out(1, 9, set="all", source="tuned"), came_out(1, 30, set="all", source="base")]
    found = by_class(rows)["exfiltration"]
    assert found == {
        "class": "exfiltration", "edpb": "55 (ii)", "status": "run", "by": ["contextual"],
        "access": ["text"], "knowledge": ["own records"], "n": 30, "reason": "",
    }  # fmt: skip
    membership = by_class([row("membership", "membership", "auc")])["membership_inference"]
    assert membership["access"] == ["logprobs"]


def test_attacks_on_a_client_s_update_need_it():
    [found] = [
        one
        for one in coverage(
            [came_out(1, 9, source="tuned")],
            {},
            ReleaseContext(release="weights"),
            updates=True,
            audits_update=True,
        )
        if one["class"] == "exfiltration"
    ]
    assert found["access"] == ["text", "updates"]
    assert "uses updates" in found["reason"]


@pytest.mark.parametrize("source", ["control", "known", "held-out"])
def test_controls_are_no_attack(source):
    control = came_out(1, 117, source=source)
    assert by_class([control])["exfiltration"]["status"] == "not_run"
    attacked = came_out(1, 52, source="tuned")
    assert by_class([attacked, control])["exfiltration"]["n"] == 52


def test_why_something_was_not_run():
    left_out = {"membership": "no held-out records", "inference": "not today"}
    found = by_class([], left_out.items())
    assert found["membership_inference"]["reason"] == "no held-out records"
    assert found["attribute_inference"]["reason"] == "not today"
    assert found["inversion"]["reason"] == "not today"
    assert found["reconstruction"]["reason"] == NO_ATTACK
    failed = by_class([row("membership", "membership", "auc", value=None)])
    assert failed["membership_inference"]["status"] == "not_run"
    assert failed["membership_inference"]["reason"] == "too few"
    could_not = by_class([row("extraction", "membership", "coverage", value=None, set="all")])
    assert could_not["membership_inference"]["reason"] == "too few"


def test_what_has_nothing_to_be_tried_on_does_not_apply():
    found = by_class([], updates=False)
    assert found["inversion"]["status"] == "not_run"
    assert found["reconstruction"]["status"] == "not_applicable"
    assert found["reconstruction"]["reason"] == NO_UPDATES


def test_access_beyond_the_declared_release_is_said():
    context = ReleaseContext(release="api-text", declared_by="a DPO")
    rows = [row("membership", "membership", "auc"), came_out(1, 9, source="tuned")]
    found = by_class(rows, context=context)
    assert "uses logprobs" in found["membership_inference"]["reason"]
    assert found["exfiltration"]["reason"] == ""
    assert by_class(rows)["membership_inference"]["reason"] == ""


def test_a_context_is_what_was_declared_and_nothing_else():
    assert NOTHING.table() == {"release": None, "positions": [], "declared_by": None}
    with pytest.raises(UsageError, match="Did you mean 'weights'"):
        ReleaseContext(release="weight")
    with pytest.raises(UsageError, match="No position"):
        ReleaseContext(positions=("moon",))
    with pytest.raises(UsageError, match="--declared-by goes with"):
        ReleaseContext(declared_by="me")


@given(st.permutations([came_out(1, 9, source="tuned"), row("membership", "membership", "auc"),
                        row("memorization", "memorize", "mr_inter")]))  # fmt: skip
def test_the_order_of_the_rows_does_not_matter(rows):
    assert coverage(rows, {}, NOTHING, updates=True) == coverage(
        sorted(rows, key=str), {}, NOTHING, updates=True
    )
