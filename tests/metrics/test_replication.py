"""Means over seeds by hand: the wider of what seeds move and what one measurement leaves open."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.api.estimates import Estimate
from fedaudit.metrics.replication import mean_estimate, mean_margins

T2 = 4.302653
"""The quantile of Student's t with two degrees of freedom that 2.5 % are above."""


def spread(*values, margin=0.0):
    return [Estimate(value, value - margin, value + 2 * margin) for value in values]


def test_by_hand():
    # 2, 4 and 6: mean 4, standard deviation 2.
    found = mean_estimate(spread(2.0, 4.0, 6.0), same_records=True)
    half = T2 * 2 / math.sqrt(3)
    assert (found.value, found.low, found.high) == pytest.approx((4, 4 - half, 4 + half))
    # Their own margins of 9 and 18 are wider: together of the same records, apart of others.
    same = mean_estimate(spread(2.0, 4.0, 6.0, margin=9.0), same_records=True)
    assert (same.low, same.high) == pytest.approx((4 - 9, 4 + 18))
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
    assert below == pytest.approx(100 if same_records else math.hypot(100, 100) / 2)
    assert above is None


@given(st.lists(st.tuples(st.floats(-9, 9), st.floats(0, 3)), min_size=1, max_size=5), st.randoms())
def test_the_order_of_seeds_is_nothing_and_the_mean_lies_within(pairs, rng):
    values = [Estimate(value, value - margin, value + margin) for value, margin in pairs]
    found = mean_estimate(values, same_records=True)
    assert found.low <= found.value <= found.high
    mixed = mean_estimate(rng.sample(values, len(values)), same_records=True)
    assert (mixed.low, mixed.high) == pytest.approx((found.low, found.high), abs=1e-9)
