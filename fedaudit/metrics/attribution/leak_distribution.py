"""The distribution of what a Z takes from other clients' marks, on a grid.

A grid makes sums over rounds convolutions, which are exact where a fit of a normal law is not: in
the tails that decide.
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
"""Steps of the grid of Z, for each standard deviation by chance."""
ERROR_REACH = 4
"""Standard deviations at which a normal error ends."""
LEAST_ERROR = 0.5
"""An error of fewer steps of the grid makes no difference."""
DIRECT = 10**7
"""Products above which a sum's distribution is by Fourier transform."""

RoundLeak = tuple[int, Array]
"""What a round adds: the first step of a grid, and the probabilities from there on."""
NO_LEAK: RoundLeak = (0, np.ones(1))


@dataclass(frozen=True, slots=True)
class LeakDistribution:
    """The probabilities of what Z takes from others, on a grid: (first + k) / STEPS deviations."""

    first: int
    probabilities: Array

    @property
    def grid(self) -> Array:
        """Return the grid, in standard deviations by chance."""
        return (self.first + np.arange(len(self.probabilities))) / STEPS

    def add_round(self, first: int, probabilities: Array) -> "LeakDistribution":
        """Return the distribution with one more round, whose leak has these probabilities."""
        if len(probabilities) == 1:
            return LeakDistribution(self.first + first, self.probabilities)
        return LeakDistribution(self.first + first, _convolve(self.probabilities, probabilities))

    def tail_probability(self, deviations: float, degrees: float) -> float:
        """Return P(chance plus this leak >= so many standard deviations), never 0.

        Chance is Student's t with so many degrees of freedom, standard normal without any.
        """
        from scipy.special import ndtr, stdtr

        beyond = self.grid - deviations
        tails = stdtr(degrees, beyond) if degrees else ndtr(beyond)
        return min(1.0, max(float(self.probabilities @ tails), stouffer.SMALLEST))


NOTHING = LeakDistribution(0, np.ones(1))


def histogram(responses: Array) -> RoundLeak:
    """Return how often each of these steps occurs."""
    whole = responses.astype(np.int64)
    first = int(whole.min())
    return first, np.bincount(whole - first) / len(responses)


def mix_distributions(parts: Sequence[tuple[RoundLeak, float, float]]) -> RoundLeak:
    """Return a mixture: distributions, each off by a normal error of so many steps, by weight."""
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
    """Return the probabilities of a sum; of long distributions, to 1e-16 each."""
    if len(first) * len(second) <= DIRECT:
        return np.convolve(first, second)
    from scipy.signal import fftconvolve

    return np.asarray(np.maximum(fftconvolve(first, second), 0.0))


def rounded_deviation(deviation: float) -> float:
    """Return an error of which few are told apart, so that what it makes is kept: 1 % at most."""
    return float(f"{deviation:.2g}") if deviation >= LEAST_ERROR else 0.0


@lru_cache(maxsize=1024)
def _kernel(deviation: float) -> Array:
    """Return the probabilities of a normal error of so many steps, in order."""
    if deviation <= 0:
        return np.ones(1)
    reach = ceil(ERROR_REACH * deviation)
    weights = np.exp(-0.5 * np.square(np.arange(-reach, reach + 1) / deviation))
    return np.asarray(weights / weights.sum())
