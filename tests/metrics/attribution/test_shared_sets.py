from collections import Counter
from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.api.errors import UsageError
from fedaudit.metrics.attribution import shared_sets
from fedaudit.metrics.attribution.shared_rule import SharedSetsRule
from fedaudit.metrics.attribution.shared_sets import (
    draw,
    estimate_shares,
    masking_strengths,
    masks,
    typical_strength,
)
from fedaudit.metrics.attribution.sum_leakage import sum_leakage

TEN = [f"c{at}" for at in range(10)]
SMALL = [(4, 1), (4, 2), (5, 1), (5, 2), (6, 1), (6, 2)]


def drawn(participants=TEN, *, queries=5, threshold=5, seed=0, number=1, limit=1.0, whole=True):
    rule = SharedSetsRule(
        participants=len(participants),
        queries=queries,
        threshold=threshold,
        limit=limit,
        whole=whole,
    )
    return draw(rule, participants, seed=seed, number=number)


def halves(count):
    """Every set of half the clients, as a row."""
    return [
        [int(at in chosen) for at in range(count)]
        for chosen in combinations(range(count), count // 2)
    ]


def every(count, queries):
    """All systems of so many sets, drawn with repetition, and everybody."""
    for chosen in product(halves(count), repeat=queries):
        yield np.array([*chosen, [1] * count])


def solved(matrix, right):
    """Gauss and Jordan over fractions; None where the matrix is singular."""
    left = [[Fraction(int(x)) for x in row] for row in np.hstack([matrix, right])]
    size = len(left)
    for at in range(size):
        pivot = next((row for row in range(at, size) if left[row][at]), None)
        if pivot is None:
            return None
        left[at], left[pivot] = left[pivot], left[at]
        left[at] = [x / left[at][at] for x in left[at]]
        for row in range(size):
            if row != at:
                left[row] = [
                    a - left[row][at] * b for a, b in zip(left[row], left[at], strict=True)
                ]
    return np.array([row[size:] for row in left], dtype=object)


def exact(rows):
    """The coefficients over fractions by the definition: mean + (1 - 1/N) P e_i / P_ii."""
    kept = rows[-1:]
    for row in rows[:-1]:
        if (
            solved(np.vstack([row, kept]) @ np.vstack([row, kept]).T, np.vstack([row, kept]))
            is not None
        ):
            kept = np.vstack([row, kept])
    count = rows.shape[1]
    projection = kept.T.astype(object) @ solved(kept @ kept.T, kept) - Fraction(1, count)
    own = np.diag(projection)
    return Fraction(1, count) + Fraction(count - 1, count) * projection / own[:, None]


@st.composite
def systems(draws):
    """Uniform systems, with everybody."""
    count = draws(st.integers(4, 12))
    queries = draws(st.integers(1, count - 2))
    rng = np.random.default_rng(draws(st.integers(0, 2**32)))
    return shared_sets.uniform_sets(count, queries, rng)


def test_one_set_of_four_by_hand():
    # a + b and everybody: 1/4 + (3/4) P_ab / P_aa with P = (1/4) (+1, +1, -1, -1).
    rows = np.array([[1, 1, 0, 0], [1, 1, 1, 1]])
    assert estimate_shares(rows)[0] == pytest.approx([1, 1, -0.5, -0.5])
    assert masking_strengths(rows) == pytest.approx([1.5] * 4)
    # (a + b) - (c + d)/2 is 3/2 of the set's sum less 1/2 of everybody's.
    assert shared_sets.sum_factors(rows)[0] == pytest.approx([1.5, -0.5])
    assert typical_strength(4, 1) == 1.5


def test_two_sets_of_four_by_hand():
    # Crossing: P_ii = 1/2, rho = 3/4 (3/4 * 2 - 1). Equal or complementary: as one set.
    found = Counter(round(masking_strengths(rows)[0], 9) for rows in every(4, 2))
    assert found == {0.375: 24, 1.5: 12}
    assert typical_strength(4, 2) == 0.375


def test_sets_that_cannot_tell_a_client_from_the_mean_give_no_number():
    assert np.isnan(estimate_shares(np.array([[1, 1, 0, 0]]))).all()
    assert np.isnan(estimate_shares(np.ones((1, 4)))).all()


@pytest.mark.parametrize(("count", "queries"), SMALL)
def test_over_all_systems_the_masks_are_zero_exactly(count, queries):
    total = 0
    for rows in every(count, queries):
        slow = exact(rows)
        assert estimate_shares(rows) == pytest.approx(slow.astype(float), abs=1e-9)
        total = total + slow
    many = len(halves(count)) ** queries
    assert (total == np.eye(count, dtype=int) * many).all()


@pytest.mark.parametrize(
    ("count", "queries", "limit", "expected"),
    [(4, 2, 1, 12), (5, 2, 1, 30), (5, 3, 1, 20), (6, 3, 0.7, 480)],
)
def test_what_is_accepted_is_unbiased_too(count, queries, limit, expected):
    # Each system once, whatever the order of its sets: 15, 45, 120 and 1,140 of them.
    systems = (np.array([*chosen, [1] * count]) for chosen in combinations(halves(count), queries))
    kept = [rows for rows in systems if shared_sets.is_accepted(rows, queries, limit)]
    assert len(kept) == expected
    assert sum(masks(rows) for rows in kept) == pytest.approx(np.zeros((count, count)), abs=1e-9)
    for rows in kept:
        assert abs(masks(rows)).max() <= limit + 1e-9
        assert masking_strengths(rows).min() >= shared_sets.floor(count, queries) - 1e-9


def test_without_the_sum_over_everybody_it_is_unbiased():
    systems = (np.array(rows) for rows in product(halves(5), repeat=3))
    kept = [rows for rows in systems if shared_sets.is_accepted(rows, 2)]
    assert len(kept) > 100
    assert sum(masks(rows) for rows in kept) == pytest.approx(np.zeros((5, 5)), abs=1e-9)
    assert all(estimate_shares(rows).sum(axis=1) == pytest.approx(1) for rows in kept)


@given(systems())
def test_the_strength_follows_from_the_leverage(rows):
    count = rows.shape[1]
    leverage = np.diag(np.linalg.pinv(rows) @ rows) - 1 / count
    part = 1 - 1 / count
    assert masking_strengths(rows) == pytest.approx(part * (part / leverage - 1), abs=1e-6)
    # The mean over clients is least where all leverages are alike.
    assert masking_strengths(rows).mean() >= typical_strength(count, len(rows) - 1) - 1e-6


@given(systems(), st.integers(0, 99))
def test_an_estimate_is_the_update_and_masks_that_sum_to_zero(rows, seed):
    updates = np.random.default_rng(seed).normal(size=(rows.shape[1], 3))
    estimates = shared_sets.sum_factors(rows) @ (rows @ updates)
    assert estimates == pytest.approx(updates + masks(rows) @ updates, abs=1e-6)
    assert np.diag(masks(rows)) == pytest.approx(0, abs=1e-6)
    assert masks(rows).sum(axis=1) == pytest.approx(0, abs=1e-6)
    # What is common to all updates is in every estimate once; other units change nothing.
    assert shared_sets.sum_factors(rows) @ (rows @ (7 * updates + 2)) == pytest.approx(
        7 * estimates + 2, abs=1e-5
    )


@given(systems(), st.randoms(use_true_random=False))
def test_other_names_permute_the_coefficients(rows, random):
    order = random.sample(range(rows.shape[1]), rows.shape[1])
    assert estimate_shares(rows[:, order]) == pytest.approx(
        estimate_shares(rows)[np.ix_(order, order)], abs=1e-6
    )


@given(systems(), st.randoms(use_true_random=False))
def test_order_and_complements_of_sets_change_nothing(rows, random):
    sets, everybody = list(rows[:-1]), rows[-1]
    random.shuffle(sets)
    sets[0] = 1 - sets[0]
    assert estimate_shares(np.array([*sets, everybody])) == pytest.approx(
        estimate_shares(rows), abs=1e-6
    )


@pytest.mark.parametrize(
    ("names", "queries", "whole"), [(TEN, 5, True), (TEN, 5, False), (TEN[:9], 4, True)]
)
def test_a_draw_is_what_it_says_and_determines_nobody(names, queries, whole):
    half = len(names) // 2
    found = drawn(names, queries=queries, threshold=half, whole=whole)
    assert found.participants == tuple(names)
    assert len(found.sets) == queries + 1
    sizes = [len(members) for members in found.sets]
    assert sizes == [half] * queries + [len(names) if whole else half]
    assert masking_strengths(found.rows).min() >= shared_sets.floor(len(names), queries)
    weights = None if whole else {who: 12.0 + 7 * at**2 for at, who in enumerate(names)}
    exposed = sum_leakage(found.sets, half, weights)
    assert exposed.determined == {}
    assert exposed.rank == queries + (1 if whole else 2)
    assert exposed.group.exact
    assert len(exposed.group.members) >= half


def test_a_sum_of_one_other_weight_is_no_way_to_its_client():
    # The sum over everybody and the round's own differ by that client alone.
    names, weights = TEN[:8], {**dict.fromkeys(TEN[:8], 12.0), "c3": 13.0}
    for seed in range(20):
        known = drawn(names, queries=3, threshold=2, seed=seed)
        assert "c3" in sum_leakage(known.sets, 2, weights).determined
        hidden = drawn(names, queries=3, threshold=2, seed=seed, whole=False)
        assert sum_leakage(hidden.sets, 2).rank == 4
        assert sum_leakage([*hidden.sets, names], 2).rank == 5
        assert sum_leakage(hidden.sets, 2, weights).determined == {}


def test_a_limit_holds_for_all_targets():
    found = drawn(limit=0.6)
    assert abs(masks(found.rows)).max() <= 0.6 + 1e-9


@given(st.permutations(TEN), st.integers(0, 2**32), st.integers(0, 99))
def test_a_draw_knows_no_order(order, seed, number):
    assert drawn(order, seed=seed, number=number) == drawn(seed=seed, number=number)


def test_seed_and_round_each_give_other_sets():
    found = {drawn().sets, drawn(seed=1).sets, drawn(number=2).sets, drawn(seed=1, number=2).sets}
    assert len(found) == 4


def test_drawn_masks_are_zero_on_average():
    # 36 clients' masks, each at most 5 standard errors from zero, over 200 drawn systems.
    found = [
        masks(drawn(TEN[:6], queries=3, threshold=2, seed=seed, limit=0.9).rows)
        for seed in range(200)
    ]
    error = np.std(found, axis=0) / 200**0.5
    assert (abs(np.mean(found, axis=0)) <= 5 * error + 1e-9).all()
    assert error.max() > 0.01


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"queries": 0}, "0 shared sets estimate nothing: 1 at least"),
        ({"queries": 1, "whole": False}, "1 shared sets estimate nothing: 2 at least"),
        ({"queries": 9}, "9 shared sets of 10 clients would give every update away: 8 at most"),
        ({"queries": 8, "whole": False}, "8 shared sets .* 7 at most"),
        ({"threshold": 6}, "Half of 10 clients are 5, below the threshold .* 6"),
        ({"participants": TEN[:3]}, "3 clients in a round have no halves to share"),
        ({"participants": [*TEN, "c1"]}, "named more than once"),
        ({"limit": 0}, "A limit of 0 is not a share"),
        ({"limit": 1.5}, "A limit of 1.5 is not a share"),
        ({"limit": 0.1}, "None of .* within 0.1, .* the largest share was 0"),
    ],
)
def test_what_cannot_be_is_refused(change, message, monkeypatch):
    monkeypatch.setattr(shared_sets, "STARTS", 2)
    with pytest.raises(UsageError, match=message):
        drawn(**change)


def test_the_sets_of_a_seed_do_not_depend_on_how_a_processor_rounds(monkeypatch):
    def draws():
        return [
            *(drawn(TEN[:8], queries=4, threshold=4, seed=seed).sets for seed in range(10)),
            *(drawn(queries=6, limit=0.4, seed=seed).sets for seed in range(10)),
        ]

    exact, inverted, rng = draws(), np.linalg.pinv, np.random.default_rng(1)

    def rounded(*arguments, **options):
        inverse = inverted(*arguments, **options)
        return inverse * (1 + 1e-15 * rng.standard_normal(inverse.shape))

    monkeypatch.setattr(np.linalg, "pinv", rounded)
    assert draws() == exact
