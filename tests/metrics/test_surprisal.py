"""Weighted sums of hits: the law against all outcomes one by one."""

from itertools import product
from math import log, prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.metrics.surprisal import MIN_CHANCE, UNIT, p_value, surprisal

CHANCES = st.lists(st.floats(0, 1), min_size=1, max_size=7)


def by_enumeration(values, chances):
    """Return the tail over every outcome."""
    chances = [max(one, MIN_CHANCE) for one in chances]
    weights = [round(-log(one) / UNIT) for one in chances]
    reached = int(sum(w * v for w, v in zip(weights, values, strict=True)) + 1e-9)
    total = 0.0
    for outcome in product((0, 1), repeat=len(chances)):
        if sum(w for w, hit in zip(weights, outcome, strict=True) if hit) >= reached:
            likely = zip(chances, outcome, strict=True)
            total += prod(q if hit else 1 - q for q, hit in likely)
    return total


def test_surprisals_by_hand():
    # ln 2 = 0.69 and ln 10 = 2.30; nothing is more surprising than one in a thousand (6.91).
    assert surprisal([1, 0.5, 0.1, 0.001, 1e-9, 0]).tolist() == [0, 3, 9, 28, 28, 28]


def test_equal_chances_are_a_binomial_law():
    tail = sum(n * 0.1**k * 0.9 ** (4 - k) for k, n in ((2, 6), (3, 4), (4, 1)))
    assert p_value([1, 0, 1, 0], [0.1] * 4) == pytest.approx(tail)


def test_one_rare_hit_among_common_ones():
    # Weights 28, 3 and 3: the two common ones do not make up for the rare one.
    assert p_value([1, 0, 0], [0.001, 0.5, 0.5]) == pytest.approx(0.001)
    assert p_value([0, 1, 1], [0.001, 0.5, 0.5]) == pytest.approx(0.001 + 0.999 * 0.25)


def test_small_tails_are_not_lost():
    assert p_value([1.0] * 8, [0.001] * 8) == pytest.approx(1e-24)


def test_nothing_found_and_what_is_certain_tell_nothing():
    assert p_value([], []) == 1
    assert p_value([0, 0], [0.1, 0.2]) == 1
    assert p_value([1, 1], [1, 1]) == 1


def test_what_is_no_probability_is_refused():
    with pytest.raises(ValueError, match="0 chances for 1 values"):
        p_value([1], [])
    for values, chances in (([2], [0.5]), ([1], [1.5]), ([float("nan")], [0.5])):
        with pytest.raises(ValueError, match="between 0 and 1"):
            p_value(values, chances)


@given(CHANCES, st.randoms())
def test_against_all_outcomes(chances, random):
    values = [random.choice((0.0, 1.0, random.random())) for _ in chances]
    p = p_value(values, chances)
    assert p == pytest.approx(by_enumeration(values, chances), rel=1e-9)
    assert 0 < p <= 1
    order = random.sample(range(len(chances)), len(chances))
    assert p_value([values[i] for i in order], [chances[i] for i in order]) == pytest.approx(p)
    more = [max(value, 1.0) if i == 0 else value for i, value in enumerate(values)]
    assert p_value(more, chances) <= p + 1e-12
