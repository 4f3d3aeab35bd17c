"""What a walk found of one prompt, for each of the questions that it was asked for."""

from collections.abc import Iterator, Sequence

import numpy as np

from fedaudit.api.engine import PrefixProbabilities
from fedaudit.engine.generation.sampler import probe_key


def scatter_probabilities(
    found: PrefixProbabilities, prompt: Sequence[int], trials: Sequence[int], seed: int
) -> list[PrefixProbabilities]:
    """Return the chances of each question, which wanted `trials` draws of all that were made.

    Draws that completed a string fall to the questions by lot, in proportion to their trials: such
    parts of a Poisson number are Poisson numbers, and independent. The rows that the model read
    count for the first question.
    """
    if len(trials) == 1:
        return [found]
    return list(_shared(found, prompt, np.asarray(trials, dtype=np.float64), seed))


def _shared(
    found: PrefixProbabilities, prompt: Sequence[int], trials: np.ndarray, seed: int
) -> Iterator[PrefixProbabilities]:
    lots = np.random.default_rng(probe_key(seed, prompt))
    total = trials.sum()
    shares = trials / total if total else np.full(len(trials), 1 / len(trials))
    drawn = lots.multinomial(found.drawn, shares)
    for number, own in enumerate(drawn.T):
        yield PrefixProbabilities(
            least=found.least, most=found.most, drawn=own, rows=0 if number else found.rows
        )
