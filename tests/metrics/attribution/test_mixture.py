"""What is known of the shares in an estimate: draws of designs, by their limits and moments."""

from itertools import product

import numpy as np
import pytest

from fedaudit.metrics.attribution import mixture, subset_design
from fedaudit.metrics.attribution.mixture import Mixture

EVEN = Mixture(weights=(1.0,) * 9, strength=0.8, others=5, pairs=5, limit=0.4)


def test_draws_are_designs_within_the_limit_and_about_as_strong():
    held = EVEN.draws()
    assert held.shape == (mixture.NEAREST, 9)
    assert np.abs(held).max() <= 0.4 + 1e-9
    np.testing.assert_allclose(held.sum(axis=1), 0, atol=1e-9)
    assert np.square(held).sum(axis=1).mean() == pytest.approx(0.8, rel=0.03)
    assert np.allclose(held * 5, np.rint(held * 5))  # multiples of 1/5


def test_heavier_updates_count_for_more():
    weights = (4.0, *(1.0,) * 8)
    # Of all designs c has a variance of 8/81; these are the ones of a middling strength.
    heavy = Mixture(weights=weights, strength=24 * 8 / 81, others=5, pairs=5).draws()
    spread = heavy.std(axis=0)
    assert 2.5 < spread[0] / spread[1:].mean() < 5
    unknown = Mixture(weights=weights, strength=3.0).draws()
    assert unknown.std(axis=0)[0] ** 2 == pytest.approx(3 * 16 / 24, rel=0.1)
    assert np.square(unknown).sum(axis=1).mean() == pytest.approx(3, rel=0.05)


def test_the_limit_may_have_been_on_the_coefficients_alone():
    # Sums by size that were stored: a light client's estimate holds up to 0.4 x 3 of each other.
    light = Mixture(weights=(3.0,) * 9, strength=0.8 * 9, others=5, pairs=5, limit=0.4).draws()
    assert np.abs(light).max() == pytest.approx(1.2)
    np.testing.assert_allclose(
        np.square(light).sum(axis=1), 9 * np.square(EVEN.draws()).sum(axis=1)
    )
    # Of a heavy one's, all hold less than the limit: designs above it in c are there as well.
    heavy = Mixture(weights=(0.25,) * 9, strength=2 / 16, others=5, pairs=5, limit=0.4).draws()
    assert 0.2 <= np.abs(heavy).max() <= 0.25


def test_designs_that_cannot_be_or_are_huge_are_taken_for_normal():
    plain = Mixture(weights=(1.0,) * 9, strength=0.8).draws()
    for odd in (
        {"others": 9, "pairs": 5},
        {"others": 5, "pairs": 10**9},
        {"others": 5, "pairs": -1},
    ):
        np.testing.assert_array_equal(
            Mixture(weights=(1.0,) * 9, strength=0.8, **odd).draws(), plain
        )


def slow_draws(own: Mixture) -> np.ndarray:
    """Of all designs, within the limit and sorted by strength, the NEAREST about the own one."""
    count = len(own.weights)
    sample = subset_design.sample_coefficients(
        count + 1, own.others, own.pairs, draws=mixture.DRAWS
    )
    shares = sample * own.weights
    kept = [
        max(abs(c)) <= own.limit + 1e-9 or max(abs(s)) <= own.limit + 1e-9
        for c, s in zip(sample, shares, strict=True)
    ]
    if own.limit and sum(kept) >= mixture.NEAREST:
        shares = shares[kept]
    strengths = [round(sum(s * s for s in row), 6) for row in shares.tolist()]
    order = sorted(range(len(shares)), key=lambda at: strengths[at])
    tie = 1e-6 * max(1, own.strength)
    below, upto = (sum(s < own.strength + at for s in strengths) for at in (-tie, tie))
    start = (below + upto) // 2 - mixture.NEAREST // 2
    start = max(0, min(start, len(shares) - mixture.NEAREST))
    return shares[order[start : start + mixture.NEAREST]]


UNEVEN = (0.3, 2.5, 1.0, 0.7, 4.0, 1.0)
QUICK = {(EVEN.weights, 0.0, 0.8), (EVEN.weights, 0.4, 100.0), (UNEVEN, 0.05, 0.8),
         (UNEVEN, 0.4, 0.8), (UNEVEN, 0.4, 100.0)}  # fmt: skip


@pytest.mark.parametrize(
    ("weights", "limit", "strength"),
    [
        pytest.param(*one, marks=[] if one in QUICK else [pytest.mark.oracle])
        for one in product([EVEN.weights, UNEVEN], [0.0, 0.05, 0.4], [0.01, 0.8, 2.4, 100.0])
    ],
)
def test_the_designs_are_those_of_a_slow_search(weights, limit, strength):
    own = Mixture(weights=weights, strength=strength, others=3, pairs=5, limit=limit)
    np.testing.assert_allclose(own.draws(), slow_draws(own), atol=1e-12)
