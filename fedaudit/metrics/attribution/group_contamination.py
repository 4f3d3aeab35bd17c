"""The leak from each group of marked clients into the estimates of a round with known sets."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedaudit.metrics.attribution.hypotheses import CLOSE

Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class MixedScores:
    """One round of a federation under one mark; entries of clients that took no part are 0."""

    shares: Array
    """The share of each other client's update in each estimate, (clients, clients)."""
    differences: Array
    """Each client's score, as the difference from the global model's."""
    null: Array
    """The same under null marks, (clients, null marks)."""
    scores: Array
    """Each client's score beyond chance, at least 0."""
    present: Mask
    """Whether each client took part."""


@dataclass(frozen=True, slots=True)
class GroupContamination:
    """The leak from each group into the scores of one round; a score's chance has variance 1."""

    marked: npt.NDArray[np.intp]
    """The clients that belong to some group."""
    shares: Array
    """The share of each update in each estimate, (clients, clients)."""
    amounts: Array
    """The leak from each marked client, in proportion, (groups, clients, marked)."""
    in_proportion: Array
    """The leak from all marked clients together, in proportion, (groups, clients)."""
    chance: Array
    """The variance of `in_proportion`."""
    largest: Array
    """The largest leak: in proportion, or at once."""
    largest_variances: Array
    """The variance of `largest`."""


def _unmix_scores(shares: Array, scores: Array, groups: Mask) -> tuple[Array, Array]:
    """Return members' scores by their own updates alone, (groups, clients), and their weights.

    The weights are those of the measured scores in these, (groups, candidates, candidates), of the
    clients that belong to some group. Members' estimates hold each other's updates; under a
    response in proportion, linear equations separate them. Results are clipped to [0, highest
    score], since others show that the response was not in proportion. If the equations of a group
    are singular, its members keep their measured scores.
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
    return own_scores, weights


def contamination_by_group(
    round_shares: MixedScores, strengths: Array, groups: Mask
) -> GroupContamination:
    """Return the leak from each group into each estimate of a round, (groups, clients).

    `strengths` are the clients' mean scores over all rounds. Of a member's measured score and its
    unmixed score, the one that explains more is used, and likewise for the variances of both.
    """
    unmixed, weights = _unmix_scores(round_shares.shares, round_shares.scores, groups)
    score_variances = np.square(weights).sum(axis=-1)  # if each measured score has variance 1
    at_once, at_once_variances = _answers(round_shares, strengths, unmixed, score_variances, groups)
    marked = np.flatnonzero(groups.any(axis=0))
    held, members = round_shares.shares[:, marked], groups[:, None, marked].astype(np.float64)
    amounts = members * np.maximum(
        held * round_shares.scores[marked], held * unmixed[:, None, marked]
    )
    chance = np.maximum(
        (members * np.square(held)).sum(axis=2),
        np.square((members * held) @ weights).sum(axis=-1),
    )
    in_proportion = amounts.sum(axis=2)
    variances = np.where(in_proportion > at_once + CLOSE, chance, 1.0)
    return GroupContamination(
        marked=marked,
        shares=round_shares.shares,
        amounts=amounts,
        in_proportion=in_proportion,
        chance=chance,
        largest=np.maximum(in_proportion, at_once),
        largest_variances=np.maximum(variances, at_once_variances),
    )


def _answers(
    round_shares: MixedScores,
    strengths: Array,
    unmixed: Array,
    score_variances: Array,
    groups: Mask,
) -> tuple[Array, Array]:
    """Return the responses at once and their variances, (groups, 1) both.

    A response is that of the member with the highest mean score: its score in this round, its mean
    or its unmixed score, whichever is highest. The latter's variance includes the chance in all
    scores from which it is computed.
    """
    rows, strongest = np.arange(len(groups)), np.argmax(groups * (strengths + CLOSE), axis=1)
    shown = np.maximum(round_shares.scores, strengths)[strongest] * groups.any(axis=1)
    by_itself = unmixed[rows, strongest]
    variances = np.ones(groups.shape)
    variances[:, groups.any(axis=0)] = score_variances
    higher = by_itself > shown + CLOSE
    of_itself = np.where(higher, np.maximum(variances[rows, strongest], 1.0), 1.0)
    return np.maximum(shown, by_itself)[:, None], of_itself[:, None]
