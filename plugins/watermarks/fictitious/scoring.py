"""From hits to one z: attribute by attribute against a null, then Fisher's method in log space."""

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass

CERTAIN = -1e-16
"""A log p nearer to zero is one that double precision cannot tell from zero."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Null:
    """The share of questions that are answered rightly by a model that was never told."""

    mean: float
    sd: float


def null_of(rates: Sequence[float]) -> Null:
    """Return mean and standard deviation (divisor n - 1) of the `rates` of many entities.

    Raises ValueError for fewer than two.
    """
    if len(rates) < 2:
        raise ValueError("A null needs at least two entities.")
    mean = math.fsum(rates) / len(rates)
    squares = math.fsum((rate - mean) ** 2 for rate in rates)
    return Null(mean=mean, sd=math.sqrt(squares / (len(rates) - 1)))


def deviation(null: Null, *, guess: float, n: int, correlation: float) -> float:
    """Return the standard deviation of the hit rate of `n` questions about one attribute.

    The measured one, or what n questions have at the null's rate or at the `guess` rate, whichever
    is greatest: sqrt(p (1 - p) / n * (1 + (n - 1) correlation)) with p the greater rate. The
    last factor is the design effect of n paraphrases of one question (Kish, 1965).
    """
    p = max(null.mean, guess)
    effect = 1 + (n - 1) * correlation
    return max(null.sd, math.sqrt(p * (1 - p) / n * effect))


def attribute_z(hits: int, n: int, null: Null, *, guess: float, correlation: float) -> float:
    """Return how many standard deviations `hits` of `n` are above the null's rate."""
    sd = deviation(null, guess=guess, n=n, correlation=correlation)
    return (hits / n - null.mean) / sd if sd > 0 else 0.0  # none: the null is right every time


def fisher(scores: Sequence[float]) -> tuple[float, float]:
    """Return (z, p value) of standard normal `scores` combined by Fisher's method.

    X = -2 sum log p_a is chi-squared with 2k degrees of freedom, whose upper tail is
    exp(-x) sum_{j<k} x^j / j! at x = X / 2. All of it is in logarithms, so z never overflows
    (Fisher, 1932). The p value is no less than the smallest normal float.
    """
    from scipy.special import log_ndtr, logsumexp, ndtri_exp, xlogy

    x = -math.fsum(float(log_ndtr(-score)) for score in scores)
    terms = [float(xlogy(j, x)) - math.lgamma(j + 1) for j in range(len(scores))]
    log_p = min(float(logsumexp(terms)) - x, CERTAIN)
    return -float(ndtri_exp(log_p)), max(math.exp(log_p), sys.float_info.min)
