"""The number of targets that samples find, from the probability of finding each target.

The number of targets found by one run is a sum of indicators with different probabilities; if they
were independent, it would be Poisson binomial (Poisson, 1837). Draws are spread over targets like
balls over bins, so indicators of different targets are negatively associated (Joag-Dev and
Proschan, 1983), and the variance of the sum is at most that of independent indicators.
"""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from fedaudit.metrics.intervals import Estimate, wilson

Floats = npt.NDArray[np.float64]

CERTAIN = 1e-9
"""Probabilities nearer than this to 0 or 1 are taken as 0 or 1 in the distribution of a sum."""


def prefix_chains(strings: Sequence[str]) -> list[list[int]]:
    """Return the indices of strings in groups whose strings all begin with the group's shortest."""
    order = sorted(range(len(strings)), key=lambda index: strings[index])
    groups: list[list[int]] = []
    for index in order:
        if groups and strings[index].startswith(strings[groups[-1][0]]):
            groups[-1].append(index)
        else:
            groups.append([index])
    return groups


def prefix_layers(strings: Sequence[str]) -> list[list[int]]:
    """Return the indices of strings in layers, by how many other strings each begins with.

    No string of a layer begins with another string of the layer.
    """
    depth: dict[int, int] = {}
    open_: list[int] = []
    for index in sorted(range(len(strings)), key=lambda i: strings[i]):
        while open_ and not strings[index].startswith(strings[open_[-1]]):
            open_.pop()
        depth[index] = len(open_)
        open_.append(index)
    return [[i for i, d in depth.items() if d == layer] for layer in sorted(set(depth.values()))]


def count_interval(
    probabilities: Floats, groups: Sequence[Sequence[int]], variance: float = 0.0
) -> tuple[int, int]:
    """Return an interval for the number of targets that one run finds, of nearly 95 % coverage.

    Beyond either end lie 2.5 % by mid-p (Lancaster, 1961), which counts half of the probability of
    the end itself: coverage is then as often a little below 95 % as above, where quantiles always
    cover more. `variance` is the variance of the expected number if that is itself an estimate. It
    is added as a difference of two Poisson variables (Skellam, 1946), which is whole as counts are.

    `probabilities` have the shape (targets,). Targets of a group are taken as found together as far
    as their probabilities allow (a run that finds the likelier one may find the other): this is
    exact if each string begins with the one before it, and otherwise gives too wide an interval.
    Groups are taken as independent.
    """
    singles = probabilities[[group[0] for group in groups if len(group) == 1]]
    tails = [singles[:, None]]
    tails += [np.sort(probabilities[list(group)])[None, ::-1] for group in groups if len(group) > 1]
    sure = sum(int((tail >= 1 - CERTAIN).sum()) for tail in tails)
    open_ = [tail[((tail > CERTAIN) & (tail < 1 - CERTAIN)).any(axis=1)] for tail in tails]
    law = _sum_law([row for tail in open_ for row in _laws(tail)]).clip(0)
    low, high = _middle(_add_poisson_noise(law, variance))
    return max(0, sure + low), min(len(probabilities), sure + high)


def _add_poisson_noise(law: Floats, variance: float) -> tuple[int, Floats]:
    """Return the distribution with a difference of Poissons added, after its least value."""
    from scipy.special import ive

    reach = math.ceil(8 * math.sqrt(variance) + 4) if variance > 0 else 0
    return -reach, np.convolve(law, ive(np.abs(np.arange(-reach, reach + 1)), variance))


def _middle(law: tuple[int, Floats]) -> tuple[int, int]:
    """Return the ends, by mid-p, of the middle 95 % of a distribution: (least value, shares)."""
    start, shares = law
    below = (np.cumsum(shares) - shares / 2) / shares.sum()
    inside = np.flatnonzero((below > 0.025) & (below < 0.975))
    return start + int(inside[0]), start + int(inside[-1])


def _laws(tails: Floats) -> Floats:
    """Return a row P(0), P(1), ... for each count, from its falling tails P(>= 1), P(>= 2), ...

    Certain hits are left out, since they are counted separately.
    """
    sure = (tails >= 1 - CERTAIN).sum(axis=1, keepdims=True)
    padded_tails = np.pad(tails, ((0, 0), (1, 1)), constant_values=(1.0, 0.0)).copy()
    law = -np.diff(padded_tails, axis=1)
    places = (np.arange(law.shape[1]) + sure) % law.shape[1]
    rolled: Floats = np.take_along_axis(law, places, axis=1)
    return rolled


def _sum_law(laws: Sequence[Floats]) -> Floats:
    """Return the distribution of a sum of independent counts, by products of Fourier transforms."""
    count = 1 << max(0, len(laws) - 1).bit_length()
    table = np.zeros((count, max(map(len, laws), default=1)))
    table[:, 0] = 1.0
    for row, law in zip(table, laws, strict=False):
        row[: len(law)] = law
    while len(table) > 1:
        width = 2 * table.shape[1] - 1
        waves = np.fft.rfft(table, width, axis=1)
        table = np.fft.irfft(waves[::2] * waves[1::2], width, axis=1)
    total: Floats = table[0]
    return total


def drawn_interval(
    weights: Floats, counts: npt.NDArray[np.int64], level: float = 0.975
) -> tuple[float, float]:
    """Return bounds for the sum of weights times Poisson means, from the counts.

    They are Fay and Feuer's gamma interval (1997), which for equal weights is Garwood's (1936). The
    sum lies beyond each bound with a probability of at most 1 - `level`. If all weights are 0, both
    bounds are 0. Shapes: (targets,), (targets,).
    """
    most = float(weights.max(initial=0.0))
    if most <= 0:
        return 0.0, 0.0
    shares = weights / most
    value, variance = float(shares @ counts), float(shares**2 @ counts)
    low = _gamma(value, variance, level) if variance > 0 else 0.0
    return most * low, most * _gamma(value + 1, variance + 1, 1 - level)


def _gamma(mean: float, variance: float, above: float) -> float:
    """Return the number that a gamma variable exceeds with the probability `above`."""
    from scipy.special import chdtri

    return variance / (2 * mean) * float(chdtri(2 * mean**2 / variance, above))


def coverage(expected: tuple[float, float, float], n: int) -> Estimate:
    """Return an expected share of n targets, with an interval that covers other such targets.

    `expected` are expected hits (low, value, high). The interval reaches from Wilson's lower bound
    for `low` to Wilson's upper bound for `high`. It is right or too wide for expected hits, whose
    variance is at most that of a count.
    """
    low, value, high = (min(max(hits, 0.0), float(n)) for hits in expected)
    bounds = wilson(low, n).low, wilson(high, n).high
    return Estimate(value / n, min(bounds[0], value / n), max(bounds[1], value / n))


def samples_needed(log_miss: float, probability: float) -> int | None:
    """Return how many samples per prefix find a target with a probability; None if no number does.

    `log_miss` is the natural logarithm of the probability that one sample of every prefix misses
    the target. This n is that of (n, p)-discoverable extraction (Hayes et al., arXiv:2410.19482).
    """
    if not 0 < probability < 1:
        raise ValueError(f"{probability} is not a probability between 0 and 1.")
    if log_miss >= 0:
        return None
    return max(1, math.ceil(math.log1p(-probability) / log_miss - 1e-9))
