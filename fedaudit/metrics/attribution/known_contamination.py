"""How much of clients' Z may come from marked clients in their estimates, where sets are known.

Then it is known how much of every other client's update an estimate holds, and the distributions of
`contamination` come to numbers: under each hypothesis, which is a group of marked clients and a way
in which tests answer, Z takes a known amount from them, as far as what they show is not chance. A
hypothesis that leaves another client's Z unexplained is none.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedaudit.metrics.attribution import stouffer
from fedaudit.metrics.attribution.contamination import TEST_RESPONSES
from fedaudit.metrics.attribution.hidden_marks import CLOSE, HiddenClients
from fedaudit.metrics.attribution.unmixed_scores import UnmixedScores, unmix_scores

Array = npt.NDArray[np.float64]

GAINS = (3.0, 10.0)
"""Answers in proportion to so many times what an estimate holds, at most like the marked client: so
answer tests to a client that sends more than its update, as far as they do not go by size."""
MIN_BOOSTED_Z = 4.0
"""The least Z of a client that sends more than its update, in standard deviations by chance."""
HYPOTHESES = len(TEST_RESPONSES) + len(GAINS)
"""Ways of answering that are tried for each group."""
STARTS = tuple(response.start for response in TEST_RESPONSES if response.start is not None)
"""Shares of a mark from which tests may answer at once."""
NOBODY_HIDDEN = tuple(
    HiddenClients(np.zeros(0, dtype=np.intp), np.zeros(0, dtype=np.intp)) for _ in STARTS
)


@dataclass(frozen=True, slots=True)
class RoundShares:
    """One round of a federation, for one mark; clients that took no part hold and show nothing."""

    shares: Array
    """How much each estimate holds of each other client's update, (clients, clients)."""
    scores: Array
    """How strongly each client shows the mark beyond chance, at least 0."""
    present: npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class ContaminationHypotheses:
    """What a client's Z takes from others, in standard deviations by chance, by hypothesis."""

    means: Array
    variances: Array
    """Of what the others show by chance."""
    error: float
    """The chance that the right hypothesis is not among these."""

    def tail(self, deviations: float, marks: int) -> float:
        """Return P(chance plus the leak >= so many standard deviations), the largest, never 0."""
        farthest = _standardized(self.means, self.variances, deviations).max()
        return min(1.0, max(_tail(farthest, marks) + self.error, stouffer.SMALLEST))


@dataclass(frozen=True, slots=True)
class ThresholdResponses:
    """What estimates answer at once, by group, and its variance in chance's."""

    scores: Array
    variances: Array


@dataclass(frozen=True, slots=True)
class ClientStatistics:
    """The statistics of a federation's clients under one mark, each in the same order."""

    z: Array
    z_above: Array
    """The same of scores above 0 alone."""
    spreads: Array
    """The standard deviations of Z by chance."""
    null_marks: Sequence[int]
    """How many null marks these are worked out from."""


def contamination_hypotheses(
    rounds: Sequence[RoundShares],
    clients: ClientStatistics,
    groups: npt.NDArray[np.bool_],
    error: float,
    hidden: Sequence[HiddenClients] = NOBODY_HIDDEN,
) -> list[ContaminationHypotheses]:
    """Return what each client's Z takes from the others under one mark.

    `groups` says who belongs to each group, (groups, clients), that of nobody among them, `hidden`
    who may belong to some of them without showing it, for each of STARTS: only answers at once
    hide somebody. `error` is the chance that the right hypothesis is left out, because
    somebody innocent has a Z that is too high even under it.
    """
    means, variances = _moments(rounds, clients.spreads, groups, hidden)
    members = np.vstack(
        [np.tile(groups, (HYPOTHESES, 1)), *(one.groups_with_hidden(groups) for one in hidden)]
    )
    deviations = clients.z / clients.spreads
    unexplained = np.zeros(members.shape, dtype=bool)
    for client in np.flatnonzero(groups.any(axis=0)).tolist():
        beyond = _standardized(means[:, client], variances[:, client], deviations[client])
        least = _quantile(error / len(deviations), clients.null_marks[client])
        unexplained[:, client] = ~members[:, client] & (beyond <= least)
    count = unexplained.sum(axis=1)
    impossible = np.zeros(len(members), dtype=bool)
    boosted = slice(len(TEST_RESPONSES) * len(groups), HYPOTHESES * len(groups))
    impossible[boosted] = _is_no_booster(members[boosted], deviations) | _is_missing(
        means[boosted], variances[boosted], clients, members[boosted], error
    )
    leaks = []
    for client in range(len(deviations)):
        possible = ~members[:, client] & (count == unexplained[:, client]) & ~impossible
        own_means, own_variances = means[possible, client], variances[possible, client]
        leaks.append(
            ContaminationHypotheses(np.append(own_means, 0.0), np.append(own_variances, 0.0), error)
        )
    return leaks


def _is_no_booster(members: npt.NDArray[np.bool_], deviations: Array) -> npt.NDArray[np.bool_]:
    """Return which groups are not one client that shows its mark so clearly as who sends more."""
    return np.asarray((members.sum(axis=1) != 1) | (members @ (deviations > MIN_BOOSTED_Z) == 0))


