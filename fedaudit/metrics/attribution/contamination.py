"""How much of an innocent client's Z may come from marked clients in its estimates.

Scores show how strongly each other client carries the mark, and `mixture` gives the distribution of
their shares in an estimate. Together they give the distribution of what an innocent client's Z
takes from them. How a test's answer grows with the share of a marked update is a property of the
model: in proportion, in proportion but never below nothing, or at once where an estimate holds
enough of it. All of `TEST_RESPONSES` are tried. docs/estimator.md has the derivation.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np
import numpy.typing as npt

from fedaudit.metrics.attribution.hypotheses import CLOSE
from fedaudit.metrics.attribution.leak_distribution import (
    ERROR_REACH,
    LEAST_ERROR,
    NO_LEAK,
    NOTHING,
    STEPS,
    LeakDistribution,
    RoundLeak,
    histogram,
    mix_distributions,
    rounded_deviation,
)
from fedaudit.metrics.attribution.mixture import Mixture

Array = npt.NDArray[np.float64]

FARTHEST = 2_000
"""Standard deviations at which a round's leak ends on the grid: no score is as far (`scores`)."""
ERROR_GROUPS = 6
"""Groups of draws whose errors are told apart."""
HIDDEN_SHARES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)
"""Shares of its mark that every member of a group may hide, where there is a single round."""
LEAST_HIDING_CHANCE = 0.1
"""That a whole group hides a share of its mark counts if it is at least this likely."""


@dataclass(frozen=True, slots=True)
class DetectorResponse:
    """How a test's answer grows with what an estimate holds of a mark.

    From `start` on, as a share of a marked client's update, it answers at once like the marked
    client that shows most; without a start in proportion, from `minimum` on.
    """

    start: float | None
    minimum: float = -inf


TEST_RESPONSES = (
    DetectorResponse(None),
    DetectorResponse(None, 0.0),
    *(DetectorResponse(h) for h in (0.35, 0.5, 0.75)),
)
"""In proportion, in proportion but never below nothing, and at once from a share on.

The least share is for estimates that hold 0.4, the usual limit: how strongly a client shows a mark
scatters, so that a share of 0.4 is not always measured as such.
"""

EARLIEST_RESPONSE = TEST_RESPONSES[2:3]
"""If other clients are marked, these responses explain an innocent client's Z most often."""


@dataclass(frozen=True, slots=True)
class RoundEvidence:
    """How the other participants of one round show a mark."""

    scores: Array
    """Of each participant, beyond chance and at least 0."""
    groups: Array
    """Who belongs to each group that may be the marked clients: (groups, participants)."""
    alone: Array
    """Each of the clients that may be the only marked one: (candidates, participants)."""
    errors: Array
    """By how much each score may be off by chance, in standard deviations of one: which share of it
    counts as a mark."""
    hidden: Array
    """How likely all members of each group hide each of `HIDDEN_SHARES` of their mark:
    (groups, shares)."""


def leak_distributions(
    mixtures: Sequence[Mixture],
    marks: Sequence[Sequence[RoundEvidence]],
    spreads: Sequence[float],
    responses: Sequence[DetectorResponse] = TEST_RESPONSES,
) -> list[tuple[LeakDistribution, ...]]:
    """Return the distributions of the leak into a client's Z by mark; none without a leak.

    `mixtures` are of the estimates of the rounds that it took part in, `marks` has for each mark
    how the others show it in these rounds, `spreads` is the standard deviation of Z by chance, by
    mark. There is one for each of `responses` and each of its sources: in proportion, all the
    others and each candidate alone; at once from a share on, each group.
    """
    return [
        _mark_distributions(mixtures, rounds, spread, responses)
        if any(r.scores.any() for r in rounds)
        else ()
        for rounds, spread in zip(marks, spreads, strict=True)
    ]


def _mark_distributions(
    mixtures: Sequence[Mixture],
    rounds: Sequence[RoundEvidence],
    spread: float,
    responses: Sequence[DetectorResponse],
) -> tuple[LeakDistribution, ...]:
    scale = STEPS / (spread * len(mixtures) ** 0.5)
    error = STEPS / len(mixtures) ** 0.5
    distributions: list[LeakDistribution] = []
    for mixture, shown in zip(mixtures, rounds, strict=True):
        if not shown.scores.any():
            continue
        leaks = list(_leaks(mixture.draws(), shown, scale, error, responses))
        distributions = [
            distribution.add_round(*leak)
            for distribution, leak in zip(
                distributions or [NOTHING] * len(leaks), leaks, strict=True
            )
        ]
    return tuple(distributions)


