"""What each member of a group of marked clients shows by its own update, where sets are known."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedaudit.metrics.attribution.hypotheses import CLOSE

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class UnmixedScores:
    """What members show by their own updates in a round, without what they hold of each other's."""

    scores: Array
    """By group and client: (groups, clients)."""
    weights: Array
    """Of the scores that these are worked out from, (groups, candidates, candidates), where the
    candidates are the clients that belong to some group, in order."""

    @property
    def score_variances(self) -> Array:
        """Return the variances of the candidates' own scores if that of each score is 1."""
        return np.asarray(np.square(self.weights).sum(axis=-1))

    def leak_variances(self, held: Array) -> Array:
        """Return those of what estimates hold of a group, (groups, estimates).

        `held` is what an estimate holds of each candidate's update, by group: (groups, estimates,
        candidates), 0 for who is no member.
        """
        return np.asarray(np.square(held @ self.weights).sum(axis=-1))


def unmix_scores(shares: Array, scores: Array, groups: npt.NDArray[np.bool_]) -> UnmixedScores:
    """Return what the members of each group show by their own updates in a round.

    `shares` is what estimates hold of updates, (clients, clients), `scores` what clients show.
    Members' estimates hold each other's updates; answers in proportion are taken apart. What comes
    out below nothing, or above the highest score, was not in proportion. Where the estimates of a
    group do not tell its members' updates apart, each shows what it shows.
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
