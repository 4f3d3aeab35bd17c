"""How much of clients' Z may come from marked clients in their estimates, where sets are known.

Then it is known how much of every other client's update an estimate holds. Under a hypothesis,
which is a group of marked clients, rounds in which a client's estimate holds enough of their marks
to answer at once like a marked one say nothing of that client. What it scores in the others must be
explained by what it holds, in proportion, as far as what the group shows is not chance. A
hypothesis that leaves another client's scores unexplained is none.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedaudit.metrics.attribution import stouffer
from fedaudit.metrics.attribution.hypotheses import CLOSE, Hypotheses
from fedaudit.metrics.attribution.unmixed_scores import UnmixedScores, unmix_scores

Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class RoundShares:
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
class ContaminationHypotheses:
    """What a client's Z takes from others, in standard deviations by chance, by hypothesis.

    Each hypothesis has a statistic of its own, Z over the rounds that say something under it. If
    all of a client's scores grow alike, it grows by `slopes` times as much as Z over all rounds.
    """

    means: Array
    """What explains the statistic, and by how much that is less than `slopes` times Z."""
    slopes: Array
    variances: Array
    """Of what the others show by chance."""
    error: float
    """The chance that the right hypothesis is not among these."""

    def tail(self, deviations: float, marks: int) -> float:
        """Return P(chance plus the leak >= so many standard deviations), the largest, never 0."""
        beyond = _standardized(self.means, self.slopes, self.variances, deviations)
        return min(1.0, max(_tail(float(beyond.max()), marks) + self.error, stouffer.SMALLEST))


@dataclass(frozen=True, slots=True)
class ClientStatistics:
    """The statistics of a federation's clients under one mark, each in the same order."""

    z: Array
    spreads: Array
    """The standard deviations of Z by chance."""
    null_marks: Sequence[int]
    """How many null marks these are worked out from."""


@dataclass(frozen=True, slots=True)
class Leaks:
    """What scores of one round take from others, and its variances in chance's, by hypothesis."""

    means: Array
    variances: Array


def contamination_hypotheses(
    rounds: Sequence[RoundShares],
    clients: ClientStatistics,
    groups: Mask,
    hypotheses: Hypotheses,
    error: float,
) -> list[ContaminationHypotheses]:
    """Return what each client's Z takes from the others under one mark.

    `groups` says who belongs to each group that `hypotheses` are of, (groups, clients). `error` is
    the chance that the right hypothesis is left out, because somebody innocent has a Z that is too
    high even under it.
    """
    deviations = clients.z / clients.spreads
    means, slopes, variances = _moments(rounds, clients, groups, hypotheses)
    members = hypotheses.members
    unexplained = np.zeros(members.shape, dtype=bool)
    for client in np.flatnonzero(groups.any(axis=0)).tolist():
        beyond = _standardized(
            means[:, client], slopes[:, client], variances[:, client], deviations[client]
        )
        least = _quantile(error / len(deviations), clients.null_marks[client])
        unexplained[:, client] = ~members[:, client] & (beyond <= least)
    count = unexplained.sum(axis=1)
    leaks = []
    for client in range(len(deviations)):
        possible = ~members[:, client] & (count == unexplained[:, client])
        leaks.append(
            ContaminationHypotheses(
                # Chance alone is tried whatever is possible.
                np.append(means[possible, client], 0.0),
                np.append(slopes[possible, client], 1.0),
                np.append(variances[possible, client], 0.0),
                error,
            )
        )
    return leaks


def _standardized(means: Array, slopes: Array, variances: Array, deviations: float) -> Array:
    """Return by how much leaks exceed a Z, in deviations of chance and of what others show by it.

    The probability that chance plus the leak is at least Z grows with it: which hypothesis makes
    that largest, or too small, can be told without working it out for each.
    """
    return np.asarray((means - slopes * deviations) / np.sqrt(1 + variances))


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
    clients: ClientStatistics,
    groups: Mask,
    hypotheses: Hypotheses,
) -> tuple[Array, Array, Array]:
    """Return means, slopes and variances as `ContaminationHypotheses` has them, for all clients.

    The statistic is of the rounds in which a client's estimate does not answer at once. Where there
    is none it is of all rounds, and answers are those of the member that shows most over them.
    """
    present = np.array([one.present for one in rounds])
    took = present.sum(axis=0)
    at_once = np.array([_answers_at_once(one.shares, hypotheses) for one in rounds])
    counted = present[:, None] & ~at_once
    counted |= present[:, None] & ~counted.any(axis=0)
    strengths = np.sum([one.scores for one in rounds], axis=0) / took
    means, variances = np.zeros(hypotheses.weights.shape), np.zeros(hypotheses.weights.shape)
    for one, counts, answers in zip(rounds, counted, at_once, strict=True):
        leaks = _leaks(one, strengths, groups, hypotheses, answers)
        means += (leaks.means - one.differences) * counts
        variances += leaks.variances * counts
    count = counted.sum(axis=0)
    spreads = _spreads(rounds, counted)
    slopes = np.sqrt(count / took) * clients.spreads / spreads
    means = means / np.sqrt(count) / spreads + slopes * clients.z / clients.spreads
    return means, slopes, variances / count


