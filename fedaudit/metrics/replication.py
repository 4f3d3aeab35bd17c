"""One number measured with several seeds: the mean, with an interval for both kinds of chance."""

import math
from collections.abc import Sequence
from statistics import fmean, stdev

from fedaudit.api.estimates import Estimate

LEVEL = 0.95
"""Of the intervals."""


def mean_estimate(values: Sequence[Estimate], *, same_records: bool) -> Estimate:
    """Return the mean over seeds of values that have intervals of their own.

    Raises ValueError for none. The interval is `mean_margins`'.
    """
    if not values:
        raise ValueError("No values, no mean.")
    mean = fmean(estimate.value for estimate in values)
    margins = mean_margins(
        [estimate.value for estimate in values],
        [estimate.low for estimate in values],
        [estimate.high for estimate in values],
        same_records=same_records,
    )
    assert margins is not None  # every value has an interval
    assert margins[1] is not None
    return Estimate(mean, mean - margins[0], mean + margins[1])


def mean_margins(
    values: Sequence[float],
    lows: Sequence[float | None],
    highs: Sequence[float | None],
    *,
    same_records: bool,
) -> tuple[float, float | None] | None:
    """Return how far the 95 % interval of the mean over seeds reaches below and above it, if any.

    The wider of two: Student's t over the values, t(n - 1) s / sqrt(n), which holds what training
    and chance move from seed to seed; and the values' own intervals taken together, which hold what
    records and chance move within one: with the `same_records` for all seeds the mean of the
    margins, else, of independent ones, the root of the sum of their squares over n. An interval
    with a low end and no high one is unbounded above: then so is the mean's, and its upper margin
    is None.
    """
    from scipy.special import stdtrit

    size = len(values)
    below = above = (
        float(stdtrit(size - 1, (1 + LEVEL) / 2)) * stdev(values) / math.sqrt(size)
        if size > 1
        else 0.0
    )
    intervals = [(low, high) for low, high in zip(lows, highs, strict=True) if low is not None]
    if len(intervals) < size:
        return (below, above) if size > 1 else None
    down = [value - low for value, (low, _) in zip(values, intervals, strict=True)]
    up = [
        high - value for value, (_, high) in zip(values, intervals, strict=True) if high is not None
    ]

    def wider(margin: float, margins: Sequence[float]) -> float:
        return max(margin, fmean(margins) if same_records else math.hypot(*margins) / size)

    return wider(below, down), wider(above, up) if len(up) == size else None
