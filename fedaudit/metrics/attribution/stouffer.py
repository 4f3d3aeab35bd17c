"""Combining scores of several rounds: the statistic Z, its p-value and the decision (FedAttr, 4.3).

In a round in which a client's update carries no watermark, its score is assumed to be standard
normal; docs/estimator.md says what is known about that. If the same models were also tested for
null marks, which no one has, Z is compared with theirs.
"""

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

THRESHOLD = 4.0
"""The paper's tau: a client with a greater Z is flagged."""

HEAVIEST = 3.0
"""The degrees of freedom of the heaviest tails that are considered."""

SMALLEST = 5e-324
"""The least positive float64: no p-value is zero."""


def stouffer_z(scores: Sequence[float]) -> float:
    """Return Z = sum / sqrt(T) over the T rounds that the client took part in (equation 8).

    Raises ValueError without rounds, or for a score that is not finite.
    """
    if not scores:
        raise ValueError("No round, no score: the client never took part.")
    if not all(math.isfinite(score) for score in scores):
        raise ValueError("A round's score is not a finite number.")
    return math.fsum(scores) / math.sqrt(len(scores))


def running_z(scores: Sequence[float]) -> list[float]:
    """Return Z after each round."""
    return [stouffer_z(scores[: count + 1]) for count in range(len(scores))]


def p_value(z: float) -> float:
    """Return the upper tail of the standard normal at z.

    It is exact to rounding down to 1e-308 (z = 37); beyond, an upper bound that is never 0.
    """
    return max(math.erfc(z / math.sqrt(2)) / 2, SMALLEST)


def null_spread(null: Sequence[Sequence[float]] | npt.NDArray[np.float64]) -> float:
    """Return the standard deviation of Z by chance: the root mean square of Z of the null marks.

    `null` has the scores of each round under every null mark, (rounds, marks); each mark's Z is as
    in `stouffer_z`, with mean 0. Raises ValueError without null marks, or for rounds with different
    numbers of them.
    """
    scores = np.array(null, dtype=np.float64)
    if scores.ndim != 2 or not scores.size:
        raise ValueError("No null mark, no spread.")
    z = scores.sum(axis=0) / math.sqrt(len(scores))
    return float(np.sqrt((z * z).mean()))


def chance_below(
    deviations: npt.NDArray[np.float64] | float, degrees: float
) -> npt.NDArray[np.float64]:
    """Return P(chance <= so many standard deviations).

    Chance follows Student's t with so many degrees of freedom, or the standard normal distribution
    without any.
    """
    from scipy.special import ndtr, stdtr

    return np.asarray(stdtr(degrees, deviations) if degrees else ndtr(deviations))


def chance_quantile(probability: float, degrees: float) -> float:
    """Return the number of deviations at which `chance_below` is a probability above 0."""
    from scipy.special import ndtri, stdtrit

    return float(stdtrit(degrees, probability) if degrees else ndtri(probability))


def null_p_value(z: float, spread: float, degrees: float) -> float:
    """Return the upper tail of Student's t with so many degrees of freedom at z / spread.

    That is the distribution of a normal Z divided by the spread of `degrees` independent ones like
    it; with a greater spread, the result is an upper bound. It is never 0.
    """
    return max(float(chance_below(-(z / spread), degrees)), SMALLEST)


def estimate_degrees_of_freedom(standardized: npt.NDArray[np.float64]) -> float:
    """Return the degrees of freedom of the Student's t with the tails of the null marks' Z.

    `standardized` has each null mark's Z divided by its spread, (clients, null marks). Student's t
    has a fourth moment of 3 + 6 / (degrees - 4) squared variances; one degree less is taken,
    because a sample's fourth moment stays finite where the distribution's does not.

    The result is infinite, for normal tails, if the moment exceeds 3 by at most two standard errors
    of sqrt(24 / null marks). That is the error for a single client, since a mark that suits one
    client's texts may suit all.
    """
    marks = standardized.shape[1]
    excess = float(np.mean(standardized**4)) - 3
    if excess <= 2 * math.sqrt(24 / marks):
        return math.inf
    return HEAVIEST + 6 / excess


