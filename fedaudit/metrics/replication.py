"""One number measured with several seeds: its mean, with an interval for both sources of chance."""

import math
from collections.abc import Sequence
from statistics import fmean, stdev

from fedaudit.api.estimates import Estimate

LEVEL = 0.95
"""The confidence level of the intervals."""


def mean_estimate(values: Sequence[Estimate], *, same_records: bool) -> Estimate:
    """Return the mean over seeds of values that have intervals of their own.

    The interval is that of `mean_margins`. Raises ValueError if there are no values.
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

    There are two sources: Student's t over the values, t(n - 1) s / sqrt(n), covers the variation
    between seeds, by training and chance; the values' own margins cover the variation within a
    seed, by records and chance. If each seed has independent records, the values' scatter shows
    both, so the wider margin counts: t's, or the root of the sum of the squares of their own over
    n, in case the values are alike by luck. An effect of the `same_records` on all seeds alike does
    not show in the scatter, so the mean of the values' own margins is added to t's in squares. A
    value without an interval counts with the mean margin of the others. If an interval has a low
    end and no high one, it is unbounded above: then so is the mean's, and its upper margin is None.
    The result is None if a value is not finite.
    """
    from scipy.special import stdtrit

    size = len(values)
    own = [
        (value - low, None if high is None else high - value)
        for value, low, high in zip(values, lows, highs, strict=True)
        if low is not None
    ]
    if not all(map(math.isfinite, values)) or (size == 1 and not own):
        return None
    quantile = float(stdtrit(size - 1, (1 + LEVEL) / 2)) if size > 1 else 0.0
    between = quantile * stdev(values) / math.sqrt(size) if size > 1 else 0.0

    def margin(margins: Sequence[float]) -> float:
        if not margins:
            return between
        if same_records:
            return math.hypot(between, fmean(margins))
        return max(between, math.hypot(*margins) / math.sqrt(len(margins) * size))

    up = [above for _, above in own if above is not None]
    return margin([below for below, _ in own]), margin(up) if len(up) == len(own) else None
