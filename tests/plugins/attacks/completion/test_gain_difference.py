"""Difference in differences: values by hand, a slow obvious test, size, and order."""

from dataclasses import replace
from itertools import combinations
from math import comb, sqrt

import numpy as np
import pytest
from fedaudit_plugins.attacks.completion import gain_difference
from fedaudit_plugins.attacks.completion.gain_difference import RecordGain, detectable, difference
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import t


def gains(side, *groups, stratum="s"):
    return [
        RecordGain(f"{side}{number}", stratum, value)
        for number, values in enumerate(groups)
        for value in values
    ]


def test_one_stratum_by_hand():
    """Means 0.9 and 0.2; what is left adds up to 0 in every cluster, so there is no error."""
    treated = gains("a", (1.0, 0.8), (0.9,))
    others = gains("b", (0.4, 0.0), (0.2,))
    found = difference(treated, others, seed=0)
    assert found.value == pytest.approx(0.7)
    assert found.error == pytest.approx(0)
    assert (found.n, found.clusters) == ((3, 3), (2, 2))
    assert found.spread == pytest.approx(9 / 5)
    # Of six ways to deal four groups only the true one shows as much.
    assert (found.p, found.least_p) == (pytest.approx(1 / 6), pytest.approx(1 / 6))


def test_the_error_by_hand():
    """Means 0.5 and 0.25. Each cluster has one record: sum of residual^2 / n^2, side by side."""
    found = difference(gains("a", (1,), (0,)), gains("b", (0.5,), (0,)), seed=0)
    assert found.value == pytest.approx(0.25)
    assert found.error == pytest.approx(sqrt((0.25 + 0.25) / 4 + (0.0625 + 0.0625) / 4))


def test_strata_are_compared_with_their_own():
    """Task x: 1 against 0.5 (one and two records), weight 2/3; y: 0.5 against 0, weight 1.

    What only one side has says nothing.
    """
    treated = [
        RecordGain("a", "x", 1.0),
        RecordGain("b", "y", 0.5),
        RecordGain("c", "y", 0.5),
        RecordGain("d", "z", 9.0),
    ]
    others = [
        RecordGain("e", "x", 0.5),
        RecordGain("f", "x", 0.5),
        RecordGain("g", "y", 0.0),
        RecordGain("g", "y", 0.0),
    ]
    found = difference(treated, others, seed=0)
    assert found.value == pytest.approx(0.5)
    assert (found.n, found.clusters) == ((3, 4), (3, 3))
    uneven = [replace(one, value=0.0) if one.stratum == "x" else one for one in others]
    assert difference(treated, uneven, seed=0).value == pytest.approx((2 / 3 * 1 + 0.5) / (5 / 3))
    assert difference(treated[-1:], others, seed=0) is None


def slow(treated, others):
    """Return the exact p-value: every way to deal the clusters, a regression for each."""
    names = sorted({one.cluster for one in (*treated, *others)})
    records = [*treated, *others]
    y = np.array([one.value for one in records])
    strata = sorted({one.stratum for one in records})
    dummies = np.array([[one.stratum == s for s in strata] for one in records], dtype=float)

    def score(chosen):
        d = np.array([one.cluster in chosen for one in records], dtype=float)
        x = np.column_stack([d, dummies])
        inverse = np.linalg.pinv(x.T @ x)
        left = y - x @ (inverse @ x.T @ y)
        meat = np.zeros_like(inverse)
        for name in names:
            own = np.array([one.cluster == name for one in records])
            part = x[own].T @ left[own]
            meat += np.outer(part, part)
        variance = (inverse @ meat @ inverse)[0, 0]
        return (inverse @ x.T @ y)[0] / sqrt(variance)

    real = {one.cluster for one in treated}
    all_ = [score(set(some)) for some in combinations(names, len(real))]
    return sum(one >= score(real) - 1e-6 for one in all_) / len(all_)


def test_the_p_value_is_that_of_every_way_to_deal_the_clusters():
    rng = np.random.default_rng(3)
    for _ in range(3):
        made = [
            RecordGain(
                f"{side}{cluster}", "xy"[record % 2], float(rng.random() + 0.3 * (side == "a"))
            )
            for side, size in (("a", 4), ("b", 5))
            for cluster in range(size)
            for record in range(int(rng.integers(2, 5)))
        ]
        treated = [one for one in made if one.cluster[0] == "a"]
        others = [one for one in made if one.cluster[0] == "b"]
        found = difference(treated, others, seed=0)
        assert found.p == pytest.approx(slow(treated, others))
        assert found.least_p == 1 / comb(9, 4)


