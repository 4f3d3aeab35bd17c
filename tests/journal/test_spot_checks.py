"""Asking again: what is drawn, what counts as the same, and what it would have seen."""

from itertools import combinations
from math import comb, inf
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.journal.spot_checks import OtherAnswers, SpotCheck, same_answer
from fedaudit.metrics.spot_check import detection_probability

HERE = "cpu: x86_64, torch 2"


def stream(name=b"pass", shard="1/2", device=HERE):
    journal = SimpleNamespace(header={"shard": shard, "device": device}, place="part1")
    return SimpleNamespace(name=name, journal=journal)


class Model:
    """Answers its place, and keeps who was asked in which company."""

    def __init__(self, answer=lambda place, company: place):
        self.asked, self.answer = [], answer

    def __call__(self, places):
        self.asked.append(list(places))
        return [self.answer(place, len(places)) for place in places]


def test_the_chance_to_see_a_forgery_by_hand():
    # Of 10 questions one is forged, and 2 of them are asked: 2/10.
    assert detection_probability(10, 2, 0.1) == pytest.approx(0.2)
    # 1 - 9500! 9900! / (10000! 9400!), about 1 - 0.95^100 = 99.4 %.
    assert detection_probability(10_000, 100, 0.05) == pytest.approx(0.994, abs=5e-4)
    assert detection_probability(10, 0, 0.1) == detection_probability(10, 3, 0) == 0
    assert detection_probability(10, 10, 0.01) == detection_probability(0, 0, 0.5) + 1 == 1
    for wrong in ((3, 4, 0.1), (3, -1, 0.1), (3, 1, 1.1), (3, 1, -0.1)):
        with pytest.raises(ValueError, match="sample"):
            detection_probability(*wrong)


@given(st.integers(1, 9), st.data())
def test_the_chance_is_that_of_all_samples_counted(n, data):
    asked, forged = data.draw(st.integers(0, n)), data.draw(st.integers(0, n))
    samples = list(combinations(range(n), asked))
    seeing = sum(any(place < forged for place in one) for one in samples)
    assert detection_probability(n, asked, forged / n) == pytest.approx(
        seeing / comb(n, asked), abs=1e-12
    )


def test_about_the_share_is_drawn_whatever_the_pieces():
    found = []
    for size in (10, 100, 1000):
        recheck, model = SpotCheck(0.1, HERE, "ab" * 16), Model()
        for piece in range(0, 10_000, size):
            said = list(range(size))
            recheck.check(stream(), piece.to_bytes(16, "big"), said, model, said)
        recheck.finish()
        [row] = recheck.table()
        assert row["questions"] == 10_000
        assert row["asked_again"] == sum(map(len, model.asked))
        found.append(row["asked_again"])
    # Four standard deviations of a binomial with n = 10,000, p = 1/10: 4 sqrt(900) = 120.
    assert max(abs(count - 1000) for count in found) < 120


def test_which_is_drawn_is_random_and_can_be_told_again():
    def drawn(draw, name=b"pass"):
        recheck, model = SpotCheck(0.5, HERE, draw), Model()
        recheck.check(stream(name), b"piece", list(range(64)), model, range(64))
        return model.asked

    assert drawn("ab" * 16) == drawn("ab" * 16)
    assert drawn("ab" * 16) != drawn("cd" * 16)
    assert drawn("ab" * 16) != drawn("ab" * 16, b"other")
    assert drawn(None) != drawn(None)


@pytest.mark.parametrize("forged", range(6))
def test_of_a_small_shard_each_question_may_be_the_one_that_is_asked(forged):
    asked = set()
    for number in range(60):
        recheck, model = SpotCheck(1e-9, HERE, f"{number:032x}"), Model()
        for piece in range(3):
            recheck.check(stream(), bytes([piece]), [0, 1], model, [0, 1])
        assert model.asked == []
        said = recheck.table()
        recheck.finish()
        assert [row["asked_again"] for row in (*said, *recheck.table())] == [0, 1]
        assert recheck.table()[0]["seen"] == pytest.approx(1 / 6)
        asked.add(model.asked[0][0])
    assert asked == {0, 1}


def test_none_is_asked_where_none_is_wanted():
    recheck, model = SpotCheck(0, HERE), Model()
    recheck.check(stream(), b"piece", [0, 7], model, [0, 1])
    recheck.finish()
    assert model.asked == []
    assert recheck.caveats() == [
        "No answer of the shards was asked again (--recheck 0): they are believed."
    ]


def test_what_only_another_company_changes_is_no_forgery():
    model = Model(lambda place, company: place if company == 64 else -1)
    recheck = SpotCheck(0.5, HERE, "ab" * 16)
    recheck.check(stream(), b"piece", list(range(64)), model, range(64))
    assert [len(one) == 64 for one in model.asked] == [False, True]
    assert recheck.table()[0]["answered_otherwise"] == 0


def everything(recheck, device, said):
    recheck.check(stream(device=device), b"piece", said, Model(), [2])
    recheck.finish()


def test_a_forgery_is_named_on_the_same_device_only():
    said = [0, 1, 99, 3]
    for device, share in ((HERE, 1), (HERE, 1e-9)):
        recheck = SpotCheck(share, HERE)
        with pytest.raises(OtherAnswers, match="Shard 1/2 in part1 does not hold"):
            everything(recheck, device, said)
    recheck = SpotCheck(1, HERE)
    recheck.check(stream(device="cuda:0"), b"piece", said, Model(), range(4))
    [line] = recheck.caveats()
    assert "4 of 4 questions were asked again, and 1 answered otherwise, on another dev" in line


def test_what_the_shard_knew_already_is_no_question():
    recheck, model = SpotCheck(1, HERE), Model()
    recheck.check(stream(), b"piece", [7, 7, 2], model, [2])
    recheck.check(stream(), b"other", [7], model, [])
    assert (model.asked, recheck.table()[0]["questions"]) == ([[2]], 1)


def test_shards_stand_in_their_order():
    recheck = SpotCheck(1, HERE)
    for number in (10, 2, 1):
        recheck.check(stream(shard=f"{number}/10"), b"piece", [0], Model(), [0])
    assert [row["shard"] for row in recheck.table()] == ["1/10", "2/10", "10/10"]
    assert recheck.caveats()[0] == (
        "Shard 1/10: 1 of 1 questions were asked again and answered alike; were 5% of them forged, "
        "that would have been seen with a chance of 100.0%."
    )


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ((("a",), ((1, 2),)), [["a"], [[1, 2]]], True),
        ([-1.0], [-1.00005], True),
        ([-1.0], [-1.001], False),
        ([-inf], [-inf], True),
        ([50_000], [50_001], False),
        ([1.0], [1.0, 2.0], False),
        ("a", "b", False),
        ("ab", ["a", "b"], False),
        ({"a": (1.0,)}, {"a": [1.0]}, True),
        ({"a": 1}, {"b": 1}, False),
    ],
)
def test_what_is_the_same_answer(one, other, same):
    assert same_answer(one, other) is same
