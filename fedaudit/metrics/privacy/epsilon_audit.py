"""Auditing a claimed epsilon with canaries whose coins were committed to before training.

Steinke, Nasr and Jagielski 2023 (arXiv:2305.08846), algorithm 1: the attacker guesses that the
r / 2 canaries with the highest scores are in, and that the r / 2 with the lowest scores are out.
The values of r are fixed before training, so that each costs only its share of the level.
"""

import random
from collections.abc import Sequence
from functools import partial

from fedaudit.metrics.privacy.epsilon_bounds import (
    ClaimTest,
    EpsilonBound,
    Guesses,
    f_dp_test,
    largest_refuted,
    one_run_test,
)

ESTIMATORS: dict[str, ClaimTest] = {"one_run": one_run_test, "f_dp": f_dp_test}
"""Tests of a claim, by name: for any mechanism, and for the Gaussian mechanism."""


def guess(scores: Sequence[float], coins: Sequence[bool], share: float) -> Guesses:
    """Return the guesses about a share of the canaries: half of it at either end of the scores.

    High scores are guessed as "in". Equal scores keep the given order, independent of the coins.
    Raises ValueError for a share that leaves nothing to guess, or is above 1.
    """
    per_side = round(share * len(scores) / 2)
    if len(scores) != len(coins) or not 0 < 2 * per_side <= len(scores):
        raise ValueError(f"A share of {share} of {len(scores)} canaries cannot be guessed.")
    order = sorted(range(len(scores)), key=lambda i: (scores[i], i))
    wrong_in = sum(coins[i] for i in order[:per_side])
    right_in = sum(coins[i] for i in order[-per_side:])
    return Guesses(
        canaries=len(scores), guessed=2 * per_side, correct=per_side - wrong_in + right_in
    )


def bound(
    scores: Sequence[float],
    coins: Sequence[bool],
    *,
    shares: Sequence[float],
    delta: float,
    level: float,
    test: ClaimTest,
) -> EpsilonBound:
    """Return the highest lower bound on epsilon over all shares, each at level / len(shares)."""
    share_level = level / len(shares)
    guesses = [guess(scores, coins, share) for share in shares]
    values = [largest_refuted(partial(test, g, delta=delta, level=share_level)) for g in guesses]
    best = max(range(len(guesses)), key=lambda i: values[i])
    return EpsilonBound(value=values[best], guesses=guesses[best], searched=len(shares))


def highest_bound(
    canaries: int, *, shares: Sequence[float], delta: float, level: float, test: ClaimTest
) -> float:
    """Return the highest possible bound with so many canaries: half are in, all guesses right."""
    coins = [i >= canaries // 2 for i in range(canaries)]
    scores = [float(coin) for coin in coins]
    return bound(scores, coins, shares=shares, delta=delta, level=level, test=test).value


def shuffled_bounds(
    scores: Sequence[float],
    coins: Sequence[bool],
    *,
    shares: Sequence[float],
    delta: float,
    level: float,
    test: ClaimTest,
    seed: int,
    draws: int,
) -> list[float]:
    """Return the bounds with coins tossed anew, which had no influence on training.

    Each bound is above 0 with probability at most `level`.
    """
    rng = random.Random(f"coins tossed anew {seed}")
    tossed = [[rng.random() < 0.5 for _ in coins] for _ in range(draws)]
    ask = partial(bound, shares=shares, delta=delta, level=level, test=test)
    return [ask(scores, toss).value for toss in tossed]
