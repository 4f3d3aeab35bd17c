"""How many groups of numbers there are: the gap statistic (Tibshirani et al., 2001), over k-means.

    gap(k) = ln mean_b W*_k,b - ln W_k

compares the squared distances to the centres of k clusters, W, with those of uniform draws, W*. The
first k with gap(k) >= gap(k+1) - s(k+1) is chosen, s = sqrt(1 + 1/B) * std_b ln W*. As in
FLDetector's code, and not in Tibshirani's definition, the logarithm is of the mean over draws.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

SAME = 1e-9
"""Numbers that differ by no more than this part of the largest are rounding, not groups."""

_MIN_DISPERSION = 1e-12
"""Stands for a W of 0, which has no logarithm; the numbers are scaled to 0..1."""


def groups(values: Sequence[float], *, most: int = 7, references: int = 10, seed: int = 0) -> int:
    """Return the number of groups among `values`, from 1 to `most` and below their number.

    Fewer than three values, and values that only rounding tells apart, are one group. The draws are
    seeded and their order does not matter. Where no k passes, the last is chosen.
    """
    import numpy as np

    ordered = np.sort(np.asarray(values, dtype=np.float64))
    last = min(most, len(ordered) - 1)
    if last < 2 or ordered[-1] - ordered[0] <= SAME * np.abs(ordered).max():
        return 1
    scaled = (ordered - ordered[0]) / (ordered[-1] - ordered[0])
    draws = np.random.default_rng(seed).uniform(size=(references, len(scaled)))
    before = -np.inf
    for k in range(1, last + 1):
        uniform = np.array([_dispersion(row, k, seed) for row in draws])
        gap = np.log(uniform.mean()) - np.log(_dispersion(scaled, k, seed))
        spread = np.sqrt(1 + 1 / references) * np.log(uniform).std()
        if before - gap + spread >= 0:
            return k - 1
        before = gap
    return last


def upper_half(values: Sequence[float], seed: int = 0) -> list[bool]:
    """Return which values are in the higher of two clusters; raises ValueError for one value."""
    import numpy as np
    from sklearn.cluster import KMeans

    column = np.asarray(values, dtype=np.float64)[:, None]
    if len(np.unique(column)) < 2:
        raise ValueError("Equal values make no two clusters.")
    order = np.argsort(column[:, 0], kind="stable")
    labels = np.empty(len(column), dtype=int)
    labels[order] = KMeans(2, n_init=10, random_state=seed).fit(column[order]).labels_
    higher = labels[order[-1]]
    return [bool(label == higher) for label in labels]


def _dispersion(values: "np.ndarray", k: int, seed: int) -> float:
    """Return the least sum of squared distances to k centres that ten starts of k-means find."""
    import numpy as np
    from sklearn.cluster import KMeans

    if len(np.unique(values)) <= k:
        return _MIN_DISPERSION
    kmeans = KMeans(k, n_init=10, random_state=seed).fit(np.sort(values)[:, None])
    return max(float(kmeans.inertia_), _MIN_DISPERSION)
