from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from fedaudit.api.errors import UsageError
from fedaudit.attribution.server.masks import foreign_shares
from fedaudit.metrics.attribution import subset_design
from fedaudit.metrics.attribution.subset_design import (
    Design,
    acceptance_rate,
    accepted_strength,
    covariance_scale,
    draw,
    effective_size,
    expected_strength,
    is_accepted,
    masking_strength,
    sample_coefficients,
)

TEN = [f"c{at}" for at in range(10)]


def coefficients(design, clients):
    """Return c: the share of each client's update in the estimate."""
    shares = design.combination.client_shares()
    return np.array([shares.get(client, 0.0) for client in clients])


def drawn(
    participants=TEN, target="c3", *, others=5, queries=5, threshold=1, seed=0, number=0, limit=1.0
):
    return draw(
        participants,
        target,
        mask_size=others,
        queries=queries,
        threshold=threshold,
        seed=seed,
        number=number,
        limit=limit,
    )


@st.composite
def designs(draws):
    """A design that nothing was rejected for."""
    size = draws(st.integers(3, 8))
    names = [f"c{at}" for at in range(size)]
    others, queries = draws(st.integers(1, size - 2)), draws(st.integers(1, 4))
    members = st.permutations(names[1:]).map(lambda order: tuple(sorted(order[:others])))
    sides = st.lists(members, min_size=queries, max_size=queries)
    include = tuple(tuple(sorted((*chosen, "c0"))) for chosen in draws(sides))
    return names, Design("c0", include, tuple(draws(sides)))


# By hand: 2 m (n1 - m) / (K n1).
@pytest.mark.parametrize(
    ("shape", "strength", "printed"),
    [
        ((10, 4, 5), Fraction(40, 45), 0.889),
        ((10, 5, 5), Fraction(40, 45), 0.889),
        ((20, 4, 5), Fraction(120, 95), 1.263),
        ((50, 4, 5), Fraction(360, 245), 1.469),
        ((50, 16, 5), Fraction(1056, 245), 4.310),
    ],
)
def test_the_papers_strengths(shape, strength, printed):
    assert expected_strength(*shape) == pytest.approx(float(strength), rel=1e-14)
    assert round(expected_strength(*shape), 3) == printed


@pytest.mark.parametrize("shape", [(10, 5, 5), (20, 4, 5), (50, 16, 3), (3, 1, 1)])
def test_the_two_forms_of_the_covariance(shape):
    number, others, queries = shape
    factor = others * (number - 1 - others) / (number - 2)  # theorem 2
    assert covariance_scale(number, expected_strength(*shape)) == pytest.approx(
        2 / queries * factor
    )


def test_a_strength_and_a_size_by_hand():
    c = np.array([0.4, -0.4, 0.2, -0.2, 0])
    assert masking_strength(c) == pytest.approx(0.4)
    assert effective_size(c) == pytest.approx(0.16 / (2 * 0.0256 + 2 * 0.0016))
    assert (masking_strength(np.zeros(3)), effective_size(np.zeros(3))) == (0, 0)


def test_a_design_by_hand():
    design = Design("a", (("a", "b", "c"), ("a", "b", "d")), (("b", "c"), ("b", "c")))
    assert coefficients(design, ["b", "c", "d"]).tolist() == [0, -0.5, 0.5]
    assert design.combination.coefficients == {
        ("a", "b", "c"): 0.5,
        ("a", "b", "d"): 0.5,
        ("b", "c"): -1.0,
    }
    assert list(design.combination.coefficients) == sorted(design.combination.coefficients)


@given(designs(), st.integers(0, 99))
def test_the_signed_sums_are_the_update_and_its_masks(case, seed):
    names, design = case
    updates = dict(
        zip(names, np.random.default_rng(seed).normal(size=(len(names), 3)), strict=True)
    )
    estimate = sum(
        by * sum(updates[who] for who in who_all)
        for who_all, by in design.combination.coefficients.items()
    )
    masks = zip(coefficients(design, names[1:]), names[1:], strict=True)
    assert estimate == pytest.approx(updates["c0"] + sum(c * updates[who] for c, who in masks))
    assert coefficients(design, ["c0"]) == [1]


@given(designs())
def test_swapping_the_two_sides_negates_the_coefficients(case):
    names, design = case
    swapped = Design(
        "c0",
        tuple(tuple(sorted(("c0", *members))) for members in design.exclude),
        tuple(tuple(set(members) - {"c0"}) for members in design.include),
    )
    c, mirrored = coefficients(design, names[1:]), coefficients(swapped, names[1:])
    assert mirrored.tolist() == (-c).tolist()
    assert masking_strength(c) == masking_strength(mirrored)
    assert effective_size(c) == effective_size(mirrored)


@given(designs(), st.randoms(use_true_random=False))
def test_other_names_permute_the_coefficients(case, random):
    names, design = case
    new = dict(zip(names, random.sample(names, len(names)), strict=True))
    renamed = Design(
        new["c0"],
        *(
            tuple(tuple(sorted(new[who] for who in members)) for members in side)
            for side in (design.include, design.exclude)
        ),
    )
    others = [new[who] for who in names[1:]]
    assert coefficients(renamed, others).tolist() == coefficients(design, names[1:]).tolist()


