"""Directions in a change, by hand, and what must not matter."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.metrics.privacy.matched_filter import RIDGE, direction_weights


def weights(directions, change):
    return direction_weights(
        directions @ directions.T, directions @ change, float(np.linalg.norm(change))
    )


def test_by_hand():
    # Two directions at 60 degrees, and a change along the first: K = [[1, 1/2], [1/2, 1]],
    # c = [1, 1/2]; with r on the diagonal w = (K + r I)^-1 c.
    directions = np.array([[1.0, 0.0], [0.5, 3**0.5 / 2]])
    r = RIDGE
    determinant = (1 + r) ** 2 - 0.25
    expected = [((1 + r) - 0.25) / determinant, (0.5 * (1 + r) - 0.5) / determinant]
    assert weights(directions, np.array([2.0, 0.0])) == pytest.approx(expected)
    # The second is in it by half, and yet next to nothing of it is its own.
    assert expected[1] < expected[0] / 3


@given(st.integers(0, 2**32 - 1), st.floats(1e-3, 1e3))
def test_neither_order_nor_the_length_of_a_change_matters(seed, factor):
    rng = np.random.default_rng(seed)
    directions = rng.normal(size=(5, 8))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    change, order = rng.normal(size=8), rng.permutation(5)
    found = weights(directions, change)
    assert weights(directions[order], factor * change) == pytest.approx(found[order], abs=1e-9)
    assert np.abs(found).max() <= 1 / RIDGE


def test_no_change_has_no_answer():
    with pytest.raises(ValueError, match="no length"):
        direction_weights(np.eye(2), np.zeros(2), 0.0)
