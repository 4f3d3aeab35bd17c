"""Designs for sums of w_j times an update: accepted by what the estimate then holds."""

import math
from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedaudit.api.errors import UsageError
from fedaudit.attribution.server.masks import foreign_shares
from fedaudit.metrics.attribution import subset_design
from fedaudit.metrics.attribution.subset_design import (
    draw,
    expected_strength,
    floor,
    is_accepted,
)
from fedaudit.metrics.attribution.sum_leakage import sum_leakage

SIX = [f"c{at}" for at in range(6)]
SIZES = [12, 31, 48, 65, 121, 160]


def drawn(weights, *, target="c3", limit=1.0, seed=0, number=0):
    return draw(
        SIX, target, mask_size=3, queries=5, threshold=3, seed=seed, number=number,
        limit=limit, weights=weights,
    )  # fmt: skip


def by_size(sizes=SIZES):
    return dict(zip(SIX, sizes, strict=True))


def held(design, weights):
    """Return each other client's weighted coefficient, by counting members."""
    found = {}
    for who in SIX:
        if who != design.target:
            count = sum(who in s for s in design.include) - sum(who in s for s in design.exclude)
            found[who] = count / 5 * weights[who] / weights[design.target]
    return found


def test_the_floor_by_hand():
    assert floor(6, 3, 5) == pytest.approx(0.24)  # 2 * 3 * 2 / (5 * 5) / 2


@given(
    st.lists(st.integers(90, 120), min_size=6, max_size=6),
    st.integers(0, 10**6),
    st.floats(1e-6, 1e6),
)
def test_scaling_all_weights_changes_nothing(sizes, seed, scale):
    weights = by_size(sizes)
    one = drawn(weights, limit=0.8, seed=seed)
    assert drawn({who: w * scale for who, w in weights.items()}, limit=0.8, seed=seed) == one
    c = held(one, weights)
    assert max(map(abs, c.values())) <= 0.8 * (1 + 1e-9)
    assert sum(x * x for x in c.values()) >= 0.24 * (1 - 1e-9)


@given(st.floats(1e-300, 1e300), st.integers(0, 10**6))
def test_equal_weights_are_no_weights(weight, seed):
    one = drawn(dict.fromkeys(SIX, weight), limit=0.4, seed=seed)
    assert one == drawn(None, limit=0.4, seed=seed)


def test_the_order_of_weights_and_others_changes_nothing():
    weights = by_size([100, 105, 110, 95, 103, 99])
    backwards = dict(reversed(weights.items()))
    assert drawn(backwards, limit=0.7, seed=5) == drawn(weights, limit=0.7, seed=5)


def test_what_a_heavy_client_has_no_masks_for_is_refused(monkeypatch):
    monkeypatch.setattr(subset_design, "TRIES", 100)
    # Five others that each count for 0.1 at most come to 0.05 at most.
    with pytest.raises(UsageError, match=r"strength at 0\.24: .* 0\.075 to 0\.76 times") as error:
        drawn(by_size(), target="c5", limit=0.1)
    assert "--weights equal" in str(error.value)
    with pytest.raises(UsageError, match=r"count for 2\.6 to 13 times"):
        drawn(by_size(), target="c0", limit=0.4)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"c1": 0.0}, "c1 has no positive weight, but 0"),
        ({"c3": -2.0}, "c3 has no positive weight, but -2"),
        ({"c1": math.nan}, "c1 has no positive weight, but nan"),
        ({"c1": math.inf}, "c1 has no positive weight, but inf"),
        ({"c1": 1e-300, "c3": 1e300}, "The weight of c3 and those of others are too far apart"),
    ],
)
def test_what_is_no_weight_is_refused(changes, says):
    with pytest.raises(UsageError, match=says):
        drawn({**dict.fromkeys(SIX, 1.0), **changes})
    with pytest.raises(UsageError, match="c5 has no weight"):
        drawn(dict.fromkeys(SIX[:5], 1.0))


def every_design(rest, others, queries):
    choices = [np.bincount(chosen, minlength=rest) for chosen in combinations(range(rest), others)]
    return np.array(
        [sum(s[:queries]) - sum(s[queries:]) for s in product(choices, repeat=2 * queries)]
    )