@given(designs())
def test_bounds_of_strength_and_size(case):
    names, design = case
    c = coefficients(design, names[1:])
    assert c.sum() == pytest.approx(0, abs=1e-12)
    assert abs(c).max() <= 1
    rho = masking_strength(c)
    # n_eff >= rho because |c_j| <= 1, and at most as many clients as mask (Cauchy and Schwarz).
    assert rho - 1e-9 <= effective_size(c) <= np.count_nonzero(c) + 1e-9
    # The rule in whole numbers against the rule as printed, away from rounding.
    others, queries = len(design.exclude[0]), len(design.exclude)
    half = expected_strength(len(names), others, queries) / 2
    kept = is_accepted(np.rint(c * queries).astype(int), others, queries)
    if abs(rho - half) > 1e-9:
        assert kept == (rho >= half)
    else:
        assert kept


def test_a_draw_is_what_it_says():
    found = drawn(threshold=5)
    assert found.target == "c3"
    assert len(found.include) == len(found.exclude) == 5
    for members in found.include:
        assert len(set(members)) == 6
        assert "c3" in members
    for members in found.exclude:
        assert len(set(members)) == 5
        assert "c3" not in members
    for members in (*found.include, *found.exclude):
        assert set(members) <= set(TEN)
        assert list(members) == sorted(members)


@given(st.permutations(TEN), st.integers(0, 2**32), st.integers(0, 99))
def test_a_draw_knows_no_order(order, seed, number):
    assert drawn(order, seed=seed, number=number) == drawn(seed=seed, number=number)


def test_seed_round_and_target_each_give_another_design():
    first = [drawn(), drawn(seed=1), drawn(number=1), drawn(target="c4")]
    others = [coefficients(one, sorted(set(TEN) - {one.target})).tolist() for one in first]
    assert len({tuple(c) for c in others}) == 4
    assert drawn(seed=1, number=0) != drawn(seed=0, number=1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"others": 0}, "0 others in a set would ask for the target's own update"),
        ({"others": 9}, "all that take part: the difference would be the target's own update"),
        ({"others": 10}, "10 others in a set are too many: 9 take part"),
        ({"others": 4, "threshold": 5}, "4 others .* below the threshold of secure aggregation, 5"),
        ({"queries": 0}, "0 pairs of sums estimate nothing"),
        ({"queries": 10**400}, "pairs of sums are too many: 10,000 at most"),
        ({"target": "c10"}, "c10 took no part in the round"),
        ({"participants": ["c3", "c4"], "others": 1}, "2 clients in a round are too few"),
        ({"participants": ["c3", "c4", "c4"], "others": 1}, "named more than once"),
    ],
)
def test_what_reveals_an_update_is_refused(change, message):
    with pytest.raises(UsageError, match=message) as raised:
        drawn(**change)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("others", [0, 9, 10])
def test_nor_is_it_simulated(others):
    with pytest.raises(UsageError):
        acceptance_rate(10, others, 5, draws=10)


def test_no_draws_simulate_nothing():
    with pytest.raises(ValueError, match="0 draws"):
        sample_coefficients(10, 5, 5, draws=0)


def test_every_set_is_equally_likely():
    rng = np.random.default_rng(0)
    picked = subset_design._random_masks(rng, (20_000, 5), 2)
    assert (picked.sum(axis=1) == 2).all()
    counts = np.bincount(picked @ (1 << np.arange(5)))
    assert np.count_nonzero(counts) == 10
    assert chisquare(counts[counts > 0]).pvalue > 0.01


def test_the_size_of_a_block_changes_nothing(monkeypatch):
    whole = sample_coefficients(10, 4, 3, draws=1000, seed=2)
    monkeypatch.setattr(subset_design, "BLOCK", 700)
    assert sample_coefficients(10, 4, 3, draws=1000, seed=2).tolist() == whole.tolist()
    assert whole.shape == (1000, 9)


@pytest.mark.parametrize("limit", [1.0, 0.5])
@pytest.mark.parametrize("shape", [(3, 1, 1), (4, 1, 2), (5, 2, 1), (4, 2, 2), (5, 2, 2)])
def test_simulation_against_every_design(shape, limit):
    number, others, queries = shape
    if limit * queries < 1:
        pytest.skip("a limit below 1/K allows no design")
    choices = [np.bincount(chosen, minlength=number - 1)
               for chosen in combinations(range(number - 1), others)]  # fmt: skip
    masks = [sum(sets[:queries]) - sum(sets[queries:])
             for sets in product(choices, repeat=2 * queries)]  # fmt: skip
    strengths = [Fraction(int((mask**2).sum()), queries**2) for mask in masks]
    mean = sum(strengths) / len(strengths)
    assert float(mean) == pytest.approx(expected_strength(*shape), rel=1e-12)
    kept = [
        strength
        for strength, mask in zip(strengths, masks, strict=True)
        if strength >= mean / 2 and abs(mask).max() <= limit * queries
    ]
    rate = len(kept) / len(strengths)
    error = max(1e-12, (rate * (1 - rate) / 20_000) ** 0.5)
    found = acceptance_rate(*shape, limit=limit, draws=20_000, seed=3)
    assert found == pytest.approx(rate, abs=4 * error)
    spread = np.std([float(strength) for strength in kept]) / (20_000 * rate) ** 0.5
    found = accepted_strength(*shape, limit=limit, draws=20_000, seed=3)
    assert found == pytest.approx(float(sum(kept) / len(kept)), abs=4 * spread + 1e-12)


