"""Tests of leaks: values worked out by hand, and what no order or name may change."""

from itertools import combinations
from math import comb, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, hypergeom, norm, t

from fedaudit.api.estimates import Estimate, wilson
from fedaudit.metrics import significance
from fedaudit.metrics.significance import (
    Stratum,
    binomial_tail,
    clustered_share,
    detectable,
    false_discovery_rates,
    grouped_share,
    guess_rate,
    hits_needed,
    leak_needed,
    mcnemar,
    needed_against,
    needed_beyond,
    permutation_p_value,
    stratified_p_value,
    upper_bound,
)


def test_a_binomial_tail_by_hand():
    # Three coins: 1, 7/8, 1/2, 1/8.
    assert [binomial_tail(hits, 3, 0.5) for hits in (-1, 0, 1, 2, 3, 4)] == pytest.approx(
        [1, 1, 7 / 8, 1 / 2, 1 / 8, 0]
    )
    assert [binomial_tail(hits, 3, p) for hits, p in ((1, 0.0), (3, 1.0), (0, 0.0))] == [0, 1, 1]


@given(st.integers(-1, 10**9), st.integers(0, 10**9), st.floats(0, 1))
def test_a_binomial_tail_is_that_of_scipys_law(hits, n, p):
    expected = float(binom.sf(hits - 1, n, p))
    assert binomial_tail(hits, n, p) == pytest.approx(expected, rel=1e-9, abs=1e-300)


def test_mcnemar_is_a_fair_coin():
    # 5 gained, none lost: all five coins fall one way, 1/32.
    assert mcnemar(5, 0) == pytest.approx(1 / 32)
    # 3 gained, 1 lost: P(3 or 4 of 4) = 5/16.
    assert mcnemar(3, 1) == pytest.approx(5 / 16)
    assert mcnemar(0, 0) == 1
    # A base that knows much: 40 gained, 2 lost.
    expected = sum(comb(42, k) for k in range(40, 43)) / 2**42
    assert mcnemar(40, 2) == pytest.approx(expected)
    assert expected == pytest.approx(2.05e-10, rel=0.01)


def test_expected_counts_are_rounded_against_the_finding():
    assert mcnemar(5.9, 0.1) == mcnemar(5, 1)
    with pytest.raises(ValueError, match="at least 0"):
        mcnemar(-1, 0)


def test_one_stratum_is_fishers_test():
    # 5 of 44 targets and 0 of 176 controls: the five hits fall on 220 strings.
    expected = comb(44, 5) / comb(220, 5)
    assert stratified_p_value([Stratum(5, 44, 0, 176)]) == pytest.approx(expected)
    assert expected == pytest.approx(2.65e-4, rel=0.01)
    # 1 of 2 and 1 of 2: P(at least one of two hits among 2 of 4) = 1 - C(2,2)/C(4,2) = 5/6.
    assert stratified_p_value([Stratum(1, 2, 1, 2)]) == pytest.approx(5 / 6)


def test_strata_are_added_up():
    # Two strata of one target and one control each, both targets hit: 1/2 x 1/2.
    both = [Stratum(1, 1, 0, 1), Stratum(1, 1, 0, 1)]
    assert stratified_p_value(both) == pytest.approx(1 / 4)
    # Names leak to everybody, numbers to the victim alone: names count for nothing.
    names = Stratum(4, 4, 4, 4)
    assert stratified_p_value([names, Stratum(1, 1, 0, 3)]) == pytest.approx(1 / 4)


def test_what_cannot_be_compared_says_nothing():
    assert stratified_p_value([]) == 1
    assert stratified_p_value([Stratum(3, 3, 0, 0), Stratum(0, 5, 0, 5)]) == 1
    with pytest.raises(ValueError, match="more hits than strings"):
        Stratum(2, 1, 0, 0)


SMALL = st.integers(0, 6)


@st.composite
def strata(draw):
    n, m = draw(SMALL), draw(SMALL)
    return Stratum(draw(st.integers(0, n)), n, draw(st.integers(0, m)), m)


