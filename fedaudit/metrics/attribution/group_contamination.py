"""What the estimates of a round take from each group of marked clients, where sets are known."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedaudit.metrics.attribution.hypotheses import CLOSE
from fedaudit.metrics.attribution.unmixed_scores import UnmixedScores, unmix_scores

Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class MixedScores:
    """One round of a federation, for one mark; clients that took no part hold and show nothing."""

    shares: Array
    """How much each estimate holds of each other client's update, (clients, clients)."""
    differences: Array
    """Each client's score, as its difference from the global model's."""
    null: Array
    """The same under null marks, (clients, null marks)."""
    scores: Array
    """How strongly each client shows the mark beyond chance, at least 0."""
    present: Mask


@dataclass(frozen=True, slots=True)
class GroupContamination:
    """What scores of one round take from each group, and its variances in chance's."""

    marked: npt.NDArray[np.intp]
    """The clients that belong to some group."""
    shares: Array
    """How much each estimate holds of every update, (clients, clients)."""
    amounts: Array
    """What it takes from each of them in proportion, (groups, clients, marked)."""
    in_proportion: Array
    """The same of all, (groups, clients)."""
    chance: Array
    largest: Array
    """What it takes at most: in proportion, or at once."""
    largest_variances: Array


def contamination_by_group(
    round_shares: MixedScores, strengths: Array, groups: Mask
) -> GroupContamination:
    """Return what each estimate of a round takes from each group, (groups, clients).

    `strengths` are what clients show on average over all rounds.
    Of what members show, and what they show by their own updates, counts what explains more; and so
    do the variances of both.
    """
    unmixed = unmix_scores(round_shares.shares, round_shares.scores, groups)
    at_once, at_once_variances = _answers(round_shares, strengths, unmixed, groups)
    marked = np.flatnonzero(groups.any(axis=0))
    held, members = round_shares.shares[:, marked], groups[:, None, marked].astype(np.float64)
    amounts = members * np.maximum(
        held * round_shares.scores[marked], held * unmixed.scores[:, None, marked]
    )
    chance = np.maximum(
        (members * np.square(held)).sum(axis=2), unmixed.leak_variances(members * held)
    )
    in_proportion = amounts.sum(axis=2)
    variances = np.where(in_proportion > at_once, chance, 1.0)
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
    round_shares: MixedScores, strengths: Array, unmixed: UnmixedScores, groups: Mask
) -> tuple[Array, Array]:
    """Return answers at once, and their variances: like the member that shows most over all rounds.

    As it shows in this round or on average, or as it does by itself, if more; that is off by the
    luck of all whose scores it is worked out from. (groups, 1) both.
    """
    rows, strongest = np.arange(len(groups)), np.argmax(groups * (strengths + CLOSE), axis=1)
    shown = np.maximum(round_shares.scores, strengths)[strongest] * groups.any(axis=1)
    by_itself = unmixed.scores[rows, strongest]
    variances = np.ones(groups.shape)
    variances[:, groups.any(axis=0)] = unmixed.score_variances
    of_itself = np.where(by_itself > shown, np.maximum(variances[rows, strongest], 1.0), 1.0)
    return np.maximum(shown, by_itself)[:, None], of_itself[:, None]
