"""The distribution of the leak into a Z from other clients' marks, on a grid.

On a grid, sums over rounds are convolutions. They are exact in the tails, which decide and in which
a fitted normal distribution is not.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import ceil

import numpy as np
import numpy.typing as npt

from fedaudit.metrics.attribution import stouffer

Array = npt.NDArray[np.float64]

STEPS = 8
"""Steps of the grid per standard deviation of Z by chance."""
ERROR_REACH = 4
"""Standard deviations at which a normal error is cut off."""
LEAST_ERROR = 0.5
"""The standard deviation, in steps of the grid, below which an error is ignored."""
DIRECT = 10**7
"""The number of products above which a convolution uses Fourier transforms."""

RoundLeak = tuple[int, Array]
"""A round's leak: the first step on the grid, and the probabilities of the steps from there on."""
NO_LEAK: RoundLeak = (0, np.ones(1))


@dataclass(frozen=True, slots=True)
class LeakDistribution:
    """The probabilities of a leak of (first + k) / STEPS standard deviations by chance."""

    first: int
    probabilities: Array

    @property
    def grid(self) -> Array:
        """Return the grid points in standard deviations by chance."""
        return (self.first + np.arange(len(self.probabilities))) / STEPS

    def add_round(self, first: int, probabilities: Array) -> "LeakDistribution":
        """Return the distribution with one more round, whose leak has these probabilities."""
        if len(probabilities) == 1:
            return LeakDistribution(self.first + first, self.probabilities)
        return LeakDistribution(self.first + first, _convolve(self.probabilities, probabilities))

    def tail_probability(self, deviations: float, degrees: float) -> float:
        """Return P(chance plus this leak >= so many standard deviations), never 0."""
        tails = stouffer.chance_below(self.grid - deviations, degrees)
        return min(1.0, max(float(self.probabilities @ tails), stouffer.SMALLEST))


NOTHING = LeakDistribution(0, np.ones(1))


def histogram(responses: Array) -> RoundLeak:
    """Return the relative frequency of each step."""
    whole = responses.astype(np.int64)
    first = int(whole.min())
    return first, np.bincount(whole - first) / len(responses)


def mix_distributions(parts: Sequence[tuple[RoundLeak, float, float]]) -> RoundLeak:
    """Return the mixture of distributions, each with a normal error (in steps) and a weight."""
    kernels = [_kernel(error) for _, error, _ in parts]
    low = min(
        first - len(kernel) // 2 for ((first, _), _, _), kernel in zip(parts, kernels, strict=True)
    )
    sums = [
        (first - len(kernel) // 2 - low, weight * _convolve(own, kernel))
        for ((first, own), _, weight), kernel in zip(parts, kernels, strict=True)
    ]
    distribution = np.zeros(max(start + len(own) for start, own in sums))
    for start, own in sums:
        distribution[start : start + len(own)] += own
    return low, distribution


def _convolve(first: Array, second: Array) -> Array:
    """Return the distribution of a sum; for long distributions, each entry to about 1e-16."""
    if len(first) * len(second) <= DIRECT:
        return np.convolve(first, second)
    from scipy.signal import fftconvolve

    return np.asarray(np.maximum(fftconvolve(first, second), 0.0))


def rounded_deviation(deviation: float) -> float:
    """Return a deviation rounded to two digits, so that `_kernel` can cache results."""
    return float(f"{deviation:.2g}") if deviation >= LEAST_ERROR else 0.0


@lru_cache(maxsize=1024)
def _kernel(deviation: float) -> Array:
    """Return the probabilities of a normal error with a standard deviation in steps, in order."""
    if deviation <= 0:
        return np.ones(1)
    reach = ceil(ERROR_REACH * deviation)
    weights = np.exp(-0.5 * np.square(np.arange(-reach, reach + 1) / deviation))
    return np.asarray(weights / weights.sum())