def supported_degrees(marks: int) -> float:
    """Return the lightest tails that so many null marks support, as degrees of freedom.

    3.1 with 24 null marks, 4.5 with 64, 15 with 128, 99 with 256: chosen so that scores of
    Student's t with 3 degrees of freedom flag an innocent client in about 1 % of federations
    (benchmarks/attribution_calibration.py --tails).
    """
    return HEAVIEST + 1.5 * (marks / 64) ** 3


def supported_p_value(marks: int) -> float:
    """Return the smallest p-value that null marks support: the square of 1 / (marks + 1).

    No null mark reaches beyond 1 / (marks + 1); tails are extrapolated to twice as many digits.
    """
    return float(marks + 1) ** -2


def normal_quantile(p_value: float) -> float:
    """Return the number whose upper tail is a p-value above 0: the inverse of `p_value`."""
    from scipy.special import ndtri

    return -float(ndtri(p_value))


def holm(p: Sequence[float], further: int = 0) -> list[float]:
    """Return p-values adjusted by Holm (1979), in order.

    `further` tests with p-values of 1 are counted too. If clients with adjusted p-values up to
    alpha are flagged, an innocent client is flagged with probability at most alpha, under any
    dependence between the clients' scores. Raises ValueError for a value outside 0..1.
    """
    values = np.asarray(p, dtype=np.float64)
    if not ((values >= 0) & (values <= 1)).all():  # a NaN is outside, too
        raise ValueError("A p-value is between 0 and 1.")
    order = np.argsort(values, kind="stable")
    steps = values[order] * (further + np.arange(len(values), 0, -1))
    adjusted = np.empty_like(values)
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    result: list[float] = adjusted.tolist()
    return result


def holm_levels(p: Sequence[float], alpha: float, further: int = 0) -> list[float]:
    """Return the level with which Holm (1979) compares each p-value.

    The k-th smallest of m (including `further`, as in `holm`) is compared with alpha / (m - k + 1),
    up to the first that exceeds its level; all later ones are compared with that level. A p-value
    is at most its level if and only if its adjusted value by `holm` is at most alpha, up to
    rounding.
    """
    order = sorted(range(len(p)), key=lambda i: p[i])
    levels, step = [alpha] * len(p), 0
    for index in order:
        levels[index] = alpha / (len(p) + further - step)
        if p[index] <= levels[index]:
            step += 1
    return levels


@lru_cache(maxsize=4096)
def always_valid_boundary(rounds: int, alpha: float) -> float:
    """Return the boundary that Z must exceed after so many rounds, if tested after every one.

    The boundary is valid for any number of rounds: it comes from a mixture of likelihood ratios
    over positive means (Robbins 1970), and an innocent client's Z ever exceeds it with probability
    at most alpha, if scores are 1-sub-Gaussian with means of at most 0 given the past. Raises
    ValueError outside 1 <= rounds and 0 < alpha < 0.5.
    """
    if rounds < 1:
        raise ValueError(f"Rounds are numbered from 1 on, not {rounds}.")
    if not 0 < alpha < 0.5:
        raise ValueError(f"An error of {alpha} is not between 0 and 0.5.")
    log_bound = math.log(1 / alpha)
    # The Z at which the mixture reaches the bound, by bisection, rounded up.
    low, high = 0.0, 1.0
    while _log_mixture(high, rounds) < log_bound:
        high *= 2
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if _log_mixture(middle, rounds) >= log_bound else (middle, high)
    return high


def _log_mixture(z: float, rounds: int) -> float:
    """Return the log likelihood ratio of Z against 0, over the half-normal means |N(0, 1)|.

    The ratio is 2 (1 + t)^(-1/2) exp(t z^2 / 2 (1 + t)) Phi(z sqrt(t / (1 + t))), which increases
    with z and has the expectation 1 if the mean is 0. With a mean of 1 per round, Z reaches tau = 4
    after 16 rounds.
    """
    share = rounds / (1 + rounds)
    scale = math.log(math.erfc(-z * math.sqrt(share / 2)))  # log 2 Phi
    return scale - math.log1p(rounds) / 2 + share * z * z / 2


def stopping_round(running: Sequence[float], alpha: float) -> int | None:
    """Return the number of rounds after which Z first exceeds the boundary; None if it never did.

    `running` is Z after each round. If one tests after every round and stops there, an innocent
    client is flagged with probability at most alpha; divide alpha by the number of clients for all
    clients together.
    """
    for count, z in enumerate(running, start=1):
        if z > always_valid_boundary(count, alpha):
            return count
    return None
