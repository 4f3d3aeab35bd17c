"""What an innocent client's Z takes from others: moments and tails by hand."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedaudit.metrics.attribution import contamination, leak_distribution, mixture, subset_design
from fedaudit.metrics.attribution.contamination import (
    TEST_RESPONSES,
    RoundEvidence,
    leak_distributions,
)
from fedaudit.metrics.attribution.leak_distribution import LeakDistribution
from fedaudit.metrics.attribution.mixture import Mixture

EVEN = Mixture(weights=(1.0,) * 9, strength=0.8, others=5, pairs=5, limit=0.4)


def moments(distribution):
    mean = float(distribution.probabilities @ distribution.grid)
    return mean, float(distribution.probabilities @ distribution.grid**2) - mean**2


def others(scores, groups=None, signal_share=0.0, alone=()):
    """Return what others show; everybody who shows anything is marked, unless groups are given."""
    scores = np.array(scores, dtype=float)
    members = [scores > 0] if groups is None else groups
    errors = np.where(scores > 0, signal_share, 0.0)
    return RoundEvidence(
        scores,
        np.array(members, dtype=bool),
        np.array(alone).reshape(-1, len(scores)),
        errors,
        np.tile(contamination.NOTHING_HIDDEN, (len(members), 1)),
    )


def distributions(mixtures, rounds, spread):
    return leak_distributions(mixtures, [[others(row) for row in rounds]], [spread])[0]


def tail(z):
    return math.erfc(z / math.sqrt(2)) / 2


def test_the_law_in_proportion_has_the_moments_of_the_coefficients():
    # One other shows 6 in each of five rounds; c has mean 0 and variance 0.8 / 9. S is 1.5.
    rounds = [[6.0] + [0.0] * 8] * 5
    found = distributions([EVEN] * 5, rounds, 1.5)
    assert len(found) == len(TEST_RESPONSES)
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
    for distribution in found[3:]:
        assert moments(distribution) == (0, 0)


def test_an_answer_at_once_by_hand():
    # Coefficients are -1 and 1 with one half each: K = 1, m = 1 of two others.
    one = Mixture(weights=(1.0, 1.0), strength=2.0, others=1, pairs=1, limit=1.0)
    found = distributions([one], [[3.0, 0.0]], 1.0)
    kept = subset_design.sample_coefficients(3, 1, 1, draws=mixture.DRAWS)
    assert {tuple(row) for row in kept.tolist()} == {(0.0, 0.0), (1.0, -1.0), (-1.0, 1.0)}
    # Half of all designs hold nothing; a strength of 2 leaves those that hold something.
    proportion, above, _, half, _ = found
    assert dict(zip(proportion.grid, proportion.probabilities, strict=True))[3.0] == (
        pytest.approx(0.5, abs=0.05)
    )
    assert moments(above)[0] == moments(half)[0] == pytest.approx(1.5, abs=0.15)
    # P(N + 3 or 0 > 3) = (P(N > 0) + P(N > 3)) / 2
    assert half.tail_probability(3.0, 0) == pytest.approx((0.5 + tail(3)) / 2, rel=0.1)


def answered(distribution, held, shown, group):
    """What a test answers to what one estimate holds, in plain words."""
    amount = float(np.dot(held, shown))
    if distribution.start is None:
        return max(amount, distribution.minimum)
    share = sum(held[who] for who in range(len(held)) if group[who])
    return max(amount, *shown) if share >= distribution.start - 1e-9 else 0.0


def summed(values):
    """The law of a sum of independent values, each list equally likely, on the grid of eighths."""
    found = {0: 1.0}
    for one in values:
        new = {}
        for value in one:
            for step, p in found.items():
                at = step + round(value * leak_distribution.STEPS)
                new[at] = new.get(at, 0.0) + p / len(one)
        found = new
    return found


@settings(max_examples=8, deadline=None)
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
    held = one.draws().tolist()
    groups = [[True, False, False], [True, True, False]]
    marks = [[others(by_mark[mark], groups) for by_mark in shown] for mark in range(2)]
    found = leak_distributions([one] * len(shown), marks, [1 / scale, 2 / scale])
    for mark, by_law in enumerate(found):
        own = [by_mark[mark] for by_mark in shown]
        assert bool(by_law) == any(any(row) for row in own)
        ways = [
            (distribution, g)
            for distribution in TEST_RESPONSES
            for g in (groups if distribution.start is not None else groups[:1])
        ]
        for (distribution, group), got in zip(ways, by_law, strict=bool(by_law)):
            values = [
                [answered(distribution, h, row, group) / (1 + mark) for h in held] for row in own
            ]
            wanted = summed(values)
            steps = {got.first + k: p for k, p in enumerate(got.probabilities) if p}
            assert steps == pytest.approx({k: p for k, p in wanted.items() if p})


def test_what_a_marked_client_shows_is_off_by_chance():
    # Half of the estimates hold all of an update that shows 3: the law is 0, or 3 + N(0, 1).
    one = Mixture(weights=(1.0, 1.0), strength=2.0, others=1, pairs=1, limit=1.0)
    shown = others([3.0, 0.0], [[True, False]], signal_share=1.0)
    [_, _, distribution, *_] = leak_distributions([one], [[shown]], [1.0])[0]
    reached = float((one.draws()[:, 0] > 0).mean())
    # P(N + L > 5): N + L is N(3, 2) where an estimate answers.
    expected = reached * tail(2 / math.sqrt(2)) + (1 - reached) * tail(5)
    assert distribution.tail_probability(5.0, 0) == pytest.approx(expected, rel=0.01)
    half = others([3.0, 0.0], [[True, False]], signal_share=0.5)
    [_, _, distribution, *_] = leak_distributions([one], [[half]], [1.0])[0]
    expected = reached * tail(2 / math.sqrt(1.25)) + (1 - reached) * tail(5)
    assert distribution.tail_probability(5.0, 0) == pytest.approx(expected, rel=0.01)
    # Over four rounds the error of each is N(0, 1) / sqrt(4): all four answer, 6 + N(0, 1).
    always = Mixture(weights=(1.0, 1.0), strength=2.0, others=1, pairs=1, limit=1.0)
    both = others([3.0, 3.0], [[True, False], [False, True]], signal_share=1.0)
    first, second = leak_distributions([always] * 4, [[both] * 4], [1.0])[0][2:4]
    mean, variance = moments(first)
    assert mean == pytest.approx(reached * 6, rel=0.01)
    assert variance == pytest.approx(reached + 9 * reached * (1 - reached), rel=0.02)
    assert moments(second)[0] == pytest.approx((1 - reached) * 6, rel=0.01)


def test_what_shows_in_a_round_may_be_half_of_a_mark_by_hand():
    # Coefficients of three others are -1, 0 and 1, a third each.
    one = Mixture(weights=(1.0, 1.0, 1.0), strength=2.0, others=1, pairs=1)
    both = others([4.0, 4.0, 0.0], [[True, True, False], [True, False, False]])
    hidden = np.zeros((2, len(contamination.HIDDEN_SHARES)))
    hidden[0, 0], hidden[0, 5], hidden[1, 0] = 0.75, 0.25, 1.0
    pair, alone = leak_distributions([one], [[replace(both, hidden=hidden)]], [1.0])[0][2:4]
    # A mark of which 4 is seen is 4 with three quarters, and 8 with the quarter in which all of
    # its members hide half of it.
    reached = float((one.draws()[:, :2].sum(axis=1) >= 0.35).mean())
    steps = dict(zip(pair.grid.tolist(), pair.probabilities.tolist(), strict=True))
    assert steps[8.0] == pytest.approx(reached / 4)
    assert steps[4.0] == pytest.approx(reached * 3 / 4)
    assert alone.grid.max() == 4.0


def test_chances_of_hiding_by_hand():
    # Of four draws each, two hide a fifth or more, one two fifths.
    first = np.array([-0.4, -0.2, 0.2, 0.4])
    second = np.array([-0.6, 0.2, -0.2, 0.2])
    chances = contamination.hiding_probabilities([first, second], independent=True)
    # Both hide a fifth with 1/4; two fifths with 1/16, which is too rare to count.
    assert chances.tolist() == [0.75, 0.0, 0.25, 0.0, 0.0, 0.0]
    # Where they share their sets both hide when one does: two fifths, and no more, with 1/4.
    together = contamination.hiding_probabilities([first, second], independent=False)
    assert together.tolist() == [0.5, 0.0, 0.25, 0.0, 0.25, 0.0]
    assert contamination.hiding_probabilities([first], independent=True)[0] == 0.5
    assert contamination.NOTHING_HIDDEN.tolist() == [1.0, 0.0, 0.0, 0.0, 0.0, 0.0]


@given(
    st.lists(
        st.lists(st.floats(-1, 1), min_size=8, max_size=8).map(np.array), min_size=1, max_size=4
    ),
    st.booleans(),
)
def test_chances_of_hiding_are_probabilities_and_rarer_in_larger_groups(held, independent):
    chances = contamination.hiding_probabilities(held, independent=independent)
    assert np.all(chances >= 0)
    assert chances.sum() == pytest.approx(1)
    counted = chances[1:].sum()
    assert counted == 0 or counted >= contamination.LEAST_HIDING_CHANCE - 1e-12
    more = contamination.hiding_probabilities([*held, held[0]], independent=independent)
    assert more[1:].sum() <= counted + 1e-12
    back = contamination.hiding_probabilities(held[::-1], independent=independent)
    assert back == pytest.approx(chances)


def test_nobody_shows_anything():
    assert distributions([EVEN], [[0.0] * 9], 1.0) == ()


def test_chance_alone_is_a_law_at_nothing():
    from scipy.stats import t

    nothing = LeakDistribution(0, np.ones(1))
    assert nothing.tail_probability(2.0, 0) == pytest.approx(tail(2))
    assert nothing.tail_probability(2.0, 7) == pytest.approx(float(t.sf(2, 7)))
    assert nothing.tail_probability(99.0, 0) > 0
    assert nothing.tail_probability(-99.0, 0) == 1


@given(
    st.lists(st.lists(st.floats(0, 30), min_size=9, max_size=9), min_size=1, max_size=4),
    st.floats(1, 3),
    st.randoms(),
)
def test_the_law_is_one_whatever_the_order_of_rounds(shown, spread, random):
    found = distributions([EVEN] * len(shown), shown, spread)
    mixed = distributions([EVEN] * len(shown), random.sample(shown, len(shown)), spread)
    for one, other in zip(found, mixed, strict=True):
        assert one.probabilities.sum() == pytest.approx(1)
        assert one.tail_probability(4.0, 256) == pytest.approx(
            other.tail_probability(4.0, 256), rel=1e-6
        )
        assert one.tail_probability(5.0, 256) <= one.tail_probability(4.0, 256) * (1 + 1e-9)


def test_what_others_show_may_come_from_one_of_them_alone():
    # Coefficients are -1 and 1. The second shows 4 because its estimate holds the first's mark of
    # 10: taken for marks of their own, what they show would cancel out in part, 10 - 4 = 6.
    one = Mixture(weights=(1.0, 1.0), strength=2.0, others=1, pairs=1, limit=1.0)
    alone = [[1.0, 0.0], [0.0, 1.0]]
    rounds = [others([10.0, 4.0], [[True, False]], alone=alone)]
    [found] = leak_distributions([one], [rounds], [1.0], TEST_RESPONSES[:2])
    highest = [distribution.grid[distribution.probabilities > 0].max() for distribution in found]
    assert highest == [6.0, 10.0, 4.0] * 2  # in proportion, and never below nothing


def test_an_update_that_is_held_many_times_is_off_by_as_many_errors():
    # The only other's update weighs five times the own one: 5 x (10 + chance), or the same less.
    one = Mixture(weights=(5.0, 5.0), strength=50.0, others=1, pairs=1)
    sure = leak_distributions([one], [[others([10.0, 0.0])]], [1.0])[0][0]
    off = leak_distributions([one], [[others([10.0, 0.0], signal_share=1.0)]], [1.0])[0][0]
    assert moments(sure)[0] == pytest.approx(moments(off)[0], abs=1e-6)
    assert moments(off)[1] - moments(sure)[1] == pytest.approx(5**2, rel=0.02)
    assert sum(off.probabilities) == pytest.approx(1)


@pytest.mark.parametrize("strength", [1e6, 1e150, 1e300])
def test_masks_that_are_strong_beyond_measure_explain_any_score(strength):
    # Whatever another shows by chance, next to nothing here, is held so often that it may be any Z.
    one = Mixture(weights=(1.0, 1.0), strength=strength)
    rounds = [others([0.5, 0.0], signal_share=1.0)] * 3
    [found] = leak_distributions([one] * 3, [rounds], [1.0], TEST_RESPONSES[:1])
    assert found[0].tail_probability(100.0, 0) > 0.3
    assert sum(found[0].probabilities) == pytest.approx(1)


def test_long_sums_are_those_of_short_ones(monkeypatch):
    one = Mixture(weights=(5.0, 5.0), strength=50.0, others=1, pairs=1)
    rounds = [others([10.0, 3.0], signal_share=1.0)] * 3
    [direct] = leak_distributions([one] * 3, [rounds], [1.0])
    monkeypatch.setattr(leak_distribution, "DIRECT", 0)
    [by_transform] = leak_distributions([one] * 3, [rounds], [1.0])
    for a, b in zip(direct, by_transform, strict=True):
        np.testing.assert_allclose(b.probabilities, a.probabilities, rtol=0, atol=1e-15)
