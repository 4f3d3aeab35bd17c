"""LiRA: how a model's confidence in a record stands among models that did and did not train on it.

Carlini et al. 2022 (arXiv:2112.03570). The confidence is logit-scaled, log p - log(1 - p); of a
text p is the geometric mean of its tokens' probabilities. Where there are fewer than 64 reference
models the paper takes one variance for all records; here it always is: of models around their own
record's mean. The published code takes the standard deviation of all values, so that differences
between records count too, and that of the models that did train for both sides; offline scores rank
records alike whatever the variance is.
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
"""Reference models that a record needs on a side: below, nothing says how models scatter."""
SMALLEST = 1e-12
"""The least standard deviation, where all reference models agree, and the least 1 - p."""


def confidence(log_probabilities: Sequence[float]) -> float:
    """Return log p - log(1 - p) of the geometric mean p of a text's tokens.

    1 - p counts as 1e-12 at least, where the model is certain; raises ValueError without tokens.
    """
    if not len(log_probabilities):
        raise ValueError("A text of one token has no score.")
    log_p = math.fsum(log_probabilities) / len(log_probabilities)
    return log_p - math.log(max(-math.expm1(log_p), SMALLEST))


def offline_scores(observed: Sequence[float], references: Rows, trained: Sides) -> Array:
    """Return how many deviations each record stands above models that did not train on it.

    `observed` (records,) are the confidences of the model in question, `references` (records,
    models) those of the others, and `trained` (records, models) says which trained on which. The
    order is that of the paper's 1 - P(Z > observed). Raises ValueError where a record has fewer
    than two models that did not.
    """
    middle, spread = _fit(references, ~np.asarray(trained, dtype=np.bool_))
    return (np.asarray(observed, dtype=np.float64) - middle) / spread


def online_scores(observed: Sequence[float], references: Rows, trained: Sides) -> Array:
    """Return the log-likelihood ratio of each record: as one trained on, against as one not.

    Both are normal; shapes are those of `offline_scores`. Raises ValueError where a record has
    fewer than two models on a side.
    """
    values = np.asarray(observed, dtype=np.float64)
    sides = np.asarray(trained, dtype=np.bool_)
    inside, outside = (_fit(references, side) for side in (sides, ~sides))
    return _log_density(values, *inside) - _log_density(values, *outside)


def _fit(references: Rows, chosen: Mask) -> tuple[Array, float]:
    """Return each record's median over the chosen models, and one standard deviation for all.

    The median is that of the published code, where the paper has a mean.
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
