"""How much of an innocent client's Z may come from marked clients in its estimates.

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
"""Random numbers that are drawn for designs, at most: of large designs, fewer are drawn."""
NEAREST = 1_500
"""Of these, the ones whose masking strength is nearest to an estimate's own."""
STEPS = 8
"""Steps of the grid that the law of Z is worked out on, for each standard deviation by chance."""
FARTHEST = 2_000
"""Standard deviations at which a round's leak ends on the grid: no score is as far (`scores`)."""


@dataclass(frozen=True, slots=True)
class TestResponse:
    """How a test's answer grows with what an estimate holds, as shares of a marked client's score.

    Where several clients are marked, the one with the highest score is meant.
    """

    start: float
    """What an estimate must hold to answer anything."""
    minimum: float
    """The least answer from there on."""

    def histogram(self, amounts: Array, steps: Array, most: float, most_steps: float) -> "Leak":
        """Return the law of the answers of estimates that hold `amounts`, each equally likely.

        Amounts and the highest score are also given as steps of the grid.
        """
        reached = steps if self.start == -np.inf else steps[amounts >= self.start * most]
        nothing = len(steps) - len(reached)
        if not len(reached):
            return 0, np.ones(1)
        least = self.minimum * most_steps if most_steps else min(self.minimum, 0.0)
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

The least share is for estimates that hold 0.4, the usual limit: the scores of the marked client and
of others scatter, so that a share of 0.4 is not always measured as such.
"""

QUICK = LAWS[2:3]
"""Where others are marked, what these let through most often explains what an innocent shows."""


Designs = tuple[Array, npt.NDArray[np.int64], Array]
"""Designs' shares of each other client's update, their order by strength, sorted strengths."""


@dataclass(frozen=True, slots=True)
class Mixture:
    """What is known of one estimate's coefficients."""

    weights: tuple[float, ...]
    """The weight of each other participant's update in sums, over the target's own."""
    strength: float
    """rho, the sum of the squared coefficients, with those weights."""
    others: int = 0
    """m of the design; 0 where it is unknown."""
    pairs: int = 0
    """K of the design, likewise."""
    limit: float = 0.0
    """The most that the estimate may hold of another's update, with or without its weight; 0 where
    there is none."""
    rule: SharedSetsRule | None = None
    """How the sets were drawn that the round's estimates share; None where these are pairs."""

    def draws(self) -> Array:
        """Return draws of the share of each other's update in the estimate, (draws, others).

        Designs whose masks are about as strong as the estimate's own are used. Where the size of
        designs is unknown, or so large that it makes no difference, coefficients are assumed to
        be normal.
        """
        if not len(self.designs()[0]):
            normal = _normal(len(self.weights)) * self.weights
            return np.asarray(normal * float(self.strength / np.square(self.weights).sum()) ** 0.5)
        return _nearest(self)

    def designs(self) -> "Designs":
        """Return designs' shares, order and strengths; none where coefficients are normal."""
        if self.rule is not None:
            return _shared_designs(self.rule, self.weights)
        too_large = 2 * self.pairs * len(self.weights) * NEAREST > NUMBERS
        if too_large or self.pairs < 1 or not 1 <= self.others < len(self.weights):
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
        """Return P(chance plus this leak >= so many standard deviations), never 0.

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
    mixtures: Sequence[Mixture], mark_scores: Sequence[Sequence[float]], spread: float
) -> tuple[Law, ...]:
    """Return the law of others' leak into a client's Z under each of `LAWS`; none without leaks.

    `mixtures` are of the rounds that it took part in, `mark_scores` has for each round how strongly
    each other participant shows the mark (a score, 0 or more), `spread` is the standard deviation
    of Z by chance.
    """
    return laws_of(mixtures, [[scores] for scores in mark_scores], [spread])[0]


def laws_of(
    mixtures: Sequence[Mixture],
    mark_scores: Sequence[Sequence[Sequence[float]]],
    spreads: Sequence[float],
    answers: Sequence[TestResponse] = LAWS,
) -> list[tuple[Law, ...]]:
    """Return the same laws for each of several marks, which share the client's estimates.

    `mark_scores` is by round and mark, `spreads` by mark. Only laws of `answers` are computed.
    """
    laws = [[Law(0, np.ones(1))] * len(answers) for _ in spreads]
    seen_marks: set[int] = set()
    scales = 1 / (np.array(spreads) * len(mixtures) ** 0.5)
    for mixture, by_mark in zip(mixtures, mark_scores, strict=True):
        scores = np.array(by_mark, dtype=np.float64)
        marks = np.flatnonzero(scores.any(axis=1))
        if len(marks):
            leaks = _leaks(mixture.draws(), scores[marks], scales[marks], answers)
            for mark, by_law in zip(marks.tolist(), leaks, strict=True):
                laws[mark] = [a.plus(*b) for a, b in zip(laws[mark], by_law, strict=True)]
            seen_marks |= set(marks.tolist())
    return [tuple(mark_laws) if mark in seen_marks else () for mark, mark_laws in enumerate(laws)]


def _leaks(
    draws: Array, mark_scores: Array, scales: Array, answers: Sequence[TestResponse]
) -> Iterator[list[Leak]]:
    """Yield the law of one round's leak under each of the answers, by mark."""
    most = mark_scores.max(axis=1)
    amounts = np.ascontiguousarray((draws @ mark_scores.T).T)
    end = float(FARTHEST * STEPS)
    steps = np.rint(np.clip(amounts * scales[:, None] * STEPS, -end, end))
    answered = np.rint(np.minimum(most * scales * STEPS, end))
    rows = zip(amounts, steps, most.tolist(), answered.tolist(), strict=True)
    for row in rows:
        yield [law.histogram(*row) for law in answers]


