"""Scores that say how well a model knows a text: each is higher for texts it was trained on.

All work on natural-log probabilities of a text's tokens (all but the first) under the model.
"""

import math
import zlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from fedaudit.api.engine import TokenStatistics

Array = npt.NDArray[np.float64]

LOWEST = 0.2
"""The share of tokens that Min-K % looks at, as published."""
SMOOTHING = 1e-12


def loss(log_probabilities: Sequence[float]) -> float:
    """Return minus the mean loss a token (Yeom et al. 2018)."""
    return float(_values(log_probabilities).mean())


def zlib_ratio(log_probabilities: Sequence[float], text: str) -> float:
    """Return minus the mean loss over the text's length when compressed (Carlini et al. 2021)."""
    return loss(log_probabilities) / len(zlib.compress(text.encode()))


def reference_ratio(log_probabilities: Sequence[float], reference: Sequence[float]) -> float:
    """Return how much less the mean loss is than a reference model's (Carlini et al. 2021)."""
    return loss(log_probabilities) - loss(reference)


def min_k(log_probabilities: Sequence[float], share: float = LOWEST) -> float:
    """Return the mean of the least likely tokens' log-probabilities (Shi et al. 2024).

    The tokens are the share rounded down, and one at least: the published code has no number for
    a text of which the share is less than one token.
    """
    return _lowest(_values(log_probabilities), share)


def min_k_plus_plus(statistics: TokenStatistics, share: float = LOWEST) -> float:
    """Return the same of log-probabilities in standard units of their position (Zhang et al. 2025).

    Where the model is certain its deviation is 0; the token then is as expected, and counts 0 (the
    published code divides by it).
    """
    values = _values(statistics.log_probability)
    spread = np.asarray(statistics.deviation, dtype=np.float64)
    centred = values - np.asarray(statistics.mean, dtype=np.float64)
    units = np.divide(centred, spread, out=np.zeros_like(values), where=spread > SMOOTHING)
    return _lowest(units, share)


def error_zone(tuned: Sequence[float], base: Sequence[float], first: Sequence[bool]) -> float:
    """Return gains over losses of the tokens that the tuned model would not have said itself.

    EZ-MIA (arXiv:2601.12104): over tokens where the tuned model's likeliest token is another, the
    sum of log-probabilities that are above the base's over the sum of those below. As in its
    published code the first token that is scored is left out (for a BOS token, whether or not the
    text begins with one), and the score is 0 where there are fewer than two such tokens, or none
    below.
    """
    gain = (_values(tuned) - _values(base))[1:][~np.asarray(first, dtype=bool)[1:]]
    below = gain[gain < 0]
    if len(gain) < 2 or not len(below):
        return 0.0
    return float(gain[gain > 0].sum() / (np.abs(below).sum() + SMOOTHING))


def neighbourhood(
    log_probabilities: Sequence[float], neighbours: Sequence[Sequence[float]]
) -> float:
    """Return how much less the mean loss is than that of texts nearby (Mattern et al. 2023).

    Raises ValueError without neighbours.
    """
    if not neighbours:
        raise ValueError("A text without neighbours has no such score.")
    return loss(log_probabilities) - math.fsum(map(loss, neighbours)) / len(neighbours)


def _lowest(values: Array, share: float) -> float:
    """Return the mean of the lowest share of numbers, of one at least."""
    if not 0 < share <= 1:
        raise ValueError(f"{share} is no share of tokens.")
    return float(np.sort(values)[: max(1, int(len(values) * share))].mean())


def _values(log_probabilities: Sequence[float]) -> Array:
    values = np.asarray(log_probabilities, dtype=np.float64)
    if not len(values):
        raise ValueError("A text of one token has no score.")
    return values
