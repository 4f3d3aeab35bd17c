import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import halfnorm, kstest, norm
from scipy.stats import t as student_t

from fedaudit.metrics.attribution.stouffer import (
    THRESHOLD,
    always_valid_boundary,
    estimate_degrees_of_freedom,
    holm,
    holm_levels,
    normal_quantile,
    null_p_value,
    null_spread,
    p_value,
    running_z,
    stopping_round,
    stouffer_z,
    supported_degrees,
    supported_p_value,
)
from fedaudit.metrics.attribution.subset_design import is_accepted, sample_coefficients


def test_rounds_combine_by_hand():
    assert stouffer_z([3.0]) == 3
    assert stouffer_z([1.0, 2.0, 3.0, 2.0]) == 4
    assert running_z([1.0, 1.0, -1.0, 3.0]) == pytest.approx([1, 2**0.5, 1 / 3**0.5, 2])


@given(st.lists(st.floats(-50, 50), min_size=1, max_size=9), st.randoms(use_true_random=False))
def test_rounds_have_no_order(scores, random):
    assert stouffer_z(random.sample(scores, len(scores))) == stouffer_z(scores)
    assert running_z(scores)[-1] == stouffer_z(scores)
    assert len(running_z(scores)) == len(scores)


@pytest.mark.parametrize("scores", [[], [1.0, math.nan], [math.inf]])
def test_no_rounds_and_no_numbers_have_no_statistic(scores):
    with pytest.raises(ValueError, match="score"):
        stouffer_z(scores)


@given(st.floats(-40, 37))
def test_a_p_value_is_scipys(z):
    assert p_value(z) == pytest.approx(norm.sf(z), rel=1e-11)


def test_a_p_value_is_never_zero():
    assert p_value(THRESHOLD) == pytest.approx(3.167e-5, rel=1e-3)
    assert 0 < p_value(1e6) <= p_value(39) < p_value(38) < p_value(37)
    assert (p_value(0), p_value(-1e6)) == (0.5, 1)


def simulated(federations, mean, seed, *, rounds=(1, 2, 3, 4, 5)):
    """Return Z of one client in each of many federations, and the rounds it took part in.

    A synthetic score: the estimate's component along the mark, in units of its standard deviation,
    which is known because all the clients' updates are standard normal around their means.
    """
    rng = np.random.default_rng(seed)
    c = sample_coefficients(10, 5, 5, draws=federations * 6, seed=seed)
    c = c[is_accepted(np.rint(c * 5).astype(int), 5, 5)][: federations * 5]
    mark = rng.normal(size=8)
    mark /= np.linalg.norm(mark)
    own, others = rng.normal(size=(len(c), 8)), rng.normal(size=(len(c), 9, 8))
    estimates = own + np.einsum("nj,njd->nd", c, others)
    scores = (estimates @ mark / np.sqrt(1 + (c**2).sum(axis=1)) + mean).reshape(federations, 5)
    took_part = rng.choice(rounds, size=federations)
    z = [stouffer_z(row[:of].tolist()) for row, of in zip(scores, took_part, strict=True)]
    return np.array(z), took_part


def test_p_values_are_uniform_without_a_mark():
    z, took_part = simulated(6000, 0.0, seed=1)
    assert kstest([p_value(value) for value in z], "uniform").pvalue > 0.05
    for rounds in range(1, 6):  # uniform however many rounds a client took part in
        part = z[took_part == rounds]
        assert len(part) > 1000
        assert kstest([p_value(value) for value in part], "uniform").pvalue > 0.01
    # Divided by the federation's rounds instead of the client's, they would not be.
    wrong = z * np.sqrt(took_part / 5)
    assert kstest([p_value(value) for value in wrong], "uniform").pvalue < 1e-6


@pytest.mark.parametrize("rounds", [2, 5])
def test_power_is_as_theory_has_it(rounds):
    z, _ = simulated(6000, 1.7, seed=2, rounds=(rounds,))
    wanted = norm.cdf(1.7 * rounds**0.5 - THRESHOLD)
    assert 0.04 < wanted < 0.5
    assert (z > THRESHOLD).mean() == pytest.approx(wanted, abs=4 * (wanted / 6000) ** 0.5)


def test_holm_by_hand():
    # In order .005, .01, .03, .04: times 4, 3, 2, 1 are .02, .03, .06, .04, and never falling.
    assert holm([0.01, 0.04, 0.005, 0.03]) == pytest.approx([0.03, 0.06, 0.02, 0.06])
    assert holm([0.6, 0.5]) == [1, 1]
    assert (holm([]), holm([0.2])) == ([], [0.2])
    # Two further tests of p = 1 come last: the factors are 4 and 3, not 2 and 1.
    assert holm([0.01, 0.2], further=2) == pytest.approx([0.04, 0.6])
    assert holm([0.01, 0.2], further=2) == pytest.approx(holm([0.01, 0.2, 1.0, 1.0])[:2])