def _answers_at_once(shares: Array, hypotheses: Hypotheses) -> Mask:
    """Return which estimates of a round hold enough for that, (hypotheses, clients)."""
    return np.asarray(hypotheses.weights @ shares.T >= hypotheses.starts[:, None] - CLOSE)


def _spreads(rounds: Sequence[RoundShares], counted: npt.NDArray[np.bool_]) -> Array:
    """Return the standard deviations by chance of Z over some rounds, (hypotheses, clients).

    They are those of the null marks over the same rounds, and at least 1. `counted` are these
    rounds, (rounds, hypotheses, clients).
    """
    null = np.array([one.null for one in rounds])
    squares = np.ones(counted.shape[1:])
    if not null.shape[2]:
        return squares
    for client in range(null.shape[1]):
        chosen = counted[:, :, client].T.astype(np.float64)
        products = null[:, client] @ null[:, client].T / null.shape[2]
        squares[:, client] = ((chosen @ products) * chosen).sum(axis=1) / chosen.sum(axis=1)
    return np.asarray(np.sqrt(np.maximum(squares, 1.0)))


def _leaks(
    one: RoundShares, strengths: Array, groups: Mask, hypotheses: Hypotheses, at_once: Mask
) -> Leaks:
    """Return what each estimate of a round takes from a group, (hypotheses, clients).

    In proportion it is never below nothing, and of a booster no more than an answer at once. Of
    what members show, and what they show by their own updates, counts what explains more; and so do
    the variances of both.
    """
    own = unmix_scores(one.shares, one.scores, groups)
    answers = _answers(one, strengths, own, groups)
    marked = np.flatnonzero(groups.any(axis=0))
    held, members = one.shares[:, marked], groups[:, None, marked].astype(np.float64)
    amounts = members * np.maximum(held * one.scores[marked], held * own.scores[:, None, marked])
    chance = np.maximum((members * np.square(held)).sum(axis=2), own.leak_variances(members * held))
    in_proportion = amounts.sum(axis=2)
    more = in_proportion > answers.means
    largest = np.maximum(in_proportion, answers.means)
    largest_variances = np.maximum(np.where(more, chance, 1.0), answers.variances)
    of, boosted = hypotheses.groups, np.flatnonzero((hypotheses.weights > 1).any(axis=1))
    means, variances, gains = in_proportion[of], chance[of], hypotheses.weights[boosted][:, marked]
    means[boosted] = np.einsum("hij,hj->hi", amounts[of[boosted]], gains)
    variances[boosted] = np.minimum(np.square(gains) @ np.square(held.T), 1.0)
    means = np.clip(means, 0.0, largest[of])
    return Leaks(
        np.where(at_once, largest[of], means),
        np.where(at_once, largest_variances[of], variances * (means > 0)),
    )


def _answers(one: RoundShares, strengths: Array, own: UnmixedScores, groups: Mask) -> Leaks:
    """Return answers at once, (groups, 1): like the member that shows most over all rounds.

    As it shows in this round or on average, or as it does by itself, if more; that is off by the
    luck of all whose scores it is worked out from.
    """
    each, strongest = np.arange(len(groups)), np.argmax(groups * (strengths + CLOSE), axis=1)
    shown = np.maximum(one.scores, strengths)[strongest] * groups.any(axis=1)
    by_itself = own.scores[each, strongest]
    variances = np.ones(groups.shape)
    variances[:, groups.any(axis=0)] = own.score_variances
    of_itself = np.where(by_itself > shown, np.maximum(variances[each, strongest], 1.0), 1.0)
    return Leaks(np.maximum(shown, by_itself)[:, None], of_itself[:, None])
