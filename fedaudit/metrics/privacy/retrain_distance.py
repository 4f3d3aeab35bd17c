"""How far a model is from those that were trained without a member, in units of what was learnt.

A model's *standing* is a number that training on the member's records raises, such as the mean gain
of its records less that of records like them. A is the standing of the model after the member left,
B that of the model before, and R_1 ... R_K those of models that were trained without the member,
each with its own seed. All have the same normal spread over seeds. The *residual* is the share of
what was learnt that is left, (E A - E R) / (E B - E R): 0 for a model like the retrained ones, 1
for one that did not change, below 0 where the records stand lower than if they had never been
there.

For the residual L, A - L B - (1 - L) mean(R) has the mean 0 and the variance
sigma^2 (1 + L^2 + (1 - L)^2 / K), so its ratio to the estimated deviation is Student's t with K - 1
degrees of freedom. The values of L that this test accepts are an interval wherever B can be told
from the retrained models (Fieller 1954, JRSS B 16:175).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

FEWEST = 4
"""The minimum number of retrained models; with fewer, their spread is hardly known."""
POWER = 0.9
"""With this probability a residual of `detectable` is told from 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Residual:
    """The share of what was learnt that is left, and what the test could have seen."""

    value: float
    low: float
    high: float
    p_value: float
    """Of the hypothesis that the model is one of the retrained ones, two-sided."""
    detectable: float
    """The residual that would be told from 0 with a probability of POWER."""


def residual(after: float, before: float, retrained: Sequence[float], *, level: float) -> Residual:
    """Return the residual with its interval, which is wrong with a probability of `level`.

    Raises ValueError with fewer than FEWEST retrained models, if their standings are all the same,
    and if the model before cannot be told from them.
    """
    from scipy.special import stdtr, stdtrit

    count = len(retrained)
    if count < FEWEST:
        raise ValueError(f"{FEWEST} retrained models are needed, of which there are {count}")
    middle, variance = float(np.mean(retrained)), float(np.var(retrained, ddof=1))
    if not variance > 0:
        raise ValueError("the retrained models are all the same")
    a, b = after - middle, before - middle
    critical = float(stdtrit(count - 1, 1 - level / 2))
    c = critical**2 * variance
    square, linear = b * b - c * (1 + 1 / count), c / count - a * b
    constant = a * a - c * (1 + 1 / count)
    if not square > 0 or b <= 0:
        raise ValueError("the model before cannot be told from the retrained ones")
    root = float(np.sqrt(max(0.0, linear * linear - square * constant)))
    low, high = (-linear - root) / square, (-linear + root) / square
    spread = float(np.sqrt(variance * (1 + 1 / count)))
    return Residual(
        value=min(max(a / b, low), high),
        low=low,
        high=high,
        p_value=float(2 * stdtr(count - 1, -abs(a) / spread)),
        detectable=_detectable(critical, count - 1) * spread / b,
    )


@lru_cache(maxsize=64)
def _detectable(critical: float, freedom: int) -> float:
    """Return the mean of a t statistic's numerator that exceeds `critical` with POWER."""
    from scipy.optimize import brentq
    from scipy.stats import nct

    def lacking(shift: float) -> float:
        return float(nct.sf(critical, freedom, shift)) - POWER

    return float(brentq(lacking, 0.0, 10 * critical + 10))
