"""The test of whether strings gained more than controls: by hand, by simulation, and its power."""

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.metrics.gain_rank import (
    CONTROLS,
    MEAN,
    detectable_count,
    gain_score,
    needed_sum,
    rank_p_value,
)

SCORES = [round(-math.log((rank - 0.5) / 20), 1) for rank in range(1, 21)]


def test_scores_by_hand():
    # -ln(0.5 / 20) = 3.69 for the highest of twenty gains, -ln(19.5 / 20) = 0.03 for the lowest.
    others = list(range(CONTROLS))
    assert gain_score([99, *others]) == pytest.approx(3.7)
    assert gain_score([-1, *others]) == pytest.approx(0.0)
    assert gain_score([17.5, *others]) == pytest.approx(2.6)  # second: -ln(1.5 / 20)
    assert gain_score([0.0] * (CONTROLS + 1)) == pytest.approx(0.0)  # ties rank it last
    assert pytest.approx(sum(SCORES) / 20) == MEAN
    with pytest.raises(ValueError, match="19 others"):
        gain_score([1.0, 2.0])


@pytest.mark.parametrize("scores", [[3.7], [3.7, 0.0], [1.1, 2.1], [0.0, 0.0]])
def test_p_values_by_counting_all_ranks(scores):
    sums = [sum(one) for one in product(SCORES, repeat=len(scores))]
    as_large = sum(total >= sum(scores) - 1e-9 for total in sums)
    assert rank_p_value(scores) == pytest.approx(as_large / len(sums))


@given(st.lists(st.sampled_from(SCORES), min_size=1, max_size=12), st.randoms())
def test_a_higher_score_is_never_less_sure_and_order_does_not_count(scores, rng):
    p = rank_p_value(scores)
    assert 0 < p <= 1
    higher = [max(SCORES), *scores[1:]]
    assert rank_p_value(higher) <= p
    rng.shuffle(scores)
    assert rank_p_value(scores) == pytest.approx(p)


def test_the_size_under_equal_ranks():
    rng = np.random.default_rng(7)
    found = [
        rank_p_value([gain_score(list(rng.normal(size=CONTROLS + 1))) for _ in range(9)])
        for _ in range(1500)
    ]
    share = np.mean(np.array(found) <= 0.05)
    assert 0.03 < share < 0.065  # 5 %, and never more but for 2.7 standard errors of 0.56 %


def test_how_many_learned_strings_are_seen():
    level, power, n, mean = 0.01, 0.9, 40, 3.0
    count = detectable_count(n, mean, MEAN, level, power)
    rng = np.random.default_rng(3)
    spread = np.std(SCORES)
    sums = rng.normal(count * mean + (n - count) * MEAN, spread * math.sqrt(n), size=20_000)
    assert np.mean(sums >= needed_sum(n, level)) == pytest.approx(power, abs=0.05)
    assert np.mean(sums - mean + MEAN >= needed_sum(n, level)) < power
    assert detectable_count(n, MEAN, MEAN, level, power) is None
    assert detectable_count(1, 3.7, MEAN, level, power) is None  # the least p value is 1/20
