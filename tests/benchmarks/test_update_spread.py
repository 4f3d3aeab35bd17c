"""How much of clients' updates is their own, by hand."""

import runpy
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

made = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks/update_spread.py"))
own_share = made["own_share"]


def test_by_hand():
    assert own_share(np.ones((3, 2))) == 0
    # The mean is (1, 1): each is off by (1, 1) or (-1, -1), 4 of 8 in all.
    assert own_share(np.array([[2.0, 2.0], [0.0, 0.0]])) == pytest.approx(4 / 8)
    assert own_share(np.eye(4)) == pytest.approx(1 - 1 / 4)  # nothing in common


@given(st.integers(2, 6), st.integers(0, 99), st.floats(0.1, 10))
def test_bounds_scale_and_order(count, seed, scale):
    updates = np.random.default_rng(seed).standard_normal((count, 5)) + 1
    found = own_share(updates)
    assert 0 <= found <= 1
    assert own_share(scale * updates[::-1]) == pytest.approx(found)
