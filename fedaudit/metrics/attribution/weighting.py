"""Masks in weighted sums, by which an estimate holds c_j w_j / w_i of another client's update.

docs/estimator.md says which properties of the estimator hold for such sums, and which do not.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from fedaudit.api.errors import UsageError


def ratios(weights: Mapping[str, float], target: str, clients: Sequence[str]) -> np.ndarray:
    """Return w_j / w_i, float64: the factor of each coefficient in the target's estimate.

    Raises UsageError for a client without a weight, or whose weight is not a positive finite
    number.
    """
    for client in (target, *clients):
        if client not in weights:
            raise UsageError(f"{client} has no weight.")
        if not 0 < weights[client] < math.inf:
            raise UsageError(f"{client} has no positive weight, but {weights[client]:g}.")
    quotients = [weights[client] / weights[target] for client in clients]
    if not all(0 < ratio < math.inf for ratio in quotients):
        raise UsageError(f"The weight of {target} and those of others are too far apart.")
    return np.array(quotients)


def is_accepted(c: np.ndarray, least: float, limit: float) -> np.ndarray:
    """Return whether rho >= `least` and no |c_j| is above `limit`, for masks on the last axis.

    Ties are accepted up to rounding, so that weights with the same ratios give the same result.
    """
    enough = np.square(c).sum(-1) >= least * (1 - 1e-9)
    accepted: np.ndarray = enough & (np.abs(c).max(-1) <= limit * (1 + 1e-9))
    return accepted


def refusal_message(
    tries: int, pairs: int, limit: float, least: float, factors: np.ndarray | None
) -> str:
    """Return the error message for when none of `tries` draws was accepted."""
    text = f"None of {tries:,} designs of {pairs} pairs keeps every other client's share within "
    if factors is None or (factors == 1).all():
        return f"{text}{limit:g}; a limit is a multiple of 1/{pairs} and 1 allows any."
    return (
        f"{text}{limit:g} and the masks' strength at {least:.2f}: in sums weighted by size others "
        f"count for {factors.min():.2g} to {factors.max():.2g} times as much as the client itself. "
        "Ask for --weights equal."
    )
