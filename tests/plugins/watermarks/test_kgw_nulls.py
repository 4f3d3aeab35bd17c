"""Null keys against the same hash spelled out, and the statistics that they must have."""

import math

import numpy as np
import pytest
from fedaudit_plugins.watermarks.kgw.nulls import null_scores
from hypothesis import given
from hypothesis import strategies as st

WORD, GOLDEN = 2**64, 0x9E3779B97F4A7C15


def mixed(state):
    state = (state + GOLDEN) % WORD
    state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 % WORD
    state = (state ^ (state >> 27)) * 0x94D049BB133111EB % WORD
    return state ^ (state >> 31)


def slow(choices, gamma, count):
    found = []
    for null in range(count):
        green = 0
        for row in choices:
            key = 0
            for value in row:
                key = mixed(key ^ (value % WORD))
            bits = mixed(mixed((mixed(key) + null * GOLDEN) % WORD))
            green += (bits >> 11) / 2**53 < gamma
        n = len(choices)
        found.append((green - gamma * n) / math.sqrt(gamma * (1 - gamma) * n))
    return found


def test_null_scores_against_the_hash_spelled_out():
    choices = [(3, 4), (4, 3), (-1, 2**40), (0, 0)]
    found = null_scores(np.array(choices), 0.25, 40)
    assert found == pytest.approx(slow(choices, 0.25, 40), abs=1e-4)
    # Of four choices 0 to 4 are green: z is (G - 1) / sqrt(0.75).
    assert {round(z * math.sqrt(0.75)) for z in found} <= {-1, 0, 1, 2, 3}


@given(st.lists(st.integers(0, 99), unique=True, max_size=20), st.randoms(use_true_random=False))
def test_the_order_of_choices_does_not_matter(choices, random):
    def found(own):
        return null_scores(np.array(own, dtype=np.int64).reshape(-1, 1), 0.5, 5)

    assert found(choices) == found(random.sample(choices, len(choices)))


def test_nothing_said_has_no_score_under_any_key():
    assert null_scores(np.empty((0, 2), dtype=np.int64), 0.25, 3) == (0.0, 0.0, 0.0)
    assert null_scores(np.array([[1]]), 0.25, 0) == ()


def test_they_are_standard_and_share_what_texts_share():
    # z of n choices and of n others, s of them in common, correlate by s / n.
    rows = np.arange(1000).reshape(-1, 1)
    a, b, c = (
        np.array(null_scores(rows[own], 0.25, 4000))
        for own in (slice(0, 400), slice(100, 500), slice(600, 1000))
    )
    for one in (a, b, c):
        assert abs(one.mean()) < 4 / 4000**0.5
        assert one.std() == pytest.approx(1, abs=4 / 8000**0.5)
    assert np.corrcoef(a, b)[0, 1] == pytest.approx(0.75, abs=0.03)
    assert np.corrcoef(a, c)[0, 1] == pytest.approx(0, abs=0.065)
