"""Each client's own contribution to the scores of a federation whose designs are known.

An estimate holds its target's update once, and c_j of every other client's. If a test responds in
proportion to what an estimate holds of a mark, the scores of all estimates are linear in the
clients' contributions, and least squares over all rounds removes the others' shares from each
client's scores. It is reported beside the decision, which does not know the designs: see
docs/estimator.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedaudit.metrics.attribution import stouffer

Array = npt.NDArray[np.float64]

LEVEL = 0.95
"""The confidence level of all intervals together."""
CLOSE = 1e-8
"""The largest share of other clients in a combination of scores that isolates a client."""


@dataclass(frozen=True, slots=True)
class Contribution:
    """The contribution of a client's own update to its Z, in the unit of Z."""

    value: float | None
    """None if no combination of the scores isolates it."""
    low: float | None
    high: float | None
    rounds: int
    """The number of rounds that the client took part in."""


def contributions(
    shares: Sequence[Array], scores: Sequence[Array], null: Sequence[Array], *, marks: int = 1
) -> list[Contribution]:
    """Return each client's contribution with its interval.

    All intervals, of all clients under so many `marks`, hold together with a probability of 95 %
    (Bonferroni): the intervals of the strongest are the ones that people look at.

    For each round, `shares` (estimates, clients) has the share of every client's update in each
    estimate: 1 for its target, 0 for clients that did not take part. `scores` (estimates,) are
    those of the same estimates, and `null` (estimates, marks) those of null marks, the same in
    every row, or empty. A client is assumed to contribute the same in every round: theta in
    s = H theta + chance, by ordinary least squares, times the square root of its rounds, as in Z
    (FedAttr, equation 8). Chance is measured by the same combination of the null marks' scores,
    with Student's t of one degree of freedom per mark, and is at least that of independent standard
    normal scores, which is used without null marks. Raises ValueError if rounds have different
    numbers of estimates, clients or null marks.
    """
    design, observed = np.concatenate(shares), np.concatenate(scores)
    by_chance = np.concatenate(null)
    if not len(design) == len(observed) == len(by_chance):
        raise ValueError("Every estimate has a score, and as many null scores as the others.")
    inverse = np.asarray(np.linalg.pinv(design), dtype=np.float64)
    estimates = inverse @ observed
    residuals: Array = np.abs(inverse @ design - np.eye(design.shape[1])).max(axis=1)
    spread = _spread(inverse, by_chance)
    took = [sum(bool(s[:, client].any()) for s in shares) for client in range(design.shape[1])]
    root = np.sqrt(took)
    intervals = max(1, sum(count > 0 for count in took) * marks)
    reach = stouffer.chance_quantile(1 - (1 - LEVEL) / 2 / intervals, by_chance.shape[1]) * spread
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

    It is at least that of standard normal scores: null marks to which no model responds say nothing
    about a mark to which some do.
    """
    normal = np.square(inverse).sum(axis=1)
    shown = np.square(inverse @ null).mean(axis=1) if null.shape[1] else normal
    return np.asarray(np.sqrt(np.maximum(normal, shown)))
