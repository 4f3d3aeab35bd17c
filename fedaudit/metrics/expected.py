"""What a number of samples finds, from the probability of finding each target.

The targets found by one run are a sum of indicators that are not alike: its law is the Poisson
binomial one (Poisson, 1837). Draws are spread over targets like balls over bins, so indicators of
different targets are negatively associated (Joag-Dev and Proschan, 1983), and the sum scatters no
more than if they were independent.
"""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from fedaudit.metrics.intervals import Estimate, wilson

Floats = npt.NDArray[np.float64]

CERTAIN = 1e-9
"""Probabilities nearer than this to 0 or 1 are taken as such in a law of sums."""


def chains(strings: Sequence[str]) -> list[list[int]]:
    """Return the indices of strings in groups: those of a group begin with its shortest."""
    order = sorted(range(len(strings)), key=lambda index: strings[index])
    groups: list[list[int]] = []
    for index in order:
        if groups and strings[index].startswith(strings[groups[-1][0]]):
            groups[-1].append(index)
        else:
            groups.append([index])
    return groups


def layers(strings: Sequence[str]) -> list[list[int]]:
    """Return the indices of strings by how many others each begins with: none is in two ways.

    No string of a layer begins with another one of it.
    """
    depth: dict[int, int] = {}
    open_: list[int] = []
    for index in sorted(range(len(strings)), key=lambda one: strings[one]):
        while open_ and not strings[index].startswith(strings[open_[-1]]):
            open_.pop()
        depth[index] = len(open_)
        open_.append(index)
    return [[i for i, d in depth.items() if d == layer] for layer in sorted(set(depth.values()))]


def count_interval(found: Floats, groups: Sequence[Sequence[int]]) -> tuple[int, int]:
    """Return the 2.5 % and 97.5 % quantiles of how many targets are found.

    `found` (targets,) are probabilities. Targets of a group are found together as far as they can
    be (who finds the likelier one may find the other): exact for strings of which each begins with
    the one before, and else wider than the truth. Groups are taken as independent.
    """
    alone = found[[group[0] for group in groups if len(group) == 1]]
    tails = [alone[:, None]]
    tails += [np.sort(found[list(group)])[None, ::-1] for group in groups if len(group) > 1]
    sure = sum(int((tail >= 1 - CERTAIN).sum()) for tail in tails)
    open_ = [tail[((tail > CERTAIN) & (tail < 1 - CERTAIN)).any(axis=1)] for tail in tails]
    laws = [row for tail in open_ for row in _laws(tail)]
    total = np.cumsum(_summed(laws).clip(0))
    low, high = (int(np.searchsorted(total, level * total[-1])) for level in (0.025, 0.975))
    return sure + low, sure + high


def _laws(tails: Floats) -> Floats:
    """Return P(0), P(1), ... a row of numbers that are 1, 2, ... or more with `tails`, falling.

    What is certain is left out: it is counted apart.
    """
    sure = (tails >= 1 - CERTAIN).sum(axis=1, keepdims=True)
    ends = np.pad(tails, ((0, 0), (1, 1)), constant_values=(1.0, 0.0)).copy()
    law = -np.diff(ends, axis=1)
    places = (np.arange(law.shape[1]) + sure) % law.shape[1]
    rolled: Floats = np.take_along_axis(law, places, axis=1)
    return rolled


def _summed(laws: Sequence[Floats]) -> Floats:
    """Return the law of a sum of independent numbers, by products of Fourier transforms."""
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


def beside(mean: float) -> int:
    """Return the 97.5 % quantile of a Poisson number."""
    from scipy.special import pdtr, pdtrik

    if mean <= 0:
        return 0
    quantile = max(0, math.ceil(float(pdtrik(0.975, mean))))
    return quantile + int(pdtr(quantile, mean) < 0.975)


def missed(weights: Floats, counts: npt.NDArray[np.int64], level: float = 0.975) -> float:
    """Return an upper bound for the sum of weights times Poisson means, from the counts.

    Fay and Feuer's gamma interval (1997); where all weights are equal it is Garwood's (1936). Of
    weights that are all 0 it is 0. Shapes: (targets,), (targets,).
    """
    from scipy.special import chdtri

    most = float(weights.max(initial=0.0))
    if most <= 0:
        return 0.0
    value = float(weights @ counts) + most
    variance = float(weights**2 @ counts) + most**2
    return variance / (2 * value) * float(chdtri(2 * value**2 / variance, 1 - level))


def coverage(expected: tuple[float, float, float], counts: tuple[int, int], n: int) -> Estimate:
    """Return an expected share of n targets with an interval; `expected` is (low, value, high).

    The interval holds what a run finds (`counts`) 19 times out of 20, and allows, as the interval
    of a count does, for the targets being only some of their kind: it is the wider of the two at
    either end. Wilson's interval is right or too wide for expected hits, whose variance is at most
    that of a count.
    """
    low, value, high = (min(max(one, 0.0), float(n)) for one in expected)
    own = min(wilson(low, n).low, counts[0] / n), max(wilson(high, n).high, counts[1] / n)
    return Estimate(value / n, min(own[0], value / n), min(1.0, max(own[1], value / n)))


def samples_needed(log_miss: float, probability: float) -> int | None:
    """Return how many samples a prefix find a target with a probability; None where none do.

    `log_miss` is the natural logarithm of the probability that one sample of every prefix misses
    it. (n, p)-discoverable extraction (Hayes et al., arXiv:2410.19482) asks for this n.
    """
    if not 0 < probability < 1:
        raise ValueError(f"{probability} is no probability between 0 and 1.")
    if log_miss >= 0:
        return None
    return max(1, math.ceil(math.log1p(-probability) / log_miss - 1e-9))
