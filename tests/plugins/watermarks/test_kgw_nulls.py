"""Null keys against the same hash spelled out, and the statistics that they must have."""

import math

import numpy as np
import pytest
from fedaudit_plugins.watermarks.kgw.detection import Detector, z_score
from fedaudit_plugins.watermarks.kgw.watermark import null_scores
from hypothesis import given
from hypothesis import strategies as st

WORD, GOLDEN = 2**64, 0x9E3779B97F4A7C15


def mixed(state):
    state = (state + GOLDEN) % WORD
    state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 % WORD
    state = (state ^ (state >> 27)) * 0x94D049BB133111EB % WORD
    return state ^ (state >> 31)


def slow(choices, gamma, count, salt):
    found = []
    for null in range(count):
        green = 0
        for row in choices:
            key = salt
            for value in row:
                key = mixed(key ^ (value % WORD))
            bits = mixed(mixed((mixed(key) + null * GOLDEN) % WORD))
            green += (bits >> 11) / 2**53 < gamma
        n = len(choices)
        found.append((green - gamma * n) / math.sqrt(gamma * (1 - gamma) * n))
    return found


def test_null_scores_against_the_hash_spelled_out():
    choices = [(3, 4), (4, 3), (-1, 2**40), (0, 0)]
    found = null_scores(np.array(choices), 0.25, 40, salt=2**63 + 5)
    assert found == pytest.approx(slow(choices, 0.25, 40, 2**63 + 5), abs=1e-4)
    assert found != null_scores(np.array(choices), 0.25, 40, salt=5)
    # Of four choices 0 to 4 are green: z is (G - 1) / sqrt(0.75).
    assert {round(z * math.sqrt(0.75)) for z in found} <= {-1, 0, 1, 2, 3}


@given(st.lists(st.integers(0, 99), unique=True, max_size=20), st.randoms(use_true_random=False))
def test_the_order_of_choices_does_not_matter(choices, random):
    def found(own):
        return null_scores(np.array(own, dtype=np.int64).reshape(-1, 1), 0.5, 5, salt=0)

    assert found(choices) == found(random.sample(choices, len(choices)))


def test_nothing_said_has_no_score_under_any_key():
    assert null_scores(np.empty((0, 2), dtype=np.int64), 0.25, 3, salt=0) == (0.0, 0.0, 0.0)
    assert null_scores(np.array([[1]]), 0.25, 0, salt=0) == ()


def test_they_are_standard_and_share_what_texts_share():
    # z of n choices and of n others, s of them in common, correlate by s / n.
    rows = np.arange(1000).reshape(-1, 1)
    a, b, c = (
        np.array(null_scores(rows[own], 0.25, 4000, salt=9))
        for own in (slice(0, 400), slice(100, 500), slice(600, 1000))
    )
    for one in (a, b, c):
        assert abs(one.mean()) < 4 / 4000**0.5
        assert one.std() == pytest.approx(1, abs=4 / 8000**0.5)
    assert np.corrcoef(a, b)[0, 1] == pytest.approx(0.75, abs=0.03)
    assert np.corrcoef(a, c)[0, 1] == pytest.approx(0, abs=0.065)


@pytest.mark.parametrize(("scheme", "vocabulary"), [("textseal", 0), ("minhash", 60)])
def test_real_keys_scatter_as_null_keys_do(scheme, vocabulary):
    """Two texts that have half of their n-grams in common, under the scheme's own keys."""
    rng = np.random.default_rng(4)
    both, own, other = (rng.integers(0, 60, 150).tolist() for _ in range(3))
    nulls, real = [], []
    for key in range(1, 600, 2):
        detector = Detector(scheme=scheme, key=key, vocabulary=vocabulary)
        here, there = (detector.ngrams([both, text]) for text in (own, other))
        real.append(
            z_score(detector.count_green(here), 0.25) - z_score(detector.count_green(there), 0.25)
        )
        if key < 20:
            pair = [
                null_scores(detector.choices(rows), 0.25, 64, salt=key) for rows in (here, there)
            ]
            nulls.extend(np.subtract(*pair))
    # 300 and 640 draws: standard errors of 4 and 3 %.
    expected = float(np.sqrt(np.mean(np.square(nulls))))
    assert float(np.std(real)) == pytest.approx(expected, rel=0.15)
    assert 0.8 < expected < 1.2  # sqrt(2 (1 - 1/2))
