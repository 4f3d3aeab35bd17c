"""How much of an innocent client's Z may come from marked clients in its estimates.

How strongly each other client shows the mark is seen, and what is known of an estimate's shares of
the others has a distribution (`mixture`); so that of what an innocent client's Z takes from them
can be worked out. How a test's answer grows with the share of a marked update is a property of the
model: in proportion, in proportion but never below nothing, or at once where an estimate holds
enough of it. All of `TEST_RESPONSES` are tried. docs/estimator.md has the derivation.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, inf

import numpy as np
import numpy.typing as npt

from fedaudit.metrics.attribution import stouffer
from fedaudit.metrics.attribution.hypotheses import CLOSE
from fedaudit.metrics.attribution.mixture import Mixture

Array = npt.NDArray[np.float64]

STEPS = 8
"""Steps of the grid of Z, for each standard deviation by chance."""
FARTHEST = 2_000
"""Standard deviations at which a round's leak ends on the grid: no score is as far (`scores`)."""
ERROR_GROUPS = 6
"""Groups of draws whose errors are told apart."""
ERROR_REACH = 4
"""Standard deviations at which a normal error ends."""
LEAST_ERROR = 0.5
"""An error of fewer steps of the grid makes no difference."""
DIRECT = 10**7
"""Products above which a sum's distribution is by Fourier transform."""

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


TEST_RESPONSES = (
    TestResponse(None),
    TestResponse(None, 0.0),
    *(TestResponse(h) for h in (0.35, 0.5, 0.75)),
)
"""In proportion, in proportion but never below nothing, and at once from a share on.

The least share is for estimates that hold 0.4, the usual limit: how strongly a client shows a mark
scatters, so that a share of 0.4 is not always measured as such.
"""

EARLIEST_RESPONSE = TEST_RESPONSES[2:3]
"""Where others are marked, what these let through most often explains what an innocent shows."""


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


@dataclass(frozen=True, slots=True)
class LeakDistribution:
    """The probabilities of what Z takes from others, on a grid: (first + k) / STEPS deviations."""

    first: int
    probabilities: Array

    @property
    def values(self) -> Array:
        """Return the grid, in standard deviations by chance."""
        return (self.first + np.arange(len(self.probabilities))) / STEPS

    def plus(self, first: int, probabilities: Array) -> "LeakDistribution":
        """Return the distribution with one more round, whose leak has these probabilities."""
        if len(probabilities) == 1:
            return LeakDistribution(self.first + first, self.probabilities)
        return LeakDistribution(self.first + first, _convolved(self.probabilities, probabilities))

    def tail(self, deviations: float, marks: int) -> float:
        """Return P(chance plus this leak >= so many standard deviations), never 0.

        Chance is Student's t with `marks` degrees of freedom, standard normal without any.
        """
        from scipy.special import ndtr, stdtr

        beyond = self.values - deviations
        tails = stdtr(marks, beyond) if marks else ndtr(beyond)
        return min(1.0, max(float(self.probabilities @ tails), stouffer.SMALLEST))


NOTHING = LeakDistribution(0, np.ones(1))


def leak_distributions(
    mixtures: Sequence[Mixture],
    marks: Sequence[Sequence[RoundEvidence]],
    spreads: Sequence[float],
    responses: Sequence[TestResponse] = TEST_RESPONSES,
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
    responses: Sequence[TestResponse],
) -> tuple[LeakDistribution, ...]:
    scale = STEPS / (spread * len(mixtures) ** 0.5)
    error = STEPS / len(mixtures) ** 0.5
    distributions: list[LeakDistribution] = []
    for mixture, shown in zip(mixtures, rounds, strict=True):
        if not shown.scores.any():
            continue
        leaks = list(_leaks(mixture.draws(), shown, scale, error, responses))
        distributions = [
            distribution.plus(*leak)
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
    responses: Sequence[TestResponse],
) -> Iterator[Leak]:
    """Yield the distribution of one round's leak under each of the responses, and of the groups.

    `scale` makes a score steps of the grid, `error` is the standard deviation of a score, in steps.
    """
    end = float(FARTHEST * STEPS)
    most = float(np.rint(min(shown.scores.max() * scale, end)))
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
            for share in shares.T:
                reached = share >= response.start - CLOSE
                yield _at_once(np.maximum(steps[reached], most), len(steps), largest_error)


def _counted(responses: Array) -> Leak:
    whole = responses.astype(np.int64)
    first = int(whole.min())
    return first, np.bincount(whole - first) / len(responses)


def _in_proportion(responses: Array, deviations: Array) -> Leak:
    """Return the distribution of answers that are off by an error of their own.

    An estimate that holds an update more than once is off by more than its score. Draws of about
    the same error are taken together, with the largest of theirs.
    """
    if deviations.max(initial=0.0) < LEAST_ERROR:
        return _counted(responses)
    order = np.argsort(deviations, kind="stable")
    return _mixed(
        [
            (_counted(responses[rows]), _rounded(deviations[rows[-1]]), len(rows) / len(responses))
            for rows in np.array_split(order, ERROR_GROUPS)
            if len(rows)
        ]
    )


def _at_once(responses: Array, count: int, error: float) -> Leak:
    """Return the distribution where some of `count` designs answer at once, and the others nothing.

    What the marked client shows is measured, and off by chance.
    """
    if not len(responses):
        return 0, np.ones(1)
    share = len(responses) / count
    return _mixed(
        [(_counted(responses), round(error, 3), share), ((0, np.ones(1)), 0.0, 1 - share)]
    )


def _mixed(parts: Sequence[tuple[Leak, float, float]]) -> Leak:
    """Return a mixture: distributions, each off by a normal error of so many steps, by weight."""
    kernels = [_kernel(error) for _, error, _ in parts]
    low = min(
        first - len(kernel) // 2 for ((first, _), _, _), kernel in zip(parts, kernels, strict=True)
    )
    sums = [
        (first - len(kernel) // 2 - low, weight * _convolved(own, kernel))
        for ((first, own), _, weight), kernel in zip(parts, kernels, strict=True)
    ]
    distribution = np.zeros(max(start + len(own) for start, own in sums))
    for start, own in sums:
        distribution[start : start + len(own)] += own
    return low, distribution


def _convolved(first: Array, second: Array) -> Array:
    """Return the probabilities of a sum; of long distributions, to 1e-16 each."""
    if len(first) * len(second) <= DIRECT:
        return np.convolve(first, second)
    from scipy.signal import fftconvolve

    return np.asarray(np.maximum(fftconvolve(first, second), 0.0))


def _rounded(deviation: float) -> float:
    """Return an error of which few are told apart, so that what it makes is kept: 1 % at most."""
    return float(f"{deviation:.2g}") if deviation >= LEAST_ERROR else 0.0


@lru_cache(maxsize=1024)
def _kernel(deviation: float) -> Array:
    """Return the probabilities of a normal error of so many steps, in order."""
    if deviation <= 0:
        return np.ones(1)
    reach = ceil(ERROR_REACH * deviation)
    weights = np.exp(-0.5 * np.square(np.arange(-reach, reach + 1) / deviation))
    return np.asarray(weights / weights.sum())