def _leaks(
    draws: Array,
    shown: RoundEvidence,
    scale: float,
    error: float,
    responses: Sequence[DetectorResponse],
) -> Iterator[RoundLeak]:
    """Yield the distribution of one round's leak under each of the responses, and of the groups.

    `scale` makes a score steps of the grid, `error` is the standard deviation of a score, in steps.
    """
    end = float(FARTHEST * STEPS)
    strongest = float(shown.scores.max()) * scale
    draws = np.clip(draws, -end, end)  # of masks beyond measure, squares overflow
    # What others show may come from one of them: in proportion, all count or one alone.
    sources = np.vstack([np.ones(len(shown.scores)), shown.alone]).T
    amounts = np.rint(np.clip(draws @ (shown.scores[:, None] * sources) * scale, -end, end))
    deviations = error * np.sqrt(np.square(draws) @ np.square(shown.errors[:, None] * sources))
    errors = np.minimum(deviations, end / ERROR_REACH)
    steps, largest_error = amounts[:, 0], error * float(shown.errors.max(initial=0.0))
    shares = draws @ shown.groups.T
    for response in responses:
        if response.start is None:
            for amount, off_by in zip(amounts.T, errors.T, strict=True):
                counts = amount > response.minimum
                yield _in_proportion(
                    np.maximum(amount, response.minimum), np.where(counts, off_by, 0.0)
                )
        else:
            for share, chances in zip(shares.T, shown.hidden, strict=True):
                reached = steps[share >= response.start - CLOSE]
                yield _at_once(reached, len(steps), strongest, largest_error, chances)


def hiding_probabilities(held: Sequence[Array], *, independent: bool) -> Array:
    """Return how likely all members of a group hide each of `HIDDEN_SHARES` of their mark.

    `held` has for each member draws of how much its estimate holds of the other members together; a
    negative share hides as much. By pairs of sets estimates are `independent`; those that share
    their sets hide together. What is less likely than `LEAST_HIDING_CHANCE` counts as the next
    smaller share. They sum to 1.
    """
    half_step = (HIDDEN_SHARES[1] - HIDDEN_SHARES[0]) / 2
    joint = np.prod if independent else np.min
    at_least = np.ones(len(HIDDEN_SHARES))
    for index, share in enumerate(HIDDEN_SHARES[1:], 1):
        chance = joint([(-draws >= share - half_step - CLOSE).mean() for draws in held])
        at_least[index] = chance if chance >= LEAST_HIDING_CHANCE else 0.0
    return np.asarray(at_least - np.append(at_least[1:], 0.0))


NOTHING_HIDDEN = np.eye(1, len(HIDDEN_SHARES))[0]
"""The chances where nobody's mark is hidden."""


def _in_proportion(responses: Array, deviations: Array) -> RoundLeak:
    """Return the distribution of answers that are off by an error of their own.

    An estimate that holds an update more than once is off by more than its score. Draws of about
    the same error are taken together, with the largest of theirs.
    """
    if deviations.max(initial=0.0) < LEAST_ERROR:
        return histogram(responses)
    order = np.argsort(deviations, kind="stable")
    return mix_distributions(
        [
            (
                histogram(responses[rows]),
                rounded_deviation(deviations[rows[-1]]),
                len(rows) / len(responses),
            )
            for rows in np.array_split(order, ERROR_GROUPS)
            if len(rows)
        ]
    )


def _at_once(
    responses: Array, count: int, strongest: float, error: float, hidden: Array
) -> RoundLeak:
    """Return the distribution where some of `count` designs answer at once, and the others nothing.

    They answer like the marked client that shows most, which may hide a share of its mark (by
    `hidden`, how likely each of `HIDDEN_SHARES`). What it shows is off by chance.
    """
    if not len(responses):
        return NO_LEAK
    answering = len(responses) / count
    parts = [(NO_LEAK, 0.0, 1 - answering)]
    for share, chance in zip(HIDDEN_SHARES, hidden.tolist(), strict=True):
        if chance:
            mark = np.rint(min(strongest / (1 - share), float(FARTHEST * STEPS)))
            leak = histogram(np.maximum(responses, mark))
            parts.append((leak, round(error / (1 - share), 3), answering * chance))
    return mix_distributions(parts)
