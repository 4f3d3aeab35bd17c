import math
from statistics import NormalDist, median

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fedaudit.metrics.privacy import likelihood_ratio
from fedaudit.metrics.privacy.likelihood_ratio import offline_scores, online_scores


def test_the_confidence_of_a_text():
    # Tokens of 1/2 and 1/8: the geometric mean is 1/4, the odds 1 to 3.
    found = likelihood_ratio.confidence([math.log(1 / 2), math.log(1 / 8)])
    assert found == pytest.approx(math.log(1 / 3))
    assert likelihood_ratio.confidence([0.0, 0.0]) == pytest.approx(-math.log(1e-12))
    assert likelihood_ratio.confidence([-1e3]) == pytest.approx(-1e3)
    with pytest.raises(ValueError, match="no score"):
        likelihood_ratio.confidence([])


REFERENCES = np.array([[1.0, 3.0, 5.0, 9.0], [2.0, 4.0, 6.0, 12.0]])
TRAINED = np.array([[False, False, True, True], [True, False, False, True]])


def test_offline_by_hand():
    # Out: 1 and 3; 4 and 6. Squares around means 2 and 5: 1+1+1+1 over 2 degrees of freedom: 2.
    found = offline_scores([4.0, 5.0], REFERENCES, TRAINED)
    assert found.tolist() == pytest.approx([2 / math.sqrt(2), 0.0])


def test_online_by_hand():
    # In: 5 and 9; 2 and 12. Squares around 7 and 7: 4+4+25+25 over 2: 29. Out: as above, 2.
    found = online_scores([4.0, 5.0], REFERENCES, TRAINED)
    first = -9 / 29 / 2 - math.log(29) / 2 + 4 / 2 / 2 + math.log(2) / 2
    second = -4 / 29 / 2 - math.log(29) / 2 + 0 + math.log(2) / 2
    assert found.tolist() == pytest.approx([first, second])


def log_density(law, value):
    """Return the logarithm of a density that may be too small for a float."""
    return -math.log(law.stdev * math.sqrt(2 * math.pi)) - law.zscore(value) ** 2 / 2


def slow(observed, references, trained):
    """Both scores of every record, one after the other, from the standard library's densities."""

    def law(record, side):
        own = [v for v, t in zip(references[record], trained[record], strict=True) if t == side]
        squares, freedom = 0.0, 0
        for row, mask in zip(references, trained, strict=True):
            some = [v for v, t in zip(row, mask, strict=True) if t == side]
            mean = sum(some) / len(some)
            squares += sum((v - mean) ** 2 for v in some)
            freedom += len(some) - 1
        return NormalDist(median(own), math.sqrt(squares / freedom))

    online, offline = [], []
    for record, value in enumerate(observed):
        inside, outside = law(record, True), law(record, False)
        online.append(log_density(inside, value) - log_density(outside, value))
        offline.append(outside.cdf(value))
    return online, offline


@given(st.integers(0, 10_000), st.integers(2, 6), st.integers(4, 9))
@example(265, 2, 4)
def test_both_are_the_slow_ones(seed, records, models):
    rng = np.random.default_rng(seed)
    references = rng.normal(0, 1, (records, models)) + rng.normal(0, 2, (records, 1))
    trained = np.array([rng.permutation(np.arange(models) % 2 == 0) for _ in range(records)])
    observed = references.mean(axis=1) + rng.normal(0, 1, records)
    online, offline = slow(observed, references.tolist(), trained.tolist())
    assert online_scores(observed, references, trained).tolist() == pytest.approx(online, rel=1e-6)
    found = offline_scores(observed, references, trained)
    # 1 - P(Z > observed) of the paper, in standard deviations.
    assert [NormalDist().cdf(one) for one in found] == pytest.approx(offline, abs=1e-9)


def test_where_records_differ_in_difficulty_only_the_ratio_tells():
    rng = np.random.default_rng(5)
    hard = rng.normal(0, 5, (200, 1))
    trained = np.array([rng.permutation(np.arange(8) % 2 == 0) for _ in range(200)])
    references = hard + trained * 1.0 + rng.normal(0, 0.3, (200, 8))
    member = np.arange(200) < 100
    observed = hard[:, 0] + member * 1.0 + rng.normal(0, 0.3, 200)

    def area(values):
        return np.mean(values[member][:, None] > values[~member][None])

    assert area(observed) < 0.65
    assert area(offline_scores(observed, references, trained)) > 0.95
    assert area(online_scores(observed, references, trained)) > 0.95


def test_too_few_models():
    with pytest.raises(ValueError, match="needs 2 models"):
        offline_scores([1.0], np.ones((1, 3)), np.array([[True, True, False]]))
    with pytest.raises(ValueError, match="needs 2 models"):
        online_scores([1.0], np.ones((1, 3)), np.array([[True, False, False]]))


def test_models_that_agree_leave_finite_scores():
    references, trained = np.ones((1, 4)), np.array([[True, True, False, False]])
    assert np.isfinite(online_scores([2.0], references, trained)).all()
    assert np.isfinite(offline_scores([2.0], references, trained)).all()
