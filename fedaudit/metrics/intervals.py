"""Intervals: a rate never travels without one."""

from collections.abc import Sequence

import numpy as np

from fedaudit.api.estimates import Z_95, Estimate, difference, wilson

__all__ = ["Z_95", "Estimate", "bootstrap_mean", "difference", "wilson"]


def bootstrap_mean(values: Sequence[float], *, seed: int, draws: int = 1000) -> Estimate:
    """Return the mean with its percentile bootstrap interval (Efron 1979), seeded.

    Values are sorted first, so their order does not matter. Raises ValueError for none.
    """
    if not values:
        raise ValueError("No values, no mean.")
    sample = np.sort(np.asarray(values, dtype=np.float64))
    picks = np.random.default_rng(seed).integers(len(sample), size=(draws, len(sample)))
    means = sample[picks].mean(axis=1)
    low, high = np.quantile(means, (0.025, 0.975))
    return Estimate(float(sample.mean()), float(low), float(high))