def _is_missing(
    means: Array,
    variances: Array,
    clients: ClientStatistics,
    members: npt.NDArray[np.bool_],
    error: float,
) -> npt.NDArray[np.bool_]:
    """Return under which hypotheses the clients outside the group should show more than they do.

    Their scores are summed up; what the group shows by chance is in all of them.
    """
    from scipy.special import ndtr

    taking = ~members & (means > 0)
    lacking = ((means - clients.z_above / clients.spreads) * taking).sum(axis=1)
    spread = taking.sum(axis=1) + np.square((np.sqrt(variances) * taking).sum(axis=1))
    return np.asarray(ndtr(-lacking / np.sqrt(np.maximum(spread, 1.0))) <= error)


def _standardized(means: Array, variances: Array, deviations: float) -> Array:
    """Return by how much leaks exceed a Z, in deviations of chance and of what others show by it.

    The probability that chance plus the leak is at least Z grows with it: which hypothesis makes
    that largest, or too small, can be told without working it out for each.
    """
    return np.asarray((means - deviations) / np.sqrt(1 + variances))


def _tail(beyond: float, marks: int) -> float:
    """Return P(chance >= -beyond).

    Chance is Student's t with `marks` degrees of freedom, standard normal without any; so is what
    the others show by chance, with another spread.
    """
    from scipy.special import ndtr, stdtr

    return float(stdtr(marks, beyond) if marks else ndtr(beyond))


def _quantile(probability: float, marks: int) -> float:
    """Return where `_tail` has a probability; minus infinity for 0."""
    from scipy.special import ndtri, stdtrit

    if probability <= 0:
        return -np.inf
    return float(stdtrit(marks, probability) if marks else ndtri(probability))


def _moments(
    rounds: Sequence[RoundShares],
    spreads: Array,
    groups: npt.NDArray[np.bool_],
    hidden: Sequence[HiddenClients],
) -> tuple[Array, Array]:
    """Return means and variances of all leaks, (hypotheses, clients), with somebody hidden last.

    At once an estimate answers like the member that shows most over all rounds.
    """
    took = np.sum([round_shares.present for round_shares in rounds], axis=0)
    scale = 1 / (spreads * took**0.5)
    count = HYPOTHESES * len(groups) + sum(len(one.groups) for one in hidden)
    means = np.zeros((count, len(spreads)))
    variances = np.zeros_like(means)
    strengths = np.sum([round_shares.scores for round_shares in rounds], axis=0) / took
    strongest = np.argmax(groups * (strengths + CLOSE), axis=1)
    for round_shares in rounds:
        own = unmix_scores(round_shares.shares, round_shares.scores, groups)
        shown = np.maximum(round_shares.scores, strengths)[strongest] * groups.any(axis=1)
        answers = _threshold_responses(shown, own, groups, strongest)
        mean, variance = _leaks(round_shares, own, answers, groups, hidden)
        means += mean * (scale * round_shares.present)
        variances += variance * (round_shares.present / took)
    return means, variances


def _threshold_responses(
    shown: Array, own: UnmixedScores, groups: npt.NDArray[np.bool_], strongest: npt.NDArray[np.intp]
) -> ThresholdResponses:
    """Return answers at once like one member of each group: as it shows, or as by itself, if more.

    What it shows by itself is off by the luck of all whose scores that is worked out from.
    """
    each, variances = np.arange(len(groups)), np.ones(groups.shape)
    variances[:, groups.any(axis=0)] = own.score_variances
    by_itself = own.scores[each, strongest]
    return ThresholdResponses(
        np.maximum(shown, by_itself),
        np.where(by_itself > shown, np.maximum(variances[each, strongest], 1.0), 1.0),
    )


def _leaks(
    round_shares: RoundShares,
    own: UnmixedScores,
    answers: ThresholdResponses,
    groups: npt.NDArray[np.bool_],
    hidden: Sequence[HiddenClients],
) -> tuple[Array, Array]:
    """Return one round's leaks in scores, and their variances in chance's, under all hypotheses.

    Of what members show, and what they show by their own updates, counts what explains more; and
    so do the variances of both. `answers` are those at once, by group.
    """
    marked_indices = np.flatnonzero(groups.any(axis=0))
    held, members = (
        round_shares.shares[:, marked_indices],
        groups[:, marked_indices].astype(np.float64),
    )
    amounts = np.zeros((len(groups), len(held)))
    for column, member in enumerate(marked_indices.tolist()):
        shown = np.maximum(
            held[:, column] * round_shares.scores[member],
            held[:, column] * own.scores[:, member, None],
        )
        amounts += members[:, column, None] * shown
    shares = members @ held.T
    chance = np.maximum(members @ np.square(held.T), own.leak_variances(members[:, None, :] * held))
    at_once = np.maximum(amounts, answers.scores[:, None])
    variances_at_once = np.where(amounts > answers.scores[:, None], np.maximum(chance, 1.0), 1.0)
    variances_at_once = np.maximum(variances_at_once, answers.variances[:, None])
    leaks = []
    for response in TEST_RESPONSES:
        if response.start is None:
            counts = amounts >= response.minimum
            leaks.append((amounts * counts, chance * counts))
        else:
            reached = shares >= response.start - CLOSE
            leaks.append((at_once * reached, variances_at_once * reached))
    for gain in GAINS:
        boosted = np.clip(gain * amounts, 0.0, answers.scores[:, None])
        leaks.append((boosted, np.minimum(1.0, gain**2 * chance) * (boosted > 0)))
    for start, one in zip(STARTS, hidden, strict=True):
        reached = shares[one.groups] + round_shares.shares[:, one.clients].T >= start - CLOSE
        leaks.append((at_once[one.groups] * reached, variances_at_once[one.groups] * reached))
    means, variances = zip(*leaks, strict=True)
    return np.concatenate(means), np.concatenate(variances)
