"""Membership scores of a text, which are higher for texts that the model was trained on.

All are computed from the ln p of a text's tokens, except the first, under the model.
"""

import math
import zlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from fedaudit.api.engine import TokenStatistics

Array = npt.NDArray[np.float64]

LOWEST = 0.2
"""The share of tokens that Min-K % uses, as published."""
SMOOTHING = 1e-12


def loss(log_probabilities: Sequence[float]) -> float:
    """Return minus the mean loss per token (Yeom et al. 2018)."""
    return float(_values(log_probabilities).mean())


def zlib_ratio(log_probabilities: Sequence[float], text: str) -> float:
    """Return minus the mean loss divided by the text's compressed length (Carlini et al. 2021)."""
    return loss(log_probabilities) / len(zlib.compress(text.encode()))


def reference_ratio(log_probabilities: Sequence[float], reference: Sequence[float]) -> float:
    """Return a reference model's mean loss minus the model's (Carlini et al. 2021)."""
    return loss(log_probabilities) - loss(reference)


def min_k(log_probabilities: Sequence[float], share: float = LOWEST) -> float:
    """Return the mean ln p of the least likely tokens, Min-K % (Shi et al. 2024).

    Their number is the share rounded down, at least one; the published code has no result for a
    text of which the share is less than one token.
    """
    return _lowest(_values(log_probabilities), share)


def min_k_plus_plus(statistics: TokenStatistics, share: float = LOWEST) -> float:
    """Return Min-K % of ln p standardised at each position, Min-K %++ (Zhang et al. 2025).

    If the model is certain, the deviation is 0, and the token counts as 0, as expected (the
    published code divides by the deviation).
    """
    values = _values(statistics.log_probability)
    spread = np.asarray(statistics.deviation, dtype=np.float64)
    centred = values - np.asarray(statistics.mean, dtype=np.float64)
    units = np.divide(centred, spread, out=np.zeros_like(values), where=spread > SMOOTHING)
    return _lowest(units, share)


def error_zone(tuned: Sequence[float], base: Sequence[float], first: Sequence[bool]) -> float:
    """Return the ratio of gains to losses over tokens that are not the tuned model's likeliest.

    EZ-MIA (arXiv:2601.12104): over these tokens, the sum of the positive differences of ln p
    between the tuned model and the base, divided by the absolute sum of the negative ones. As in
    the published code, the first scored token is left out (meant for a BOS token, but also if the
    text has none), and the score is 0 for fewer than two such tokens or no negative difference.
    """
    gain = (_values(tuned) - _values(base))[1:][~np.asarray(first, dtype=bool)[1:]]
    below = gain[gain < 0]
    if len(gain) < 2 or not len(below):
        return 0.0
    return float(gain[gain > 0].sum() / (np.abs(below).sum() + SMOOTHING))


def neighbourhood(
    log_probabilities: Sequence[float], neighbours: Sequence[Sequence[float]]
) -> float:
    """Return the mean loss of neighbour texts minus the text's own (Mattern et al. 2023).

    Raises ValueError without neighbours.
    """
    if not neighbours:
        raise ValueError("A text without neighbours has no such score.")
    return loss(log_probabilities) - math.fsum(map(loss, neighbours)) / len(neighbours)


def _lowest(values: Array, share: float) -> float:
    """Return the mean of the lowest share of values, at least one of them."""
    if not 0 < share <= 1:
        raise ValueError(f"{share} is not a share of tokens.")
    return float(np.sort(values)[: max(1, int(len(values) * share))].mean())


def _values(log_probabilities: Sequence[float]) -> Array:
    values = np.asarray(log_probabilities, dtype=np.float64)
    if not len(values):
        raise ValueError("A text of one token has no score.")
    return values
