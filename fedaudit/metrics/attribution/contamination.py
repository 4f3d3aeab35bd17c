"""The part of an innocent client's Z that may leak in from marked clients in its estimates.

Scores show how strongly each other client carries the mark, and `mixture` gives the distribution of
their shares in an estimate. Together they give the distribution of the leak into an innocent
client's Z. How the response of a test grows with the share of a marked update depends on the model:
in proportion, in proportion but never below 0, or at once if an estimate holds enough of it. All of
`TEST_RESPONSES` are tried. docs/estimator.md has the derivation.
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
"""Standard deviations at which a round's leak is cut off on the grid; no score is so large."""
ERROR_GROUPS = 6
"""The number of groups of draws with different errors."""
HIDDEN_SHARES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)
"""The shares of their mark that all members of a group may hide, if there is a single round."""
LEAST_HIDING_CHANCE = 0.1
"""The least probability of hiding a share at which it is considered."""


@dataclass(frozen=True, slots=True)
class DetectorResponse:
    """How a test's response grows with the share of a marked update in an estimate.

    With a `start`, the response from that share on is that of the marked client with the highest
    score. Without one, it is in proportion to the share, and at least `minimum`.
    """

    start: float | None
    minimum: float = -inf


TEST_RESPONSES = (
    DetectorResponse(None),
    DetectorResponse(None, 0.0),
    *(DetectorResponse(h) for h in (0.35, 0.5, 0.75)),
)
"""In proportion; in proportion but never below 0; and at once from a share on.

The least share, 0.35, is for estimates that hold 0.4, the usual limit: scores vary by chance, so a
share of 0.4 is not always measured as such.
"""

EARLIEST_RESPONSE = TEST_RESPONSES[2:3]
"""The response that explains an innocent client's Z most often, if other clients are marked."""


@dataclass(frozen=True, slots=True)
class RoundEvidence:
    """The scores of the other participants of one round under a mark."""

    scores: Array
    """Each participant's score beyond chance, at least 0."""
    groups: Array
    """The members of each group that may be the marked clients: (groups, participants)."""
    alone: Array
    """The clients that may be the only marked one, one per row: (candidates, participants)."""
    errors: Array
    """The error of each score by chance, in standard deviations of a score: the share of the score
    that counts as a mark."""
    hidden: Array
    """The probability that all members of a group hide each of `HIDDEN_SHARES` of their mark:
    (groups, shares)."""


def leak_distributions(
    mixtures: Sequence[Mixture],
    marks: Sequence[Sequence[RoundEvidence]],
    spreads: Sequence[float],
    responses: Sequence[DetectorResponse] = TEST_RESPONSES,
) -> list[tuple[LeakDistribution, ...]]:
    """Return, by mark, the distributions of the leak into a client's Z; none without a leak.

    `mixtures` are those of the client's estimates in the rounds that it took part in. `marks` has
    the evidence on the others in these rounds, by mark, and `spreads` the standard deviation of Z
    by chance, by mark. There is a distribution for each response and each source: for responses in
    proportion, all others together and each candidate alone; for those at once, each group.
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
    """Yield the distribution of one round's leak for each response and each of its sources.

    `scale` converts a score to steps of the grid; `error` is a score's standard deviation in steps.
    """
    end = float(FARTHEST * STEPS)
    strongest = float(shown.scores.max()) * scale
    draws = np.clip(draws, -end, end)  # squares of huge shares would overflow
    # For responses in proportion, the sources are all others together, or one of them alone.
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
    """Return the probabilities that all members of a group hide each of `HIDDEN_SHARES`.

    `held` has, for each member, draws of the share of the other members' updates in its estimate; a
    negative share hides as much of its mark. Estimates by pairs of sets are `independent`;
    estimates that share their sets hide marks together. A share that is less likely than
    `LEAST_HIDING_CHANCE` counts as the next smaller one. The probabilities sum to 1.
    """
    half_step = (HIDDEN_SHARES[1] - HIDDEN_SHARES[0]) / 2
    joint = np.prod if independent else np.min
    at_least = np.ones(len(HIDDEN_SHARES))
    for index, share in enumerate(HIDDEN_SHARES[1:], 1):
        chance = joint([(-draws >= share - half_step - CLOSE).mean() for draws in held])
        at_least[index] = chance if chance >= LEAST_HIDING_CHANCE else 0.0
    return np.asarray(at_least - np.append(at_least[1:], 0.0))


NOTHING_HIDDEN = np.eye(1, len(HIDDEN_SHARES))[0]
"""The probabilities if no one's mark is hidden."""


def _in_proportion(responses: Array, deviations: Array) -> RoundLeak:
    """Return the distribution of responses that each have an error of their own.

    An estimate that holds an update more than once has a larger error than the score. Draws with
    about the same error are grouped, with the largest error of the group.
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
    """Return the distribution if some of `count` designs respond at once, and the others with 0.

    They respond like the marked client with the highest score, which may hide a share of its mark
    (`hidden` has the probabilities of `HIDDEN_SHARES`). That score has an error by chance.
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
