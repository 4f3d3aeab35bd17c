import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.metrics.counterfactual import difference, drawn_chance
from fedaudit.metrics.intervals import Estimate, wilson


def test_the_published_example():
    # Newcombe 1998, table II, (a): 56/70 - 48/80, method 10: 0.0524 to 0.3339.
    found = difference(wilson(56, 70), wilson(48, 80))
    assert found.value == pytest.approx(0.2)
    assert (round(found.low, 4), round(found.high, 4)) == (0.0524, 0.3339)


def test_a_difference_by_hand():
    found = difference(Estimate(0.9, 0.6, 1.0), Estimate(0.1, 0.0, 0.5))
    assert found.value == pytest.approx(0.8)
    assert found.low == pytest.approx(0.8 - math.hypot(0.3, 0.4))
    assert found.high == pytest.approx(0.8 + math.hypot(0.1, 0.1))


SHARES = st.integers(1, 40).flatmap(lambda n: st.integers(0, n).map(lambda k: wilson(k, n)))


@given(SHARES, SHARES)
def test_it_turns_its_sign_with_its_order(first, second):
    one, other = difference(first, second), difference(second, first)
    assert one.value == pytest.approx(-other.value)
    assert one.low == pytest.approx(-other.high)
    assert one.low <= one.value <= one.high


def test_the_chance_behind_a_count():
    # Nothing drawn: a Poisson mean of up to -ln 0.025 = 3.689 would have been missed so.
    nothing = drawn_chance(0)
    assert (nothing.value, nothing.low) == (0.0, 0.0)
    assert nothing.high == pytest.approx(1 - 0.025)
    # Three drawn: Garwood's lower bound is 0.6187.
    assert drawn_chance(3).low == pytest.approx(1 - math.exp(-0.61867), abs=1e-5)
    assert (drawn_chance(3).value, drawn_chance(3).high) == (1.0, 1.0)
    assert drawn_chance(50).low > 0.999
    with pytest.raises(ValueError, match="no count"):
        drawn_chance(-1)
