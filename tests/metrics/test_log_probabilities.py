"""Means of probabilities that are given as logarithms."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.metrics.log_probabilities import log_mean_exp

LOGS = st.lists(st.floats(-1e4, 0) | st.just(-math.inf), min_size=1, max_size=6)


def test_by_hand():
    # (1/2 + 1/4) / 2 = 3/8, and a probability of 0 halves it.
    assert log_mean_exp([math.log(0.5), math.log(0.25)]) == pytest.approx(math.log(0.375))
    assert log_mean_exp([math.log(0.5), -math.inf]) == pytest.approx(math.log(0.25))
    assert log_mean_exp([-3.0]) == -3.0
    # e^-2000 is 0 in floating point: (1 + e^-1) / 2 of it.
    expected = -2000 + math.log((1 + math.exp(-1)) / 2)
    assert log_mean_exp([-2000.0, -2001.0]) == pytest.approx(expected)


def test_nothing_but_zeros_is_zero_and_nothing_has_no_mean():
    assert log_mean_exp([-math.inf, -math.inf]) == -math.inf
    with pytest.raises(ValueError, match="empty"):
        log_mean_exp([])


@given(LOGS, st.floats(-100, 100), st.randoms())
def test_it_lies_between_knows_no_order_and_moves_with_its_values(logs, by, rng):
    mean = log_mean_exp(logs)
    assert max(logs) - math.log(len(logs)) - 1e-9 <= mean <= max(logs) or mean == -math.inf
    assert mean >= min(logs)
    assert log_mean_exp(rng.sample(logs, len(logs))) == mean
    assert log_mean_exp([value + by for value in logs]) == pytest.approx(mean + by)
