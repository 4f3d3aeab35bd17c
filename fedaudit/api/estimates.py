"""An estimate, that of a rate, and that of a difference: what all may need beside a number."""

import math
from dataclasses import dataclass

Z_95 = 1.959963984540054
"""The 97.5 % quantile of the standard normal distribution."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with its 95 % interval."""

    value: float
    low: float
    high: float


def wilson(hits: float, n: float, z: float = Z_95) -> Estimate:
    """Return hits/n with its score interval (Wilson 1927), which is sound at 0 and at n.

    Raises ValueError unless 0 <= hits <= n and n > 0: a rate of nothing is not a rate.
    """
    if n <= 0 or not 0 <= hits <= n:
        raise ValueError(f"{hits} of {n} is not a rate.")
    rate = hits / n
    centre = (rate + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(rate * (1 - rate) / n + z * z / (4 * n * n))
    low = 0.0 if hits == 0 else max(0.0, centre - half)
    high = 1.0 if hits == n else min(1.0, centre + half)
    return Estimate(rate, low, high)


def difference(minuend: Estimate, subtrahend: Estimate) -> Estimate:
    """Return minuend - subtrahend with its 95 % interval, from the intervals of both.

    Newcombe 1998 (Statistics in Medicine 17:873), method 10, and for other numbers than rates Zou
    and Donner 2008 (27:1693): the distances from each value to its own bounds are added in squares.
    It takes both as independent, so that of numbers that rise and fall together, as of the same
    strings in two models, the interval is too wide, not too narrow.
    """
    value = minuend.value - subtrahend.value
    below = math.hypot(minuend.value - minuend.low, subtrahend.high - subtrahend.value)
    above = math.hypot(minuend.high - minuend.value, subtrahend.value - subtrahend.low)
    return Estimate(value, value - below, value + above)
