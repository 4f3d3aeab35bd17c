"""What draws stand for: right on average, within bounds that hold, whatever else is looked for."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.api.engine import PrefixProbabilities
from fedaudit.extraction.exact.expected_coverage import DrawProbabilities, WalkedStrings, log_missed
from fedaudit.extraction.exact.walk import DRAWS, WalkedPrefixes
from fedaudit.extraction.query_plan import Query

SAMPLES = 3
STRINGS = ("Ann", "Bob", "Cy")
# Of three prefixes, asked once, twice and once: what is followed, and what is missed.
FOLLOWED = np.array([[0.0, 0.2, 0.05], [0.0, 0.01, 0.0], [0.3, 0.0, 0.0]])
MISSED = np.array([[0.01, 0.02, 0.0], [0.004, 0.0, 0.03], [0.05, 0.01, 0.0]])
COPIES = (1, 2, 1)


def walk(drawn, followed=FOLLOWED, copies=COPIES, strings=STRINGS, most=0.2):
    """Return the walk of prefixes whose draws complete strings so often, (prefixes, strings)."""
    sums = WalkedPrefixes(tuple(strings), DRAWS * SAMPLES)
    for start, (row, found, count) in enumerate(zip(followed, drawn, copies, strict=True)):
        chances = PrefixProbabilities(
            least=row, most=(row + most).clip(row, 1), drawn=found, rows=1
        )
        sums.add(start, Query((start,), count), chances)
    return sums


def simulated(rng):
    means = DRAWS * SAMPLES * np.array(COPIES)[:, None] * MISSED
    return walk(rng.poisson(means))


def truth(n):
    """Return the probabilities by hand: prod over prefixes of (1 - p)^(copies n)."""
    return [
        1 - math.prod((1 - f - m) ** (c * n) for f, m, c in zip(fs, ms, COPIES, strict=True))
        for fs, ms in zip(FOLLOWED.T.tolist(), MISSED.T.tolist(), strict=True)
    ]


@pytest.mark.parametrize("n", [1, 2, SAMPLES])
def test_the_value_is_right_on_average(n):
    rng, runs = np.random.default_rng(n), []
    for _ in range(1000):
        one = simulated(rng)
        runs.append(DrawProbabilities(one, WalkedStrings(STRINGS, one), n).value)
    found = np.array(runs)
    error = found.std(axis=0, ddof=1) / len(found) ** 0.5
    # Besides chance, powers of what is missed that are neglected: under (n m / (1 - f))^2 / 2.
    assert all(abs(found.mean(axis=0) - truth(n)) <= 4 * error + 2e-3)
    # What was followed is too little, by far more than that.
    followed = DrawProbabilities(one, WalkedStrings(STRINGS, one), n).least
    assert all(np.array(truth(n)) - followed > 0.01)


def test_the_bounds_hold_what_is_expected():
    rng, wanted = np.random.default_rng(7), np.array(truth(SAMPLES))
    each, total = np.zeros(3), 0
    for _ in range(300):
        one = simulated(rng)
        chance = DrawProbabilities(one, WalkedStrings(STRINGS, one), SAMPLES)
        low, high = chance.bounds()
        each += (low <= wanted + 1e-3) & (wanted <= high + 1e-3)
        least, _, most = chance.total()
        total += least <= wanted.sum() + 1e-3 and wanted.sum() <= most + 1e-3
    assert min(*each, total) >= 285 - 3 * (0.05 * 0.95 * 300) ** 0.5


def test_one_draw_by_hand():
    # Nothing followed; of 24 draws one completes Ann: 3 samples miss her by 1 - 3/24.
    one = walk(np.array([[1, 0, 0]]), np.zeros((1, 3)), (1,))
    assert np.exp(log_missed(one, SAMPLES) * SAMPLES) == pytest.approx([7 / 8, 1, 1])
    assert np.exp(log_missed(one, 1)) == pytest.approx([23 / 24, 1, 1])
    # Of more samples the rate stays: what is found grows, and is never certain.
    assert np.exp(log_missed(one, 30) * 30) == pytest.approx([(7 / 8) ** 10, 1, 1])
    # Half followed: a draw tells of the half that is missed, and weighs 2.
    half = walk(np.array([[1, 0, 0]]), np.full((1, 3), 0.5), (1,))
    assert DrawProbabilities(half, WalkedStrings(STRINGS, half), 1).value == pytest.approx(
        [1 - 0.5 * 11 / 12, 0.5, 0.5]
    )


TABLE = st.lists(
    st.tuples(*[st.tuples(st.floats(0, 0.8), st.integers(0, 3))] * 3), min_size=1, max_size=6
)


@given(TABLE, st.integers(1, 100), st.permutations(range(3)), st.randoms(use_true_random=False))
def test_order_does_not_matter_and_values_lie_within_their_bounds(table, n, order, shuffle):
    rows = np.array([[one[0] for one in row] for row in table])
    drawn = np.array([[one[1] for one in row] for row in table])
    copies = [1 + index % 3 for index in range(len(table))]
    one = walk(drawn, rows, copies)
    chance = DrawProbabilities(one, WalkedStrings(STRINGS, one), n)
    low, value, high = chance.total()
    assert -1e-9 <= low <= value <= high <= 3 + 1e-9
    lows, highs = chance.bounds()
    assert all(lows <= chance.value + 1e-12)
    assert all(chance.value <= highs + 1e-12)
    assert all(chance.least <= chance.value + 1e-12)
    places = list(range(len(table)))
    shuffle.shuffle(places)
    names = [STRINGS[index] for index in order]
    other = walk(
        drawn[places][:, order], rows[places][:, order], [copies[p] for p in places], names
    )
    turned = DrawProbabilities(other, WalkedStrings(STRINGS, other), n)
    assert turned.value == pytest.approx(chance.value)
    assert turned.total() == pytest.approx((low, value, high))
