"""Contributions by hand, and as what they are: the numbers that the scores were made of."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import t as student_t

from fedaudit.metrics.attribution import subset_design
from fedaudit.metrics.attribution.contributions import contributions

# Each estimate holds one other update once and misses another: rows sum to 1.
TURNS = np.array([[1.0, 1.0, -1.0], [-1.0, 1.0, 1.0], [1.0, -1.0, 1.0]])
NONE = np.zeros((3, 0))


def test_contributions_by_hand():
    # s1 + s3 = 2 theta1, s1 + s2 = 2 theta2, s2 + s3 = 2 theta3; each has a variance of 1/2.
    found = contributions([TURNS], [np.array([5.0, 1.0, 3.0])], [NONE])
    assert [one.value for one in found] == pytest.approx([4, 3, 2])
    # The normal distribution has 2.5 % / 3 above 2.393980.
    reach = 2.393980 * math.sqrt(0.5)
    assert [one.low for one in found] == pytest.approx([4 - reach, 3 - reach, 2 - reach])
    assert [one.high for one in found] == pytest.approx([4 + reach, 3 + reach, 2 + reach])


def test_rounds_count_as_in_z_and_null_marks_say_how_far_chance_goes():
    # Four equal rounds: theta is the same, and twice as much in Z. Of two null marks the first has
    # 2 in every estimate, so theta 2 and Z 4 for each client; the second has nothing: rms sqrt 8.
    null = np.array([[2.0, 0.0]] * 3)
    found = contributions([TURNS] * 4, [np.array([5.0, 1.0, 3.0])] * 4, [null] * 4)
    assert [one.value for one in found] == pytest.approx([8, 6, 4])
    assert {one.rounds for one in found} == {4}
    # t with two degrees of freedom has 2.5 % / 3 above 7.648840.
    assert found[0].high == pytest.approx(8 + 7.648840 * math.sqrt(8), rel=1e-5)


def test_null_marks_that_nobody_answers_leave_standard_normal_scores():
    silent = np.zeros((3, 24))
    [one, *_] = contributions([np.eye(3)], [np.array([5.0, 1.0, 3.0])], [silent])
    # Each estimate is its client's own: one standard deviation, and t with 24 degrees of freedom,
    # which has 2.5 % / 3 above 2.573641.
    assert (one.value, one.high) == pytest.approx((5.0, 5 + 2.573641))
    more = contributions([np.eye(3)], [np.array([5.0, 1.0, 3.0])], [silent], marks=4)
    assert more[0].high == pytest.approx(5 + float(student_t.isf(0.025 / 12, 24)))


def test_who_took_part_in_fewer_rounds_and_who_cannot_be_told():
    once = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    found = contributions(
        [TURNS, once], [np.array([5.0, 1.0, 3.0]), np.array([4.0, 3.0])], [NONE, NONE[:2]]
    )
    assert [one.rounds for one in found] == [2, 2, 1]
    assert [one.value for one in found] == pytest.approx([4 * 2**0.5, 3 * 2**0.5, 2])
    # Only the sum of the last two follows.
    [first, *rest] = contributions(
        [np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 1.0]])], [np.array([2.0, 5.0])], [NONE[:2]]
    )
    assert first.value == pytest.approx(2)
    assert {(one.value, one.low, one.high, one.rounds) for one in rest} == {(None, None, None, 1)}


def test_unlike_numbers_are_refused():
    with pytest.raises(ValueError, match="Every estimate has a score"):
        contributions([TURNS], [np.array([1.0, 2.0])], [NONE])


def drawn(seed, rounds=3, clients=6):
    """Return what the estimates of some rounds hold, of designs that are drawn."""
    found = []
    for at in range(rounds):
        c = subset_design.sample_coefficients(clients, 3, 5, draws=clients, seed=seed + at)
        own = np.eye(clients)
        own[~np.eye(clients, dtype=bool)] = c.ravel()
        found.append(own)
    return found


@given(
    st.lists(st.floats(-20, 20), min_size=6, max_size=6),
    st.integers(0, 2**32 - 10),
    st.permutations(range(6)),
)
def test_without_chance_they_are_what_the_scores_were_made_of(theta, seed, order):
    held = drawn(seed)
    scores = [one @ np.array(theta) for one in held]
    null = [np.zeros((6, 2))] * 3
    found = contributions(held, scores, null)
    assert [one.value for one in found] == pytest.approx(np.array(theta) * 3**0.5, abs=1e-6)
    other = contributions([one[:, order] for one in held], scores, null)
    assert [one.value for one in other] == pytest.approx([found[at].value for at in order])


def test_all_intervals_together_hold_the_truth_as_often_as_they_say():
    rng = np.random.default_rng(4)
    held, theta = drawn(5), np.array([4.0, 0, 0, 0, -1, 2])
    inside = 0
    for _ in range(400):
        # Chance is in the updates: what one has, all estimates share, and null marks as well.
        noise = [1.3 * one @ rng.standard_normal((6, 65)) for one in held]
        scores = [one @ theta + n[:, 0] for one, n in zip(held, noise, strict=True)]
        found = contributions(held, scores, [n[:, 1:] for n in noise])
        inside += all(
            one.low <= t * 3**0.5 <= one.high for one, t in zip(found, theta, strict=True)
        )
    # Clients share their chance, so Bonferroni's bound is nearly reached, and not quite.
    assert inside / 400 == pytest.approx(0.955, abs=0.02)
