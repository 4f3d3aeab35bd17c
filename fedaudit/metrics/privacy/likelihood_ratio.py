"""LiRA: a model's confidence in a record, compared with models that did and did not train on it.

Carlini et al. 2022 (arXiv:2112.03570). The confidence is logit-scaled, log p - log(1 - p), where p
is the geometric mean of a text's token probabilities. The paper uses one variance for all records
if there are fewer than 64 reference models; here that is always so, and it is the variance of
models around each record's own mean. The published code takes the standard deviation of all values,
which includes differences between records, and uses that of the models that did train for both
sides. Offline scores rank records in the same order whatever the variance is.
"""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
Rows = Sequence[Sequence[float]] | Array
Sides = Sequence[Sequence[bool]] | Mask

FEWEST = 2
"""The minimum number of reference models per record on a side, to estimate the variance."""
SMALLEST = 1e-12
"""The minimum standard deviation, if all reference models agree, and the minimum of 1 - p."""


def confidence(log_probabilities: Sequence[float]) -> float:
    """Return log p - log(1 - p) of the geometric mean p of a text's tokens.

    1 - p is at least 1e-12, for a model that is certain. Raises ValueError without tokens.
    """
    if not len(log_probabilities):
        raise ValueError("A text of one token has no score.")
    log_p = math.fsum(log_probabilities) / len(log_probabilities)
    return log_p - math.log(max(-math.expm1(log_p), SMALLEST))


def offline_scores(observed: Sequence[float] | Array, references: Rows, trained: Sides) -> Array:
    """Return each record's confidence, in deviations above the models that did not train on it.

    `observed` (records,) are the confidences of the attacked model, `references` (records, models)
    those of the reference models, and `trained` (records, models) says which of these trained on
    which record. The order is that of the paper's 1 - P(Z > observed). Raises ValueError if fewer
    than two models did not train on a record.
    """
    middle, spread = _fit(references, ~np.asarray(trained, dtype=np.bool_))
    return (np.asarray(observed, dtype=np.float64) - middle) / spread


def online_scores(observed: Sequence[float] | Array, references: Rows, trained: Sides) -> Array:
    """Return the log-likelihood ratio of each record between trained on and not trained on.

    Both distributions are normal; arguments are those of `offline_scores`. Raises ValueError if a
    record has fewer than two models on a side.
    """
    values = np.asarray(observed, dtype=np.float64)
    sides = np.asarray(trained, dtype=np.bool_)
    inside, outside = (_fit(references, side) for side in (sides, ~sides))
    return _log_density(values, *inside) - _log_density(values, *outside)


def _fit(references: Rows, chosen: Mask) -> tuple[Array, float]:
    """Return each record's median over the chosen models, and one standard deviation for all.

    The median is what the published code uses; the paper has a mean.
    """
    counts = chosen.sum(axis=1)
    if not len(counts) or counts.min() < FEWEST:
        raise ValueError(f"Every record needs {FEWEST} models on a side.")
    confidences = np.where(chosen, np.asarray(references, dtype=np.float64), np.nan)
    around = confidences - np.nanmean(confidences, axis=1, keepdims=True)
    variance = float(np.nansum(around**2)) / float((counts - 1).sum())
    return np.nanmedian(confidences, axis=1), max(variance**0.5, SMALLEST)


def _log_density(values: Array, middle: Array, spread: float) -> Array:
    return np.asarray(-(((values - middle) / spread) ** 2) / 2 - math.log(spread), dtype=np.float64)
