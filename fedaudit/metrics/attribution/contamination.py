"""What an innocent client's Z may owe to marked clients: their updates are in its estimates.

An estimate holds c_j of every other client's update, with coefficients c that sum to 0 and that the
decider does not know. Their law is known, and how strongly each other client shows the mark is
seen; so the law of what an innocent client's Z takes from them can be worked out. How a test's
answer grows with the share of a marked update is a property of the model: in proportion, in
proportion but never below nothing, or at once where an estimate holds enough of it. All of `LAWS`
are tried. docs/estimator.md has the derivation.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from fedaudit.metrics.attribution import shared_law, stouffer, subset_design
from fedaudit.metrics.attribution.shared_rule import SharedSetsRule

Array = npt.NDArray[np.float64]

DRAWS = 40_000
"""Designs that the law of the coefficients is taken from, at most."""
NUMBERS = 40_000_000
"""So many random numbers are drawn for designs: of large ones, fewer designs."""
NEAREST = 1_500
"""Of these, the ones whose masking strength is nearest to an estimate's own."""
STEPS = 8
"""Steps of the grid that the law of Z is worked out on, for each standard deviation by chance."""
FARTHEST = 2_000
"""Standard deviations at which a round's leak ends on the grid: no score is as far (`scores`)."""


@dataclass(frozen=True, slots=True)
class TestResponse:
    """How a test's answer grows with what an estimate holds, as shares of a marked client's score.

    The marked client that shows most is meant, where there are several.
    """

    start: float
    """What an estimate must hold to answer anything."""
    least: float
    """What it then answers at least."""

    def histogram(self, held: Array, steps: Array, most: float, most_steps: float) -> "Leak":
        """Return the law of the answers of estimates that hold so much, each equally likely.

        Both are given as scores and as steps of the grid.
        """
        reached = steps if self.start == -np.inf else steps[held >= self.start * most]
        nothing = len(steps) - len(reached)
        if not len(reached):
            return 0, np.ones(1)
        least = self.least * most_steps if most_steps else min(self.least, 0.0)
        answers = np.maximum(reached, least).astype(np.int64)
        first = min(int(answers.min()), 0) if nothing else int(answers.min())
        counts = np.bincount(answers - first)
        if nothing:
            counts[-first] += nothing
        return first, counts / len(steps)


Leak = tuple[int, Array]
"""The first step of a grid, and the probabilities from there on."""

LAWS = (
    TestResponse(-np.inf, -np.inf),
    TestResponse(0.0, 0.0),
    *(TestResponse(h, 1.0) for h in (0.35, 0.5, 0.75)),
)
"""In proportion, in proportion but never below nothing, and at once from a share on.

The least share is for estimates that hold 0.4, the usual limit: what is seen of the marked client
and of others scatters, so that a share of 0.4 does not always come out as such.
"""

QUICK = LAWS[2:3]
"""Where others are marked, what these let through most often explains what an innocent shows."""


Designs = tuple[Array, npt.NDArray[np.int64], Array]
"""What designs hold of each other's update, their order by strength, and strength in order."""


@dataclass(frozen=True, slots=True)
class Mixture:
    """What is known of one estimate's coefficients."""

    weights: tuple[float, ...]
    """Of each other participant's update in sums, over the target's own."""
    strength: float
    """rho, the sum of the squared coefficients, with those weights."""
    others: int = 0
    """m of the design; 0 where nobody says."""
    pairs: int = 0
    """K of the design, likewise."""
    limit: float = 0.0
    """The most that the estimate may hold of another's update, with or without its weight; 0 where
    there is none."""
    rule: SharedSetsRule | None = None
    """How the sets were drawn that the round's estimates share; None where these are pairs."""

    def draws(self) -> Array:
        """Return draws of how much of each other's update the estimate holds, (draws, others).

        Designs whose masks are about as strong as the estimate's own are taken. Where nobody says
        how large designs are, or they are so large that it makes no difference, coefficients are
        taken for normal.
        """
        if not len(self.designs()[0]):
            normal = _normal(len(self.weights)) * self.weights
            return np.asarray(normal * float(self.strength / np.square(self.weights).sum()) ** 0.5)
        return _nearest(self)

    def designs(self) -> "Designs":
        """Return what designs hold of others, with their order by strength; none of normal."""
        if self.rule is not None:
            return _shared(self.rule, self.weights)
        many = 2 * self.pairs * len(self.weights) * NEAREST > NUMBERS
        if many or self.pairs < 1 or not 1 <= self.others < len(self.weights):
            nothing = np.zeros(0)
            return np.zeros((0, len(self.weights))), nothing.astype(np.int64), nothing
        return _designs(self.others, self.pairs, self.limit, self.weights)


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
        """Return how often chance and this are that many standard deviations together, never 0.

        Chance is Student's t with `marks` degrees of freedom, standard normal without any.
        """
        from scipy.special import ndtr, stdtr

        beyond = self.values - deviations
        tails = stdtr(marks, beyond) if marks else ndtr(beyond)
        return min(1.0, max(float(self.probabilities @ tails), stouffer.SMALLEST))


