from statistics import fmean

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedaudit.metrics.privacy.round_changes import round_scores

ROUNDS, TEXTS = 4, 9
CHANGES = arrays(np.float64, (TEXTS, ROUNDS), elements=st.floats(-1, 1, width=16))
PARTS = st.lists(st.booleans(), min_size=ROUNDS, max_size=ROUNDS).filter(any)


def test_correlated_rounds_by_hand():
    # Two rounds of standardised changes z1, z2 of four texts, with a correlation of
    # (a + b + a + b) / 4 = 1/2, which is shrunk to 1/4. Training in the first: the weights are in
    # the ratio of 1 to -1/4, and z1 - z2 / 4 has the variance 1 + 1/16 - 2 / 4 * 1/2 = 13/16.
    a, b = (1 + 3**0.5) / 2, (1 - 3**0.5) / 2
    first, second = np.array([1.0, 1, -1, -1]), np.array([a, b, -a, -b])
    gains = np.array([3 * first + 2, 3 * first + 2 + 0.1 * second - 7]).T
    wanted = np.array([1 - a / 4, 1 - b / 4, a / 4 - 1, b / 4 - 1]) / (13 / 16) ** 0.5
    assert round_scores(gains, [True, False]) == pytest.approx(wanted)


def test_one_round_is_the_gain_in_it():
    gains = [[1.0], [2.0], [3.0], [4.0]]
    assert round_scores(gains, [True]) == pytest.approx([(g - 2.5) / 1.25**0.5 for [g] in gains])


@given(CHANGES, PARTS, st.permutations(range(TEXTS)), st.floats(0.1, 9), st.floats(-5, 5))
def test_scores_go_with_texts_whatever_a_round_gives_to_all(changes, parts, order, scale, shift):
    changes = changes + np.linspace(0, 1, TEXTS)[:, None] ** np.arange(1, ROUNDS + 1)
    found = round_scores(changes.cumsum(axis=1), parts)
    moved = changes.copy()
    moved[:, 1] = scale * moved[:, 1] + shift
    again = round_scores(moved[order].cumsum(axis=1), parts)
    assert again == pytest.approx([found[n] for n in order], abs=1e-6)
    assert fmean(found) == pytest.approx(0, abs=1e-8)


def test_where_nothing_changed_and_what_cannot_be():
    assert round_scores(np.zeros((3, 2)), [True, False]) == [0, 0, 0]
    for shape, parts in (((0, 2), [True, False]), ((3, 2), [False, False])):
        with pytest.raises(ValueError, match="needs texts, and a round"):
            round_scores(np.zeros(shape), parts)
