"""The range score by hand, and what its samplers change."""

import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import range_membership


def test_a_range_is_the_mean_of_its_upper_scores():
    scores = [3.0, -1.0, 4.0, 0.0, 5.0]
    assert range_membership.range_score(scores, 0.0) == pytest.approx(2.2)
    assert range_membership.range_score(scores, 0.5) == pytest.approx(4.0)
    assert range_membership.range_score(scores, 0.8) == pytest.approx(5.0)


@given(st.lists(st.integers(0, 50), min_size=8, max_size=60).map(tuple))
def test_a_run_is_left_out_and_nothing_else_changes(ids):
    texts = range_membership.without_a_run(ids, count=4)
    assert texts == range_membership.without_a_run(ids, count=4)
    for text in texts:
        gone = len(ids) - len(text)
        assert 1 <= gone <= 0.4 * len(ids) + 1
        assert any(ids[:at] + ids[at + gone :] == text for at in range(len(text) + 1))


def test_edited_records_lose_and_change_some_words():
    text = " ".join(map(str, range(2000)))
    words = range_membership.edited(text, ["new"]).split()
    # Of 2,000 words 100 are gone and 200 replaced, give or take four standard deviations.
    assert 61 <= 2000 - len(words) <= 139
    assert 146 <= words.count("new") <= 254


def test_the_test_of_ranks_has_its_size_on_null_sets():
    # Forty scores without a tie: over 200 sets, 5 % and three standard deviations.
    assert range_membership.null_share([number**1.5 for number in range(40)], 200) <= 0.1
