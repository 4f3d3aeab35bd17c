"""What estimates by shared sets hold of others: by hand, by enumeration, and by drawing."""

from dataclasses import replace
from itertools import combinations, permutations, product

import numpy as np
import pytest
from few_systems import few_systems

from fedaudit.metrics.attribution import mixture, shared_rule, shared_sets, shared_sets_distribution
from fedaudit.metrics.attribution.contamination import (
    NOTHING_HIDDEN,
    RoundEvidence,
    leak_distributions,
)
from fedaudit.metrics.attribution.mixture import Mixture
from fedaudit.metrics.attribution.shared_rule import SharedSetsRule
from fedaudit.metrics.attribution.subset_design import Combination

TEN = SharedSetsRule(participants=10, queries=5, threshold=5, limit=0.4)
"""Every estimate holds 0.4 of three others and -0.2 of six: rho 3 * 0.16 + 6 * 0.04 = 0.72."""


@pytest.fixture(scope="module", autouse=True)
def laws():
    """Take laws from fewer systems of sets than usual."""
    with few_systems(8):
        yield


def test_a_combination_holds_what_its_sums_add_up_to():
    one = Combination("a", {("a", "b"): 0.5, ("a", "c"): 0.5, ("b", "d"): -0.25})
    assert one.client_shares() == {"a": 1.0, "b": 0.25, "c": 0.5, "d": -0.25}


def test_drawn_sets_hold_the_target_once_and_nothing_else_in_common():
    for whole in (True, False):
        rule = SharedSetsRule(participants=8, queries=3, threshold=3, whole=whole)
        names = [f"c{at}" for at in range(8)]
        found = shared_sets.draw(rule, names, seed=1, number=2)
        for one in found.combinations():
            held = one.client_shares()
            assert held[one.target] == pytest.approx(1)
            assert sum(held.values()) == pytest.approx(1)
            by = shared_sets.masks(found.rows)[names.index(one.target)]
            np.testing.assert_allclose([held[who] for who in names], by + np.eye(8)[
                names.index(one.target)], atol=1e-9)  # fmt: skip


def test_coefficients_of_ten_clients_by_hand():
    c = shared_sets_distribution.coefficients(TEN, 1000)
    assert len(c) >= 1000
    np.testing.assert_allclose(np.sort(c, axis=1), [[-0.2] * 6 + [0.4] * 3] * len(c), atol=1e-8)
    np.testing.assert_allclose((c > 0).mean(axis=0), 1 / 3, atol=0.04)  # any of them alike


def test_what_ten_clients_hold_of_two_marked_ones_is_hypergeometric():
    draws = Mixture(weights=(1.0,) * 9, strength=0.72, rule=TEN).draws()
    held = np.round(draws[:, 0] + draws[:, 1], 6)
    # Of 36 pairs of others 3 have 0.4 each, 18 have 0.4 and -0.2, 15 have -0.2 each.
    for value, share in ((0.8, 3 / 36), (0.2, 18 / 36), (-0.4, 15 / 36)):
        assert (held == value).mean() == pytest.approx(share, abs=0.05)


