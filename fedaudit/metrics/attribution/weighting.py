"""Masks where sums are of w_j times an update: what an estimate then holds is c_j w_j / w_i.

docs/estimator.md says what of the estimator holds for them, and what does not.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from fedaudit.api.errors import UsageError


def ratios(weights: Mapping[str, float], target: str, rest: Sequence[str]) -> np.ndarray:
    """Return w_j / w_i, float64: by what a coefficient is multiplied in the target's estimate.

    Raises UsageError for a client without a weight, or whose weight is no positive finite number.
    """
    for who in (target, *rest):
        if who not in weights:
            raise UsageError(f"{who} has no weight.")
        if not 0 < weights[who] < math.inf:
            raise UsageError(f"{who} has no positive weight, but {weights[who]:g}.")
    found = [weights[who] / weights[target] for who in rest]
    if not all(0 < ratio < math.inf for ratio in found):
        raise UsageError(f"The weight of {target} and those of others are too far apart.")
    return np.array(found)


def is_accepted(c: np.ndarray, least: float, limit: float) -> np.ndarray:
    """Return whether rho >= `least` and no |c_j| is above `limit`, for masks on the last axis.

    A tie counts as such up to rounding, so that the same ratios of other weights decide the same.
    """
    enough = np.square(c).sum(-1) >= least * (1 - 1e-9)
    both: np.ndarray = enough & (np.abs(c).max(-1) <= limit * (1 + 1e-9))
    return both


def refusal_message(
    tries: int, pairs: int, limit: float, least: float, by: np.ndarray | None
) -> str:
    """Return what to say where no draw of as many was accepted."""
    told = f"None of {tries:,} designs of {pairs} pairs keeps every other client's share within "
    if by is None or (by == 1).all():
        return f"{told}{limit:g}; a limit is a multiple of 1/{pairs} and 1 allows any."
    return (
        f"{told}{limit:g} and the masks' strength at {least:.2f}: in sums weighted by size others "
        f"count for {by.min():.2g} to {by.max():.2g} times as much as the client itself. Ask for "
        "--weights equal."
    )