def shown_share(z: float, spread: float) -> float:
    """Return which share of a client's scores above 0 counts as a mark: sqrt(1 - S^2 / Z^2).

    What a Z shows beyond chance is Z^2 - S^2 on average; it is spread over the client's rounds as
    its scores are. A Z within its standard deviation S shows nothing.
    """
    return float(max(0.0, 1 - (spread / z) ** 2) ** 0.5) if z > 0 else 0.0


def contamination_laws(
    mixtures: Sequence[Mixture], shown: Sequence[Sequence[float]], spread: float
) -> tuple[Law, ...]:
    """Return the law of what a client's Z takes from others, under each of `LAWS`; none for none.

    `mixtures` are of the rounds that it took part in, `shown` has for each round how strongly each
    other participant shows the mark (a score, 0 or more), `spread` is the standard deviation of Z
    by chance.
    """
    return laws_of(mixtures, [[own] for own in shown], [spread])[0]


def laws_of(
    mixtures: Sequence[Mixture],
    shown: Sequence[Sequence[Sequence[float]]],
    spreads: Sequence[float],
    answers: Sequence[TestResponse] = LAWS,
) -> list[tuple[Law, ...]]:
    """Return `laws` under each of several marks, which share the client's estimates.

    `shown` is by round and mark, `spreads` by mark. Only laws of these `answers` are worked out.
    """
    found = [[Law(0, np.ones(1))] * len(answers) for _ in spreads]
    seen: set[int] = set()
    scales = 1 / (np.array(spreads) * len(mixtures) ** 0.5)
    for mixture, by_mark in zip(mixtures, shown, strict=True):
        own = np.array(by_mark, dtype=np.float64)
        some = np.flatnonzero(own.any(axis=1))
        if len(some):
            leaks = _leaks(mixture.draws(), own[some], scales[some], answers)
            for mark, by_law in zip(some.tolist(), leaks, strict=True):
                found[mark] = [a.plus(*b) for a, b in zip(found[mark], by_law, strict=True)]
            seen |= set(some.tolist())
    return [tuple(own) if mark in seen else () for mark, own in enumerate(found)]


def _leaks(
    draws: Array, shown: Array, scales: Array, answers: Sequence[TestResponse]
) -> Iterator[list[Leak]]:
    """Yield the law of one round's leak under each of the answers, by mark."""
    most = shown.max(axis=1)
    held = np.ascontiguousarray((draws @ shown.T).T)
    end = float(FARTHEST * STEPS)
    steps = np.rint(np.clip(held * scales[:, None] * STEPS, -end, end))
    answered = np.rint(np.minimum(most * scales * STEPS, end))
    rows = zip(held, steps, most.tolist(), answered.tolist(), strict=True)
    for row in rows:
        yield [law.histogram(*row) for law in answers]


@lru_cache(maxsize=512)
def _nearest(mixture: Mixture) -> Array:
    """Return the designs whose strength is nearest: the middle of those that are as strong.

    The strengths of equal weights are few numbers.
    """
    found, order, strength = mixture.designs()
    margin = 1e-9 * max(1.0, mixture.strength)
    ends = np.searchsorted(strength, (mixture.strength - margin, mixture.strength + margin))
    middle = int(ends.sum()) // 2
    start = max(0, min(middle - NEAREST // 2, len(found) - NEAREST))
    return found[order[start : start + NEAREST]]


@lru_cache(maxsize=8)
def _designs(others: int, pairs: int, limit: float, weights: tuple[float, ...]) -> Designs:
    """Return what designs hold of each other's update, their order by strength, and it in order.

    Those above the limit are left out, unless most are: it may have been on something else. Nobody
    says whether it was on the coefficients, as of sums that are stored, or on what estimates hold:
    either will do.
    """
    coefficients = _sample(len(weights), others, pairs)
    held = coefficients * weights
    most = (limit or np.inf) + 1e-9
    within = (np.abs(held).max(axis=1) <= most) | (np.abs(coefficients).max(axis=1) <= most)
    if within.sum() >= NEAREST:
        held = held[within]
    return _ordered(held)


@lru_cache(maxsize=256)
def _shared(rule: SharedSetsRule, weights: tuple[float, ...]) -> Designs:
    """Return the same of sets that a round shares."""
    draws = min(DRAWS, NUMBERS // len(weights))
    return _ordered(shared_law.coefficients(rule, draws) * weights)


def _ordered(held: Array) -> Designs:
    # Rounded: the last digits of equal strengths depend on which client has which coefficient.
    strength = np.round(np.square(held).sum(axis=1), 9)
    order = np.argsort(strength, kind="stable")
    return held, order, strength[order]


@lru_cache(maxsize=4)
def _sample(rest: int, others: int, pairs: int) -> Array:
    """Return the coefficients of designs for a client with so many others, (draws, others)."""
    draws = min(DRAWS, NUMBERS // (2 * pairs * rest))
    return subset_design.sample_coefficients(rest + 1, others, pairs, draws=draws)


@lru_cache(maxsize=64)
def _normal(others: int) -> Array:
    return np.random.default_rng(0).standard_normal((NEAREST, others))
