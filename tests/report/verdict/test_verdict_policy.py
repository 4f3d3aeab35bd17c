"""The verdict on recall without prompts, under keys, and of studies; test_document has the rest."""

from dataclasses import replace
from math import comb

import pytest
from example_report import coverage, example
from gated_report import by_kind, extracted, inferred, picked, recalled, study, verbatim

from fedaudit.api.records import Measurement
from fedaudit.report.text import summary
from fedaudit.report.verdict.policy import NO_VICTIM, ONLY_RIGHT, verdict


@pytest.mark.parametrize(
    ("rows", "status", "says"),
    [
        (recalled(20), "fail", "more than base and control explain"),
        # 3 gained and none lost is 1/8. It takes five of 52 (1/32), and P(Bin(52, r) >= 5) is 0.9
        # at r = 14.8 %.
        (recalled(3), "inconclusive", "only a leak of 14.8% of them would have been seen"),
        (recalled(0), "inconclusive", "only a leak of 14.8% of them would have been seen"),
        # It takes five of 104, too: P(Bin(104, r) >= 5) is 0.9 at r = 7.5 %.
        (recalled(0, n=104), "pass", "a leak of 7.5% of them would have been seen"),
        # With 150 of 208 controls it takes 46 of 52: r = 92.4 %.
        (recalled(20, control=150), "inconclusive", "only a leak of 92.4% of them"),
        (recalled(20)[:-1], "inconclusive", "there is no control to compare with"),
        ([recalled(20)[0]], "inconclusive", "There is no base model"),
        (by_kind(4), "inconclusive", "No extraction was tried"),
        # What a detector cannot see counts too: recall is 0, the search word for word finds 25.
        ([*recalled(0), *verbatim()], "fail", "(detection verbatim): 25 of 52 pieces"),
        (
            [*recalled(0, n=104), *recalled(0, n=104, detection="verbatim")],
            "pass",
            "detection verbatim",
        ),
    ],
)
def test_recall_is_judged_as_coverage_is(rows, status, says):
    found = verdict(rows, [])
    assert found["status"] == status
    assert any(says in reason for reason in found["reasons"])


def unjudged(reason):
    return {
        "status": "inconclusive",
        "reasons": [reason],
        "level": 0.01,
        "tests": [],
        "detectable": None,
    }


def test_the_reason_says_that_nobody_asked():
    # All 20 hits of 260 strings are among the 52 targets.
    assert comb(52, 20) / comb(260, 20) == pytest.approx(3.3e-16, rel=0.01)
    [reason] = verdict(recalled(20), [])["reasons"]
    assert reason == (
        "untargeted: 20 of 52 pieces of personal data came out of the tuned model unasked, but not"
        " of its base, more than base and control explain (p = 3.3e-16)."
    )


def test_precision_is_not_judged():
    rows = [row for row in recalled(20) if row.metric == "extraction_precision"]
    assert verdict(rows, [])["reasons"] == ["No extraction was tried."]


def test_rows_that_a_plugin_made_up_are_named_as_not_judged():
    own = Measurement(kind="repetition", plugin="repeat", metric="repeated", value=1.0)
    assert verdict([own], [])["reasons"] == [
        "No extraction was tried; of kinds that are shown and not judged there is repeat"
        " (repetition)."
    ]
    source = Measurement(kind="source", plugin="source", metric="source_accuracy", value=1.0)
    assert verdict([source], [])["reasons"] == [
        "No extraction was tried; of kinds that are shown and not judged there is source."
    ]
    rows = [coverage(50, 52, plugin="repeat"), coverage(0, 52, plugin="repeat", source="base")]
    assert verdict(rows, [])["reasons"] == [
        "repeat: no row has the source tuned-not-base, which is what is judged."
    ]


def test_only_numbers_of_one_metric_are_compared():
    # The same attack might report both; the coverage of a base is not a bound for a recall.
    like = coverage(50, 52, plugin="untargeted", source="base")
    assert verdict([*recalled(20), like], [])["status"] == "fail"


def test_what_a_detector_finds_is_no_bound_for_a_search_word_for_word():
    rows = [row for row in verbatim() if row.scope["source"] != "control"]
    # The detector finds none of the invented strings; a search may find what it cannot see.
    found = verdict([*recalled(0), *rows], [])
    assert found["status"] == "inconclusive"
    assert "there is no control to compare with" in found["reasons"][1]


def test_what_was_not_measured_is_named_by_its_metric():
    row = recalled(1)[-3]
    assert row.scope["source"] == "tuned-not-base"
    unknown = replace(row, metric="extraction_recall", value=None, reason="no texts")
    [reason] = verdict([unknown], [])["reasons"]
    assert reason == "untargeted: extraction recall beyond the base was not measured: no texts"


# the attacker's own records


OWN = {"plugin": "verbatim", "n": 200, "records": "own"}


