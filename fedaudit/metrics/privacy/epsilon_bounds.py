"""Lower bounds on epsilon from one training run with canaries included or excluded by coin.

An auditor tosses a fair coin for each of m canaries, trains on those whose coin says "in", scores
all of them, and guesses "in" for the r with the highest scores. (epsilon, delta)-differential
privacy limits how many of these guesses can be right.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.optimize import brentq
from scipy.special import bdtrc, log_ndtr, ndtr, ndtri

HIGHEST = 60.0
"""The highest bound that is reported; e^60 is beyond any number of canaries."""


class ClaimTest(Protocol):
    """A test of a claim, which increases with epsilon and is below 0 if the claim is refuted."""

    def __call__(self, guesses: "Guesses", epsilon: float, delta: float, level: float) -> float:
        """Return a number below 0 if the guesses refute (epsilon, delta) at a level."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Guesses:
    """An attacker's guesses: about r (`guessed`) of m (`canaries`), v (`correct`) of them right."""

    canaries: int
    guessed: int
    correct: int

    def __post_init__(self) -> None:
        if not 0 <= self.correct <= self.guessed <= self.canaries or not self.canaries:
            raise ValueError(f"{self} are not guesses.")


@dataclass(frozen=True, slots=True, kw_only=True)
class EpsilonBound:
    """A lower bound on epsilon, and the guesses that prove it."""

    value: float
    guesses: Guesses
    searched: int = 1
    """The number of thresholds or shares that were tried, by which the level was divided."""


def one_run_p_value(guesses: Guesses, epsilon: float, delta: float) -> float:
    """Return the p value of the hypothesis that training was (epsilon, delta)-private.

    Steinke, Nasr and Jagielski 2023 (arXiv:2305.08846), theorem 5.2 without abstentions on "out":
    with q = e^epsilon / (1 + e^epsilon), it is P[Bin(r, q) >= v] + 2 m delta alpha, where alpha is
    the maximum over 1 <= i <= v of P[v > Bin(r, q) >= v - i] / i. The only assumption is that coins
    are fair and independent. Raises ValueError for an invalid claim.
    """
    _check(epsilon, delta)
    r, v = guesses.guessed, guesses.correct
    q = 1 / (1 + math.exp(-epsilon))
    p = float(bdtrc(v - 1, r, q))
    if delta and v:
        steps = np.arange(1, v + 1)
        alpha = float(np.max((bdtrc(v - steps - 1, r, q) - p) / steps))
        p += 2 * guesses.canaries * delta * alpha
    return min(1.0, p)


def one_run_test(guesses: Guesses, epsilon: float, delta: float, level: float) -> float:
    """Return the p value minus the level, which is below 0 if (epsilon, delta) is refuted."""
    return one_run_p_value(guesses, epsilon, delta) - level


def f_dp_test(guesses: Guesses, epsilon: float, delta: float, level: float) -> float:
    """Return a number below 0 if the Gaussian mechanism of (epsilon, delta) is refuted.

    Mahloujifar, Melis and Chaudhuri 2024 (arXiv:2410.22235), algorithm 3. The hypothesis is that
    training has the trade-off curve of that Gaussian mechanism, a stronger claim than
    (epsilon, delta): so the bound is tighter, but does not apply to other mechanisms.
    """
    _check(epsilon, delta)
    m, r, v = guesses.canaries, guesses.guessed, guesses.correct
    mu = gaussian_mu(epsilon, delta)
    right_mass, wrong_mass = level * v / m, level * (r - v) / m
    for i in range(v - 1, -1, -1):
        if right_mass >= 1:
            break
        grown = max(wrong_mass, float(ndtr(ndtri(right_mass) - mu)))
        if grown == wrong_mass:
            break
        right_mass, wrong_mass = min(1.0, right_mass + i / (r - i) * (grown - wrong_mass)), grown
    return r / m - right_mass - wrong_mass


def gaussian_mu(epsilon: float, delta: float) -> float:
    """Return sensitivity / noise of the Gaussian mechanism that is just (epsilon, delta)-private.

    Balle and Wang 2018 (arXiv:1805.06530), theorem 8. Raises ValueError for a delta of 0, which no
    Gaussian mechanism has.
    """
    _check(epsilon, delta)
    if not delta:
        raise ValueError("0 is not a delta of a Gaussian mechanism.")

    def excess(mu: float) -> float:
        first = ndtr(mu / 2 - epsilon / mu)
        return float(first - math.exp(epsilon + log_ndtr(-mu / 2 - epsilon / mu)) - delta)

    # No epsilon has a larger delta at mu than 0 has, mu / sqrt(2 pi) at most: mu exceeds delta.
    return float(brentq(excess, min(1e-9, delta), 200.0, xtol=1e-14))


def _check(epsilon: float, delta: float) -> None:
    if not (epsilon >= 0 and 0 <= delta < 1):
        raise ValueError(f"({epsilon}, {delta}) is not a claim of differential privacy.")


def largest_refuted(excess: Callable[[float], float]) -> float:
    """Return the epsilon at which an increasing test crosses 0, from 0 to HIGHEST.

    It is 0 if the test is not below 0 at epsilon 0.
    """
    if excess(0.0) >= 0:
        return 0.0
    high = 1.0
    while excess(high) < 0:
        if high >= HIGHEST:
            return HIGHEST
        high = min(HIGHEST, 2 * high)
    return float(brentq(excess, 0.0, high, xtol=1e-12))