P = st.lists(st.integers(0, 100).map(lambda hundredths: hundredths / 100), min_size=1, max_size=9)


def stepped_down(p, alpha):
    """Return who is rejected: the smallest p while it is below alpha over what is left."""
    left, rejected = set(range(len(p))), set()
    while left:
        best = min(left, key=lambda at: p[at])
        if p[best] * len(left) > alpha:
            break
        left.remove(best)
        rejected.add(best)
    return rejected


@given(P, st.sampled_from([0.01, 0.05, 0.1, 0.31, 0.5]))
def test_holm_rejects_as_stepping_down_does(p, level):
    alpha = level + 1e-5  # between the multiples of a hundredth
    assert {at for at, value in enumerate(holm(p)) if value <= alpha} == stepped_down(p, alpha)


@given(P, st.randoms(use_true_random=False))
def test_holm_knows_no_order_and_lowers_nothing(p, random):
    order = random.sample(range(len(p)), len(p))
    adjusted = holm(p)
    assert holm([p[at] for at in order]) == [adjusted[at] for at in order]
    assert all(
        value <= after <= min(1, len(p) * value) for value, after in zip(p, adjusted, strict=True)
    )


@pytest.mark.parametrize("p", [[-0.1], [1.5, 0.2], [math.nan]])
def test_a_p_value_is_a_probability(p):
    with pytest.raises(ValueError, match="between 0 and 1"):
        holm(p)


@pytest.mark.parametrize("rounds", [1, 5, 60])
@pytest.mark.parametrize("alpha", [0.05, 3.17e-5])
def test_the_open_boundary_is_where_the_likelihood_ratio_is_one_in_alpha(rounds, alpha):
    total = always_valid_boundary(rounds, alpha) * rounds**0.5

    def ratio(mean):
        return halfnorm.pdf(mean) * math.exp(mean * total - rounds * mean**2 / 2)

    found, _ = quad(ratio, 0, 12, points=[total / (1 + rounds)], limit=200)
    assert found == pytest.approx(1 / alpha, rel=1e-6)


def crossed(scores, alpha):
    """Return the share of the rows whose Z ever exceeds the boundary."""
    count = np.arange(1, scores.shape[1] + 1)
    limits = [always_valid_boundary(int(rounds), alpha) for rounds in count]
    return (scores.cumsum(axis=1) / np.sqrt(count) > limits).any(axis=1).mean()


def test_looking_after_every_round_keeps_the_error():
    scores = np.random.default_rng(5).normal(size=(40_000, 60))
    slack = 4 * (0.05 / 40_000) ** 0.5
    assert 0.015 < crossed(scores, 0.05) < 0.05 + slack
    assert crossed(scores - 0.3, 0.05) < crossed(scores, 0.05)
    # The quantile for one look does not keep it.
    z = scores.cumsum(axis=1) / np.sqrt(np.arange(1, 61))
    assert (z > norm.isf(0.05)).any(axis=1).mean() > 0.2


@pytest.mark.parametrize(("rounds", "alpha"), [(0, 0.05), (1, 0), (1, 0.5), (1, math.nan)])
def test_no_such_boundary(rounds, alpha):
    with pytest.raises(ValueError, match=r"Round|error"):
        always_valid_boundary(rounds, alpha)


@pytest.mark.parametrize("alpha", [0.05, 0.01, 1e-3, 3e-5])
def test_the_open_boundary_keeps_the_error_of_twenty_rounds_however_they_depend(alpha):
    # By Bonferroni: what each round's Z passes it by, added up.
    assert sum(p_value(always_valid_boundary(rounds, alpha)) for rounds in range(1, 21)) < alpha


@given(st.floats(-6, 30))
def test_a_p_value_and_its_number_are_one_and_the_same(z):
    assert normal_quantile(p_value(z)) == pytest.approx(z, abs=1e-6)


def test_stopping_by_hand():
    # The boundary at 1 in 1000 is 5.12, 4.51, 4.29; Z is 3, 4.24, 5.20.
    assert stopping_round(running_z([3.0] * 9), 0.001) == 3
    assert stopping_round(running_z([3.0] * 2), 0.001) is None
    assert stopping_round(running_z([5.2, -9.0]), 0.001) == 1
    assert stopping_round([], 0.001) is None


def test_the_spread_by_hand():
    # Two rounds, two null marks: Z is (1 + 3) / sqrt 2 and (1 - 1) / sqrt 2; squares 8 and 0.
    assert null_spread([[1.0, 1.0], [3.0, -1.0]]) == pytest.approx(2)
    assert null_spread([[0.0, 0.0]]) == 0
    # The same in each of four rounds: Z is twice a round's score.
    assert null_spread([[1.0, -1.0, 1.0]] * 4) == pytest.approx(2)


