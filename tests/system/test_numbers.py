"""What is a number that a float holds, and counts in words."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.system.numbers import count_of, is_finite_number


@pytest.mark.parametrize(
    ("value", "fits"),
    [
        *((0, True), (-1.5, True), (10**308, True), (10**309, False), (-(10**400), False)),
        *((math.nan, False), (math.inf, False), (True, False), ("1", False), (None, False)),
    ],
)
def test_by_hand(value, fits):
    assert is_finite_number(value) is fits


@given(st.integers() | st.integers(-(10**320), 10**320) | st.floats())
def test_what_fits_becomes_a_finite_float(value):
    if is_finite_number(value):
        assert math.isfinite(float(value))
    else:
        assert isinstance(value, int) or not math.isfinite(value)


def test_counts_with_their_nouns():
    assert [count_of(n, "round") for n in (0, 1, 2, 1200)] == [
        "0 rounds", "1 round", "2 rounds", "1,200 rounds",
    ]  # fmt: skip
