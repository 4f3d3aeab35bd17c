from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedaudit.metrics.expected import (
    count_interval,
    coverage,
    drawn_interval,
    prefix_chains,
    prefix_layers,
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
    # By mid-p: half of an end and what lies beyond is above 2.5 %; of the next number it is not.
    for beyond, end in ((law[:low], law[low]), (law[:high:-1], law[high])):
        assert beyond.sum() + end / 2 >= 0.025 - 1e-6
        assert beyond.sum() - beyond[-1:].sum() / 2 <= 0.025 + 1e-6
    back = count_interval(np.array(found[::-1]), [[i] for i in range(len(found))])
    assert back == (low, high)


def test_two_fair_coins():
    # None, one, two with 1/4, 1/2, 1/4: by mid-p an eighth lies at either end and beyond.
    assert count_interval(np.array([0.5, 0.5]), [[0], [1]]) == (0, 2)
    # None with 0.9801, one with 0.0198: half of that is less than 2.5 %.
    assert count_interval(np.array([0.01, 0.01]), [[0], [1]]) == (0, 0)
    assert count_interval(np.array([1.0, 0.0, 0.01]), [[0], [1], [2]]) == (1, 1)
    # Found together or not at all: none with 0.94, two with 0.06, half of which is 3 %.
    assert count_interval(np.array([0.06, 0.06]), [[0, 1]]) == (0, 2)
    assert count_interval(np.array([0.06, 0.06]), [[0], [1]]) == (0, 1)
    # None with 0.96, one with 0.04: 95 % are held without it, which quantiles would take in.
    assert count_interval(np.array([0.04]), [[0]]) == (0, 0)


@settings(deadline=None)
@given(SHARES, st.floats(0.01, 4))
def test_what_is_estimated_adds_its_variance(found, variance):
    from scipy.stats import skellam

    law = np.convolve(slow(found), skellam(variance / 2, variance / 2).pmf(np.arange(-40, 41)))
    total = np.cumsum(law) - law / 2
    inside = np.flatnonzero((total > 0.025) & (total < 0.975)) - 40
    if abs(total - 0.025).min() > 1e-6 and abs(total - 0.975).min() > 1e-6:
        wanted = max(0, inside[0]), min(len(found), inside[-1])
        assert count_interval(np.array(found), [[i] for i in range(len(found))], variance) == wanted


def test_one_run_of_independent_targets_is_held_so_often():
    rng = np.random.default_rng(11)
    held = []
    for _ in range(40):
        found = rng.beta(0.4, 0.6, size=60)
        low, high = count_interval(found, [[i] for i in range(60)])
        runs = (rng.random((4000, 60)) < found).sum(axis=1)
        held.append(((low <= runs) & (runs <= high)).mean())
    assert np.mean(held) == pytest.approx(0.95, abs=0.01)
    assert 0.92 < min(held) < 0.95 < max(held) < 0.98


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
        total = np.cumsum(law) - law / 2
        inside = np.flatnonzero((total > 0.025) & (total < 0.975))
        assert count_interval(found, groups) == (inside[0], inside[-1])


def test_many_alike_are_binomial():
    from scipy.stats import binom

    low, high = count_interval(np.full(500, 0.3), [[i] for i in range(500)])
    law = binom(500, 0.3)
    for end, after, beyond in ((low, low - 1, law.cdf(low - 1)), (high, high + 1, law.sf(high))):
        assert beyond - law.pmf(after) / 2 < 0.025 < beyond + law.pmf(end) / 2


def test_groups_and_layers_by_hand():
    strings = ["Ann Lee", "Bob", "Ann", "Ann Low", "Ann Lee Ray"]
    assert prefix_chains(strings) == [[2, 0, 4, 3], [1]]
    assert [sorted(one) for one in prefix_layers(strings)] == [[1, 2], [0, 3], [4]]
    assert prefix_chains([]) == prefix_layers([]) == []


def test_the_missed_are_bounded_as_garwood_has_it():
    from scipy.stats import poisson

    # With 3 counted, the mean under which 3 or fewer have a probability of 2.5 %.
    low, high = drawn_interval(np.array([1.0, 1.0]), np.array([1, 2]))
    assert poisson.cdf(3, high) == pytest.approx(0.025)
    # And the one over which 3 or more have 2.5 %.
    assert poisson.sf(2, low) == pytest.approx(0.025)
    halves = drawn_interval(np.array([0.5, 0.5]), np.array([1, 2]))
    assert halves == pytest.approx((low / 2, high / 2))
    none = drawn_interval(np.array([1.0]), np.array([0]))
    assert none == pytest.approx((0.0, -np.log(0.025)))
    assert drawn_interval(np.zeros(2), np.array([5, 5])) == (0.0, 0.0)
    assert drawn_interval(np.array([]), np.array([], dtype=np.int64)) == (0.0, 0.0)


def test_the_bound_of_unequal_weights_holds():
    rng = np.random.default_rng(4)
    weights, means = np.array([1.0, 0.4, 0.1, 0.02]), np.array([0.8, 2.0, 7.0, 30.0])
    bounds = [drawn_interval(weights, rng.poisson(means)) for _ in range(2000)]
    above = sum(low > weights @ means for low, _ in bounds)
    below = sum(high < weights @ means for _, high in bounds)
    assert max(above, below) <= 0.025 * 2000 + 3 * (0.025 * 0.975 * 2000) ** 0.5


def test_other_targets_of_their_kind():
    one = coverage((2.0, 2.0, 2.0), 50)
    assert (one.value, one.low, one.high) == (0.04, wilson(2, 50).low, wilson(2, 50).high)
    wide = coverage((1.5, 2.0, 20.0), 50)
    assert (wide.low, wide.high) == (wilson(1.5, 50).low, wilson(20, 50).high)
    assert coverage((50.0, 50.0, 60.0), 50).high == 1.0


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
    with pytest.raises(ValueError, match="not a probability"):
        samples_needed(-1.0, 1.0)
