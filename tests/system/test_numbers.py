"""What is a number that a float holds."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.system.numbers import is_finite_number


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