def every(count, queries):
    """Return the masks of every system of halves and everybody that is accepted, all targets'."""
    sets = [[at in one for at in range(count)] for one in combinations(range(count), count // 2)]
    for chosen in product(sets, repeat=queries):
        rows = np.array([*chosen, [True] * count]).astype(np.int64)
        if shared_sets.is_accepted(rows, queries):
            yield shared_sets.masks(rows)


@pytest.mark.parametrize(("count", "queries"), [(4, 1), (4, 2), (6, 1)])
def test_the_simulated_law_is_that_of_all_systems(count, queries):
    rest = ~np.eye(count, dtype=bool)
    all_of_them = np.concatenate([c[rest].reshape(count, -1) for c in every(count, queries)])
    own = shared_sets_distribution.coefficients(
        SharedSetsRule(participants=count, queries=queries), 20_000
    )
    # The law is exchangeable: that of one coefficient and of the sum of the first two decide here.
    for part in (lambda c: c[:, 0], lambda c: c[:, :2].sum(axis=1)):
        values, times = np.unique(np.round(part(all_of_them), 6), return_counts=True)
        found = np.round(part(own), 6)
        assert set(found) <= set(values)
        for value, expected in zip(values, times / times.sum(), strict=True):
            assert (found == value).mean() == pytest.approx(expected, abs=0.02)


def test_the_simulated_law_is_that_of_what_a_server_draws():
    rule = SharedSetsRule(participants=6, queries=2, threshold=3, limit=0.7, whole=False)
    names = [f"c{at}" for at in range(6)]
    drawn = [
        shared_sets.masks(shared_sets.draw(rule, names, seed=seed, number=1).rows)
        for seed in range(150)
    ]
    own = np.array(drawn)[:, 0, 1:]  # what the estimate of c0 holds
    law = shared_sets_distribution.coefficients(rule, 20_000)
    for power in (1, 2, 4):
        error = (own**power).std() / len(drawn) ** 0.5
        assert abs((own**power).mean() - (law**power).mean()) <= 5 * error + 1e-6
    assert abs(law).max() <= 0.7 + 1e-6


def test_a_round_is_one_of_the_systems_with_its_clients_permuted():
    rng = np.random.default_rng(0)
    known = {tuple(np.sort(c.ravel())) for c in shared_sets_distribution.systems(TEN)}
    rounds = [shared_sets_distribution.draw_matrix(TEN, rng) for _ in range(5)]
    assert all(tuple(np.sort(c.ravel())) in known for c in rounds)
    assert all(np.diag(c).tolist() == [0.0] * 10 for c in rounds)
    assert not np.array_equal(rounds[0], rounds[1])


def test_weights_scale_what_is_held_and_the_ratio_bounds_it():
    rule = SharedSetsRule(participants=10, queries=5, threshold=5, limit=0.6, ratio=1.2)
    c = shared_sets_distribution.coefficients(rule, 200)
    assert abs(c).max() * 1.2 <= 0.6 + 1e-6
    floor = shared_sets.floor(10, 5)
    assert np.square(c).sum(axis=1).min() / 1.2**2 >= floor - 1e-6
    weights = (1.2, *(1.0,) * 8)
    held = Mixture(weights=weights, strength=0.75, rule=rule).draws()
    assert held[:, 0].std() > 1.1 * held[:, 1:].std()
    assert abs(held).max() <= 0.6 + 1e-6


def test_a_strength_of_two_digits_is_of_all_designs_that_it_may_be():
    # Estimates of five clients by two sets are of two kinds, (-5, 1, 1, 3) / 9 and (-3, -3, 3, 3)
    # / 9, both of rho 4/9, which a file tells as 0.44.
    rule = SharedSetsRule(participants=5, queries=2, threshold=2, limit=1.0)
    kinds = np.array([(-5, 1, 1, 3), (-3, -3, 3, 3)]) / 9
    for strength in (0.44, 4 / 9):
        draws = np.sort(Mixture(weights=(1.0,) * 4, strength=strength, rule=rule).draws(), axis=1)
        found = [np.isclose(draws, np.sort(kind), atol=1e-6).all(axis=1).mean() for kind in kinds]
        assert sum(found) == pytest.approx(1)
        assert min(found) > 0.2


def test_nothing_to_draw_by_is_taken_for_normal():
    plain = Mixture(weights=(1.0,) * 9, strength=0.7).draws()
    for odd in (replace(TEN, queries=9), replace(TEN, limit=-1.0), replace(TEN, queries=-3)):
        found = Mixture(weights=(1.0,) * 9, strength=0.7, rule=odd).draws()
        np.testing.assert_array_equal(found, plain)
        assert shared_sets_distribution.draw_matrix(odd, np.random.default_rng(0)) is None
    huge = SharedSetsRule(participants=500, queries=200)
    assert shared_sets_distribution.systems(huge) == ()


def test_z_of_an_innocent_client_beside_a_marked_one_by_hand():
    estimate = Mixture(weights=(1.0,) * 9, strength=0.72, rule=TEN)
    scores, first = np.array([10.0, *(0.0,) * 8]), np.eye(9, dtype=bool)[:1]
    shown = RoundEvidence(
        scores, groups=first, alone=first, errors=np.zeros(9), hidden=NOTHING_HIDDEN[None]
    )
    law = leak_distributions([estimate], [[shown]], [1.0])[0][0]  # in proportion
    # 4 with a chance of a third, else -2; and what chance adds.
    from statistics import NormalDist

    beyond = NormalDist().cdf
    expected = beyond(4.0 - 5.0) / 3 + 2 * beyond(-2.0 - 5.0) / 3
    assert law.tail_probability(5.0, 0) == pytest.approx(expected, rel=0.1)


@pytest.mark.parametrize(
    ("rule", "limit"),
    [
        (TEN, 0.4),
        (SharedSetsRule(participants=6, queries=3, threshold=3, limit=0.6), 0.7),
        (SharedSetsRule(participants=6, queries=4, limit=0.4, ratio=13.0), None),
    ],
)
def test_the_lowest_limit_that_sets_keep(rule, limit):
    assert shared_sets_distribution.lowest_limit(rule) == limit


def test_two_sets_of_five_clients_hold_somebody_whole():
    """By enumeration: some two clients are in the same sets throughout."""
    halves = list(combinations(range(5), 2))
    for one, two in permutations(halves, 2):
        rows = np.array([[at in s for at in range(5)] for s in (one, two, range(5))]).astype(int)
        if shared_sets.is_accepted(rows, 2):
            assert abs(shared_sets.masks(rows)).max() == pytest.approx(1)


@pytest.mark.parametrize(
    ("count", "whole", "sets"),
    [(10, True, 5), (10, False, 5), (6, True, 3), (6, False, 2), (5, False, 2), (4, True, 2)],
)
def test_half_the_clients_or_fewer_of_few(count, whole, sets):
    assert shared_rule.default_queries(count, total_known=whole) == sets
    assert sets <= shared_rule.max_queries(count, total_known=whole)


def test_contamination_takes_equally_strong_draws_from_all_systems():
    held = Mixture(weights=(1.0,) * 9, strength=0.72, rule=TEN).draws()
    assert len(held) == mixture.NEAREST
    assert len({tuple(row) for row in np.round(held, 6)}) > 60  # of 84 orders of three in nine
