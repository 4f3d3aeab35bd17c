"""How well scores tell members from others: the ROC curve, its area, and its low end."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from fedaudit.api.estimates import Z_95, Estimate

Counts = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Roc:
    """True and false positives at every threshold, from "nobody" to "everybody"."""

    true: Counts
    """Members whose score is at least the threshold; ascending, from 0."""
    false: Counts
    """Non-members whose score is."""

    @classmethod
    def from_scores(cls, members: Sequence[float], non_members: Sequence[float]) -> Self:
        """Return the curve of scores, higher for members.

        Raises ValueError where either has none, or one that is no number.
        """
        inside, outside = _scores(members), _scores(non_members)
        thresholds = np.unique(np.concatenate([inside, outside]))[::-1]
        true = len(inside) - np.searchsorted(np.sort(inside), thresholds, "left")
        false = len(outside) - np.searchsorted(np.sort(outside), thresholds, "left")
        return cls(np.concatenate([[0], true]), np.concatenate([[0], false]))


def hull(curve: Roc) -> list[tuple[int, int]]:
    """Return the vertices (false, true) of the least concave curve above a ROC curve."""
    vertices: list[tuple[int, int]] = []
    for point in sorted(set(zip(curve.false.tolist(), curve.true.tolist(), strict=True))):
        while len(vertices) > 1 and _turns_left(vertices[-2], vertices[-1], point):
            vertices.pop()
        vertices.append(point)
    return vertices


def hull_area(curve: Roc) -> float:
    """Return the area under the concave hull, at least that of the curve and at least 1/2."""
    false, true = np.array(hull(curve), dtype=np.float64).T
    return float(np.trapezoid(true / true[-1], false / false[-1]))


def hull_tpr(curve: Roc, fpr: float) -> float:
    """Return the true positive rate of the hull: of the best mixture of thresholds."""
    false, true = np.array(hull(curve), dtype=np.float64).T
    best = dict(zip(false / false[-1], true / true[-1], strict=True))
    return float(np.interp(fpr, list(best), list(best.values())))


def auc(members: Sequence[float], non_members: Sequence[float]) -> Estimate:
    """Return P(a member's score is above another's), ties counted half, with its 95 % interval.

    The interval is Newcombe's method 5 (2006, Statistics in Medicine 25:559), which inverts a
    variance that depends on the area itself: it stays within 0 and 1 and has a width at both.
    Raises ValueError without scores.
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

    # Between them only the area itself is a zero where it is 0 or 1: it is stepped over.
    low = 0.0 if area == 0 else float(brentq(excess, 0.0, area * (1 - 1e-9)))
    high = 1.0 if area == 1 else float(brentq(excess, area + (1 - area) * 1e-9, 1.0))
    return Estimate(area, low, high)


def tpr_at_fpr(members: Sequence[float], non_members: Sequence[float], fpr: float) -> Estimate:
    """Return the share of members above a threshold that at most `fpr` of the others reach.

    The threshold is the score of the k-th non-member from above, where k is one more than `fpr`
    allows, and members must exceed it. The 95 % interval is Clopper and Pearson's over the
    members; it takes the threshold as given. Raises ValueError where there are too few others
    to have such a threshold, `fpr` times their number below 1.
    """
    from scipy.stats import binomtest

    inside, outside = _scores(members), np.sort(_scores(non_members))[::-1]
    allowed = math.floor(fpr * len(outside) + 1e-9)
    if not allowed or allowed >= len(outside):
        raise ValueError(f"{len(outside)} others have no false positive rate of {fpr:g}.")
    hits = int((inside > outside[allowed]).sum())
    interval = binomtest(hits, len(inside)).proportion_ci(method="exact")
    return Estimate(hits / len(inside), float(interval.low), float(interval.high))


def rates_above(
    scores: Floats, members: npt.NDArray[Any], others: npt.NDArray[Any], fpr: float
) -> tuple[Floats, Floats]:
    """Return `tpr_at_fpr` of each row: the share of members above what `fpr` of the others reach.

    `scores` (records,) fall. `members` and `others` (rows, records) say how often a record counts
    on either side in a row. The second array is how many of the others each row allows; where that
    is 0, the share is of members above all of them.
    """
    other_counts = np.cumsum(others, axis=1)
    allowed = np.floor(fpr * other_counts[:, -1] + 1e-9)
    first = np.argmax(other_counts > allowed[:, None], axis=1)
    reached = np.searchsorted(-scores, -scores[first], side="left")
    counts = np.cumsum(members, axis=1)
    above = np.concatenate([np.zeros((len(counts), 1)), counts], axis=1)
    return above[np.arange(len(counts)), reached] / counts[:, -1], allowed


def balanced_accuracy(curve: Roc) -> float:
    """Return the best mean of true positive and true negative rate over all thresholds."""
    true, false = curve.true / curve.true[-1], curve.false / curve.false[-1]
    return float(np.max((true + 1 - false) / 2))


def _scores(values: Sequence[float]) -> npt.NDArray[np.float64]:
    scores = np.asarray(values, dtype=np.float64)
    if not scores.size or np.isnan(scores).any():
        raise ValueError("Scores are numbers, at least one of members and one of others.")
    return scores


def _turns_left(a: tuple[int, int], b: tuple[int, int], c: tuple[int, int]) -> bool:
    """Tell whether b is on or below the line from a to c."""
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]) >= 0
