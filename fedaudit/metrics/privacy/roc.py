"""The area under the ROC curve of membership scores, and the low end of the curve."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fedaudit.api.estimates import Z_95, Estimate

Floats = npt.NDArray[np.float64]


def auc(members: Sequence[float], non_members: Sequence[float]) -> Estimate:
    """Return P(a member's score is above a non-member's), ties counted half, with 95 % interval.

    The interval is Newcombe's method 5 (2006, Statistics in Medicine 25:559), which inverts a
    variance that depends on the area itself: it stays within [0, 1] and has a positive width even
    at an area of 0 or 1. Raises ValueError without scores.
    """
    from scipy.optimize import brentq
    from scipy.stats import rankdata

    inside, outside = _scores(members), _scores(non_members)
    m, n = len(inside), len(outside)
    ranks = rankdata(np.concatenate([inside, outside]))
    area = float((ranks[:m].sum() - m * (m + 1) / 2) / (m * n))

    def excess(theta: float) -> float:
        n_star = (m + n) / 2 - 1
        spread = 1 + n_star * (1 - theta) / (2 - theta) + n_star * theta / (1 + theta)
        return (area - theta) ** 2 - Z_95**2 * theta * (1 - theta) * spread / (m * n)

    # The area itself is a zero too if it is 0 or 1, so the brackets step over it.
    low = 0.0 if area == 0 else float(brentq(excess, 0.0, area * (1 - 1e-9)))
    high = 1.0 if area == 1 else float(brentq(excess, area + (1 - area) * 1e-9, 1.0))
    return Estimate(area, low, high)


def allowed_above(fpr: float, others: int) -> int:
    """Return how many of the others a threshold may be exceeded by: `fpr` of them, rounded down."""
    return math.floor(fpr * others + 1e-9)


def tpr_at_fpr(members: Sequence[float], non_members: Sequence[float], fpr: float) -> Estimate:
    """Return the share of members above a threshold that at most `fpr` of the others exceed.

    The threshold is the k-th highest score of the others, where k is one more than `fpr` allows,
    and members must exceed it. The 95 % interval is Clopper and Pearson's over the members, for a
    given threshold. Raises ValueError if `fpr` times the number of others is below 1, or if it
    allows all of them.
    """
    from scipy.stats import binomtest

    inside, outside = _scores(members), np.sort(_scores(non_members))[::-1]
    allowed = allowed_above(fpr, len(outside))
    if not allowed or allowed >= len(outside):
        raise ValueError(f"{len(outside)} others have no false positive rate of {fpr:g}.")
    hits = int((inside > outside[allowed]).sum())
    interval = binomtest(hits, len(inside)).proportion_ci(method="exact")
    return Estimate(hits / len(inside), float(interval.low), float(interval.high))


def rates_above(
    scores: Floats, members: npt.NDArray[Any], others: npt.NDArray[Any], fpr: float
) -> tuple[Floats, Floats]:
    """Return `tpr_at_fpr` of each row, (rows,), and the number of the others that `fpr` allows.

    `scores` (records,) are in descending order. `members` and `others` (rows, records) say how
    often a record counts on either side in a row. If none of the others is allowed, the share is
    that of members above all of them.
    """
    other_counts = np.cumsum(others, axis=1)
    allowed = np.floor(fpr * other_counts[:, -1] + 1e-9)
    first = np.argmax(other_counts > allowed[:, None], axis=1)
    reached = np.searchsorted(-scores, -scores[first], side="left")
    counts = np.cumsum(members, axis=1)
    above = np.concatenate([np.zeros((len(counts), 1)), counts], axis=1)
    return above[np.arange(len(counts)), reached] / counts[:, -1], allowed


def balanced_accuracy(members: Sequence[float], non_members: Sequence[float]) -> float:
    """Return the highest mean of true positive and true negative rate over all thresholds.

    Raises ValueError if either side has no score or a NaN.
    """
    inside, outside = np.sort(_scores(members)), np.sort(_scores(non_members))
    thresholds = np.append(np.unique(np.concatenate([inside, outside])), np.inf)
    true, false = (
        (len(side) - np.searchsorted(side, thresholds, "left")) / len(side)
        for side in (inside, outside)
    )
    return float(np.max((true + 1 - false) / 2))


def _scores(values: Sequence[float]) -> npt.NDArray[np.float64]:
    scores = np.asarray(values, dtype=np.float64)
    if not scores.size or np.isnan(scores).any():
        raise ValueError("Scores are numbers, at least one of members and one of others.")
    return scores
