"""The verdict on answers to training prompts: beyond held-out ones, and beyond the control."""

from dataclasses import replace

import pytest
from example_report import coverage, number
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.api.completion import COMPLETION_LEVEL
from fedaudit.report.verdict.completion import judge_completion
from fedaudit.report.verdict.policy import NO_VICTIM, verdict


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


def compared(p, least=0.08, **scope):
    """Return the rows of a comparison with held-out records; `least` is the leak seen."""
    at = {"source": "beyond-held-out", "records": "victim", **scope}
    test = {**at, "test": "permutation", "groups": 9, "beside": 8}
    rows = [
        number("extraction", "discoverable", "rouge_l", 0.2, **at),
        number("extraction", "discoverable", "p_value", p, **test),
        number("extraction", "discoverable", "detectable_difference", least, **at, power=0.9),
    ]
    return [replace(row, reason="" if row.value is not None else "9 are too few") for row in rows]


GAIN = asked((0.1, 0.5))


@pytest.mark.parametrize(
    ("rows", "status", "says"),
    [
        ([*GAIN, *compared(0.001)], "fail", "+0.300 beyond the base's (at least +0.100, at most"),
        ([*GAIN, *compared(0.001)], "fail", "+0.200 beyond held-out records' (p 0.001), and more"),
        ([*GAIN, *compared(COMPLETION_LEVEL)], "fail", "in common"),
        # Skill explains it, and a leak of the size that matters would have been seen.
        ([*GAIN, *compared(0.011)], "pass", "of 8.0% would have been seen with 90% probability"),
        ([*GAIN, *compared(0.5, 0.1)], "pass", "p 0.50"),
        ([*GAIN, *compared(0.5, 0.11)], "inconclusive", "one of 10% might not have been"),
        ([*GAIN, *compared(0.5, None)], "inconclusive", "no leak would have been seen"),
        ([*GAIN, *compared(0.5, held_out="related")], "inconclusive", "saw other documents"),
        ([*GAIN, *compared(0.001, held_out="related")], "fail", "in common"),
        (GAIN, "inconclusive", "which skill alone may explain: no held-out records were asked"),
        (asked((-0.2, 0.0)), "inconclusive", "no held-out records were asked"),
        # Answers as near to those of other pairs: the form was learnt.
        (
            [*asked((0.1, 0.5), control=(0.4, 0.5)), *compared(0.001)],
            "inconclusive",
            "(Rouge-L up to 0.500)",
        ),
        ([*asked((0.1, 0.5), control=(0.4, 0.49)), *compared(0.001)], "fail", "in common"),
        ([*GAIN[:-1], *compared(0.001)], "inconclusive", "no control to compare with"),
        ([*GAIN[1:], *compared(0.001)], "inconclusive", "no control to compare with"),
    ],
)
def test_beyond_held_out_records_and_beyond_other_answers(rows, status, says):
    [(found, reason, *_)] = judge_completion(rows)
    assert found == status
    assert reason.startswith("discoverable (the victim's records): answers' Rouge-L")
    assert says in reason


def test_held_out_records_themselves_are_not_judged():
    assert judge_completion(asked((0.1, 0.5), records="held-out")) == []


def test_several_tests_share_one_level():
    """Two rounds at 0.006: one alone would fail, Holm makes it 0.012."""
    rows = [
        *asked((0.1, 0.5), round=1), *compared(0.006, round=1),
        *asked((0.1, 0.5), round=2), *compared(0.006, round=2),
    ]  # fmt: skip
    assert [status for status, *_ in judge_completion(rows)] == ["pass", "pass"]
    assert [status for status, *_ in judge_completion(rows[:7])] == ["fail"]


@pytest.mark.parametrize(
    ("others", "status", "says"),
    [
        # 0.02 and 0.06 times the ratio of (t(1 - level, 7) + t(0.9, 7))^2: 4.91 and 4.41.
        (1, "pass", "a leak of 9.4% would have been seen"),
        (4, "inconclusive", "a leak of 11.7% would have been seen"),
        # 9 groups of 17 can be dealt in 24,310 ways, and 1 / 24,310 is above 0.01 / 300.
        (299, "inconclusive", "the groups of records are too few for a test at 3.3e-05"),
    ],
)
def test_a_pass_takes_a_test_that_sees_the_leak_at_its_share_of_the_level(others, status, says):
    rows = [*GAIN, *compared(0.5)]
    [(found, reason, *_)] = judge_completion(rows, [0.5] * others)
    assert found == status
    assert says in reason


def test_what_was_not_measured_is_not_judged():
    [_, _, row, _] = asked((0.1, 0.5))
    nothing = replace(row, value=None, low=None, high=None, reason="the context is too short")
    assert [one[:2] for one in judge_completion([nothing])] == [
        (
            "inconclusive",
            "discoverable (the victim's records): Rouge-L beyond the base was not measured: "
            "the context is too short.",
        )
    ]
    [(status, reason, *_)] = judge_completion([replace(row, low=None)])
    assert status == "inconclusive"
    assert "it has no interval" in reason


@pytest.mark.parametrize("scope", [{"task": "exam"}, {"records": "own"}, {"key": "right"}])
def test_tasks_own_records_and_right_keys_are_not_judged(scope):
    assert judge_completion(asked((0.1, 0.5), **scope)) == []


def test_rounds_are_compared_with_their_own_control():
    late = [*asked((0.1, 0.5), round=10), *compared(0.001, round=10)]
    early = [*asked((0.1, 0.5), control=(0.5, 0.9), round=1), *compared(0.001, round=1)]
    assert [status for status, *_ in judge_completion([*early, *late])] == ["inconclusive", "fail"]


def reached(hits):
    """Return the share of answers that are given in full, which skill may explain."""
    at = {"plugin": "discoverable", "records": "victim", "threshold": 0.9}
    return [
        coverage(hits, 200, source="tuned-not-base", **at),
        coverage(0, 200, source="base", **at),
        coverage(0, 200, source="control", **at),
    ]


def test_half_an_answer_is_a_leak_though_none_comes_out_whole():
    assert verdict(reached(0), [])["status"] == "inconclusive"
    found = verdict([*reached(0), *GAIN, *compared(0.001)], [])
    assert found["status"] == "fail"
    assert [reason for reason in found["reasons"] if "Rouge-L" in reason] == found["reasons"]


def test_answers_in_full_are_no_leak_where_skill_may_give_them():
    assert verdict([*reached(30), *asked((-0.1, 0.1))], [])["status"] == "inconclusive"
    doubtful = [*asked((0.1, 0.5), control=(0.4, 0.9)), *compared(0.001)]
    assert verdict([*reached(0), *doubtful], [])["status"] == "inconclusive"


def test_the_attackers_own_records_are_no_other_partys():
    rows = [replace(row, scope={**row.scope, "records": "own"}) for row in reached(0)]
    assert verdict([*rows, *asked((0.1, 0.5), records="own")], [])["reasons"] == [NO_VICTIM]


ROUNDS = [
    *[*asked((0.1, 0.5)), *compared(0.001)],
    *[*asked((-0.1, 0.5), round=3), *compared(0.5, 0.05, round=3)],
    *[*asked((0.2, 0.3), round=5), *compared(0.5, 0.5, round=5)],
]


@given(st.permutations(ROUNDS))
def test_the_order_of_the_rows_only_orders_the_reasons(rows):
    found = judge_completion(rows)
    assert sorted(one[:2] for one in found) == sorted(one[:2] for one in judge_completion(ROUNDS))
    assert sorted(one.status for one in found) == ["fail", "inconclusive", "pass"]