@given(st.lists(strata(), max_size=4), st.randoms())
def test_the_order_of_strata_does_not_matter(some, rng):
    p = stratified_p_value(some)
    assert 0 < p <= 1
    mixed = list(some)
    rng.shuffle(mixed)
    assert stratified_p_value(mixed) == pytest.approx(p)


def as_values(some):
    return [
        (
            np.array([1.0] * one.hits + [0.0] * (one.n - one.hits)),
            np.array([1.0] * one.control_hits + [0.0] * (one.control_n - one.control_hits)),
        )
        for one in some
    ]


def noise(p, draws):
    """4.5 standard errors: no weight is above 2, so the square of one is 2 p on average."""
    return 4.5 * np.sqrt((2 * p - p * p) / draws) + 2 / draws


@given(st.lists(strata(), min_size=1, max_size=3))
def test_dealing_out_anew_gives_what_the_formula_gives(some):
    p, exact = permutation_p_value(as_values(some), seed=1, draws=4000), stratified_p_value(some)
    assert p == pytest.approx(exact, abs=noise(exact, 4000))


@pytest.mark.parametrize(
    "some",
    [
        [Stratum(5, 44, 0, 176)],
        [Stratum(40, 44, 3, 176)],
        [Stratum(20, 44, 0, 176), Stratum(10, 20, 1, 60)],
    ],
)
def test_a_small_p_value_has_no_floor(some):
    """3e-4, 1e-35 and 5e-22: with plain permutations all would be 1 in the number of draws."""
    assert permutation_p_value(as_values(some), seed=0) == pytest.approx(
        stratified_p_value(some), rel=0.15
    )


PROBABILITIES = st.lists(st.sampled_from((0.0, 0.0, 0.02, 0.3, 0.31, 0.9)), min_size=1, max_size=5)


def every_deal(values):
    """Return P(the targets' sum is as large) from every way to deal each stratum."""
    sums, observed = np.zeros(1), 0.0
    for targets, controls in values:
        pooled = np.concatenate([targets, controls])
        observed += targets.sum()
        ways = combinations(range(len(pooled)), len(targets))
        sums = np.add.outer(sums, [pooled[list(way)].sum() for way in ways]).ravel()
    return float((sums >= observed - 1e-9).mean())


@given(st.lists(st.tuples(PROBABILITIES, PROBABILITIES), min_size=1, max_size=2))
def test_the_tail_is_that_of_every_deal(strata):
    values = [tuple(map(np.array, pair)) for pair in strata]
    exact = every_deal(values)
    p = permutation_p_value(values, seed=2, draws=4000)
    assert p == pytest.approx(exact, abs=noise(exact, 4000))


def test_the_test_keeps_its_level_with_few_draws():
    rng, p = np.random.default_rng(5), []
    for seed in range(150):
        pooled = rng.random(20) ** 6 * (rng.random(20) < 0.6)
        p.append(permutation_p_value([(pooled[:6], pooled[6:])], seed=seed, draws=49))
    for level in (0.02, 0.1, 0.4):
        assert np.mean(np.array(p) <= level) <= level + 3 * np.sqrt(level * (1 - level) / 150)


def test_only_the_largest_values_of_a_very_large_stratum_are_dealt(monkeypatch):
    """The targets have the two largest of five values: 1 of C(5, 2) deals."""
    monkeypatch.setattr(significance, "LARGEST", 2)
    values = [(np.array([0.5, 0.9]), np.array([0.1, 0.0, 0.4]))]
    assert permutation_p_value(values, seed=0) == pytest.approx(0.1, abs=noise(0.1, 9999))


def test_probabilities_are_dealt_out_by_hand():
    # One target of 0.9, controls 0.5 and 0: it is the largest of three in 1 of 3 deals.
    values = [(np.array([0.9]), np.array([0.5, 0.0]))]
    assert permutation_p_value(values, seed=0) == pytest.approx(1 / 3, abs=noise(1 / 3, 9999))
    assert permutation_p_value([(np.zeros(3), np.zeros(4))], seed=0) == 1


