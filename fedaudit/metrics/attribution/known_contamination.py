"""The part of clients' Z that may leak in from marked clients, if the sets are known.

With known sets, the share of every other client's update in an estimate is known. A hypothesis is a
group of marked clients. Under it, rounds in which a client's estimate holds enough of their marks
to respond at once like a marked client say nothing about that client. Its scores in the other
rounds must be explained by the shares that it holds, in proportion, as far as the group's scores
are not due to chance. A hypothesis that leaves another client's scores unexplained is rejected.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedaudit.metrics.attribution import stouffer
from fedaudit.metrics.attribution.group_contamination import (
    GroupContamination,
    MixedScores,
    contamination_by_group,
)
from fedaudit.metrics.attribution.hypotheses import CLOSE, GroupHypotheses

Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

MARKED = 4.0
"""The standard deviations by chance from which a client's Z counts as that of a marked client."""
NEGATIVE = 1.645
"""Standard deviations by chance that scores at negative shares exceed in 5 % of cases."""
FARTHEST = 1e6
"""A number of standard deviations by chance that no Z reaches."""


@dataclass(frozen=True, slots=True)
class ContaminationHypotheses:
    """The leak into a client's Z, in standard deviations by chance, by hypothesis.

    Each hypothesis has its own statistic: Z over the rounds that say something under it. If all of
    a client's scores grow equally, it grows by `slopes` times as much as Z over all rounds.
    """

    means: Array
    """The leak into the statistic, plus the amount by which the statistic is below `slopes` times
    Z."""
    slopes: Array
    variances: Array
    """The variance of the leak due to chance in the others' scores."""
    error: float
    """The probability that the right hypothesis is not among these."""

    def tail_probability(self, deviations: float, degrees: float) -> float:
        """Return the largest P(chance plus leak >= so many standard deviations), never 0."""
        beyond = _standardized(self.means, self.slopes, self.variances, deviations)
        # The chance in the others' scores follows the same law as that in Z, with another spread.
        tail = float(stouffer.chance_below(float(beyond.max()), degrees))
        return min(1.0, max(tail + self.error, stouffer.SMALLEST))


@dataclass(frozen=True, slots=True)
class ClientStatistics:
    """The statistics of a federation's clients under one mark, in the same order."""

    z: Array
    spreads: Array
    """The standard deviation of each Z by chance."""
    degrees_of_freedom: Sequence[float]
    """The degrees of freedom of each Z's Student's t by chance; 0 for the normal distribution."""


def answers_to_negative_shares(rounds: Sequence[MixedScores], clients: ClientStatistics) -> bool:
    """Return whether scores rise where estimates hold less than nothing of the mark.

    The mark is taken to be that of the clients whose Z is above `MARKED` standard deviations, in
    proportion to Z. The other clients' scores where the share of it is negative are regressed on
    that share; a test that answers in proportion, or to positive shares alone, passes `NEGATIVE` in
    at most 5 % of cases.
    """
    deviations = clients.z / clients.spreads
    marked = deviations > MARKED
    weights = np.where(marked, deviations, 0.0)
    risen = variance = 0.0
    for mixed in rounds:
        held = np.where(mixed.present & ~marked, np.minimum(mixed.shares @ weights, 0.0), 0.0)
        risen -= float(held @ mixed.differences)
        variance += float(np.square(held * clients.spreads).sum())
    return risen > NEGATIVE * math.sqrt(variance)


def contamination_hypotheses(
    rounds: Sequence[MixedScores],
    clients: ClientStatistics,
    groups: Mask,
    blocks: Iterable[GroupHypotheses],
    error: float,
) -> list[ContaminationHypotheses]:
    """Return the leak into each client's Z from the others under one mark.

    `groups` are the members of the groups to which the hypotheses in `blocks` refer, (groups,
    clients). `error` is the probability that the right hypothesis is rejected, because an innocent
    client's Z is too high even under it. Returned are the hypotheses that make some Z most likely.
    """
    took = np.sum([round_shares.present for round_shares in rounds], axis=0)
    strengths = np.sum([round_shares.scores for round_shares in rounds], axis=0) / took
    group_leaks = [
        contamination_by_group(round_shares, strengths, groups) for round_shares in rounds
    ]
    # Chance alone is always tried.
    by_client = [[np.array([[0.0], [1.0], [0.0]])] for _ in clients.degrees_of_freedom]
    for block in blocks:
        moments = np.array(_moments(rounds, clients, group_leaks, block))
        unexplained = _unexplained(moments, clients, group_leaks[0].marked, block.is_marked, error)
        count = unexplained.sum(axis=1)
        for client, likely in enumerate(by_client):
            possible = ~block.is_marked[:, client] & (count == unexplained[:, client])
            likely.append(upper_envelope(moments[:, possible, client]))
    leaks = []
    for likely in by_client:
        means, slopes, variances = upper_envelope(np.concatenate(likely, axis=1))
        leaks.append(ContaminationHypotheses(means, slopes, variances, error))
    return leaks


def _unexplained(
    moments: Array,
    clients: ClientStatistics,
    marked: npt.NDArray[np.intp],
    members: Mask,
    error: float,
) -> Mask:
    """Return which candidates are not marked but have too high a Z, (hypotheses, clients)."""
    unexplained = np.zeros(members.shape, dtype=bool)
    for client in marked.tolist():
        deviations = clients.z[client] / clients.spreads[client]
        means, slopes, variances = moments[:, :, client]
        beyond = _standardized(means, slopes, variances, deviations)
        least = -math.inf
        if error > 0:
            degrees = clients.degrees_of_freedom[client]
            least = stouffer.chance_quantile(error / len(clients.z), degrees)
        unexplained[:, client] = ~members[:, client] & (beyond <= least)
    return unexplained


