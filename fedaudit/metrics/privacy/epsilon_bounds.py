"""Lower bounds on epsilon from one training run that included or left out canaries by coin.

An auditor tosses a fair coin for each of m canaries, trains on those that it says "in" for, scores
all of them, and guesses "in" for the r with the highest scores. Under (epsilon, delta)-differential
privacy only so many of these guesses can be right.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np
from scipy.optimize import brentq
from scipy.stats import beta, binom, norm

from fedaudit.metrics.privacy.roc import Roc, hull

HIGHEST = 60.0
"""Bounds above this are reported as this: e^60 is beyond any count of canaries."""


class ClaimTest(Protocol):
    """A test of a claim: below 0 where it is refuted; it grows with epsilon."""

    def __call__(self, guesses: "Guesses", epsilon: float, delta: float, level: float) -> float:
        """Return how far the guesses are from refuting (epsilon, delta) at a level."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Guesses:
    """What an attacker guessed: of m canaries r are said to be in, and v of these are."""

    canaries: int
    guessed: int
    correct: int

    def __post_init__(self) -> None:
        if not 0 <= self.correct <= self.guessed <= self.canaries or not self.canaries:
            raise ValueError(f"{self} are no guesses.")


@dataclass(frozen=True, slots=True, kw_only=True)
class EpsilonBound:
    """A lower bound on epsilon, and the guesses that prove it."""

    value: float
    guesses: Guesses
    searched: int = 1
    """Thresholds that were tried; the level was divided by their number."""


def one_run_p_value(guesses: Guesses, epsilon: float, delta: float) -> float:
    """Return the p value of the hypothesis that training was (epsilon, delta)-private.

    Steinke, Nasr and Jagielski 2023 (arXiv:2305.08846), theorem 5.2 without abstentions on "out":
    with q = e^epsilon / (1 + e^epsilon), it is P[Bin(r, q) >= v] + 2 m delta alpha, where alpha is
    the maximum over 1 <= i <= v of P[v > Bin(r, q) >= v - i] / i. It assumes nothing about the
    training but that coins were fair and independent. Raises ValueError for no such claim.
    """
    _check(epsilon, delta)
    r, v = guesses.guessed, guesses.correct
    q = 1 / (1 + math.exp(-epsilon))
    p = float(binom.sf(v - 1, r, q))
    if delta and v:
        steps = np.arange(1, v + 1)
        alpha = float(np.max((binom.sf(v - steps - 1, r, q) - p) / steps))
        p += 2 * guesses.canaries * delta * alpha
    return min(1.0, p)


def one_run(guesses: Guesses, delta: float, level: float = 0.05) -> float:
    """Return the largest epsilon that is refuted at a level: a lower bound with 1 - level."""
    return largest_refuted(lambda epsilon: one_run_test(guesses, epsilon, delta, level))


def one_run_test(guesses: Guesses, epsilon: float, delta: float, level: float) -> float:
    """Return the p value less the level: below 0 where (epsilon, delta) is refuted."""
    return one_run_p_value(guesses, epsilon, delta) - level


def f_dp_test(guesses: Guesses, epsilon: float, delta: float, level: float) -> float:
    """Return a number below 0 where the Gaussian mechanism of (epsilon, delta) is refuted.

    Mahloujifar, Melis and Chaudhuri 2024 (arXiv:2410.22235), algorithm 3. The hypothesis is that
    training has the trade-off curve of that Gaussian mechanism, which is more than
    (epsilon, delta): the bound is tighter, and says nothing of mechanisms with another curve.
    """
    _check(epsilon, delta)
    m, r, v = guesses.canaries, guesses.guessed, guesses.correct
    mu = gaussian_mu(epsilon, delta)
    right_mass, wrong_mass = level * v / m, level * (r - v) / m
    for i in range(v - 1, -1, -1):
        if right_mass >= 1:
            break
        grown = max(wrong_mass, float(norm.cdf(norm.ppf(right_mass) - mu)))
        if grown == wrong_mass:
            break
        right_mass, wrong_mass = min(1.0, right_mass + i / (r - i) * (grown - wrong_mass)), grown
    return r / m - right_mass - wrong_mass


