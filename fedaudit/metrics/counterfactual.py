"""Counterfactual memorization: a model's output with some training data, less that without."""

import math

from fedaudit.api.estimates import Estimate


def drawn_chance(count: int) -> Estimate:
    """Return the chance that an audit draws a string at least once, given `count` draws of it.

    The value, 1 or 0, is unbiased; the interval follows from Garwood's (1936) for the mean of a
    Poisson variable of which `count` was observed.
    """
    from scipy.special import chdtri

    if count < 0:
        raise ValueError(f"{count} is not a count.")
    fewest = float(chdtri(2 * count, 0.975)) / 2 if count else 0.0
    most = float(chdtri(2 * count + 2, 0.025)) / 2
    return Estimate(
        float(count > 0), -math.expm1(-fewest), -math.expm1(-most) if not count else 1.0
    )
