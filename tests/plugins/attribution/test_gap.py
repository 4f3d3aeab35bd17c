"""Groups of numbers: against every way to cut a sorted row, and cases that are plain to see."""

from itertools import combinations, pairwise
from math import log, sqrt

import numpy as np
import pytest
from fedaudit_plugins.attribution import gap
from hypothesis import given, settings
from hypothesis import strategies as st

TWO = [0.1, 0.12, 0.11, 0.1, 0.13, 0.12, 0.11, 0.6, 0.61, 0.63]


def cut(values, k):
    """Return the least sum of squares over all cuts of the sorted values into k pieces."""
    ordered, n = np.sort(values), len(values)
    return min(
        sum(
            ((part := ordered[i:j]) - part.mean()) @ (part - part.mean()) for i, j in pairwise(ends)
        )
        for inner in combinations(range(1, n), k - 1)
        for ends in [(0, *inner, n)]
    )


@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_the_squared_distances_are_the_least_there_are(k):
    for seed in range(4):
        values = np.random.default_rng(seed).uniform(size=9)
        assert gap._dispersion(values, k, 0) == pytest.approx(cut(values, k), rel=1e-9)


def slow(values, most, references, seed):
    """Return the number of groups by the definition, with the exact sums of squares."""
    scaled = (np.sort(values) - min(values)) / (max(values) - min(values))
    drawn = np.random.default_rng(seed).uniform(size=(references, len(scaled)))
    gaps, spreads = [], []
    for k in range(1, most + 1):
        uniform = [cut(row, k) for row in drawn]
        gaps.append(log(sum(uniform) / references) - log(max(cut(scaled, k), 1e-12)))
        spreads.append(sqrt(1 + 1 / references) * np.std(np.log(uniform)))
    passing = [k for k in range(1, most) if gaps[k - 1] >= gaps[k] - spreads[k]]
    return passing[0] if passing else most


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_groups_are_those_of_the_definition(seed):
    drawn = np.random.default_rng(seed).normal(size=9).tolist()
    for values in (drawn, TWO[1:], [0.0, 0.1, 0.2, 5.0, 5.1, 9.0, 9.1, 9.3, 9.2]):
        assert gap.groups(values, most=5, references=4, seed=seed) == slow(values, 5, 4, seed)


def test_cases_that_are_plain_to_see():
    assert gap.groups(TWO) == 2
    assert gap.groups([0.0] * 7 + [1.0] * 3) == 2
    assert gap.groups(list(np.linspace(0, 1, 10))) == 1
    assert gap.groups([5.0] * 10) == 1
    assert gap.groups([1 / 7 + i * 1e-17 for i in range(10)]) == 1
    assert gap.groups([0.0, 9.0]) == gap.groups([1.0]) == gap.groups([]) == 1
    assert gap.groups([0.0, 0.0, 9.0]) == 2


def test_the_upper_of_two_clusters():
    assert gap.upper_half(TWO) == [False] * 7 + [True] * 3
    assert gap.upper_half([9.0, 1.0, 2.0]) == [True, False, False]
    with pytest.raises(ValueError, match="no two clusters"):
        gap.upper_half([1.0, 1.0])


@settings(deadline=None, max_examples=4)
@given(st.permutations(TWO), st.floats(0.5, 4), st.floats(-1, 1))
def test_neither_order_nor_scale_nor_place_matters(values, scale, shift):
    moved = [scale * value + shift for value in values]
    assert gap.groups(moved, references=2) == gap.groups(TWO, references=2) == 2
    assert gap.upper_half(moved) == [value > 0.5 for value in values]
