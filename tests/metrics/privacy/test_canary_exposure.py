import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import skewnorm

from fedaudit.metrics.privacy import canary_exposure


def test_the_first_of_a_space_has_all_its_bits():
    space = [-1.0, *[-5.0 - i for i in range(1023)]]
    assert canary_exposure.exact(-1.0, space) == 10
    assert canary_exposure.exact(-5.0, space) == 9  # rank 2
    assert canary_exposure.exact(space[-1], space) == 0


def test_ties_count_against_the_finding():
    assert canary_exposure.exact(-1.0, [-1.0] * 4 + [-2.0] * 4) == 1


def test_a_space_without_the_secret():
    with pytest.raises(ValueError, match="does not have the planted"):
        canary_exposure.exact(0.0, [-1.0, -2.0])


@given(st.lists(st.floats(-100, 0), min_size=1, max_size=30, unique=True))
def test_exposures_of_a_whole_space_are_its_ranks(space):
    found = sorted(canary_exposure.exact(one, space) for one in space)
    ranks = [math.log2(len(space)) - math.log2(k) for k in range(len(space), 0, -1)]
    assert found == pytest.approx(ranks)


def test_a_skew_normal_law_is_recovered():
    sample = skewnorm(3, -40, 5).rvs(200_000, random_state=1)
    shape, location, scale = canary_exposure.skew_normal(sample)
    assert (shape, location, scale) == pytest.approx((3, -40, 5), rel=0.1)


def test_beyond_a_sample_the_law_is_read_on():
    law = skewnorm(-2, -30, 4)
    sample = law.rvs(5000, random_state=2)
    planted = -24.0
    found = canary_exposure.fitted_exposure(planted, sample)
    assert found == pytest.approx(-law.logsf(planted) / math.log(2), rel=0.1)
    assert canary_exposure.fit_p_value(sample) > 0.05
    bimodal = np.concatenate([sample, sample - 60])
    assert canary_exposure.fit_p_value(bimodal) < 1e-6


def test_secrets_that_nobody_has_are_exposed_by_chance():
    rng = np.random.default_rng(4)
    size = 10_000
    low = 0
    for _ in range(200):
        chance = math.log2(size) - np.log2(rng.integers(1, size + 1, 50))
        low += canary_exposure.chance_p_value(chance, size) < 0.05
    assert low <= 18
    known = math.log2(size) - np.log2(rng.integers(1, 100, 20))
    assert canary_exposure.chance_p_value(known, size) < 1e-9
