"""What each client itself adds to the scores of a federation, where the designs are known.

An estimate holds its target's update once and c_j of every other one's. Where a test's answer
grows in proportion to what it holds of a mark, the scores of all estimates are linear in what each
client adds, and least squares over all rounds at once take the others' shares out of each client's
scores. It is a measurement beside the decision, which knows no designs: see docs/estimator.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

LEVEL = 0.95
"""Of the intervals."""
CLOSE = 1e-8
"""A combination of scores that holds no more than this of other clients is a client's own."""


@dataclass(frozen=True, slots=True)
class Contribution:
    """What one client adds to its Z by its own update, in the unit of Z."""

    value: float | None
    """None where no combination of the scores isolates it."""
    low: float | None
    high: float | None
    rounds: int
    """Rounds that the client took part in."""


def contributions(
    shares: Sequence[Array], scores: Sequence[Array], null: Sequence[Array]
) -> list[Contribution]:
    """Return each client's contribution with its interval of 95 %.

    `shares` has for each round how much each estimate holds of every client's update, (estimates,
    clients), its target's once and 0 of who did not take part; `scores` (estimates,) is of the same
    estimates, `null` (estimates, marks) of null marks, the same ones in every row, or empty. A
    client adds the same in every round: theta of s = H theta + chance, by ordinary least squares,
    times the root of its rounds, as in Z (FedAttr, equation 8). Chance is what the same combination
    of the null marks' scores comes to, with Student's t of one degree of freedom for each mark,
    and at least what independent standard normal scores come to; without any, it is that. Raises
    ValueError for rounds with unlike numbers of estimates, clients or null marks.
    """
    design, observed = np.concatenate(shares), np.concatenate(scores)
    marks = np.concatenate(null)
    if not len(design) == len(observed) == len(marks):
        raise ValueError("Every estimate has a score, and as many null scores as the others.")
    inverse = np.asarray(np.linalg.pinv(design), dtype=np.float64)
    estimates = inverse @ observed
    residuals: Array = np.abs(inverse @ design - np.eye(design.shape[1])).max(axis=1)
    spread = _spread(inverse, marks)
    took = [sum(bool(s[:, client].any()) for s in shares) for client in range(design.shape[1])]
    root = np.sqrt(took)
    reach = _quantile(marks.shape[1]) * spread
    return [
        Contribution(
            value=float(estimates[client] * root[client]),
            low=float((estimates[client] - reach[client]) * root[client]),
            high=float((estimates[client] + reach[client]) * root[client]),
            rounds=took[client],
        )
        if residuals[client] < CLOSE
        else Contribution(None, None, None, took[client])
        for client in range(len(estimates))
    ]


def _spread(inverse: Array, null: Array) -> Array:
    """Return the standard deviation of each client's theta by chance.

    It is never less than that of standard normal scores: null marks of which no model answers
    anything say nothing about one that some do.
    """
    normal = np.square(inverse).sum(axis=1)
    shown = np.square(inverse @ null).mean(axis=1) if null.shape[1] else normal
    return np.asarray(np.sqrt(np.maximum(normal, shown)))


def _quantile(marks: int) -> float:
    """Return by how many standard deviations an interval reaches to each side."""
    from scipy.special import ndtri, stdtrit

    upper = (1 + LEVEL) / 2
    return float(stdtrit(marks, upper) if marks else ndtri(upper))
