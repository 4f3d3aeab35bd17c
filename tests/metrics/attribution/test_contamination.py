"""What an innocent client's Z takes from others: moments and tails by hand."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedaudit.metrics.attribution import contamination, subset_design
from fedaudit.metrics.attribution.contamination import (
    LAWS,
    Law,
    Mixture,
    contamination_laws,
    laws_of,
    shown_share,
)

EVEN = Mixture(weights=(1.0,) * 9, strength=0.8, others=5, pairs=5, limit=0.4)


def moments(law):
    mean = float(law.probabilities @ law.values)
    return mean, float(law.probabilities @ law.values**2) - mean**2


def tail(z):
    return math.erfc(z / math.sqrt(2)) / 2


def test_what_a_z_shows_beyond_chance():
    assert shown_share(5.0, 3.0) == pytest.approx(0.8)
    assert shown_share(3.0, 3.0) == shown_share(0.0, 1.0) == shown_share(-9.0, 1.0) == 0


def test_draws_are_designs_within_the_limit_and_about_as_strong():
    held = EVEN.draws()
    assert held.shape == (contamination.NEAREST, 9)
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


def test_the_law_in_proportion_has_the_moments_of_the_coefficients():
    # One other shows 6 in each of five rounds; c has mean 0 and variance 0.8 / 9. S is 1.5.
    rounds = [[6.0] + [0.0] * 8] * 5
    found = contamination_laws([EVEN] * 5, rounds, 1.5)
    assert len(found) == len(LAWS)
    mean, variance = moments(found[0])
    assert mean == pytest.approx(0, abs=0.05)
    assert variance == pytest.approx((6 / 1.5) ** 2 * 0.8 / 9, rel=0.1)
    # Where nothing counts against it, half of that has a mean above 0.
    above, _ = moments(found[1])
    held = EVEN.draws()[:, 0]
    assert above == pytest.approx(5**0.5 * 6 / 1.5 * np.maximum(held, 0).mean(), rel=0.05)
    # From 0.35 on an estimate answers like the one that shows 6: designs that hold 2/5 do.
    assert moments(found[2])[0] == pytest.approx(5**0.5 * 6 / 1.5 * (held > 0.35).mean(), rel=0.05)
    # No design within the limit holds half of one client's update.
    for law in found[3:]:
        assert moments(law) == (0, 0)


def test_an_answer_at_once_by_hand():
    # Coefficients are -1 and 1 with one half each: K = 1, m = 1 of two others.
    one = Mixture(weights=(1.0, 1.0), strength=2.0, others=1, pairs=1, limit=1.0)
    found = contamination_laws([one], [[3.0, 0.0]], 1.0)
    kept = subset_design.sample_coefficients(3, 1, 1, draws=contamination.DRAWS)
    assert {tuple(row) for row in kept.tolist()} == {(0.0, 0.0), (1.0, -1.0), (-1.0, 1.0)}
    # Half of all designs hold nothing; a strength of 2 leaves those that hold something.
    proportion, above, _, half, _ = found
    assert dict(zip(proportion.values, proportion.probabilities, strict=True))[3.0] == (
        pytest.approx(0.5, abs=0.05)
    )
    assert moments(above)[0] == moments(half)[0] == pytest.approx(1.5, abs=0.15)
    # P(N + 3 or 0 > 3) = (P(N > 0) + P(N > 3)) / 2
    assert half.tail(3.0, 0) == pytest.approx((0.5 + tail(3)) / 2, rel=0.1)


def answered(law, held, most):
    """What a test answers to what one estimate holds, in plain words."""
    if law.start == -math.inf:
        return held
    return max(held, law.minimum * most) if held >= law.start * most else 0.0


def summed(values):
    """The law of a sum of independent values, each list equally likely, on the grid of eighths."""
    found = {0: 1.0}
    for one in values:
        new = {}
        for value in one:
            for step, p in found.items():
                at = step + round(value * contamination.STEPS)
                new[at] = new.get(at, 0.0) + p / len(one)
        found = new
    return found


@settings(max_examples=15, deadline=None)
@given(
    st.lists(
        st.lists(st.lists(st.integers(0, 60), min_size=3, max_size=3), min_size=2, max_size=2),
        min_size=1,
        max_size=3,
    )
)
def test_laws_against_sums_one_by_one(shown):
    # Three others, two marks; K = 1: coefficients are -1, 0 and 1, and scores whole numbers.
    one = Mixture(weights=(1.0,) * 3, strength=2.0, others=1, pairs=1, limit=1.0)
    scale = len(shown) ** 0.5
    held = one.draws()
    found = laws_of([one] * len(shown), shown, [1 / scale, 2 / scale])
    for mark, by_law in enumerate(found):
        own = [np.array(by_mark[mark], dtype=float) for by_mark in shown]
        assert bool(by_law) == any(row.any() for row in own)
        for law, got in zip(LAWS, by_law, strict=False):
            values = [[answered(law, h, row.max()) / (1 + mark) for h in held @ row] for row in own]
            wanted = summed(values)
            steps = {got.first + k: p for k, p in enumerate(got.probabilities) if p}
            assert steps == pytest.approx({k: p for k, p in wanted.items() if p})


def test_nobody_shows_anything():
    assert contamination_laws([EVEN], [[0.0] * 9], 1.0) == ()


def test_chance_alone_is_a_law_at_nothing():
    from scipy.stats import t

    nothing = Law(0, np.ones(1))
    assert nothing.tail(2.0, 0) == pytest.approx(tail(2))
    assert nothing.tail(2.0, 7) == pytest.approx(float(t.sf(2, 7)))
    assert nothing.tail(99.0, 0) > 0
    assert nothing.tail(-99.0, 0) == 1


@settings(max_examples=20)
@given(
    st.lists(st.lists(st.floats(0, 30), min_size=9, max_size=9), min_size=1, max_size=4),
    st.floats(1, 3),
    st.randoms(),
)
def test_the_law_is_one_whatever_the_order_of_rounds(shown, spread, random):
    found = contamination_laws([EVEN] * len(shown), shown, spread)
    mixed = contamination_laws([EVEN] * len(shown), random.sample(shown, len(shown)), spread)
    for one, other in zip(found, mixed, strict=True):
        assert one.probabilities.sum() == pytest.approx(1)
        assert one.tail(4.0, 256) == pytest.approx(other.tail(4.0, 256), rel=1e-6)
        assert one.tail(5.0, 256) <= one.tail(4.0, 256) * (1 + 1e-9)
