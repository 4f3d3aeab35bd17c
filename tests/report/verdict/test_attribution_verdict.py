"""The verdict on an attribution, alone and beside attacks."""

from dataclasses import replace

import pytest
from attributed_report import (
    TRUTH,
    absent,
    attributed,
    baselines,
    findings,
    innocent,
    power,
    privacy,
    protocol,
    row,
    study,
)
from gated_report import extracted, inferred, recalled

from fedaudit.report.verdict.attribution import NO_CLIENT, NOT_JUDGED, judge_attribution
from fedaudit.report.verdict.policy import ONLY_RIGHT, verdict


def test_a_flagged_client_fails_and_is_named():
    # (3.1 + 3.6 + 2.9 + 4.2 + 3.8) / sqrt(5) = 17.6 / 2.2361 = 7.87; 13.0 / 2.2361 = 5.81
    assert verdict(attributed(), findings()) == {
        "status": "fail",
        "level": 0.01,
        "tests": [],
        "detectable": None,
        "reasons": [
            "fed_attr: 2 of 4 clients are flagged: court-1 (mark mark-a, Z 7.87, above 4), "
            "bank-2 (mark mark-b, Z 5.81, above 4).",
        ],
    }


def test_a_pass_says_what_was_found_and_not_that_nobody_did_it():
    # (0.4 - 0.8 + 1.1 + 0.2 + 0.5) / sqrt(5) = 1.4 / 2.2361 = 0.63
    assert verdict([*innocent(), *privacy()], []) == {
        "status": "pass",
        "level": 0.01,
        "tests": [],
        "detectable": None,
        "reasons": [
            "fed_attr: none of 2 clients is flagged: the highest Z is 0.63, which must exceed 4; a "
            "client with a mark of the usual strength (Z 14.0 over 5 rounds) would be flagged in "
            "97% of federations like this one (at least 92%, by 100 that were simulated)."
        ],
    }


def test_no_pass_where_a_usual_mark_would_not_have_been_seen():
    *clients, _ = innocent()
    for found, says in (
        ([power(95)], "in 95% of federations like this one (at least 89%, by 100 that were "),
        ([power(1, n=1)], "in 100% of federations like this one (at least 21%, by 1 that were "),
        ([], "how often a client with a mark would be flagged was not simulated"),
        ([replace(power(99), scope={"strength": 14.0})], "was not simulated"),
    ):
        judged = verdict([*clients, *found], [])
        assert judged["status"] == "inconclusive"
        assert says in judged["reasons"][0]
    assert verdict([*clients, power(96)], [])["status"] == "pass"
    assert verdict([*protocol(), power(10)], [])["status"] == "fail"


def test_the_client_that_is_hardest_to_find_decides():
    late = replace(power(44, n=60), scope={"strength": 6.3, "rounds": 1})
    for rows in ([*innocent(), late], [late, *innocent()]):
        found = verdict(rows, [])
        assert found["status"] == "inconclusive"
        assert found["reasons"][0].endswith(
            "a client with a mark of the usual strength (Z 6.3 over 1 round, where such a client "
            "is hardest to find) would be flagged in 73% of federations like this one (at least "
            "61%, by 60 that were simulated); a pass takes 90% at least."
        )


def test_the_judged_row_is_of_all_rounds_though_one_round_is_higher():
    # Z over five rounds is 0.63, and 1.1 in the third round alone.
    [judgement] = judge_attribution(innocent())
    scope = {"client": judgement.row.scope["client"], "mark": judgement.row.scope["mark"]}
    assert dict(judgement.row.scope) == scope
    assert judgement.row.value == pytest.approx(0.63, abs=0.005)
    assert max(r.value or 0 for r in innocent() if "round" in r.scope) > judgement.row.value


def test_why_nobody_was_tested_is_the_protocols_word_in_any_order():
    rows = [
        row("global", "stouffer_z", None, reason="another method's", mark="m"),
        row("fed_attr", "committed", None, reason="no sums", mark="m"),
        row("fed_attr", "committed", None, reason="no answers", mark="n"),
    ]
    for order in (rows, rows[::-1]):
        assert verdict(order, [])["reasons"] == ["fed_attr tested no client: no answers."]


def test_a_client_at_the_threshold_is_not_flagged():
    at = {"client": "c0", "mark": "m", "n": 1}
    for z, status in ((4.0, "pass"), (4.01, "fail")):
        found = [row("fed_attr", "stouffer_z", z, baseline=4.0, **at), power()]
        assert verdict(found, [])["status"] == status


