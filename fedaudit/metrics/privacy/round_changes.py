"""How much likelier texts became in the rounds in which their client trained.

After Michel, Basu and Kaufmann 2026 (SeMI*, arXiv:2602.16596): where it is known between which
models of a sequence a record was inserted, the test compares these, since the last model alone
dilutes what the record left. They test parameters; here the change of a text's loss in each round
is taken to be normal, and the score is the logarithm of the likelihood ratio for a shift of one
standard deviation in every round in which the client trained. The other rounds show what the text
gains when others train.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

SHRINKAGE = 0.5
"""How far the correlations of rounds are moved towards 0. It was chosen on three federations of
benchmarks/sequence.py (seeds 1, 2 and 3) on which no result rests."""


def round_scores(
    gains: npt.ArrayLike, took_part: Sequence[bool], shrinkage: float = SHRINKAGE
) -> list[float]:
    """Return a score of each text, higher for texts that were trained on: p' R^-1 z.

    `gains` (texts, rounds) is the mean ln p of a text's tokens after each round less the base's; z
    are its changes from round to round, standardised over the texts; R is their correlation,
    shrunk; p is 1 in the rounds of `took_part`. All texts are treated alike, so that a permutation
    test of members among them is exact. Scores have a standard deviation of 1, or are all 0 where
    no round changed anything. Raises ValueError without texts, or if the client trained in no
    round.
    """
    values = np.asarray(gains, dtype=np.float64)
    if not len(values) or not any(took_part):
        raise ValueError(
            "A score over rounds needs texts, and a round in which the client trained."
        )
    changes = np.diff(values, axis=1, prepend=0.0)
    centred = changes - changes.mean(axis=0)
    spread = centred.std(axis=0)
    z = np.divide(centred, spread, out=np.zeros_like(centred), where=spread > 1e-12)
    correlation = z.T @ z / len(z)
    shrunk = (1 - shrinkage) * correlation + shrinkage * np.eye(len(took_part))
    weights = np.linalg.solve(shrunk, np.asarray(took_part, dtype=np.float64))
    variance = float(weights @ correlation @ weights)
    scores: list[float] = (
        z @ weights / variance**0.5 if variance > 1e-12 else 0 * z[:, 0]
    ).tolist()
    return scores
