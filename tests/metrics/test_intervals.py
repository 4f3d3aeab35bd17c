import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from fedaudit.metrics.intervals import Estimate, bootstrap_mean, difference, wilson


@st.composite
def counts(draw):
    n = draw(st.integers(1, 100_000))
    return draw(st.integers(0, n)), n


def test_wilson_by_hand():
    # z = 2: centre (p + 2/n) / (1 + 4/n), half 2 / (1 + 4/n) * sqrt(p(1-p)/n + 1/n^2)
    found = wilson(4, 16, z=2.0)
    assert found.value == 0.25
    half = 2 / 1.25 * (0.25 * 0.75 / 16 + 1 / 256) ** 0.5
    assert (found.low, found.high) == pytest.approx((0.3 - half, 0.3 + half))


@given(counts())
def test_wilson_is_scipys(count):
    hits, n = count
    wanted = binomtest(hits, n).proportion_ci(0.95, method="wilson")
    found = wilson(hits, n)
    assert (found.low, found.high) == pytest.approx((wanted.low, wanted.high), abs=1e-12)


@given(counts())
def test_wilson_holds_the_rate_and_stays_in_range(count):
    hits, n = count
    found = wilson(hits, n)
    assert 0 <= found.low <= found.value <= found.high <= 1
    assert found.low < found.high
    mirror = wilson(n - hits, n)
    assert (1 - mirror.high, 1 - mirror.low) == pytest.approx((found.low, found.high), abs=1e-12)


@pytest.mark.parametrize("n", [1, 7, 50, 10**6])
def test_nothing_found_still_has_an_upper_bound(n):
    none, every = wilson(0, n), wilson(n, n)
    assert (none.value, none.low, every.value, every.high) == (0, 0, 1, 1)
    assert 0 < none.high < 1
    assert 0 < every.low < 1
    # At 0 of n the bound is z^2 / (n + z^2).
    assert none.high == pytest.approx(3.841459 / (n + 3.841459), rel=1e-6)


def test_more_evidence_is_a_narrower_interval():
    widths = [wilson(n // 5, n).high - wilson(n // 5, n).low for n in (5, 50, 500, 5000)]
    assert widths == sorted(widths, reverse=True)


@pytest.mark.parametrize(("hits", "n"), [(0, 0), (1, 0), (-1, 5), (6, 5), (0, -1)])
def test_a_rate_of_nothing_is_refused(hits, n):
    with pytest.raises(ValueError, match="is not a rate"):
        wilson(hits, n)


VALUES = st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=30)


@given(VALUES, st.integers(0, 2**32), st.integers(0, 99))
def test_a_bootstrap_is_seeded_and_knows_no_order(values, seed, shuffle):
    found = bootstrap_mean(values, seed=seed, draws=50)
    shuffled = random.Random(shuffle).sample(values, len(values))
    assert bootstrap_mean(shuffled, seed=seed, draws=50) == found
    assert found.value == pytest.approx(np.mean(values), abs=1e-9)
    assert min(values) - 1e-9 <= found.low <= found.high <= max(values) + 1e-9


def test_a_bootstrap_of_equal_values_is_that_value():
    assert bootstrap_mean([2.5] * 9, seed=1) == Estimate(2.5, 2.5, 2.5)
    assert bootstrap_mean([4.0], seed=1) == Estimate(4.0, 4.0, 4.0)


def test_a_bootstrap_is_about_two_standard_errors_wide():
    values = np.random.default_rng(0).normal(5, 2, 400).tolist()
    found = bootstrap_mean(values, seed=3, draws=4000)
    error = np.std(values) / 20
    # The quantiles of 4,000 draws are within about 3 % of the true ones.
    assert found.low == pytest.approx(found.value - 1.96 * error, abs=0.1 * error)
    assert found.high == pytest.approx(found.value + 1.96 * error, abs=0.1 * error)
    assert bootstrap_mean(values, seed=4) != bootstrap_mean(values, seed=5)


def test_no_values_no_mean():
    with pytest.raises(ValueError, match="No values"):
        bootstrap_mean([], seed=0)


def test_the_published_example_of_a_difference():
    # Newcombe 1998, table II, (a): 56/70 - 48/80, method 10: 0.0524 to 0.3339.
    found = difference(wilson(56, 70), wilson(48, 80))
    assert found.value == pytest.approx(0.2)
    assert (round(found.low, 4), round(found.high, 4)) == (0.0524, 0.3339)


def test_a_difference_by_hand():
    found = difference(Estimate(0.9, 0.6, 1.0), Estimate(0.1, 0.0, 0.5))
    assert found.value == pytest.approx(0.8)
    assert found.low == pytest.approx(0.8 - math.hypot(0.3, 0.4))
    assert found.high == pytest.approx(0.8 + math.hypot(0.1, 0.1))
    found = difference(Estimate(0.2, 0.1, 0.4), Estimate(0.5, 0.4, 0.6))
    assert found.value == pytest.approx(-0.3)
    assert found.low == pytest.approx(-0.3 - math.hypot(0.1, 0.1))
    assert found.high == pytest.approx(-0.3 + math.hypot(0.2, 0.1))


SHARES = st.integers(1, 40).flatmap(lambda n: st.integers(0, n).map(lambda k: wilson(k, n)))


@given(SHARES, SHARES)
def test_it_turns_its_sign_with_its_order(first, second):
    one, other = difference(first, second), difference(second, first)
    assert one.value == pytest.approx(-other.value)
    assert one.low == pytest.approx(-other.high)
    assert one.low <= one.value <= one.high