def answer(rows):
    report = example(measurements=rows, findings=[]).to_json()
    return report["verdict"]["status"], summary.verdict_sentence(report)


@pytest.mark.parametrize("hits", [0, 5, 45])
def test_the_attackers_own_records_are_not_judged(hits):
    rows = extracted(hits, **OWN)
    assert verdict(rows, []) == unjudged(NO_VICTIM)
    status, [told] = answer(rows)
    assert status == "inconclusive"
    assert told.startswith("No victim was named")
    assert "can be pulled out of this model was not judged" in told
    theirs = verdict(extracted(hits, **{**OWN, "records": "victim"}), [])
    assert theirs["status"] == {0: "pass", 5: "pass", 45: "fail"}[hits]


@pytest.mark.parametrize(
    ("others", "status", "says"),
    [
        (extracted(45), "fail", "can be pulled out"),
        (extracted(0, n=200), "pass", "With what was tried"),
        (picked(40), "fail", "tells which of several it was"),
        (recalled(0, n=104), "pass", "unasked"),
    ],
)
def test_nor_do_they_change_what_is_said_of_others(others, status, says):
    rows = [*others, *extracted(45, **OWN)]
    assert verdict(rows, []) == verdict(others, [])
    found, [told] = answer(rows)
    assert found == status
    assert says in told
    assert answer(others) == (found, [told])


def test_own_records_under_a_key():
    rows = [
        *extracted(45, **OWN, client="c0", key="none"),
        *extracted(45, client="c0", key="right"),
    ]
    assert verdict(rows, [])["reasons"] == [NO_VICTIM]
    rows = extracted(45, **OWN, client="c0", key="right")
    assert verdict(rows, [])["reasons"] == [ONLY_RIGHT]


# keys


@pytest.mark.parametrize(
    "rows",
    [
        picked(25, client="c0", key="right"),
        extracted(20, client="c0", key="right"),
        recalled(20, client="c0", key="right"),
        [row for row in inferred(adapter="legal") if row.scope["key"] == "right"],
    ],
)
def test_a_right_key_alone_says_that_nothing_unauthorised_was_tried(rows):
    assert verdict(rows, []) == unjudged(ONLY_RIGHT)


@pytest.mark.parametrize("key", ["wrong", "none", "other"])
def test_what_comes_out_without_the_right_key_is_a_leak(key):
    for rows in (picked(40, client="c0", key=key), recalled(20, client="c0", key=key)):
        assert verdict([*inferred(), *rows], [])["status"] == "fail"


def test_what_a_right_key_opens_is_no_leak():
    assert verdict(inferred(), [])["status"] == "pass"
    closed = [recalled(0, n=104, client="c0", key=key) for key in ("wrong", "none", "other")]
    rows = [row for one in (recalled(50, client="c0", key="right"), *closed) for row in one]
    assert verdict(rows, [])["status"] == "pass"


def test_a_right_key_neither_bounds_nor_excuses_another():
    # Under the right key the base would give as many; without a key it does not.
    rows = [
        *extracted(20, client="c0", key="none"),
        coverage(50, 50, source="base", set="all", client="c0", key="right"),
    ]
    assert verdict(rows, [])["status"] == "fail"


# studies, and order


def test_a_client_is_not_named_where_all_together_have_the_same_reason():
    rows = [row for row in study() if row.plugin == "contextual"]
    reasons = verdict(rows, [])["reasons"]
    assert reasons
    assert all("client all" in reason for reason in reasons)
    alone = [row for row in rows if row.scope.get("client") != "all"]
    assert any("client c1" in reason for reason in verdict(alone, [])["reasons"])
    rows = [*extracted(40, client="c1"), *extracted(45, client="all"), *extracted(44, client="c0")]
    [reason] = verdict(rows, [])["reasons"]
    assert "client all" in reason
    # c1 fails, all together do not: then c1 is named.
    rows = [*extracted(40, client="c1"), *extracted(0, client="c0"), *extracted(1, client="all")]
    [reason] = verdict(rows, [])["reasons"]
    assert "client c1" in reason


def accepted(hits, **scope):
    return Measurement(
        kind="defense",
        plugin="gate",
        metric="fpr",
        value=hits / 100,
        low=0.0,
        high=0.1,
        n=100,
        hits=hits,
        scope={"client": "c0", **scope},
    )


def test_a_gate_that_lets_an_attempt_in_fails():
    quiet = recalled(0, n=104)
    assert verdict([*quiet, accepted(0, attempt="random keys")], [])["status"] == "pass"
    found = verdict([*quiet, accepted(3, attempt="random keys")], [])
    assert found["status"] == "fail"
    assert found["reasons"] == [
        "gate (attempt random keys, client c0): 3 of 100 attempts opened the gate without its key."
    ]
    assert verdict([*quiet, accepted(3)], [])["status"] == "pass", (
        "an attribution's rate is another"
    )