@pytest.mark.parametrize("limit", [0.8, 1.5, 3.0])
def test_rejection_by_weights_keeps_the_estimate_unbiased_and_nothing_more(limit):
    """Over all designs of five clients, m = 2, K = 2, with exact weights."""
    masks, by = every_design(4, 2, 2), np.array([0.5, 1.0, 1.25, 2.0])
    # The rule, in fractions: rho >= 2 * 2 * 2 / (2 * 4) / 2 = 1/2, every |x| <= limit.
    shares = [[Fraction(int(k), 2) * Fraction(b) for k, b in zip(row, by, strict=True)]
              for row in masks]  # fmt: skip
    wanted = [
        sum(x * x for x in row) >= Fraction(1, 2) and max(map(abs, row)) <= limit for row in shares
    ]
    found = is_accepted(masks, 2, 2, limit, by)
    assert found.tolist() == wanted
    kept = masks[found]
    assert 0 < len(kept) < len(masks)
    assert kept.sum(0).tolist() == [0, 0, 0, 0]  # unbiased: -c comes as often as c
    # Exchangeable no longer: heavier clients' coefficients are smaller where the limit binds.
    squares = np.square(kept).mean(0)
    if limit < 2:
        assert squares[3] < squares[0]
    # Nor do what the estimate holds of others add up to nothing.
    assert abs((kept * by).sum(1)).max() > 0


def test_without_rejection_the_covariance_is_that_of_weighted_updates():
    """E[x_j x_k] = b_j b_k E[c_j c_k], so Cov = s Sigma of b_j Delta_j; by all designs."""
    masks, by = every_design(4, 2, 1) / 1, np.array([0.5, 1.0, 1.25, 2.0])
    updates = np.array([[1.0, 2], [3, -1], [0, 4], [5, 5]])
    estimates = masks * by @ updates
    scale = expected_strength(5, 2, 1) * 4 / 3
    sigma = np.cov((updates * by[:, None]).T, bias=True)
    np.testing.assert_allclose(np.cov(estimates.T, bias=True), scale * sigma, rtol=1e-12)
    # The mean of rho weighted: 2 m (n1 - m) / (K n1^2) times the sum of squared ratios.
    rho = np.square(masks * by).sum(1).mean()
    assert rho == pytest.approx(2 * 2 * 2 / (1 * 4**2) * np.square(by).sum())


def test_an_unweighted_limit_is_none_for_weighted_sums():
    """What is promised of c alone fails for what an estimate holds: the reason for all this."""
    design = drawn(None, target="c0", limit=0.4)
    shares = foreign_shares(design.combination, dict.fromkeys(SIX, 1.0))
    assert max(map(abs, shares.values())) <= 0.4 + 1e-12
    assert max(map(abs, held(design, by_size()).values())) > 2


def test_the_rounds_own_sum_of_weighted_updates_by_hand():
    sets = [("a", "b"), ("c", "d")]
    alike = sum_leakage([*sets, ("a", "b", "c", "d")], 2)
    assert (alike.rank, dict(alike.determined)) == (2, {})
    # 2a + b + c + d, less both sums, is a; then a + b gives b.
    found = sum_leakage(sets, 2, {"a": 2.0, "b": 1.0, "c": 1.0, "d": 1.0})
    assert (found.queries, found.sets, found.rank) == (3, 3, 3)
    assert dict(found.determined) == {"a": 3, "b": 3}
    assert found.group.members == ("a",)
    tripled = sum_leakage(sets, 2, {"a": 0.3, "b": 0.3, "c": 0.3, "d": 0.3})
    assert (tripled.rank, dict(tripled.determined)) == (2, {})


@given(st.lists(st.integers(1, 10**5), min_size=6, max_size=6), st.integers(0, 99))
@settings(deadline=None)
def test_exposure_with_weights_against_exact_elimination(sizes, seed):
    rng = np.random.default_rng(seed)
    sets = [tuple(np.array(SIX)[np.sort(rng.permutation(6)[:3])].tolist()) for _ in range(4)]
    total = sum(sizes)
    weights = {who: size / total for who, size in zip(SIX, sizes, strict=True)}
    found = sum_leakage(sets, 2, weights)
    rows = [[int(who in members) for who in SIX] for members in sets] + [sizes]
    assert found.rank == rank(rows)
    for at, who in enumerate(SIX):
        unit = [int(other == at) for other in range(6)]
        assert (who in found.determined) == (rank([*rows, unit]) == rank(rows))


def rank(rows):
    """Return the rank over the rationals, by elimination."""
    rows, found = [[Fraction(x) for x in row] for row in rows], 0
    for column in range(len(rows[0])):
        pivot = next((at for at in range(found, len(rows)) if rows[at][column]), None)
        if pivot is None:
            continue
        rows[found], rows[pivot] = rows[pivot], rows[found]
        for at in range(found + 1, len(rows)):
            by = rows[at][column] / rows[found][column]
            rows[at] = [x - by * y for x, y in zip(rows[at], rows[found], strict=True)]
        found += 1
    return found