def test_a_certain_leak_has_the_p_value_of_its_one_deal():
    """30 of 30 against 0 of 60: only one deal in C(90, 30), 1.5e-24, shows as much."""
    found = difference(gains("a", *[(1.0,)] * 30), gains("b", *[(0.0,)] * 60), seed=0)
    assert found.p == pytest.approx(1 / comb(90, 30), rel=0.15)
    assert found.least_p == 1 / comb(90, 30)


def test_drawn_deals_agree_with_all(monkeypatch):
    rng = np.random.default_rng(7)
    treated = gains("a", *[(float(rng.random() + 0.5),) for _ in range(5)])
    others = gains("b", *[(float(rng.random()), 0.5) for _ in range(7)])
    exact = difference(treated, others, seed=0).p
    monkeypatch.setattr(gain_difference, "RESAMPLES", comb(12, 5) - 1)
    drawn = np.mean([difference(treated, others, seed=seed).p for seed in range(20)])
    assert drawn == pytest.approx(exact, rel=0.25)


def test_a_gain_of_both_is_none_and_the_margin_is_taken_off():
    same = gains("a", *[(0.3,)] * 12)
    assert difference(same, same, seed=0).p == 1
    more = [replace(one, value=0.31 + 0.001 * (number % 2)) for number, one in enumerate(same)]
    assert difference(more, same, seed=0).p < 0.001
    assert difference(more, same, seed=0, margin=0.02).p > 0.9


def test_records_of_one_cluster_are_no_evidence_of_their_own():
    """Thirty records of one person say as much as one."""
    found = difference(gains("a", (1.0,) * 30), gains("b", *[(0.0,)] * 20), seed=0)
    assert found.p == pytest.approx(1 / 21)
    assert detectable(found, level=0.01, power=0.9) is None


def test_what_would_have_been_seen_by_hand():
    """Nothing scatters: d = c sqrt(d (1 - d) / n), so d = c^2 / (n + c^2)."""
    none = gains("a", *[(0.0,)] * 130)
    found = difference(none, none, seed=0)
    square = (t.ppf(0.99, 129) + t.ppf(0.9, 129)) ** 2
    assert detectable(found, level=0.01, power=0.9) == pytest.approx(square / (130 + square))
    assert detectable(found, level=0.01, power=0.9, margin=0.02) == pytest.approx(
        0.02 + square / (130 + square)
    )
    rough = replace(found, error=0.2)
    d = detectable(rough, level=0.01, power=0.9)
    assert d == pytest.approx(sqrt(square * (0.2**2 + d * (1 - d) / 130)))
    assert detectable(replace(found, clusters=(1, 200)), level=0.01, power=0.9) is None
    assert detectable(replace(found, least_p=0.02), level=0.01, power=0.9) is None


def test_what_would_be_seen_is_seen(monkeypatch):
    """Leaks of the size that 150 records would show are found by nine tests in ten or more."""
    monkeypatch.setattr(gain_difference, "RESAMPLES", 399)
    rng = np.random.default_rng(0)
    none = gains("b", *[(0.0,)] * 150)
    size = detectable(difference(none, none, seed=0), level=0.01, power=0.9)
    seen = 0
    for seed in range(20):
        leaky = gains("a", *[(float(rng.random() < size),) for _ in range(150)])
        seen += difference(leaky, none, seed=seed).p <= 0.01
    assert seen >= 17


GAINS = st.builds(
    RecordGain,
    st.sampled_from("abcdefgh"),
    st.sampled_from("xy"),
    st.sampled_from((-0.5, 0.0, 1 / 3, 1.0)),
)


@given(
    st.lists(GAINS, min_size=1, max_size=12), st.lists(GAINS, min_size=1, max_size=12), st.data()
)
def test_order_and_names_change_nothing(treated, others, data):
    found = difference(treated, others, seed=1)
    names = dict(zip("abcdefgh", data.draw(st.permutations("abcdefgh")), strict=True))
    renamed = [
        [replace(one, cluster=names[one.cluster]) for one in data.draw(st.permutations(side))]
        for side in (treated, others)
    ]
    again = difference(*renamed, seed=1)
    if found is None:
        assert again is None
        return
    assert again.p == found.p
    assert (again.value, again.error) == pytest.approx((found.value, found.error), abs=1e-9)
    assert (again.low, again.high) == pytest.approx((found.low, found.high), abs=1e-9)
    assert found.low <= found.value <= found.high
    assert found.least_p <= found.p + 1e-12 <= 1 + 1e-9
