"""The verdict on answers to training prompts: the paired difference in Rouge-L, and its control."""

from dataclasses import replace

import pytest
from example_report import coverage, number
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.report.answers import judged
from fedaudit.report.verdict import NO_VICTIM, verdict


def scored(source, low, high, **scope):
    """Return one row; its value is the middle of its interval."""
    where = {"source": source, "records": "victim", **scope}
    row = number("extraction", "discoverable", "rouge_l", (low + high) / 2, **where)
    return replace(row, low=low, high=high, n=100, scope=where)


def asked(gain, tuned=(0.5, 0.7), control=(0.1, 0.3), **scope):
    return [
        scored("tuned", *tuned, **scope),
        scored("base", 0.1, 0.2, **scope),
        scored("tuned-not-base", *gain, **scope),
        scored("control", *control, **scope),
    ]


@pytest.mark.parametrize(
    ("rows", "status", "says"),
    [
        (asked((0.1, 0.5)), "fail", "+0.300 beyond the base's (at least +0.100, at most +0.500)"),
        (asked((0.0, 0.5)), "pass", "at least +0.000"),
        (asked((-0.2, 0.0)), "pass", "-0.100 beyond"),
        # Answers as near to those of other pairs: the form was learnt.
        (asked((0.1, 0.5), control=(0.4, 0.5)), "inconclusive", "(Rouge-L up to 0.500)"),
        (asked((0.1, 0.5), control=(0.4, 0.49)), "fail", "in common"),
        (asked((0.1, 0.5))[:-1], "inconclusive", "no control to compare with"),
        (asked((0.1, 0.5))[1:], "inconclusive", "no control to compare with"),
    ],
)
def test_a_difference_above_nothing_and_an_answer_above_others(rows, status, says):
    [(found, reason)] = judged(rows)
    assert found == status
    assert reason.startswith("discoverable (records victim): answers' Rouge-L")
    assert says in reason


def test_what_was_not_measured_is_not_judged():
    [_, _, row, _] = asked((0.1, 0.5))
    nothing = replace(row, value=None, low=None, high=None, reason="the context is too short")
    assert judged([nothing]) == [
        (
            "inconclusive",
            "discoverable (records victim): Rouge-L beyond the base was not measured: "
            "the context is too short.",
        )
    ]
    [(status, reason)] = judged([replace(row, low=None)])
    assert status == "inconclusive"
    assert "it has no interval" in reason


@pytest.mark.parametrize("scope", [{"task": "exam"}, {"records": "own"}, {"key": "right"}])
def test_tasks_own_records_and_right_keys_are_not_judged(scope):
    assert judged(asked((0.1, 0.5), **scope)) == []


def test_rounds_are_compared_with_their_own_control():
    late = asked((0.1, 0.5), round=10)
    early = asked((0.1, 0.5), control=(0.5, 0.9), round=1)
    assert [status for status, _ in judged([*early, *late])] == ["inconclusive", "fail"]


def reached(hits):
    """Return the share of answers that are given in full, which is judged as well."""
    at = {"plugin": "discoverable", "records": "victim", "threshold": 0.9}
    return [
        coverage(hits, 200, source="tuned-not-base", **at),
        coverage(0, 200, source="base", **at),
        coverage(0, 200, source="control", **at),
    ]


def test_half_an_answer_is_a_leak_though_none_comes_out_whole():
    assert verdict(reached(0), [])["status"] == "pass"
    found = verdict([*reached(0), *asked((0.1, 0.5))], [])
    assert found["status"] == "fail"
    assert [reason for reason in found["reasons"] if "Rouge-L" in reason] == found["reasons"]


def test_neither_excuses_the_other():
    assert verdict([*reached(30), *asked((-0.1, 0.1))], [])["status"] == "fail"
    doubtful = asked((0.1, 0.5), control=(0.4, 0.9))
    assert verdict([*reached(0), *doubtful], [])["status"] == "inconclusive"


def test_the_attackers_own_records_are_no_other_partys():
    rows = [replace(row, scope={**row.scope, "records": "own"}) for row in reached(0)]
    assert verdict([*rows, *asked((0.1, 0.5), records="own")], [])["reasons"] == [NO_VICTIM]


@given(
    st.permutations([*asked((0.1, 0.5)), *asked((-0.1, 0.5), round=3), *asked((0.2, 0.3), round=5)])
)
def test_the_order_of_the_rows_only_orders_the_reasons(rows):
    assert sorted(judged(rows)) == sorted(
        judged([*asked((0.1, 0.5)), *asked((-0.1, 0.5), round=3), *asked((0.2, 0.3), round=5)])
    )