def upper_envelope(moments: Array) -> Array:
    """Return the hypotheses, of (3, hypotheses), under which some Z is most likely.

    The amount by which a leak exceeds Z decreases linearly with Z, so these are the upper envelope
    of lines: where two of them meet, either a third is higher, or none lies between them.
    """
    if moments.shape[1] < 3:
        return moments
    heights, slopes = moments[:2] / np.sqrt(1 + moments[2])

    def argmax_at(z: float) -> int:
        return int(np.argmax(heights - slopes * z))

    envelope, open_ends = set[int](), [(argmax_at(-FARTHEST), argmax_at(FARTHEST))]
    while open_ends:
        left, right = open_ends.pop()
        envelope |= {left, right}
        if slopes[left] > slopes[right]:
            z = float((heights[left] - heights[right]) / (slopes[left] - slopes[right]))
            between = argmax_at(z)
            if heights[between] - slopes[between] * z > heights[left] - slopes[left] * z + CLOSE:
                open_ends += [(left, between), (between, right)]
    return moments[:, sorted(envelope)]


def _standardized(means: Array, slopes: Array, variances: Array, deviations: float) -> Array:
    """Return by how much leaks exceed a Z, in deviations of chance and of the leak together.

    P(chance plus leak >= Z) increases with this number, so it shows which hypothesis makes the
    probability largest, or too small, without computing the probability for each.
    """
    return np.asarray((means - slopes * deviations) / np.sqrt(1 + variances))


def _moments(
    rounds: Sequence[MixedScores],
    clients: ClientStatistics,
    group_leaks: Sequence[GroupContamination],
    hypotheses: GroupHypotheses,
) -> tuple[Array, Array, Array]:
    """Return means, slopes and variances as in `ContaminationHypotheses`, for all clients.

    The statistic is over the rounds in which a client's estimate does not respond at once, or over
    all rounds if there is none. `group_leaks` has an entry per round.
    """
    present = np.array([round_shares.present for round_shares in rounds])
    at_once = np.array(
        [_answers_at_once(round_shares.shares, hypotheses) for round_shares in rounds]
    )
    counted = present[:, None] & ~at_once
    counted |= present[:, None] & ~counted.any(axis=0)
    means, variances = np.zeros(hypotheses.weights.shape), np.zeros(hypotheses.weights.shape)
    for round_shares, of_groups, counts, answers in zip(
        rounds, group_leaks, counted, at_once, strict=True
    ):
        leaks, leak_variances = _leaks(of_groups, hypotheses, answers)
        means += (leaks - round_shares.differences) * counts
        variances += leak_variances * counts
    count = counted.sum(axis=0)
    spreads = _spreads(rounds, counted)
    slopes = np.sqrt(count / present.sum(axis=0)) * clients.spreads / spreads
    means = means / np.sqrt(count) / spreads + slopes * clients.z / clients.spreads
    return means, slopes, variances / count


def _answers_at_once(shares: Array, hypotheses: GroupHypotheses) -> Mask:
    """Return which estimates of a round hold enough to respond at once, (hypotheses, clients)."""
    return np.asarray(hypotheses.weights @ shares.T >= hypotheses.starts[:, None] - CLOSE)


def _spreads(rounds: Sequence[MixedScores], counted: npt.NDArray[np.bool_]) -> Array:
    """Return the standard deviation by chance of Z over the counted rounds, (hypotheses, clients).

    It is that of the null marks over the same rounds, and at least 1. `counted` is (rounds,
    hypotheses, clients).
    """
    null = np.array([round_shares.null for round_shares in rounds])
    squares = np.ones(counted.shape[1:])
    if not null.shape[2]:
        return squares
    for client in range(null.shape[1]):
        chosen = counted[:, :, client].T.astype(np.float64)
        products = null[:, client] @ null[:, client].T / null.shape[2]
        squares[:, client] = ((chosen @ products) * chosen).sum(axis=1) / chosen.sum(axis=1)
    return np.asarray(np.sqrt(np.maximum(squares, 1.0)))


def _leaks(
    of_groups: GroupContamination, hypotheses: GroupHypotheses, at_once: Mask
) -> tuple[Array, Array]:
    """Return the leak into each estimate of a round under the hypotheses, and its variances.

    A leak in proportion is at least 0, and at most a response at once. A hidden client's mark is
    assumed to be as strong as the strongest.
    """
    groups, boosted = hypotheses.groups, np.flatnonzero((hypotheses.weights > 1).any(axis=1))
    gains = hypotheses.weights[boosted][:, of_groups.marked]
    held = of_groups.shares[:, of_groups.marked]
    means, variances = of_groups.in_proportion[groups], of_groups.chance[groups]
    means[boosted] = np.einsum("hij,hj->hi", of_groups.amounts[groups[boosted]], gains)
    variances[boosted] = np.minimum(np.square(gains) @ np.square(held.T), 1.0)
    hidden = hypotheses.weights.copy()
    hidden[:, of_groups.marked] = 0.0
    largest = of_groups.largest[groups]
    means = np.clip(means + hidden @ np.maximum(of_groups.shares.T, 0.0) * largest, 0.0, largest)
    return (
        np.where(at_once, largest, means),
        np.where(at_once, of_groups.largest_variances[groups], variances * (means > CLOSE)),
    )
