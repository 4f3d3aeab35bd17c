import random
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.metrics.privacy.epsilon_audit import (
    ESTIMATORS,
    bound,
    guess,
    highest_bound,
    shuffled_bounds,
)
from fedaudit.metrics.privacy.epsilon_bounds import Guesses, largest_refuted

TESTS = {name: cache(test) for name, test in ESTIMATORS.items()}
RULE = {"shares": (0.75, 0.5), "delta": 1e-5, "level": 0.05}


def test_the_furthest_from_the_middle_are_guessed():
    scores = [5.0, 1.0, 9.0, 2.0, 3.0, 4.0, 8.0, 7.0]
    coins = [False, False, True, True, True, False, True, True]
    # A half: 1 and 2 are said to be out, 8 and 9 in; 2 is in, so three of four are right.
    assert guess(scores, coins, 0.5) == Guesses(canaries=8, guessed=4, correct=3)
    # All: 1, 2, 3, 4 out (2 and 3 are in) and 5, 7, 8, 9 in (5 is not).
    assert guess(scores, coins, 1.0) == Guesses(canaries=8, guessed=8, correct=5)


@pytest.mark.parametrize(("share", "count"), [(0.01, 8), (1.2, 8), (1.0, 7)])
def test_shares_of_nothing(share, count):
    with pytest.raises(ValueError, match="cannot be guessed"):
        guess(list(map(float, range(count))), [True] * 8, share)


def refuted(name, guesses):
    """Return the bound by one share, at half of the level."""
    return pytest.approx(
        largest_refuted(lambda epsilon: TESTS[name](guesses, epsilon, 1e-5, 0.025))
    )


def test_a_bound_is_the_best_share_at_its_part_of_the_level():
    coins = [place >= 50 for place in range(100)]
    scores = [float(coin) for coin in coins]
    found = bound(scores, coins, **RULE, test=TESTS["one_run"])
    # All 76 guesses are right (2 round(37.5)), and each share has 2.5 %.
    assert found.guesses == Guesses(canaries=100, guessed=76, correct=76)
    assert found.value == refuted("one_run", found.guesses)
    assert found.searched == 2
    by_f = bound(scores, coins, **RULE, test=TESTS["f_dp"])
    assert by_f.value == refuted("f_dp", by_f.guesses)
    assert highest_bound(100, **RULE, test=TESTS["f_dp"]) == pytest.approx(by_f.value)


@cache
def perfect(count, test):
    return highest_bound(count, **RULE, test=test)


@given(st.lists(st.tuples(st.floats(-9, 9), st.booleans()), min_size=20, max_size=22))
def test_no_scores_prove_more_than_a_perfect_attack(pairs):
    scores, coins = [s for s, _ in pairs], [c for _, c in pairs]
    for test in TESTS.values():
        most = perfect(len(pairs), test)
        assert 0 <= bound(scores, coins, **RULE, test=test).value <= most + 1e-9


def test_scores_that_do_not_know_the_coins_prove_nothing_most_of_the_time():
    rng, above = random.Random(3), 0
    for _ in range(200):
        coins = [rng.random() < 0.5 for _ in range(100)]
        scores = [rng.gauss(0, 1) for _ in coins]
        above += bound(scores, coins, **RULE, test=TESTS["f_dp"]).value > 0
    # At most 5 % of runs; 200 of them are above 19 with a probability of 0.3 % at exactly 5 %.
    assert above <= 19


def test_coins_tossed_anew_prove_nothing():
    coins = [place >= 50 for place in range(100)]
    scores = [float(coin) for coin in coins]
    found = shuffled_bounds(scores, coins, **RULE, test=TESTS["f_dp"], seed=1, draws=40)
    assert sum(value > 0 for value in found) <= 6
    assert found == shuffled_bounds(scores, coins, **RULE, test=TESTS["f_dp"], seed=1, draws=40)
