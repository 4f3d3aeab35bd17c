"""How far Z goes by chance: by hand, and over keys of texts that repeat themselves."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import kstest
from single_round import single_round

from fedaudit.api.errors import InputError
from fedaudit.api.watermark import Score
from fedaudit.attribution import scores as files
from fedaudit.attribution.decision.decision import (
    NullDistribution,
    decide,
    null_distributions,
    verdicts,
)
from fedaudit.attribution.scores import RoundScores, Scores
from fedaudit.metrics.attribution.stouffer import stouffer_z


def score(z, null=()):
    return Score(z=z, p_value=0.5, n=1, hits=0, chance=0.5, null=tuple(null))


def scores(*rounds):
    """Return scores of client a; a round is its score, its null scores, and the reference's."""
    return Scores(
        run="r",
        base="b",
        aggregation="fedit",
        clients=("a",),
        marks={"m": "kgw"},
        dimension=8,
        federation_rounds=len(rounds),
        rounds=tuple(
            RoundScores(
                round=number,
                reference={"m": score(0.0, reference)},
                clients={"a": {"m": score(z, null)}},
                strength={"a": 1.0},
                effective={"a": 1.0},
            )
            for number, (z, null, reference) in enumerate(rounds, 1)
        ),
    )


def by_chance(table):
    return null_distributions(table, [("a", "m")])["a", "m"]


def test_null_scores_are_differences_by_round():
    found = by_chance(scores((1.0, (3, 1), (1, 1)), (1.0, (3, -1), (0, 0))))
    assert found.null.tolist() == [[2, 0], [3, -1]]
    # Z of the null marks: 5 / sqrt 2 and -1 / sqrt 2, squares 12.5 and 0.5.
    assert found.spread == pytest.approx(math.sqrt(6.5))


def test_without_null_marks_it_is_the_papers_normal():
    found = by_chance(scores((1.0, (), ()), (2.0, (), ())))
    assert (found.null, found.spread, found.floor(4.0), found.marks) == ((), 1.0, 4.0, 0)
    assert found.p_value(4.0) == pytest.approx(3.167e-5, rel=1e-3)
    assert found.standard([3.0, 1.0]) == pytest.approx([3.0, 4 / math.sqrt(2)])


def test_a_round_that_a_client_missed_is_none_of_its_own():
    here = scores((1.0, (3, 1), (1, 1)), (9.0, (9, 9), (0, 0)), (1.0, (3, -1), (0, 0)))
    first, second, third = here.rounds
    missed = replace(here, rounds=(first, replace(second, clients={}), third))
    assert by_chance(missed).null.tolist() == [[2, 0], [3, -1]]


def test_unlike_numbers_of_null_marks_are_refused_on_disk(tmp_path):
    for odd in [(1.0, (1, 2), (0,)), (1.0, (), (0, 0))]:
        files.write(scores((1.0, (1, 2), (0, 0)), odd), tmp_path / "s.json")
        with pytest.raises(InputError, match="tests for m have unlike numbers of null marks"):
            files.read(tmp_path / "s.json")
    good = scores((1.0, (1.25, 2), (0, 0)))
    files.write(good, tmp_path / "s.json")
    assert files.read(tmp_path / "s.json") == good


@pytest.mark.parametrize("weights", [{"a": 0.0}, {"a": -1.0}, {"b": 1.0}])
def test_weights_of_nobody_or_nothing_are_refused_on_disk(tmp_path, weights):
    files.write(replace(scores((1.0, (), ())), weights=weights), tmp_path / "s.json")
    with pytest.raises(InputError, match="weights must be positive, one for each"):
        files.read(tmp_path / "s.json")


def test_what_must_be_exceeded_grows_with_the_spread_and_is_never_below_tau():
    assert NullDistribution([[1.5, -1.5]]).floor(4.0) == pytest.approx(6)
    assert NullDistribution([[0.5, -0.5]]).floor(4.0) == 4
    assert NullDistribution([[0.0, 0.0]]).floor(4.0) == 4
    assert NullDistribution([[3.0, -3.0]]).floor(-1.0) == -1


def test_what_must_be_exceeded_is_where_p_is_small_enough():
    # The normal p of 4 is 3.167e-5; of a level below that, its quantile is needed.
    assert NullDistribution(()).critical_value(1e-4, 4.0) == 4
    assert NullDistribution(()).critical_value(2.867e-7, 4.0) == pytest.approx(5, abs=1e-3)
    # t with two degrees of freedom has an upper tail of 0.005 at 9.925; the spread is 1.5.
    assert NullDistribution([[1.5, -1.5]]).critical_value(0.005, 4.0) == pytest.approx(
        1.5 * 9.9248, rel=1e-4
    )


def test_a_client_that_repeats_itself_needs_more_to_be_flagged():
    # Z = 5 * 2 / sqrt 5 = 4.47. The null marks come to sqrt 5 where every round is the same, and
    # to 1 where rounds have nothing in common.
    alpha = 0.03
    null = np.eye(5) * math.sqrt(5)
    same = decide(scores(*[(2.0, (1, -1, 1, -1, 1), (0,) * 5)] * 5), alpha=alpha).tests[0]
    apart = decide(scores(*[(2.0, row, (0,) * 5) for row in null]), alpha=alpha).tests[0]
    assert (same.z, apart.z) == pytest.approx((20**0.5, 20**0.5))
    assert (same.needed, apart.needed) == pytest.approx((4 * 5**0.5, 4))
    assert (same.flagged, apart.flagged) == (False, True)
    # Five null marks support tails of 3.001 degrees of freedom: t with 3 at 2, and at 4.47.
    assert (same.p_value, apart.p_value) == pytest.approx((0.06966, 0.01041), rel=1e-2)


