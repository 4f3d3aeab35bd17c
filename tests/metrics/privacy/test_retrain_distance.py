import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from fedaudit.metrics.privacy.retrain_distance import residual


def test_a_residual_by_hand():
    # Retrained models at -1, 0, 0 and 1: mean 0, variance 2/3. A = 3, B = 10. At a level of 5 %
    # t with 3 degrees of freedom is 3.1824, c = t^2 * 2/3 = 6.752, and L solves
    # L^2 (100 - 1.25 c) + 2 L (c / 4 - 30) + 9 - 1.25 c = 0, which is
    # 91.560 L^2 - 2 * 28.312 L + 0.560 = 0: L = (28.312 -+ sqrt(801.57 - 51.28)) / 91.560.
    c = 3.182446**2 * 2 / 3
    low, high = sorted(np.roots([100 - 1.25 * c, 2 * (c / 4 - 30), 9 - 1.25 * c]))
    found = residual(3.0, 10.0, [-1.0, 0.0, 0.0, 1.0], level=0.05)
    assert (found.value, found.low, found.high) == pytest.approx((0.3, low, high), rel=1e-5)
    assert (found.low, found.high) == pytest.approx((0.01006, 0.60838), abs=1e-4)
    spread = math.sqrt(2 / 3 * 1.25)
    assert found.p_value == pytest.approx(2 * stats.t(3).sf(3 / spread))
    # A mean of `detectable` times B is found with 90 %: by the law of t around it.
    shift = found.detectable * 10 / spread
    assert stats.nct(3, shift).sf(3.182446) == pytest.approx(0.9, abs=1e-5)


def accepts(after, before, retrained, share, level):
    """Test one residual by the definition."""
    count, middle = len(retrained), np.mean(retrained)
    numerator = after - share * before - (1 - share) * middle
    spread = np.std(retrained, ddof=1) * math.sqrt(1 + share**2 + (1 - share) ** 2 / count)
    return abs(numerator) <= stats.t(count - 1).ppf(1 - level / 2) * spread


STANDINGS = st.floats(-1, 1).map(lambda x: round(x, 3))


@given(STANDINGS, STANDINGS, st.lists(STANDINGS, min_size=4, max_size=8))
def test_the_interval_holds_the_residuals_that_are_accepted(after, before, retrained):
    assume(np.ptp(retrained) > 0.01)
    try:
        found = residual(after, before, retrained, level=0.1)
    except ValueError:
        return
    width = found.high - found.low
    assert found.low <= found.value <= found.high
    for share in (found.low + 0.001 * width, found.high - 0.001 * width):
        assert accepts(after, before, retrained, share, 0.1)
    for share in (found.low - 0.001 * width, found.high + 0.001 * width):
        assert not accepts(after, before, retrained, share, 0.1)
    # 0 is left out if and only if the model is not like the retrained ones.
    assert (found.low <= 0 <= found.high) == (found.p_value >= 0.1)


def test_a_model_that_did_not_change_has_all_of_it_left():
    found = residual(5.0, 5.0, [0.1, -0.2, 0.3, 0.0, 0.1], level=0.05)
    assert found.value == pytest.approx(1.0)
    assert found.low > 0.8


def test_one_of_the_retrained_models_is_refused_as_often_as_the_level_says():
    rng = np.random.default_rng(5)
    outside = 0
    for _ in range(1000):
        *retrained, after = rng.normal(0.3, 0.1, 7)
        found = residual(after, rng.normal(3.0, 0.1), retrained, level=0.1)
        outside += not found.low <= 0 <= found.high
    # 100 are expected; 140 or more have a probability of 3e-5.
    assert outside < 140


@pytest.mark.parametrize(
    ("before", "retrained", "says"),
    [
        (5.0, [0.0, 0.1, 0.2], "4 retrained models are needed, of which there are 3"),
        (5.0, [0.1] * 4, "all the same"),
        (0.2, [0.0, 0.1, 0.2, 0.3], "cannot be told"),
        (-9.0, [0.0, 0.1, 0.2, 0.3], "cannot be told"),
    ],
)
def test_what_cannot_be_compared(before, retrained, says):
    with pytest.raises(ValueError, match=says):
        residual(0.0, before, retrained, level=0.05)
