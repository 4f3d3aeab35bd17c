"""Measurements made with their interval and their number, or with the reason why there is none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.api.estimates import Estimate
from fedaudit.api.records import Measurement

ROW = {
    "kind": "extraction",
    "plugin": "contextual",
    "metric": "coverage",
    "scope": {"source": "tuned"},
}


def test_a_rate_has_wilsons_interval():
    row = Measurement.rate(5, 10, **ROW, chance=0.1, baseline=0.2, reason="not told")
    # z = 1.96: the centre is 0.5, the half width 1.96 / 1.38416 * sqrt(0.025 + 0.009604).
    assert (row.low, row.high) == (pytest.approx(0.2366, abs=1e-4), pytest.approx(0.7634, abs=1e-4))
    assert row == Measurement(
        **ROW, value=0.5, low=row.low, high=row.high, n=10, hits=5, chance=0.1, baseline=0.2
    )


def test_a_rate_of_nothing_is_missing_for_a_reason():
    row = Measurement.rate(0, 0, **ROW, chance=0.1, baseline=0.2, reason="nothing was asked")
    assert row == Measurement(
        **ROW, value=None, n=0, chance=0.1, baseline=0.2, reason="nothing was asked"
    )
    with pytest.raises(ValueError, match="coverage is missing for no reason"):
        Measurement.rate(0, 0, **ROW)


def test_more_hits_than_trials_are_no_rate():
    with pytest.raises(ValueError, match="3 of 2 is not a rate"):
        Measurement.rate(3, 2, **ROW)


def test_a_mean_has_the_interval_that_it_came_with():
    row = Measurement.mean(Estimate(4.0, 2.5, 6.0), 7, **ROW)
    assert row == Measurement(**ROW, value=4.0, low=2.5, high=6.0, n=7)
    share = Measurement.mean(Estimate(0.5, 0.1, 0.9), 4, **ROW, hits=2, chance=0.0, baseline=0.25)
    assert (share.hits, share.chance, share.baseline) == (2, 0.0, 0.25)


def test_what_is_missing_says_why():
    row = Measurement.missing("no client has a text", **ROW, n=3, chance=0.1, baseline=0.2)
    assert row == Measurement(
        **ROW, value=None, n=3, chance=0.1, baseline=0.2, reason="no client has a text"
    )
    with pytest.raises(ValueError, match="coverage is missing for no reason"):
        Measurement.missing("", **ROW)


@given(st.integers(0, 10**6), st.integers(0, 10**6))
def test_a_rate_lies_in_its_interval_and_that_between_0_and_1(one, other):
    hits, n = min(one, other), max(one, other, 1)
    row = Measurement.rate(hits, n, **ROW)
    assert 0 <= row.low <= row.value <= row.high <= 1
    assert round(row.value * n) == hits == row.hits
    assert row.n == n
    opposite = Measurement.rate(n - hits, n, **ROW)
    assert (opposite.low, opposite.high) == pytest.approx((1 - row.high, 1 - row.low), abs=1e-9)
