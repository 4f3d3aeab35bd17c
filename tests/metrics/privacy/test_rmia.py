"""RMIA against values by hand and against loops over pairs of records."""

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fedaudit.metrics.privacy import rmia
from fedaudit.metrics.privacy.roc import auc


def test_the_probability_of_a_text():
    assert rmia.probability([math.log(1 / 2), math.log(1 / 8)]) == pytest.approx(1 / 4)
    with pytest.raises(ValueError, match="no score"):
        rmia.probability([])


def test_ratios_by_hand():
    observed, references = np.array([0.5]), np.array([[0.6, 0.4, 0.1, 0.3]])
    trained = np.array([[True, True, False, False]])
    # Inside 0.5, outside 0.2: p(x) = 0.35; offline, inside is taken as 0.3 x 0.2 + 0.7 = 0.76.
    assert rmia.online_ratios(observed, references, trained) == pytest.approx([0.5 / 0.35])
    assert rmia.offline_ratios(observed, references, trained, 0.3) == pytest.approx([0.5 / 0.48])
    with pytest.raises(ValueError, match="a model on this side"):
        rmia.online_ratios(observed, references, np.array([[True] * 4]))


def test_shares_by_hand():
    population = np.array([False, True, True, True])
    found = rmia.population_shares(np.array([3.0, 1.0, 2.0, 5.0]), population)
    assert found.tolist() == pytest.approx([2 / 3, 1 / 6, 3 / 6, 5 / 6])
    with pytest.raises(ValueError, match="a population"):
        rmia.population_shares(np.array([3.0]), np.array([False]))


@given(st.lists(st.integers(1, 9), min_size=4, max_size=12), st.randoms(use_true_random=False))
def test_shares_are_those_of_pairs_and_rank_records_as_their_ratios_do(values, rng):
    population = np.array([True, *(rng.random() < 0.5 for _ in values[2:]), False])
    ratios = np.array(values, dtype=float)
    found = rmia.population_shares(ratios, population)
    for x, share in enumerate(found):
        pairs = [(ratios[x] > z) + (ratios[x] == z) / 2 for z in ratios[population]]
        assert share == pytest.approx(np.mean(pairs))
    areas = [auc(one[~population].tolist(), one[population].tolist()) for one in (found, ratios)]
    assert areas[0].value == pytest.approx(areas[1].value)


def slow_a(references, trained):
    """Return the a with the best mean area, every pair of records compared."""
    models = range(references.shape[1])
    areas = []
    for a in rmia.CHOICES:
        of_models = []
        for model in models:
            ratios = {}
            for record, seen in enumerate(references):
                out = [seen[k] for k in models if k != model and not trained[record][k]]
                if out:
                    ratios[record] = seen[model] / (((1 + a) * sum(out) / len(out) + 1 - a) / 2)
            wins = [
                (ratios[i] > ratios[o]) + (ratios[i] == ratios[o]) / 2
                for i in ratios if trained[i][model]
                for o in ratios if not trained[o][model]
            ]  # fmt: skip
            if wins:
                of_models.append(sum(wins) / len(wins))
        areas.append(sum(of_models) / len(of_models))
    return rmia.CHOICES[int(np.argmax(np.round(areas, 12)))]


@example(825)  # two areas that differ by rounding alone
@given(st.integers(0, 10_000))
def test_the_best_a_is_that_of_the_pairs(seed):
    rng = np.random.default_rng(seed)
    trained = rng.random((14, 5)) < 0.5
    references = np.clip(rng.random((14, 1)) + 0.2 * trained + rng.normal(0, 0.1, (14, 5)), 0.01, 1)
    assert rmia.tuned_a(references, trained) == slow_a(references, trained)


def test_without_a_second_model_a_is_the_paper_s():
    assert rmia.tuned_a(np.array([[0.1], [0.2]]), np.array([[True], [False]])) == rmia.PUBLISHED_A