@given(st.permutations(range(6)), st.integers(-3, 3))
def test_neither_order_nor_scale_matters_to_the_deal(order, power):
    targets = np.array([0.5, 0.0, 0.2, 0.0, 0.9, 0.1])
    controls, scale = np.array([0.1, 0.0, 0.0]), 2.0**power
    p = permutation_p_value([(targets, controls)], seed=3, draws=200)
    scaled = [(targets[list(order)] * scale, controls * scale)]
    assert permutation_p_value(scaled, seed=3, draws=200) == pytest.approx(p, rel=1e-9)


def test_one_string_among_its_controls():
    assert guess_rate(0, 99) == 0.01
    assert guess_rate(99, 99) == 1
    with pytest.raises(ValueError, match="not a rate"):
        guess_rate(3, 2)


def test_the_upper_bound_of_nothing_is_known_in_closed_form():
    assert upper_bound(0, 52) == pytest.approx(1 - 0.05 ** (1 / 52))
    assert upper_bound(2, 2) == 1
    with pytest.raises(ValueError, match="not a rate"):
        upper_bound(0, 0)


def test_what_would_have_been_seen():
    # One hit of 9 among 9 + 991 strings has p = 9/1000.
    assert hits_needed(9, 0, 991, 0.01) == 1
    assert hits_needed(9, 0, 991, 0.008) == 2
    # Two targets, two controls: not even both will do at 1 %.
    assert hits_needed(2, 0, 2, 0.01) is None
    # One hit needed of n: 1 - (1 - r)^n = 0.9.
    assert detectable(1, 9) == pytest.approx(1 - 0.1 ** (1 / 9))
    assert detectable(None, 9) == detectable(10, 9) == 1


def test_few_answers_show_few_strings():
    # One answer gives one string, and two are needed.
    assert detectable(2, 10, 0.9, answers=1) == 1
    assert detectable(2, 10, 0.85, answers=2) == 1  # each of ten is given with 1 - 0.9^2 = 0.19
    # All ten leak: 30 answers give each with 1 - 0.9^30, and nine of them or ten with this power.
    shown = 1 - 0.9**30
    power = 10 * shown**9 * (1 - shown) + shown**10
    assert detectable(9, 10, power - 1e-6, answers=30) == pytest.approx(1, abs=1e-4)
    assert detectable(9, 10, power + 1e-6, answers=30) == 1
    assert detectable(2, 10, 0.9, answers=10**6) == pytest.approx(detectable(2, 10, 0.9))


@given(st.integers(1, 60), st.integers(1, 60), st.integers(1, 500))
def test_more_answers_show_no_less(n, needed, answers):
    few = detectable(needed, n, answers=answers)
    assert (
        detectable(needed, n)
        <= detectable(needed, n, answers=answers + 1)
        <= few + 1e-9
        <= 1 + 1e-9
    )


@given(
    st.integers(1, 40), st.integers(0, 5), st.integers(5, 80), st.sampled_from([0.05, 0.01, 1e-4])
)
def test_the_search_finds_what_a_scan_finds(n, hits, controls, level):
    scan = (
        h for h in range(1, n + 1) if stratified_p_value([Stratum(h, n, hits, controls)]) <= level
    )
    assert hits_needed(n, hits, controls, level) == next(scan, None)
    against = (gained for gained in range(1, 200) if mcnemar(gained, hits) <= level)
    assert needed_against(hits, level) == next(against)


