import math
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.api.engine import TokenStatistics
from fedaudit.metrics.privacy import membership_scores

LOGS = st.lists(st.floats(-30, -1e-6), min_size=1, max_size=40)


def test_loss_and_its_ratios():
    logs = [-1.0, -2.0, -6.0]
    assert membership_scores.loss(logs) == -3
    text = "Mr Smith lives here, and here, and here."
    expected = -3 / len(zlib.compress(text.encode("utf-8")))
    assert membership_scores.zlib_ratio(logs, text) == expected
    assert membership_scores.reference_ratio(logs, [-2.0, -5.0, -5.0]) == 1


def test_the_least_likely_fifth():
    logs = [-float(i) for i in range(1, 11)]
    assert membership_scores.min_k(logs) == -9.5
    assert membership_scores.min_k(logs[:3]) == -3  # one token at least


def test_standard_units_of_a_position():
    # Two tokens, one in four: log-probabilities ln 1/4 and ln 3/4.
    low, high = math.log(0.25), math.log(0.75)
    mean = 0.25 * low + 0.75 * high
    deviation = math.sqrt(0.25 * (low - mean) ** 2 + 0.75 * (high - mean) ** 2)
    known = TokenStatistics([low, high], [mean] * 2, [deviation] * 2, [False, True])
    assert membership_scores.min_k_plus_plus(known) == pytest.approx(-math.sqrt(3))
    certain = TokenStatistics([0.0], [0.0], [0.0], [True])
    assert membership_scores.min_k_plus_plus(certain) == 0


def test_gains_over_losses_where_the_model_errs():
    tuned, base = [-9.0, -1.0, -3.0, -2.0, -0.1], [-1.0, -2.0, -1.0, -2.5, -9.0]
    # Without the first token, and the last, the tuned model's first choice: 1 and 0.5 up, 2 down.
    first = [False, False, False, False, True]
    assert membership_scores.error_zone(tuned, base, first) == pytest.approx(0.75)
    # One token in the zone; none below the base's; the first token alone would have been below.
    assert membership_scores.error_zone(tuned, base, [False, True, False, True, True]) == 0
    assert membership_scores.error_zone([-5.0, -1, -1], [-2.0, -2, -2], [False] * 3) == 0


def test_how_much_better_a_text_is_known_than_its_neighbours():
    # Means of -2 against -4 and -6, of texts that need not be as long.
    found = membership_scores.neighbourhood([-1.0, -3.0], [[-4.0], [-5.0, -7.0]])
    assert found == pytest.approx(3)
    with pytest.raises(ValueError, match="without neighbours"):
        membership_scores.neighbourhood([-1.0], [])


@given(LOGS, st.randoms())
def test_no_score_depends_on_the_order_of_tokens(logs, random):
    mixed = random.sample(logs, len(logs))
    assert membership_scores.loss(mixed) == pytest.approx(membership_scores.loss(logs))
    assert membership_scores.min_k(mixed) == pytest.approx(membership_scores.min_k(logs))
    assert membership_scores.min_k(logs) <= membership_scores.loss(logs) + 1e-9


def test_no_tokens_and_no_share():
    with pytest.raises(ValueError, match="one token has no score"):
        membership_scores.loss([])
    with pytest.raises(ValueError, match="not a share"):
        membership_scores.min_k([-1.0], 0)