def one_run_f_dp(guesses: Guesses, delta: float, level: float = 0.05) -> float:
    """Return the largest epsilon whose Gaussian mechanism at `delta` is refuted at a level."""
    if not 0 < delta < 1:
        raise ValueError(f"{delta} is no delta of a Gaussian mechanism.")
    return largest_refuted(lambda epsilon: f_dp_test(guesses, epsilon, delta, level))


def gaussian_mu(epsilon: float, delta: float) -> float:
    """Return sensitivity over noise of the Gaussian mechanism that is (epsilon, delta)-private.

    Balle and Wang 2018 (arXiv:1805.06530), theorem 8.
    """
    _check(epsilon, delta)

    def excess(mu: float) -> float:
        first = norm.cdf(mu / 2 - epsilon / mu)
        return float(first - math.exp(epsilon + norm.logcdf(-mu / 2 - epsilon / mu)) - delta)

    return float(brentq(excess, 1e-9, 200.0, xtol=1e-14))


def best_threshold(
    members: Sequence[float],
    non_members: Sequence[float],
    delta: float,
    level: float = 0.05,
    test: ClaimTest = one_run_test,
) -> EpsilonBound:
    """Return the best bound over all thresholds on the scores, each at its share of the level.

    `members` are the scores of canaries that were trained on, `non_members` of those that were not;
    higher says "in". A threshold that was chosen on the scores that it is judged on must be paid
    for: the level is divided by the number of vertices of the concave hull of the ROC curve
    (Bonferroni). Without that it is no bound. Raises ValueError without scores.
    """
    curve = Roc.from_scores(members, non_members)
    vertices = hull(curve)
    canaries = len(members) + len(non_members)
    candidates = [
        Guesses(canaries=canaries, guessed=false + true, correct=true)
        for false, true in vertices
        if false + true
    ]
    share, value, best = level / len(vertices), 0.0, candidates[0]
    for guesses in candidates:
        if test(guesses, value, delta, share) < 0:  # only then its own bound is higher
            value, best = largest_refuted(partial(test, guesses, delta=delta, level=share)), guesses
    return EpsilonBound(value=value, guesses=best, searched=len(vertices))


def perfect_attack(canaries: int, delta: float, level: float = 0.05) -> float:
    """Return the most that so many canaries can prove: the bound where every guess is right.

    Whoever guesses of fewer canaries pays less for delta, so all numbers of guesses are tried in
    steps of a twentieth of their logarithm.
    """
    sizes = {round(canaries ** (step / 20)) for step in range(1, 21)} | {1, canaries}
    return max(
        one_run(Guesses(canaries=canaries, guessed=size, correct=size), delta, level)
        for size in sizes
    )


def many_runs(
    members: Sequence[float], non_members: Sequence[float], delta: float, level: float = 0.05
) -> float:
    """Return the bound of independent runs with and without one canary (Jagielski et al. 2020).

    Upper limits of both error rates are Jeffreys' one-sided ones, each at `level`, as in Andrew
    et al. 2024 (arXiv:2302.03098); the threshold is chosen on the scores and not paid for, so it
    is an estimate for few runs, and a bound for a threshold that was fixed before.
    """
    curve = Roc.from_scores(members, non_members)
    n, m = len(non_members), len(members)
    fpr = beta.ppf(1 - level, 0.5 + curve.false, 0.5 + n - curve.false)
    fnr = beta.ppf(1 - level, 0.5 + m - curve.true, 0.5 + curve.true)
    with np.errstate(divide="ignore", invalid="ignore"):
        bounds = np.stack(
            [np.log(1 - delta - fnr) - np.log(fpr), np.log(1 - delta - fpr) - np.log(fnr)]
        )
    return float(max(0.0, np.nanmax(np.where(np.isfinite(bounds), bounds, -np.inf))))


def _check(epsilon: float, delta: float) -> None:
    if not (epsilon >= 0 and 0 <= delta < 1):
        raise ValueError(f"({epsilon}, {delta}) is no claim of differential privacy.")


def largest_refuted(excess: Callable[[float], float]) -> float:
    """Return where a test that grows with epsilon crosses 0; 0 where it starts above."""
    if excess(0.0) >= 0:
        return 0.0
    high = 1.0
    while excess(high) < 0:
        if high >= HIGHEST:
            return HIGHEST
        high = min(HIGHEST, 2 * high)
    return float(brentq(excess, 0.0, high, xtol=1e-12))