@pytest.mark.parametrize("n", [10**5, 10**9, 10**12])
def test_counts_that_no_audit_has_are_tested_at_once(n):
    # A report may hold any: half of the targets against as many controls, and a few more.
    more = int(3 * (n / 2) ** 0.5)
    p = stratified_p_value([Stratum(n // 2 + more, n, n // 2, n)])
    # Of 2 n strings half are found: the targets' hits have variance n / 8, and are more / 2 above.
    z = (more / 2) / (n / 8) ** 0.5
    assert p == pytest.approx(float(norm.sf(z)), rel=0.02)
    assert hits_needed(n, 0, n, 0.01) == 7
    assert needed_against(n, 0.05) == pytest.approx(n + 1.645 * (2 * n) ** 0.5, rel=1e-3)


def test_the_law_leaves_out_nothing_that_a_float_can_hold():
    # All 5,000 targets, none of 5,000 controls: 1 of C(10000, 5000), less than any float.
    assert stratified_p_value([Stratum(5000, 5000, 0, 5000)]) == np.finfo(float).tiny
    expected = hypergeom.sf(1999, 200_000, 100_000, 3500)
    assert stratified_p_value([Stratum(2000, 100_000, 1500, 100_000)]) == pytest.approx(
        expected, rel=1e-6
    )


@given(st.integers(1, 60), st.integers(1, 60))
def test_more_hits_needed_is_less_seen(n, needed):
    assert 0 < detectable(needed, n) <= detectable(needed + 1, n) <= 1


def test_groups_are_drawn_together():
    # Two groups of two, one wholly found: the mean is 0, 1/2 or 1 with 1/4, 1/2, 1/4.
    values, groups = [1.0, 1.0, 0.0, 0.0], ["a", "a", "b", "b"]
    assert clustered_share(values, groups, seed=0) == (0.0, 1.0)
    # Every group is half found: there is nothing between them.
    assert clustered_share([1, 0, 1, 0], groups, seed=0) == (0.5, 0.5)
    with pytest.raises(ValueError, match="with a group"):
        clustered_share([], [], seed=0)


@pytest.mark.parametrize(("count", "size"), [(1, 3), (5, 2), (9, 2)])
def test_a_share_has_a_width_whatever_its_groups(count, size):
    """One of three of a single group, and groups of which every other string is found."""
    values = [1.0, *[0.0] * (size - 1)] * count
    groups = [f"g{i // size}" for i in range(count * size)]
    over_groups = wilson(count / size, count)
    assert grouped_share(values, groups) == Estimate(
        pytest.approx(1 / size), over_groups.low, over_groups.high
    )


def test_a_share_of_groups_by_hand():
    # Groups of 2, 2 and 4 with 2, 0 and 1: the share is 3/8. Less 3/8 a string they have 2 - 3/4,
    # -3/4 and 1 - 3/2, so the variance is 3/2 (25 + 9 + 4) / 16 / 64 = 57/1024, that of
    # 15/64 / (57/1024) = 80/19 strings; ungrouped ones would have less, 15/64 / 8. With two degrees
    # of freedom, t = 4.302653.
    values, groups = [1, 1, 0, 0, 1, 0, 0, 0], list("aabbcccc")
    found, n, z = grouped_share(values, groups), 80 / 19, 4.302653
    half = z / (1 + z * z / n) * sqrt(15 / 64 / n + z * z / (4 * n * n))
    middle = (3 / 8 + z * z / (2 * n)) / (1 + z * z / n)
    assert found == Estimate(
        3 / 8, pytest.approx(middle - half, abs=1e-6), pytest.approx(middle + half, abs=1e-6)
    )
    # Groups that are more alike than chance makes them are worth no more than single strings.
    alike = [1, 0, 0, 1, 1, 0, 0, 1, 1, 1, 1, 0]
    assert grouped_share(alike, list("aabbccddeeff")).low == pytest.approx(
        wilson(7, 12, t.ppf(0.975, 5)).low
    )


@pytest.mark.parametrize("within", [0.0, 0.3, 1.0])
@pytest.mark.parametrize(("count", "share"), [(4, 0.5), (6, 0.3), (12, 0.3), (25, 0.1)])
def test_a_share_of_groups_covers_the_truth(count, share, within):
    """At least 90 % of the time, of four strings a group; `within` is what each group shares."""
    rng, held, told = np.random.default_rng([count, int(10 * within)]), 0, 0
    while told < 400:
        own = rng.random((count, 4)) < share
        same = rng.random((count, 1)) < share
        values = np.where(rng.random((count, 1)) < within, same, own)
        if not 0 < values.mean() < 1:
            continue
        found = grouped_share(values.ravel().tolist(), [f"{i // 4}" for i in range(4 * count)])
        told, held = told + 1, held + (found.low <= share <= found.high)
    assert held >= 0.9 * told


@given(
    st.lists(st.tuples(st.sampled_from([0.0, 0.25, 1.0]), st.sampled_from("abcde")), min_size=1),
    st.randoms(),
)
def test_a_share_of_groups_has_its_mirror_image_and_no_order(pairs, rng):
    values, groups = [v for v, _ in pairs], [g for _, g in pairs]
    found = grouped_share(values, groups)
    assert 0 <= found.low <= found.value + 1e-9 <= found.high + 2e-9 <= 1 + 2e-9
    turned = grouped_share([1 - v for v in values], groups)
    assert (1 - turned.high, 1 - turned.low) == pytest.approx((found.low, found.high), abs=1e-6)
    rng.shuffle(pairs)
    again = grouped_share([v for v, _ in pairs], [{"a": "z"}.get(g, g) for _, g in pairs])
    assert again == Estimate(*map(pytest.approx, (found.value, found.low, found.high)))


@given(st.lists(st.tuples(st.floats(0, 1), st.sampled_from("abcd")), min_size=1), st.randoms())
def test_the_order_of_values_does_not_matter(pairs, rng):
    def interval(some):
        return clustered_share([v for v, _ in some], [g for _, g in some], seed=2, draws=50)

    mixed = list(pairs)
    rng.shuffle(mixed)
    low, high = interval(pairs)
    assert interval(mixed) == pytest.approx((low, high))
    assert 0 <= low <= high <= 1 + 1e-12


def test_hits_beyond_a_chance_by_hand():
    # Of three coins all fall heads with 1/8, two or more with 1/2.
    assert [needed_beyond(3, 0.5, level) for level in (0.6, 0.5, 0.2, 0.1)] == [2, 2, 3, 4]
    assert needed_beyond(5, 0.0, 0.01) == 1
    assert needed_beyond(5, 1.0, 0.01) == 6


@given(st.integers(1, 60), st.floats(0, 1), st.floats(1e-9, 0.5))
def test_hits_beyond_a_chance_are_the_fewest(n, chance, level):
    def tail(hits):
        return sum(comb(n, k) * chance**k * (1 - chance) ** (n - k) for k in range(hits, n + 1))

    needed = needed_beyond(n, chance, level)
    assert 1 <= needed <= n + 1
    assert tail(needed) <= level * (1 + 1e-6) + 1e-12
    assert needed == 1 or tail(needed - 1) > level * (1 - 1e-6) - 1e-12


def test_how_many_strings_must_leak_for_some_to_come_out():
    # Each comes out with 1/2: of 5, 2 or more do in 1 - 6/32 = 81 %, of 7 in 1 - 8/128 = 94 %.
    assert leak_needed(2, 20, 0.5, 0.8) == 5
    assert leak_needed(2, 20, 0.5, 0.9) == 7
    assert leak_needed(2, 4, 0.5, 0.8) is None
    assert leak_needed(3, 20, 1.0) == 3
    assert leak_needed(3, 20, 0.0) is None


def test_false_discovery_rates_by_hand():
    # 10 tests: 0.001 * 10 / 1, 0.004 * 10 / 2, 0.5 * 10 / 3 is more than 1.
    found = false_discovery_rates({"b": 0.004, "a": 0.001, "c": 0.5}, 10)
    assert found == {"a": pytest.approx(0.01), "b": pytest.approx(0.02), "c": 1.0}
    assert false_discovery_rates({}, 10) == {}