@lru_cache(maxsize=512)
def _nearest(mixture: Mixture) -> Array:
    """Return the designs of nearest strength, the middle ones where many are as strong.

    With equal weights there are few different strengths.
    """
    shares, order, strength = mixture.designs()
    margin = 1e-9 * max(1.0, mixture.strength)
    bounds = np.searchsorted(strength, (mixture.strength - margin, mixture.strength + margin))
    middle = int(bounds.sum()) // 2
    start = max(0, min(middle - NEAREST // 2, len(shares) - NEAREST))
    return shares[order[start : start + NEAREST]]


@lru_cache(maxsize=8)
def _designs(mask_size: int, pairs: int, limit: float, weights: tuple[float, ...]) -> Designs:
    """Return designs' shares of each other's update, their order by strength, sorted strengths.

    Designs above the limit are left out, unless most are: it may have limited something else. It
    is unknown whether it limited coefficients, as for stored sums, or shares in estimates: either
    will do.
    """
    coefficients = _sample(len(weights), mask_size, pairs)
    shares = coefficients * weights
    most = (limit or np.inf) + 1e-9
    within = (np.abs(shares).max(axis=1) <= most) | (np.abs(coefficients).max(axis=1) <= most)
    if within.sum() >= NEAREST:
        shares = shares[within]
    return _ordered(shares)


@lru_cache(maxsize=256)
def _shared_designs(rule: SharedSetsRule, weights: tuple[float, ...]) -> Designs:
    """Return the same for sets that a round shares."""
    draws = min(DRAWS, NUMBERS // len(weights))
    return _ordered(shared_law.coefficients(rule, draws) * weights)


def _ordered(shares: Array) -> Designs:
    # Rounded: the last digits of equal strengths depend on which client has which coefficient.
    strength = np.round(np.square(shares).sum(axis=1), 9)
    order = np.argsort(strength, kind="stable")
    return shares, order, strength[order]


@lru_cache(maxsize=4)
def _sample(pool_size: int, mask_size: int, pairs: int) -> Array:
    """Return the coefficients of designs over `pool_size` other clients, (draws, pool_size)."""
    draws = min(DRAWS, NUMBERS // (2 * pairs * pool_size))
    return subset_design.sample_coefficients(pool_size + 1, mask_size, pairs, draws=draws)


@lru_cache(maxsize=64)
def _normal(count: int) -> Array:
    return np.random.default_rng(0).standard_normal((NEAREST, count))