def unscored():
    return row("fed_attr", "unscored_rounds", 3.0, n=8, rounds="2, 7 to 8")


def test_rounds_without_scores_excuse_nobody():
    assert verdict([*protocol(), unscored()], [])["status"] == "fail"


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([*innocent(), absent()], "ward-5 (it took part in none of the rounds)"),
        ([absent()], "1 of 1 clients could not be tested"),
        (privacy(), NO_CLIENT),
        (baselines(), NOT_JUDGED),
        ([replace(innocent()[0], baseline=None)], "there is no threshold"),
        (
            [*innocent(), unscored()],
            "but 3 of the federation's 8 rounds have no scores: 2, 7 to 8",
        ),
    ],
)
def test_what_leaves_it_open(rows, says):
    found = verdict(rows, [])
    assert found["status"] == "inconclusive"
    assert [says in reason for reason in found["reasons"]] == [True]


def test_one_who_could_not_be_tested_excuses_nobody():
    assert verdict([*protocol(), absent()], [])["status"] == "fail"


def test_neither_rounds_nor_means_nor_baselines_flag_anybody():
    at = {"client": "ward-3", "mark": "mark-a", "baseline": 4.0}
    rows = [
        row("fed_attr", "stouffer_z", 9.0, round=1, **at),
        row("fed_attr", "stouffer_z", 9.0, clients="innocent", baseline=4.0),
        row("direct", "stouffer_z", 9.0, **at),
        row("direct", "flagged", 1.0, client="ward-3"),
    ]
    assert verdict([*innocent(), *rows], [])["status"] == "pass"


def test_an_attribution_needs_no_extraction():
    for rows in (protocol(), innocent(), baselines(), [absent()]):
        assert not any("No extraction" in reason for reason in verdict(rows, [])["reasons"])
    assert verdict([], [])["reasons"] == ["No extraction was tried."]


@pytest.mark.parametrize(
    ("attack", "rows", "status"),
    [
        (recalled(0, n=104), innocent(), "pass"),
        (recalled(0), protocol(), "fail"),
        (recalled(20), innocent(), "fail"),
        (recalled(3), innocent(), "inconclusive"),
        (recalled(0), baselines(), "inconclusive"),
        (inferred(), innocent(), "pass"),
        ([recalled(20)[0]], innocent(), "inconclusive"),  # no base to compare with
        (extracted(20, client="c0", key="right"), innocent(), "inconclusive"),
    ],
)
def test_an_attack_and_an_attribution_are_judged_together(attack, rows, status):
    assert verdict([*attack, *rows], [])["status"] == status


def test_an_attribution_does_not_excuse_that_only_a_right_key_was_asked():
    rows = [*extracted(20, client="c0", key="right"), *innocent()]
    assert verdict(rows, [])["reasons"] == [ONLY_RIGHT]


def test_of_both_failures_both_are_named():
    first, second = verdict([*recalled(20), *protocol()], [])["reasons"]
    assert first.startswith("untargeted: 20 of 52")
    assert second.startswith("fed_attr: 2 of 4")


def test_each_variant_of_a_study_has_its_reason():
    rows = [*study(("a", "b")), *innocent(variant="none")]
    found = verdict(rows, [])
    assert found["status"] == "fail"
    assert [reason.partition(":")[0] for reason in found["reasons"]] == [
        "fed_attr (variant a)",
        "fed_attr (variant b)",
    ]
    quiet = verdict([*innocent(variant="none"), *baselines(variant="b")], [])
    assert quiet["reasons"] == [f"{NOT_JUDGED[:-1]} (variant b)."]


def test_many_flagged_clients_are_counted():
    at = {"mark": "m", "n": 5, "baseline": 4.0}
    rows = [row("fed_attr", "stouffer_z", 5.0 + n, client=f"c{n}", **at) for n in range(14)]
    [reason] = verdict(rows, [])["reasons"]
    assert "14 of 14 clients are flagged: c13 (mark m, Z 18.00, above 4), c12" in reason
    assert reason.endswith("c4 (mark m, Z 9.00, above 4), and 4 more.")


def test_a_client_called_all_stands_for_nobody():
    rows = protocol()
    everybody = [
        replace(one, scope={**one.scope, "client": "all"})
        for one in rows
        if one.scope.get("client") == "ward-3"
    ]
    [reason] = verdict([*rows, *everybody], [])["reasons"]
    assert all(name in reason for name in TRUTH)
