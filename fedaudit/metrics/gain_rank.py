"""The test of whether strings gained more in training than control strings in the same places.

A string is ranked by its gain among CONTROLS controls. Under the null hypothesis all ranks 1 to
CONTROLS + 1 are equally likely. Rank r scores -ln((r - 1/2) / (CONTROLS + 1)), as in the test of
Savage (1956), so that a few strings with the highest gains weigh more than many with slightly
higher ones. Scores are rounded to tenths, which makes the law of their sum a convolution.
"""

import math
from collections.abc import Sequence
from functools import cache

import numpy as np
import numpy.typing as npt

CONTROLS = 19
"""The number of controls that a string is compared with."""
STEP = 0.1
"""Scores are multiples of this."""
_STEPS = [round(-math.log((rank - 0.5) / (CONTROLS + 1)) / STEP) for rank in range(1, CONTROLS + 2)]
MEAN = STEP * sum(_STEPS) / len(_STEPS)
"""The mean score under the null hypothesis."""


def gain_score(gains: Sequence[float]) -> float:
    """Return the score of the first of `gains` among the others; ties rank it last."""
    if len(gains) != CONTROLS + 1:
        raise ValueError(f"A gain is compared with {CONTROLS} others.")
    rank = sum(gain >= gains[0] for gain in gains)
    return STEP * _STEPS[rank - 1]


def rank_p_value(scores: Sequence[float]) -> float:
    """Return P(a sum of as many scores is at least this one) under the null hypothesis."""
    tail = _tail(len(scores))
    total = round(sum(scores) / STEP)
    return max(float(tail[total]) if total < len(tail) else 0.0, float(np.finfo(float).tiny))


def needed_sum(n: int, level: float) -> float:
    """Return the least sum of n scores with a p value of at most `level`; infinite without one."""
    tail = _tail(n)
    index = int(np.argmax(tail <= level))
    return STEP * index if tail[index] <= level else math.inf


@cache
def _tail(n: int) -> npt.NDArray[np.float64]:
    """Return P(sum of n scores >= i steps) for each i."""
    law = np.bincount(_STEPS).astype(np.float64) / len(_STEPS)
    total = np.ones(1)
    for _ in range(n):
        total = np.convolve(total, law)
    tail: npt.NDArray[np.float64] = np.clip(np.cumsum(total[::-1])[::-1], 0.0, 1.0)
    return tail


def detectable_count(
    n: int, least_mean: float, rest_mean: float, level: float, power: float
) -> int | None:
    """Return how many of n strings must be learned for the test to see it with `power`.

    A learned string scores at least `least_mean` on average, another one `rest_mean`; both with
    the standard deviation of the null hypothesis (of the normal law, as in the text of
    docs/evidence.md). None if not even all n are enough.
    """
    from statistics import NormalDist

    needed, deviation = needed_sum(n, level), (STEP * float(np.std(_STEPS))) * math.sqrt(n)
    z = NormalDist().inv_cdf(power)
    for count in range(1, n + 1):
        if count * least_mean + (n - count) * rest_mean - z * deviation >= needed:
            return count
    return None
