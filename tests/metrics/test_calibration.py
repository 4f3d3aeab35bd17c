import random
from math import exp

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedaudit.metrics import calibration
from fedaudit.metrics.calibration import (
    DRAWS,
    STRENGTH,
    LabelledScores,
    Logistic,
    fit,
    resampled_probabilities,
)

KNOWN = LabelledScores(
    (3.0, 2.0, 1.0, -1.0, -2.0), (True, True, False, True, False), tuple("aabcc")
)


def test_two_strings_by_hand():
    # Scores 4 and 2 are z = 1 and -1; the bias is 0 by symmetry, and the slope b minimises
    # STRENGTH * 2 ln(1 + exp(-b)) + b^2 / 2, so b = 2 STRENGTH / (1 + exp(b)).
    made = fit(LabelledScores((4.0, 2.0), (True, False), ("a", "b")))
    assert made.slope == pytest.approx(2 * STRENGTH / (1 + exp(made.slope)), abs=1e-3)
    assert (made.middle, made.spread) == (3.0, 1.0)
    assert made.bias == pytest.approx(0, abs=1e-3)
    assert made.probabilities([3.0])[0] == pytest.approx(0.5, abs=1e-3)


def test_a_curve_by_hand():
    made = Logistic(bias=0.0, slope=1.0, middle=5.0, spread=2.0)
    assert made.probabilities([7.0, 5.0]) == pytest.approx([1 / (1 + exp(-1)), 0.5])


def test_what_is_all_true_teaches_nothing():
    with pytest.raises(ValueError, match="false"):
        fit(LabelledScores((1.0, 2.0), (True, True), ("a", "b")))


def test_resamples_of_one_truth_have_its_rate():
    # Either group alone, drawn twice: (2 + 1/2) / (2 + 1) or (0 + 1/2) / (2 + 1); or both.
    known = LabelledScores((1.0, 0.0), (True, False), ("a", "b"))
    found = resampled_probabilities(known, [0.5], seed=0)
    assert found.shape == (DRAWS, 1)
    assert {round(float(one), 6) for one in found[:, 0]} == {
        round(2.5 / 3, 6),
        round(0.5 / 3, 6),
        0.5,
    }


@settings(max_examples=2, deadline=None)
@given(st.integers(0, 99))
def test_order_does_not_matter(seed):
    rows = list(zip(KNOWN.scores, KNOWN.truths, KNOWN.groups, strict=True))
    random.Random(seed).shuffle(rows)
    other = LabelledScores(*map(tuple, zip(*rows, strict=True)))
    assert fit(other) == fit(KNOWN)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(calibration, "DRAWS", 40)
        first, second = (resampled_probabilities(x, [0.0, 1.0], seed=1) for x in (KNOWN, other))
    assert np.array_equal(first, second)


@settings(deadline=None)
@given(st.lists(st.tuples(st.floats(-50, 50), st.booleans()), min_size=2, max_size=30))
def test_probabilities_follow_the_slope(rows):
    scores, truths = zip(*rows, strict=True)
    if len(set(truths)) == 2:
        made = fit(LabelledScores(scores, truths, ("",) * len(rows)))
        found = made.probabilities(sorted(scores)) * (1 if made.slope >= 0 else -1)
        assert (np.diff(found) >= 0).all()
        assert (np.abs(found) <= 1).all()
