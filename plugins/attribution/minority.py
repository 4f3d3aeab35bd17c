"""Which clients FLForensics takes for malicious, from two influences of each (its cluster.py).

Points are (clients, 2): the influence on target texts, then on clean texts.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from .gap import SAME

if TYPE_CHECKING:
    import numpy as np

NOISE = -1
"""The label of points that HDBSCAN puts into no cluster."""


def scale_axes(points: "np.ndarray") -> "np.ndarray":
    """Return each axis divided by its range; by its largest magnitude where it has none."""
    import numpy as np

    spread, largest = np.ptp(points, axis=0), np.abs(points).max(axis=0)
    ranges = np.where(spread > SAME * largest, spread, np.where(largest > 0, largest, 1.0))
    return np.asarray(points / ranges)


def density_labels(points: "np.ndarray", smallest: int) -> "np.ndarray":
    """Return HDBSCAN's clusters of at least `smallest` scaled points, and NOISE."""
    from sklearn.cluster import HDBSCAN

    # The released code's settings. The package hdbscan, which it uses, does not count the point
    # itself among min_samples as scikit-learn does; at 1, both are plain single linkage.
    clusterer = HDBSCAN(min_cluster_size=smallest, min_samples=1, copy=True)
    return _in_order(points, lambda sorted_points: clusterer.fit(sorted_points).labels_)


def mean_labels(points: "np.ndarray", seed: int, most: int = 5) -> "np.ndarray":
    """Return the clusters of scaled points by k-means, k from 2 to `most` by the best silhouette.

    Fewer than three points, or points that are all alike, are one cluster.
    """
    import numpy as np
    from sklearn.cluster import KMeans
    from sklearn.metrics import silhouette_score

    def fit(ordered: "np.ndarray") -> "np.ndarray":
        alike = np.ptp(ordered, axis=0) <= SAME * np.abs(ordered).max(axis=0)
        ks = range(2, min(most, len(ordered) - 1, len(np.unique(ordered, axis=0))) + 1)
        if alike.all() or not ks:
            return np.zeros(len(ordered), dtype=int)
        candidates = [KMeans(k, n_init=10, random_state=seed).fit(ordered).labels_ for k in ks]
        return np.asarray(max(candidates, key=lambda labels: silhouette_score(ordered, labels)))

    return _in_order(points, fit)


def malicious(points: "np.ndarray", labels: "np.ndarray") -> "np.ndarray":
    """Return who is flagged, bool (clients,), from scaled points and their clusters.

    A group is suspect if its mean influence on target texts is above 0 and it has fewer than half
    of the clients; those without a cluster are a group, too. A single suspect group is flagged.
    Among several, a cluster is if its ratio of influence on clean to influence on target texts is
    at most that of all suspect clusters together, and then so is each client without a cluster
    that has a positive influence on target texts and no larger a ratio.
    """
    import numpy as np

    members = [(label, labels == label) for label in sorted(set(labels.tolist()))]
    suspect = [
        (label, mask)
        for label, mask in members
        if points[mask, 0].mean() > 0 and mask.sum() < len(points) / 2
    ]
    if len(suspect) < 2:
        return suspect[0][1] if suspect else np.zeros(len(points), dtype=bool)
    clusters = [mask for label, mask in suspect if label != NOISE]
    bound = _ratio(points[np.any(clusters, axis=0)])
    guilty = [mask for mask in clusters if _ratio(points[mask]) <= bound]
    noise = (labels == NOISE) & (points[:, 0] > 0)
    noise[noise] = [_ratio(points[index : index + 1]) <= bound for index in np.flatnonzero(noise)]
    return np.asarray(np.any([*guilty, noise], axis=0))


def _ratio(points: "np.ndarray") -> float:
    return float(points[:, 1].mean() / points[:, 0].mean())


def _in_order(points: "np.ndarray", fit: Callable[["np.ndarray"], "np.ndarray"]) -> "np.ndarray":
    """Return the labels of points that are fitted sorted: so the clients' order does not matter."""
    import numpy as np

    order = np.lexsort((points[:, 1], points[:, 0]))
    labels = np.empty(len(points), dtype=int)
    labels[order] = fit(points[order])
    return labels