def test_a_round_that_says_what_the_global_model_says_is_no_evidence():
    found = decide(scores((0.0, (1, 2), (1, 2)))).tests[0]
    assert (found.p_value, found.flagged, found.settled_round) == (0.5, False, None)


def test_settled_counts_standard_deviations_too():
    # 6.5 in the first round is above the open boundary of 6.33 at 3.2e-5, and half of it is not.
    def settled(spread):
        rounds = scores((6.5, (spread, -spread) * 2000, (0, 0) * 2000))
        return decide(rounds, alpha=3.167e-5).tests[0].settled_round

    assert (settled(1.0), settled(2.0)) == (1, None)


def test_p_values_are_uniform_over_keys_of_texts_that_repeat_themselves():
    """A client says 60 of 80 things in each of five rounds, the global model 50 of them once."""
    from fedaudit_plugins.watermarks.kgw.watermark import null_scores

    gamma, nulls, rng = 0.25, 256, np.random.default_rng(3)
    things = np.arange(400).reshape(-1, 1)
    said = [rng.choice(80, 60, replace=False) for _ in range(5)]
    before = [np.concatenate([own[:10], 80 + rng.choice(320, 50, replace=False)]) for own in said]

    def z(green, own):
        return (green[own].sum() - gamma * len(own)) / math.sqrt(gamma * (1 - gamma) * len(own))

    null = [
        np.subtract(*(null_scores(things[own], gamma, nulls, salt=1) for own in (a, b)))
        for a, b in zip(said, before, strict=True)
    ]
    found = NullDistribution([list(row) for row in null])
    keys = rng.random((1500, 400)) < gamma
    real = [
        stouffer_z([float(z(g, a) - z(g, b)) for a, b in zip(said, before, strict=True)])
        for g in keys
    ]
    assert found.spread == pytest.approx(float(np.std(real)), rel=0.12)
    assert found.spread > 1.8  # taken for 1, every third innocent client would pass Z = 1
    assert kstest([found.p_value(one) for one in real], "uniform").pvalue > 0.01
    assert kstest([NullDistribution(()).p_value(one) for one in real], "uniform").pvalue < 1e-6


PAIRS = {"pairs": 5, "limit": 0.4}


def test_of_more_candidates_than_groups_are_made_of_the_right_one_may_be_missing():
    """Twelve innocent clients hold 0.4 of a marked one's update, answer at once, and are first."""
    names = [f"c{n:02}" for n in range(24)]
    shows = dict(zip(names, [14.5] * 12 + [13.5] * 3 + [0.0] * 9, strict=True))
    held = {who: {names[12 + n % 3]: 0.4 if n < 12 else 0.0} for n, who in enumerate(names)}
    found = single_round(shows, strength=1.2, others=12, **PAIRS)
    assert not {*names[:12]} & decide(found, shares={1: held}).flagged.keys()


NAMES = [f"c{n}" for n in range(10)]


def test_marked_clients_may_hide_each_others_marks():
    """Where the sets are known: nor is one that takes a part from a client whose mark is hidden."""
    shows = dict.fromkeys(NAMES, 0.0) | {"c0": 14.0, "c1": 14.0, "c9": 14.0}
    held = {who: dict.fromkeys(NAMES, 0.0) for who in NAMES}
    held["c9"] |= {"c2": 0.4}
    found = single_round(shows, strength=0.8, others=5, **PAIRS)
    assert "c9" in decide(found, shares={1: held}).flagged
    held["c2"] |= {"c0": -0.4, "c1": -0.4}  # it shows 0.2 of its mark
    assert decide(found, shares={1: held}).flagged.keys() == {"c0", "c1"}


def test_of_two_tests_the_smaller_p_counts_twice():
    from fedaudit.metrics.attribution.leak_distribution import LeakDistribution

    # A leak of 8 steps of an eighth is one deviation: P(N > 2) and P(N > 3) at a Z of 3.
    leak, none = LeakDistribution(8, np.ones(1)), LeakDistribution(0, np.ones(1))
    both = NullDistribution((), (leak,), (none,))
    assert NullDistribution((), (leak,)).p_value(3.0) == pytest.approx(0.02275, rel=1e-3)
    assert both.p_value(3.0) == pytest.approx(2 * 0.0013499, rel=1e-3)
    assert NullDistribution((), (none,), (leak,)).p_value(3.0) == pytest.approx(both.p_value(3.0))
    assert both.p_value(0.0) == 1.0
    # Chance alone is as it was.
    assert replace(both, leak_distributions=()).p_value(3.0) == pytest.approx(0.0013499, rel=1e-3)


def test_in_a_single_round_the_second_test_is_the_one_without_the_sets():
    shows = dict.fromkeys(NAMES, 0.0) | {"c0": 14.0, "c1": 5.6, "c2": 14.0}
    held = {who: dict.fromkeys(NAMES, 0.0) for who in NAMES}
    held["c1"] |= {"c0": 0.4}
    held["c2"] |= {"c0": 0.4}
    once = single_round(shows, strength=0.8, others=5, **PAIRS)
    with_sets, without = verdicts(once, shares={1: held}), verdicts(once)
    for pair, verdict in with_sets.items():
        assert verdict.chance.without_sets
        by_sets = replace(verdict.chance, without_sets=()).p_value(verdict.z)
        smaller = min(by_sets, without[pair].p_value)
        assert verdict.p_value == pytest.approx(min(1.0, 2 * smaller))
    # Of two rounds the sets alone decide.
    [here] = once.rounds
    twice = replace(once, rounds=(here, replace(here, round=2)))
    for verdict in verdicts(twice, shares={1: held, 2: held}).values():
        assert not verdict.chance.without_sets
