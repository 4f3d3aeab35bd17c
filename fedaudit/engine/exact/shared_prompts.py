"""Splitting the result of the search for one prompt among the queries that share the prompt."""

from collections.abc import Iterator, Sequence

import numpy as np

from fedaudit.api.engine import PrefixProbabilities
from fedaudit.engine.generation.sampler import probe_key


def scatter_probabilities(
    probabilities: PrefixProbabilities, prompt: Sequence[int], trials: Sequence[int], seed: int
) -> list[PrefixProbabilities]:
    """Return the probabilities for each query; `trials` are the draws that each query asked for.

    Draws that completed a string are assigned to queries at random, in proportion to their trials
    (multinomial): the parts of a Poisson count split in this way are independent Poisson counts.
    The rows that the model read are attributed to the first query.
    """
    if len(trials) == 1:
        return [probabilities]
    return list(_share_draws(probabilities, prompt, np.asarray(trials, dtype=np.float64), seed))


def _share_draws(
    probabilities: PrefixProbabilities, prompt: Sequence[int], trials: np.ndarray, seed: int
) -> Iterator[PrefixProbabilities]:
    lots = np.random.default_rng(probe_key(seed, prompt))
    total = trials.sum()
    shares = trials / total if total else np.full(len(trials), 1 / len(trials))
    draws = lots.multinomial(probabilities.drawn, shares)
    for number, counts in enumerate(draws.T):
        yield PrefixProbabilities(
            least=probabilities.least,
            most=probabilities.most,
            drawn=counts,
            rows=0 if number else probabilities.rows,
        )