@given(
    st.lists(st.lists(st.floats(-9, 9), min_size=3, max_size=3), min_size=1, max_size=5),
    st.floats(0, 5),
    st.permutations([0, 1, 2]),
)
def test_the_spread_scales_and_has_no_order(null, factor, order):
    whole = null_spread(null)
    assert null_spread([[factor * x for x in row] for row in null]) == pytest.approx(factor * whole)
    assert null_spread([[row[at] for at in order] for row in null[::-1]]) == pytest.approx(whole)
    assert 0 <= whole <= len(null) ** 0.5 * max(abs(x) for row in null for x in row) + 1e-9


@pytest.mark.parametrize("null", [[], [[]], [[], []]])
def test_without_null_marks_there_is_no_spread(null):
    with pytest.raises(ValueError, match="null mark"):
        null_spread(null)


def test_the_p_value_under_null_marks_by_hand():
    # Student's t with one degree of freedom is Cauchy's: P(T > 1) = 1/4; with two,
    # P(T > t) = 1/2 - t / (2 sqrt(2 + t^2)).
    assert null_p_value(1.5, 1.5, 1) == pytest.approx(0.25)
    assert null_p_value(2.0, 1.0, 2) == pytest.approx(0.5 - 2 / (2 * 6**0.5))
    assert null_p_value(8.0, 2.0, 10**9) == pytest.approx(p_value(4.0), rel=1e-5)
    assert 0 < null_p_value(1e300, 1.0, 256) < 1e-300


def test_the_tails_of_null_marks_by_hand():
    # All at 3^(1/2): the fourth moment is 9, 6 above the normal law's, 3 + 6 / 6 degrees. Two
    # standard errors of it are 2 (24 / R)^(1/2): 4 for six null marks, 6.9 for two.
    assert estimate_degrees_of_freedom(np.array([[3**0.5, -(3**0.5)] * 3])) == pytest.approx(4)
    assert estimate_degrees_of_freedom(np.array([[3**0.5, -(3**0.5)]] * 9)) == math.inf
    assert estimate_degrees_of_freedom(np.zeros((4, 24))) == math.inf


def test_what_null_marks_support_by_hand():
    # 64 null marks: 3 + 1.5 degrees, and p-values down to 1 / 65^2; 1 % over 30 tests takes 54.
    assert supported_degrees(64) == 4.5
    assert supported_p_value(64) == pytest.approx(1 / 4225)
    assert supported_p_value(54) <= 0.01 / 30 < supported_p_value(53)


def test_student_t_is_told_from_the_normal_law():
    rng = np.random.default_rng(0)
    normal = rng.standard_normal((10, 256))
    heavy = rng.standard_t(5, (10, 256)) * (3 / 5) ** 0.5
    assert estimate_degrees_of_freedom(normal) == math.inf
    assert 3 < estimate_degrees_of_freedom(heavy) < 10
    # By the law itself a Z of 4 deviations has P(t > 4 sqrt(5 / 3)); what is taken is not less.
    law = float(student_t.sf(4 * (5 / 3) ** 0.5, 5))
    assert law <= null_p_value(4.0, 1.0, estimate_degrees_of_freedom(heavy)) <= 5 * law


@given(
    st.lists(st.lists(st.floats(-9, 9), min_size=8, max_size=8), min_size=2, max_size=4),
    st.floats(1, 3),
    st.permutations(range(8)),
)
def test_tails_have_no_order_and_are_heavier_the_farther_out(standardized, factor, order):
    rows = np.array(standardized)
    whole = estimate_degrees_of_freedom(rows)
    assert whole > 3
    assert estimate_degrees_of_freedom(rows[::-1][:, list(order)]) == pytest.approx(whole)
    assert estimate_degrees_of_freedom(factor * rows) <= whole * (1 + 1e-9)


def test_the_levels_of_holm_by_hand():
    # 0.001 <= 0.05 / 4, 0.02 > 0.05 / 3: the rest is held against that.
    levels = holm_levels([0.02, 0.001, 0.5, 0.04], 0.05)
    assert levels == pytest.approx([0.05 / 3, 0.05 / 4, 0.05 / 3, 0.05 / 3])
    assert holm_levels([], 0.05) == []
    assert holm_levels([0.02, 0.001], 0.05, further=2) == pytest.approx([0.05 / 3, 0.05 / 4])


@given(st.lists(st.floats(0, 1), max_size=8), st.floats(0.001, 0.4))
def test_p_is_within_its_level_where_the_adjusted_p_is_within_alpha(p, alpha):
    for value, level, adjusted in zip(p, holm_levels(p, alpha), holm(p), strict=True):
        if abs(adjusted - alpha) > 1e-9:
            assert (value <= level) == (adjusted <= alpha)
