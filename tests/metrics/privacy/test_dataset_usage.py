"""How much of a set was used: by hand, by slow loops, and where it cannot be told."""

from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import t

from fedaudit.metrics.privacy import dataset_usage, rmia
from fedaudit.metrics.privacy.reference_models import Observations


def test_the_bound_by_hand():
    # All 3 above 19 others: 1 / C(22, 3) by chance; with one of them used 1 / C(21, 2) = 0.0048,
    # with two used 1/20, above 0.05 / 4. So two at least.
    assert dataset_usage.lower_bound([10, 10, 10], list(range(-19, 0))) == 2
    assert dataset_usage.lower_bound([10, 10, 10], [10] * 19) == 0


def slow_bound(claimed, control):
    best = 0
    for rate in dataset_usage.RATES:
        allowed = int(rate * len(control) + 1e-9)
        threshold = sorted(control, reverse=True)[allowed]
        hits = sum(score > threshold for score in claimed)
        for used in range(hits + 1):
            n, others, first = len(claimed) - used, len(control), hits - used + allowed
            p = sum(
                comb(others, k) * comb(n, first - k) for k in range(allowed + 1) if first - k <= n
            ) / comb(n + others, first)
            if p > 0.05 / 4:
                break
        best = max(best, used)
    return best


scores = st.lists(st.integers(0, 30), min_size=2, max_size=25)


@given(scores, scores)
def test_the_bound_is_the_first_number_that_is_not_rejected(claimed, control):
    found = dataset_usage.lower_bound(claimed, control)
    assert found == slow_bound(claimed, control)
    assert found == dataset_usage.lower_bound([x**3 for x in claimed], [x**3 for x in control])


def test_the_bound_is_above_nothing_used_in_at_most_one_set_of_twenty():
    rng = np.random.default_rng(11)
    wrong = [
        dataset_usage.lower_bound(rng.normal(size=60).tolist(), rng.normal(size=60).tolist()) > 0
        for _ in range(400)
    ]
    assert sum(wrong) <= 0.05 * 400


def observations(used, noise=0.0, models=4, seed=3):
    """Return 200 records; of the first 100, which are claimed, `used` were trained on."""
    rng = np.random.default_rng(seed)
    trained = np.array([rng.permutation(200) < 100 for _ in range(models)]).T
    had = np.arange(200) < used
    hard = rng.uniform(0.3 - noise, 0.3 + noise, 200)
    every = np.column_stack([had, trained])
    seen = hard[:, None] + 0.3 * every + noise * rng.normal(size=every.shape)
    seen = np.clip(seen, 0.01, 1)
    return Observations(seen[:, 0], seen[:, 1:], trained, np.arange(200) >= 100)


def test_where_every_guess_is_right_the_share_is_exact():
    found, n = dataset_usage.estimate(observations(used=30))
    # Records that every reference had are left out.
    asked = ~observations(used=30).trained.all(axis=1)[:100]
    assert n == asked.sum()
    assert found.value == pytest.approx(asked[:30].sum() / n)
    assert (found.low, found.high) == pytest.approx((found.value, found.value))


def slow_estimate(seen):
    """Return the estimate by loops over thresholds."""
    claimed = ~seen.population

    def guess(observed, references, trained, population):
        usable = [i for i in range(len(observed)) if not trained[i].all()]
        a = rmia.tuned_a(references[usable], trained[usable])
        ratio = {
            i: rmia.offline_ratios(observed[[i]], references[[i]], trained[[i]], a)[0]
            for i in usable
        }
        z = [i for i in usable if population[i]]
        return {
            i: np.mean([(ratio[i] > ratio[j]) + (ratio[i] == ratio[j]) / 2 for j in z])
            for i in usable
            if claimed[i]
        }

    def share(of, references):
        every = sorted({score for scores, _ in references for score in scores.values()})
        best = None
        for threshold in every:
            guesses = [
                (score >= threshold, had[i])
                for scores, had in references
                for i, score in scores.items()
            ]
            tpr = np.mean([guess for guess, had in guesses if had])
            fpr = np.mean([guess for guess, had in guesses if not had])
            if best is None or tpr - fpr > best[1] - best[2]:
                best = threshold, tpr, fpr
        threshold, tpr, fpr = best
        return (np.mean([score >= threshold for score in of.values()]) - fpr) / (tpr - fpr)

    count = seen.references.shape[1]
    references = []
    for k in range(count):
        rest = [m for m in range(count) if m != k]
        had = seen.trained[:, k]
        scores = guess(
            seen.references[:, k], seen.references[:, rest], seen.trained[:, rest],
            seen.population & ~had,
        )  # fmt: skip
        references.append((scores, had))
    errors = [
        share(scores, references[:k] + references[k + 1 :]) - np.mean([had[i] for i in scores])
        for k, (scores, had) in enumerate(references)
    ]
    middle = share(guess(seen.observed, seen.references, seen.trained, seen.population), references)
    half = t.ppf(0.975, count) * np.sqrt(np.mean(np.square(errors)))
    return [np.clip(x, 0, 1) for x in (middle, middle - half, middle + half)]


@pytest.mark.parametrize(("seed", "noise"), [(1, 0.1), (2, 0.1), (3, 0.3), (4, 0.3)])
def test_the_estimate_is_the_slow_one(seed, noise):
    seen = observations(used=60, noise=noise, models=5, seed=seed)
    found, _ = dataset_usage.estimate(seen)
    assert [found.value, found.low, found.high] == pytest.approx(slow_estimate(seen))


def test_where_it_cannot_be_told():
    with pytest.raises(ValueError, match="needs 4 reference federations"):
        dataset_usage.estimate(observations(used=30, models=3))
    seen = observations(used=30)
    same = Observations(seen.observed, np.full((200, 4), 0.5), seen.trained, seen.population)
    with pytest.raises(ValueError, match="cannot be told"):
        dataset_usage.estimate(same)
    had = Observations(
        seen.observed, seen.references, np.ones((200, 4), dtype=bool), seen.population
    )
    with pytest.raises(ValueError, match="too few records"):
        dataset_usage.estimate(had)
