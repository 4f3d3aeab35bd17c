"""Exposure of a planted secret, in bits, from its rank among all secrets of its kind.

Carlini et al. 2019 (arXiv:1802.08232), definition 2 and section 4.2: exposure is log2 |R| minus
log2 rank, where R is the set of secrets that could have been planted, and the rank is the number of
them that are at least as likely as the planted one.
"""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
FIT_FROM = 100
"""The minimum number of references to extrapolate from."""
MAX_SKEWNESS = 0.99
"""The largest skewness of the fitted skew normal distribution, which is always below 0.9953."""


def exact(planted: float, space: Sequence[float]) -> float:
    """Return the exposure of a secret among the log-probabilities of its whole space, in bits.

    `space` includes the planted secret itself. Ties count against the finding: equally likely
    secrets rank before the planted one. Raises ValueError if nothing in `space` is as likely.
    """
    rank = int((np.asarray(space, dtype=np.float64) >= planted).sum())
    if not rank:
        raise ValueError("The space does not have the planted secret.")
    return math.log2(len(space)) - math.log2(rank)


def fit_p_value(references: Sequence[float]) -> float:
    """Return the p value of Kolmogorov and Smirnov's test of the fitted distribution.

    Since the distribution was fitted to the same numbers, p is too large: a small p refutes the
    fit, but a large one does not confirm it.
    """
    from scipy.stats import kstest, skewnorm

    scores = np.asarray(references, dtype=np.float64)
    return float(kstest(scores, skewnorm(*skew_normal(scores)).cdf).pvalue)


def chance_p_value(exposures: Sequence[float], size: int) -> float:
    """Return the p value of the hypothesis that exposures are those of untrained secrets.

    Such a secret has every rank from 1 to `size` with the same probability. The test is Kolmogorov
    and Smirnov's, one-sided against larger exposures. It treats the discrete ranks as continuous,
    which can only make p larger. Raises ValueError without exposures.
    """
    from scipy.stats import kstest

    if not len(exposures):
        raise ValueError("No exposures, no test.")
    shares = np.exp2(-np.asarray(exposures, dtype=np.float64))  # rank / size: small when exposed
    return float(kstest(np.clip(shares, 1 / size, 1), "uniform", alternative="greater").pvalue)


def skew_normal(scores: Array) -> tuple[float, float, float]:
    """Return shape, location and scale of the skew normal with a sample's first three moments."""
    mean, deviation = float(scores.mean()), float(scores.std())
    if not deviation:
        return 0.0, mean, 1e-12
    skew = float(((scores - mean) ** 3).mean() / deviation**3)
    skew = math.copysign(min(abs(skew), MAX_SKEWNESS), skew)
    root = (abs(skew) * 2 / (4 - math.pi)) ** (1 / 3)
    delta = math.copysign(root / math.sqrt((1 + root**2) * 2 / math.pi), skew)
    scale = deviation / math.sqrt(1 - 2 * delta**2 / math.pi)
    return delta / math.sqrt(1 - delta**2), mean - scale * delta * math.sqrt(2 / math.pi), scale


def fitted_exposure(planted: float, references: Sequence[float] | Array) -> float:
    """Return the exposure in bits by the references' fitted distribution; infinite far beyond it.

    It is -log2 of the fitted probability of being at least as likely (section 4.2.2).
    """
    from scipy.stats import skewnorm

    scores = np.asarray(references, dtype=np.float64)
    return float(-skewnorm.logsf(planted, *skew_normal(scores)) / math.log(2)) + 0.0
