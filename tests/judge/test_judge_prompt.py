import json

import pytest
from chat_server import parts, scored
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.judge.prompt import ASPECTS, JudgeQuestion, parse_scores

GOOD = {"1": dict.fromkeys(ASPECTS, 7), "2": {**dict.fromkeys(ASPECTS, 4.5), "coherence": 10}}
WANTED = ((7, 7, 7, 7), (4.5, 4.5, 4.5, 10))


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(GOOD),
        json.dumps(GOOD, indent=2),
        f"\n ```json\n{json.dumps(GOOD)}\n```\n",
        f"```\n{json.dumps(GOOD)}\n```",
        "Answer 1: 7 7 7 7\nAnswer 2: 4.5 4.5 4.5 10",
        "Answer 1: 7 7 7 7\n\nAnswer 2: 4.5 4.5 4.5 10\n",
    ],
)
def test_both_forms_are_read(text):
    assert parse_scores(text) == WANTED


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Answer 1 is better.",
        f"I think: {json.dumps(GOOD)}",
        f"{json.dumps(GOOD)} because the first is better",
        json.dumps({"1": GOOD["1"]}),
        json.dumps({**GOOD, "3": GOOD["1"]}),
        json.dumps({**GOOD, "2": {"helpfulness": 3}}),
        json.dumps({**GOOD, "2": {**GOOD["1"], "style": 3}}),
        json.dumps({**GOOD, "2": {**GOOD["1"], "coherence": 0}}),
        json.dumps({**GOOD, "2": {**GOOD["1"], "coherence": 11}}),
        json.dumps({**GOOD, "2": {**GOOD["1"], "coherence": "9"}}),
        json.dumps({**GOOD, "2": {**GOOD["1"], "coherence": True}}),
        json.dumps({**GOOD, "2": {**GOOD["1"], "coherence": None}}),
        json.dumps({**GOOD, "2": {**GOOD["1"], "coherence": float("nan")}}),
        json.dumps(GOOD)[:-1] + ', "2": ' + json.dumps(GOOD["1"]) + "}",
        json.dumps([7, 7]),
        "[" * 100_000,
        "Answer 1: 7 7 7\nAnswer 2: 4 4 4 4",
        "Answer 1: 7 7 7 7 7\nAnswer 2: 4 4 4 4",
        "Answer 1: 7 7 7 7",
        "Answer 2: 7 7 7 7\nAnswer 1: 4 4 4 4",
        "Answer 1: 7 7 7 11\nAnswer 2: 4 4 4 4",
        "Answer 1: 7 7 7 0\nAnswer 2: 4 4 4 4",
        "Answer 1: 7 7 7 7\nAnswer 2: 4 4 4 4\nThe first is better.",
        "Answer 1: ７ 7 7 7\nAnswer 2: 4 4 4 4",
    ],
)
def test_anything_else_is_malformed(text):
    assert parse_scores(text) is None


@given(st.text() | st.recursive(st.none() | st.floats() | st.text(), st.lists).map(json.dumps))
def test_any_text_is_scores_or_nothing(text):
    found = parse_scores(text)
    assert found is None or all(1 <= s <= 10 for one in found for s in one)


@given(st.lists(st.integers(1, 10), min_size=8, max_size=8))
def test_the_two_forms_say_the_same(scores):
    halves = scores[:4], scores[4:]
    table = {str(n): dict(zip(ASPECTS, own, strict=True)) for n, own in enumerate(halves, 1)}
    spelt = "\n".join(f"Answer {n}: {' '.join(map(str, own))}" for n, own in enumerate(halves, 1))
    assert parse_scores(json.dumps(table)) == parse_scores(spelt) == tuple(map(tuple, halves))


@given(st.text(), st.text(), st.text())
def test_what_is_judged_cannot_pass_for_something_else(prompt, first, second):
    question = JudgeQuestion(prompt, first, second)
    mark = question.text().partition("\n")[0].split()[2]
    assert question.text().count(mark) == 6
    asked = {"body": {"messages": question.messages()}}
    assert parts(asked) == (prompt, first, second)


def test_a_forged_mark_is_another_mark():
    plain = JudgeQuestion("p", "a", "b")
    forged = JudgeQuestion("p", plain.text(), "b")
    assert forged.text().partition("\n")[0] != plain.text().partition("\n")[0]


def test_the_key_follows_from_everything_that_is_asked():
    plain = JudgeQuestion("p", "a", "b")
    assert plain.key("m") == JudgeQuestion("p", "a", "b").key("m")
    others = [
        JudgeQuestion("q", "a", "b"),
        JudgeQuestion("p", "b", "a"),
        JudgeQuestion("pa", "", "b"),
    ]
    assert len({plain.key("m"), plain.key("n"), *(one.key("m") for one in others)}) == 5
    assert len(plain.key("m")) == 64


def test_the_second_time_it_is_told_what_to_mind():
    question = JudgeQuestion("p", "a", "b")
    first, again = question.messages(), question.messages(again=True)
    assert first[0] == again[0]
    assert again[1]["content"].startswith(first[1]["content"])
    assert again != first
    assert parse_scores(scored(3, 4)) == ((3,) * 4, (4,) * 4)
