"""Probabilities given as natural logarithms, since they may be too small for a float."""

import math
from collections.abc import Sequence


def log_mean_exp(logs: Sequence[float]) -> float:
    """Return ln of the mean of probabilities that are given as ln; -inf if all are 0.

    Raises ValueError for an empty sequence.
    """
    largest = max(logs)
    if largest == -math.inf:
        return largest
    return largest + math.log(math.fsum(math.exp(x - largest) for x in logs) / len(logs))
