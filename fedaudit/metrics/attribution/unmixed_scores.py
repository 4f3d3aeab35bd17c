"""The scores of a group of marked clients by their own updates alone, if the sets are known."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedaudit.metrics.attribution.hypotheses import CLOSE

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class UnmixedScores:
    """Members' scores in a round by their own updates, without the shares of each other's."""

    scores: Array
    """The scores, (groups, clients)."""
    weights: Array
    """The weights of the measured scores in these, (groups, candidates, candidates); candidates are
    the clients that belong to some group, in order."""

    @property
    def score_variances(self) -> Array:
        """Return the variances of the unmixed scores if each measured score has variance 1."""
        return np.asarray(np.square(self.weights).sum(axis=-1))

    def leak_variances(self, held: Array) -> Array:
        """Return the variances of the leak from each group into estimates, (groups, estimates).

        `held` has the share of each candidate's update in each estimate, by group: (groups,
        estimates, candidates), 0 for clients that are not members.
        """
        return np.asarray(np.square(held @ self.weights).sum(axis=-1))


def unmix_scores(shares: Array, scores: Array, groups: npt.NDArray[np.bool_]) -> UnmixedScores:
    """Return the scores of each group's members by their own updates in a round.

    `shares` are the shares of updates in estimates, (clients, clients), and `scores` the measured
    scores. Members' estimates hold each other's updates; under a response in proportion, linear
    equations separate them. Results are clipped to [0, highest score], since others show that the
    response was not in proportion. If the equations of a group are singular, its members keep their
    measured scores.
    """
    candidates = np.flatnonzero(groups.any(axis=0))
    members = groups[:, candidates]
    held = shares[np.ix_(candidates, candidates)] * members[:, :, None] * members[:, None, :]
    equations = np.eye(len(candidates)) + held
    equations[np.abs(np.linalg.det(equations)) < CLOSE] = np.eye(len(candidates))
    weights = np.asarray(np.linalg.inv(equations), dtype=np.float64)
    own = (weights @ (scores[candidates] * members)[..., None])[..., 0]
    own_scores = np.zeros(groups.shape)
    own_scores[:, candidates] = np.clip(own, 0.0, scores.max())
    return UnmixedScores(own_scores, weights)
