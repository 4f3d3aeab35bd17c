"""How much of an innocent client's Z may come from marked clients in its estimates.

How strongly each other client shows the mark is seen, and what is known of an estimate's shares of
the others is a law (`mixture`); so the law of what an innocent client's Z takes from them can be
worked out. How a test's answer grows with the share of a marked update is a property of the model:
in proportion, in proportion but never below nothing, or at once where an estimate holds enough of
it. All of `LAWS` are tried. docs/estimator.md has the derivation.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, inf

import numpy as np
import numpy.typing as npt

from fedaudit.metrics.attribution import stouffer
from fedaudit.metrics.attribution.mixture import Mixture

Array = npt.NDArray[np.float64]

STEPS = 8
"""Steps of the grid that the law of Z is worked out on, for each standard deviation by chance."""
FARTHEST = 2_000
"""Standard deviations at which a round's leak ends on the grid: no score is as far (`scores`)."""
CLOSE = 1e-9
"""Shares that differ by no more are the same."""

Leak = tuple[int, Array]
"""The first step of a grid, and the probabilities from there on."""


@dataclass(frozen=True, slots=True)
class TestResponse:
    """How a test's answer grows with what an estimate holds of a mark.

    From `start` on, as a share of a marked client's update, it answers at once like the marked
    client that shows most; without a start in proportion, from `minimum` on.
    """

    start: float | None
    minimum: float = -inf


LAWS = (
    TestResponse(None),
    TestResponse(None, 0.0),
    *(TestResponse(h) for h in (0.35, 0.5, 0.75)),
)
"""In proportion, in proportion but never below nothing, and at once from a share on.

The least share is for estimates that hold 0.4, the usual limit: how strongly a client shows a mark
scatters, so that a share of 0.4 is not always measured as such.
"""

QUICK = LAWS[2:3]
"""Where others are marked, what these let through most often explains what an innocent shows."""


@dataclass(frozen=True, slots=True)
class RoundEvidence:
    """How the other participants of one round show a mark."""

    scores: Array
    """Of each participant, beyond chance and at least 0."""
    groups: Array
    """Who belongs to each group that may be the marked clients: (groups, participants)."""
    signal_share: float
    """Which share of the strongest client's score counts as a mark, and may be off by chance."""


@dataclass(frozen=True, slots=True)
class Law:
    """The probabilities of what Z takes from others, on a grid: (first + k) / STEPS deviations."""

    first: int
    probabilities: Array

    @property
    def values(self) -> Array:
        """Return the grid, in standard deviations by chance."""
        return (self.first + np.arange(len(self.probabilities))) / STEPS

    def plus(self, first: int, probabilities: Array) -> "Law":
        """Return the law of a sum with one more round, whose leak has these probabilities."""
        if len(probabilities) == 1:
            return Law(self.first + first, self.probabilities)
        return Law(self.first + first, np.convolve(self.probabilities, probabilities))

    def tail(self, deviations: float, marks: int) -> float:
        """Return P(chance plus this leak >= so many standard deviations), never 0.

        Chance is Student's t with `marks` degrees of freedom, standard normal without any.
        """
        from scipy.special import ndtr, stdtr

        beyond = self.values - deviations
        tails = stdtr(marks, beyond) if marks else ndtr(beyond)
        return min(1.0, max(float(self.probabilities @ tails), stouffer.SMALLEST))


NOTHING = Law(0, np.ones(1))


def laws_of(
    mixtures: Sequence[Mixture],
    marks: Sequence[Sequence[RoundEvidence]],
    spreads: Sequence[float],
    answers: Sequence[TestResponse] = LAWS,
) -> list[tuple[Law, ...]]:
    """Return the laws of others' leak into a client's Z, for each mark; none without a leak.

    `mixtures` are of the estimates of the rounds that it took part in, `marks` has for each mark
    how the others show it in these rounds, `spreads` is the standard deviation of Z by chance, by
    mark. There is a law for each of `answers`, and where it starts at a share for each group.
    """
    return [
        _laws(mixtures, rounds, spread, answers) if any(r.scores.any() for r in rounds) else ()
        for rounds, spread in zip(marks, spreads, strict=True)
    ]


def _laws(
    mixtures: Sequence[Mixture],
    rounds: Sequence[RoundEvidence],
    spread: float,
    answers: Sequence[TestResponse],
) -> tuple[Law, ...]:
    scale = STEPS / (spread * len(mixtures) ** 0.5)
    error = STEPS / len(mixtures) ** 0.5
    laws: list[Law] = []
    for mixture, shown in zip(mixtures, rounds, strict=True):
        if not shown.scores.any():
            continue
        leaks = list(_leaks(mixture.draws(), shown, scale, error, answers))
        laws = [
            law.plus(*leak) for law, leak in zip(laws or [NOTHING] * len(leaks), leaks, strict=True)
        ]
    return tuple(laws)


def _leaks(
    draws: Array, shown: RoundEvidence, scale: float, error: float, answers: Sequence[TestResponse]
) -> Iterator[Leak]:
    """Yield the law of one round's leak under each of the answers, and of the groups.

    `scale` makes a score steps of the grid, `error` is the standard deviation of a score, in steps.
    """
    end = float(FARTHEST * STEPS)
    most = float(np.rint(min(shown.scores.max() * scale, end)))
    steps = np.rint(np.clip(draws @ shown.scores * scale, -end, end))
    shares = draws @ shown.groups.T
    for answer in answers:
        if answer.start is None:
            yield _counted(np.maximum(steps, answer.minimum))
        else:
            for share in shares.T:
                reached = share >= answer.start - CLOSE
                yield _at_once(
                    np.maximum(steps[reached], most), len(steps), error * shown.signal_share
                )


def _counted(answers: Array) -> Leak:
    whole = answers.astype(np.int64)
    first = int(whole.min())
    return first, np.bincount(whole - first) / len(answers)


def _at_once(answers: Array, count: int, error: float) -> Leak:
    """Return the law where some of `count` designs answer at once, and the others nothing.

    What the marked client shows is measured, and off by chance.
    """
    if not len(answers):
        return 0, np.ones(1)
    first, probabilities = _counted(answers)
    kernel = _kernel(round(error, 3))
    first, probabilities = first - len(kernel) // 2, np.convolve(probabilities, kernel)
    low, high = min(first, 0), max(first + len(probabilities), 1)
    law = np.zeros(high - low)
    law[first - low : first - low + len(probabilities)] = probabilities * (len(answers) / count)
    law[-low] += 1 - len(answers) / count
    return low, law


@lru_cache(maxsize=1024)
def _kernel(deviation: float) -> Array:
    """Return the probabilities of a normal error of so many steps, from -4 deviations on."""
    if deviation <= 0:
        return np.ones(1)
    reach = ceil(4 * deviation)
    weights = np.exp(-0.5 * np.square(np.arange(-reach, reach + 1) / deviation))
    return np.asarray(weights / weights.sum())
