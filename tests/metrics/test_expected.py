from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedaudit.metrics.expected import (
    beside,
    chains,
    count_interval,
    coverage,
    layers,
    missed,
    samples_needed,
)
from fedaudit.metrics.intervals import wilson

SHARES = st.lists(st.floats(0, 1), min_size=1, max_size=9)


def slow(found):
    """Go through all outcomes of independent targets."""
    law = np.zeros(len(found) + 1)
    for hits in product((0, 1), repeat=len(found)):
        law[sum(hits)] += np.prod([p if h else 1 - p for p, h in zip(found, hits, strict=True)])
    return law


@settings(deadline=None)
@given(SHARES)
def test_the_count_stays_within_its_interval(found):
    low, high = count_interval(np.array(found), [[i] for i in range(len(found))])
    law = slow(found)
    assert law[low : high + 1].sum() >= 0.95 - 1e-6
    assert law[:low].sum() <= 0.025 + 1e-6
    assert law[high + 1 :].sum() <= 0.025 + 1e-6
    back = count_interval(np.array(found[::-1]), [[i] for i in range(len(found))])
    assert back == (low, high)


def test_two_fair_coins():
    # None, one, two with 1/4, 1/2, 1/4.
    assert count_interval(np.array([0.5, 0.5]), [[0], [1]]) == (0, 2)
    # None with 0.9801, one with 0.0198: one is beyond the 97.5 % quantile.
    assert count_interval(np.array([0.01, 0.01]), [[0], [1]]) == (0, 0)
    assert count_interval(np.array([1.0, 0.0, 0.01]), [[0], [1], [2]]) == (1, 1)
    # Found together or not at all: none with 0.97, two with 0.03.
    assert count_interval(np.array([0.03, 0.03]), [[0, 1]]) == (0, 2)
    assert count_interval(np.array([0.03, 0.03]), [[0], [1]]) == (0, 1)


def test_groups_count_as_their_laws_one_by_one():
    rng = np.random.default_rng(0)
    for _ in range(100):
        sizes = rng.integers(1, 4, size=rng.integers(1, 5))
        edges = np.concatenate([[0], np.cumsum(sizes)])
        groups = [list(range(a, b)) for a, b in pairwise(edges)]
        found = rng.choice([0, 1, 0.3, 0.999, 0.01, rng.random()], edges[-1])
        law = np.ones(1)
        for group in groups:
            tails = np.concatenate([[1.0], np.sort(found[group])[::-1], [0.0]])
            law = np.convolve(law, -np.diff(tails))
        total = np.cumsum(law)
        wanted = tuple(int(np.searchsorted(total, level * total[-1])) for level in (0.025, 0.975))
        assert count_interval(found, groups) == wanted


def test_many_alike_are_binomial():
    from scipy.stats import binom

    low, high = count_interval(np.full(500, 0.3), [[i] for i in range(500)])
    assert (low, high) == (binom.ppf(0.025, 500, 0.3), binom.ppf(0.975, 500, 0.3))


def test_the_quantile_of_a_poisson_number():
    from scipy.stats import poisson

    for mean in (0.0, 0.01, 0.0253, 0.0254, 1.0, 3.69, 50.0, 1e6):
        assert beside(mean) == poisson.ppf(0.975, mean)


def test_groups_and_layers_by_hand():
    strings = ["Ann Lee", "Bob", "Ann", "Ann Low", "Ann Lee Ray"]
    assert chains(strings) == [[2, 0, 4, 3], [1]]
    assert [sorted(one) for one in layers(strings)] == [[1, 2], [0, 3], [4]]
    assert chains([]) == layers([]) == []


def test_the_missed_are_bounded_as_garwood_has_it():
    from scipy.stats import poisson

    # With 3 counted, the mean under which 3 or fewer have a probability of 2.5 %.
    bound = missed(np.array([1.0, 1.0]), np.array([1, 2]))
    assert poisson.cdf(3, bound) == pytest.approx(0.025)
    assert missed(np.array([0.5, 0.5]), np.array([1, 2])) == pytest.approx(bound / 2)
    assert missed(np.array([1.0]), np.array([0])) == pytest.approx(-np.log(0.025))
    assert missed(np.zeros(2), np.array([5, 5])) == 0.0
    assert missed(np.array([]), np.array([], dtype=np.int64)) == 0.0


def test_the_bound_of_unequal_weights_holds():
    rng = np.random.default_rng(4)
    weights, means = np.array([1.0, 0.4, 0.1, 0.02]), np.array([0.8, 2.0, 7.0, 30.0])
    bounds = [missed(weights, rng.poisson(means)) for _ in range(2000)]
    below = sum(bound < weights @ means for bound in bounds)
    assert below <= 0.025 * 2000 + 3 * (0.025 * 0.975 * 2000) ** 0.5


def test_the_interval_is_the_wider_of_the_two():
    one = coverage((2.0, 2.0, 2.0), (0, 5), 50)
    assert one.value == 0.04
    assert one.low == 0.0  # a run may find none; Wilson's begins above that
    assert one.high == wilson(2, 50).high > 5 / 50
    wide = coverage((2.0, 2.0, 20.0), (0, 25), 50)
    assert wide.high == wilson(20, 50).high
    assert coverage((50.0, 50.0, 60.0), (50, 50), 50).high == 1.0


@given(st.floats(-5, -1e-9), st.sampled_from([0.1, 0.5, 0.9, 0.99]))
def test_so_many_samples_are_enough_and_one_fewer_is_not(log_miss, probability):
    needed = samples_needed(log_miss, probability)
    assert -np.expm1(needed * log_miss) >= probability - 1e-6
    assert needed == 1 or -np.expm1((needed - 1) * log_miss) < probability + 1e-6


def test_samples_by_hand():
    # A chance of 1 in 4: two samples find it with 7/16, three with 37/64.
    assert samples_needed(np.log(3 / 4), 0.5) == 3
    assert samples_needed(-np.inf, 0.9) == 1
    assert samples_needed(0.0, 0.5) is None
    with pytest.raises(ValueError, match="no probability"):
        samples_needed(-1.0, 1.0)
