"""RMIA: how a model's gain on a record compares with its gains on untrained records.

Zarifzadeh et al. 2024 (arXiv:2312.03262). A record's ratio is its probability under the attacked
model, divided by its probability at large, p(x), which reference models give; its score is the
share of a population of other records whose ratio is lower (gamma = 1, as in the published code).
The probability of a text is the geometric mean of its tokens' probabilities.
"""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

PUBLISHED_A = 0.3
"""The paper's a for models and data of which nothing is known."""
CHOICES = tuple(round(0.1 * n, 1) for n in range(11))
"""The values of a that are tried on the reference models, as in the published code."""


def probability(log_probabilities: Sequence[float]) -> float:
    """Return the geometric mean of a text's token probabilities, from natural logarithms.

    Raises ValueError without tokens.
    """
    if not len(log_probabilities):
        raise ValueError("A text of one token has no score.")
    return math.exp(math.fsum(log_probabilities) / len(log_probabilities))


def online_ratios(observed: Array, references: Array, trained: Mask) -> Array:
    """Return each record's ratio, p(x) being half of its mean inside plus half of that outside.

    `observed` (records,) are probabilities under the attacked model, `references` (records, models)
    those under the reference models, `trained` (records, models) which of these trained on which
    record. Equation 4 of the paper. Raises ValueError if a record has no model on a side.
    """
    return observed / ((_mean(references, trained) + _mean(references, ~trained)) / 2)


def offline_ratios(observed: Array, references: Array, trained: Mask, a: float) -> Array:
    """Return each record's ratio, p(x) being estimated from the models that lacked the record.

    The mean inside is taken to be a times that outside, plus 1 - a (appendix B.2.2). Arguments are
    otherwise those of `online_ratios`. Raises ValueError if every model had a record.
    """
    return observed / (((1 + a) * _mean(references, ~trained) + 1 - a) / 2)


def population_shares(ratios: Array, population: Mask) -> Array:
    """Return for each record the share of the population's records with a lower ratio.

    `population` (records,) marks records that the attacked model was not trained on. Equal ratios,
    a record's own among them, count half, so that the shares rank records as the ratios do. Raises
    ValueError without a population.
    """
    others = np.sort(ratios[population])
    if not len(others):
        raise ValueError("RMIA needs a population of records that were not trained on.")
    lower, upper = (np.searchsorted(others, ratios, side=side) for side in ("left", "right"))
    return np.asarray((lower + upper) / (2 * len(others)), dtype=np.float64)


def tuned_a(references: Array, trained: Mask) -> float:
    """Return the a with which the reference models, attacked by each other, are told apart best.

    The criterion is the mean over the models of the area under the ROC curve. Nothing of the
    attacked model is used. Returns the paper's value if no model can be attacked by the others.
    """
    areas = np.array([_areas(references, trained, model) for model in range(references.shape[1])])
    known = areas[~np.isnan(areas).any(axis=1)] if areas.size else areas
    if not len(known):
        return PUBLISHED_A
    return CHOICES[int(np.round(known.mean(axis=0), 12).argmax())]  # the least of those that tie


def _areas(references: Array, trained: Mask, model: int) -> list[float]:
    """Return the area for each a when one reference model is attacked; NaN where it cannot be."""
    from scipy.stats import rankdata

    others = np.arange(references.shape[1]) != model
    usable = (~trained[:, others]).any(axis=1)
    member = trained[usable, model]
    inside, outside = int(member.sum()), int((~member).sum())
    if not inside or not outside:
        return [math.nan] * len(CHOICES)
    rest = references[usable][:, others], trained[usable][:, others]
    ranks = [rankdata(offline_ratios(references[usable, model], *rest, a)) for a in CHOICES]
    return [float((r[member].sum() / inside - (inside + 1) / 2) / outside) for r in ranks]


def _mean(references: Array, chosen: Mask) -> Array:
    counts = chosen.sum(axis=1)
    if not counts.all():
        raise ValueError("Every record needs a model on this side.")
    return np.asarray((references * chosen).sum(axis=1) / counts, dtype=np.float64)
