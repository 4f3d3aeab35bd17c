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

    Two margins make it: Student's t over the values, t(n - 1) s / sqrt(n), which holds what
    training and chance move from seed to seed; and the values' own, which hold what records and
    chance move within one. Of independent records the values show both, so that the wider counts:
    t's, or the root of the sum of the squares of their own over n, for values that are alike by
    luck. What the `same_records` do to all seeds alike no value shows: the mean of their own
    margins is added to t's in squares. A value without an interval counts as the mean of the
    others'. An interval with a low end and no high one is unbounded above: then so is the mean's,
    and its upper margin is None. Values that are not finite have none.
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