# The rates of the specification, which has them by simulation, too.
@pytest.mark.parametrize(
    ("shape", "rate", "within"),
    [
        ((10, 5, 5), 0.875, 0.005),
        ((20, 4, 5), 0.975, 0.005),
        ((50, 4, 5), 0.9985, 0.001),
        ((50, 16, 5), 0.999, 0.001),
    ],
)
def test_acceptance_rates(shape, rate, within):
    assert acceptance_rate(*shape, draws=40_000) == pytest.approx(rate, abs=within)


def test_draws_have_half_of_the_expected_strength():
    others = [name for name in TEN if name != "c3"]
    half = expected_strength(10, 5, 5) / 2
    for seed in range(200):
        c = coefficients(drawn(seed=seed), others)
        assert min(masking_strength(c), effective_size(c)) >= half


@pytest.mark.parametrize("limit", [pytest.param(1.0, marks=pytest.mark.oracle), 0.4])
def test_many_designs_are_right_on_average(limit):
    updates = np.random.default_rng(7).normal(3, 2, (10, 4))
    c = np.array([coefficients(drawn(seed=seed, limit=limit), TEN) for seed in range(4000)])
    assert (c[:, 3] == 1).all()
    assert abs(np.delete(c, 3, axis=1)).max() <= limit + 1e-12
    estimates = c @ updates
    strength = accepted_strength(10, 5, 5, limit=limit)
    sigma = np.cov(np.delete(updates, 3, axis=0).T, bias=True)
    wanted = covariance_scale(10, strength) * sigma
    error = np.sqrt(np.diag(wanted) / 4000)
    assert (abs(estimates.mean(axis=0) - updates[3]) / error).max() < 3
    assert relative(np.cov(estimates.T, bias=True), wanted) < 0.05


@pytest.mark.parametrize("limit", [0, -0.5, 1.01, 2, float("nan"), float("inf"), -float("inf")])
def test_what_is_no_limit_is_refused(limit):
    with pytest.raises(UsageError, match="is not a share of an update"):
        drawn(limit=limit)


def test_a_limit_that_no_design_keeps_is_refused(monkeypatch):
    monkeypatch.setattr(subset_design, "TRIES", 1_000)
    with pytest.raises(UsageError, match="1,000 designs of 2 pairs"):
        drawn(queries=2, limit=0.4)


def relative(found, wanted):
    return np.linalg.norm(found - wanted) / np.linalg.norm(wanted)


@pytest.mark.parametrize("shape", [(10, 5, 5), (10, 1, 2), (20, 4, 5)])
def test_the_covariance_without_and_with_rejection(shape):
    number, others, queries = shape
    updates = np.random.default_rng(1).normal(size=(number - 1, 3)) * [1, 2, 5] + [9, 0, -4]
    c = sample_coefficients(*shape, draws=20_000, seed=4)
    wanted = covariance_scale(number, expected_strength(*shape)) * np.cov(updates.T, bias=True)
    assert relative(np.cov((c @ updates).T), wanted) < 0.05
    kept = c[is_accepted(np.rint(c * queries).astype(int), others, queries)]
    ratio = accepted_strength(*shape) / expected_strength(*shape)
    assert ratio > 1
    assert relative(np.cov((kept @ updates).T), ratio * wanted) < 0.05
    # Each set has as many members, so what all the others share cancels.
    assert kept @ np.ones(number - 1) == pytest.approx(0, abs=1e-12)


def test_rejection_adds_nine_percent_at_the_defaults():
    ratio = accepted_strength(10, 5, 5) / expected_strength(10, 5, 5)
    assert ratio == pytest.approx(1.094, abs=0.004)


def test_weighted_sums_by_hand():
    design = Design("a", (("a", "b"), ("a", "c")), (("b",), ("d",)))
    updates = {"a": 2.0, "b": 3.0, "c": 5.0, "d": 7.0}
    weights = {"a": 0.5, "b": 1.0, "c": 4.0, "d": 2.0}
    total = sum(by * sum(weights[who] * updates[who] for who in members)
                for members, by in design.combination.coefficients.items())  # fmt: skip
    assert foreign_shares(design.combination, weights) == {"b": 0, "c": 4, "d": -2}
    assert total / 0.5 == 2 + 4 * 5 - 2 * 7
