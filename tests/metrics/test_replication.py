"""Means over seeds by hand: what seeds move, and what one measurement leaves open."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.api.estimates import Estimate
from fedaudit.metrics.replication import mean_estimate, mean_margins

T2 = 4.302653
"""The quantile of Student's t with two degrees of freedom that 2.5 % are above."""
T1 = 12.706205
"""That with one."""


def spread(*values, margin=0.0):
    return [Estimate(value, value - margin, value + 2 * margin) for value in values]


def test_by_hand():
    # 2, 4 and 6: mean 4, standard deviation 2.
    found = mean_estimate(spread(2.0, 4.0, 6.0), same_records=True)
    half = T2 * 2 / math.sqrt(3)
    assert (found.value, found.low, found.high) == pytest.approx((4, 4 - half, 4 + half))
    # Their own margins of 9 and 18 are wider: beside t's of the same records, apart of others.
    same = mean_estimate(spread(2.0, 4.0, 6.0, margin=9.0), same_records=True)
    assert same.low == pytest.approx(4 - math.sqrt(half**2 + 9**2))
    assert same.high == pytest.approx(4 + math.sqrt(half**2 + 18**2))
    other = mean_estimate(spread(2.0, 4.0, 6.0, margin=9.0), same_records=False)
    assert other.low == pytest.approx(4 - math.sqrt(3 * 81) / 3)
    assert other.high == pytest.approx(4 + math.sqrt(3 * 18**2) / 3)


def test_one_seed_has_its_own_interval_or_none():
    assert mean_estimate(spread(2.0, margin=1.0), same_records=True) == Estimate(2.0, 1.0, 4.0)
    assert mean_margins([2.0], [None], [None], same_records=True) is None
    with pytest.raises(ValueError, match="No values"):
        mean_estimate([], same_records=True)


@pytest.mark.parametrize("same_records", [True, False])
def test_an_interval_without_an_upper_end_leaves_the_mean_without_one(same_records):
    below, above = mean_margins([2.0, 6.0], [-98.0, -94.0], [None, 7.0], same_records=same_records)
    between = T1 * math.sqrt(8) / math.sqrt(2)
    assert below == pytest.approx(math.hypot(100, between) if same_records else 100 / math.sqrt(2))
    assert above is None


@pytest.mark.parametrize("same_records", [True, False])
def test_a_value_without_an_interval_counts_as_the_others_do(same_records):
    # Three equal counts of nothing, one of which has no interval: no less than with all three.
    upper = [0.3, 0.3, None]
    lows = [0.0, 0.0, None]
    some = mean_margins([0.0] * 3, lows, upper, same_records=same_records)
    every = mean_margins([0.0] * 3, [0.0] * 3, [0.3] * 3, same_records=same_records)
    assert some == pytest.approx(every)
    assert some == pytest.approx((0.0, 0.3 if same_records else 0.3 / math.sqrt(3)))


def test_values_that_are_not_finite_have_no_interval():
    for value in (math.inf, math.nan):
        assert mean_margins([1.0, value], [0.0, 0.0], [2.0, 2.0], same_records=True) is None


@given(st.lists(st.tuples(st.floats(-9, 9), st.floats(0, 3)), min_size=1, max_size=5), st.randoms())
def test_the_order_of_seeds_is_nothing_and_the_mean_lies_within(pairs, rng):
    values = [Estimate(value, value - margin, value + margin) for value, margin in pairs]
    found = mean_estimate(values, same_records=True)
    assert found.low <= found.value <= found.high
    mixed = mean_estimate(rng.sample(values, len(values)), same_records=True)
    assert (mixed.low, mixed.high) == pytest.approx((found.low, found.high), abs=1e-9)
