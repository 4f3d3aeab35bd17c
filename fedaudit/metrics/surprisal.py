"""How surprising a set of hits is when each string has a chance of its own."""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

MIN_CHANCE = 1e-3
"""Lower chances count as this one, because a model's smallest probabilities are least reliable."""
UNIT = 0.25
"""In nats: surprisals are rounded to multiples of it, so that the law of their sums is exact."""


def surprisal(chances: Sequence[float]) -> npt.NDArray[np.int64]:
    """Return -ln of each chance, raised to at least MIN_CHANCE, in whole UNITs."""
    clipped_chances = np.clip(np.asarray(chances, dtype=np.float64), MIN_CHANCE, 1.0)
    return np.rint(-np.log(clipped_chances) / UNIT).astype(np.int64)


def p_value(values: Sequence[float], chances: Sequence[float]) -> float:
    """Return P(sum of w_i X_i >= sum of w_i values_i), X_i ~ Bernoulli(max(chances_i, MIN_CHANCE)).

    `values` are 1 for a hit and 0 for none, or expected hits in between: of all laws on [0, 1] with
    the same mean, Bernoulli's has the largest variance. w_i is the surprisal, so that unlikely hits
    count more. The law is exact up to floating point: sums that reach the observed one are
    collected in one place, so that a small tail is not the difference of two large numbers. Raises
    ValueError for chances or values outside 0..1, or if their numbers differ.
    """
    if len(values) != len(chances):
        raise ValueError(f"{len(chances)} chances for {len(values)} values.")
    if any(not 0 <= x <= 1 for x in (*values, *chances)):
        raise ValueError("Values and chances must lie between 0 and 1.")
    weights = surprisal(chances)
    # Sums of weights are whole; the observed sum is rounded down to a whole number.
    reached = math.floor(float(np.dot(weights, np.asarray(values, dtype=np.float64))) + 1e-9)
    law = np.zeros(reached + 1)
    law[0] = 1.0
    for weight, chance in zip(weights.tolist(), chances, strict=True):
        if weight and reached:
            law = _either(law, weight, max(chance, MIN_CHANCE))
    return float(min(1.0, law[-1]))


def _either(law: npt.NDArray[np.float64], weight: int, chance: float) -> npt.NDArray[np.float64]:
    """Return the law of a sum after one more string; the last entry is for that sum or more."""
    last = len(law) - 1
    new_law = law * (1 - chance)
    new_law[-1] += chance * law[max(0, last - weight) :].sum()
    if weight < last:
        new_law[weight:last] += chance * law[: last - weight]
    return new_law
