"""What an innocent client's Z may owe to marked clients: their updates are in its estimates.

An estimate holds c_j of every other client's update, with coefficients c that sum to 0 and that the
decider does not know. Their law is known, and how strongly each other client shows the mark is
seen; so the law of what an innocent client's Z takes from them can be worked out. How a test's
answer grows with the share of a marked update is a property of the model: in proportion, in
proportion but never below nothing, or at once where an estimate holds enough of it. All of `LAWS`
are tried. docs/estimator.md has the derivation.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from fedaudit.metrics import shared_law, stouffer, subsets
from fedaudit.metrics.shared_rule import Rule

Array = npt.NDArray[np.float64]

DRAWS = 40_000
"""Designs that the law of the coefficients is taken from, at most."""
NUMBERS = 40_000_000
"""So many random numbers are drawn for designs: of large ones, fewer designs."""
NEAREST = 1_500
"""Of these, the ones whose masking strength is nearest to an estimate's own."""
STEPS = 8
"""Steps of the grid that the law of Z is worked out on, for each standard deviation by chance."""


def _in_proportion(held: Array, _most: float) -> Array:
    """Return the scores of estimates whose answers grow with what they hold, or shrink with it."""
    return held


def _above(held: Array, _most: float) -> Array:
    """Return the scores where only what counts for the mark shows."""
    return np.maximum(held, 0.0)


def _from(share: float) -> Callable[[Array, float], Array]:
    """Return the scores where an estimate that holds a `share` answers like a marked client."""
    return lambda held, most: np.where(held >= share * most, np.maximum(held, most), 0.0)


LAWS = (_in_proportion, _above, *map(_from, (0.5, 0.75)))
"""What estimates show that together hold so much of what marked clients show (`held`, scores), of
whom one shows `most`."""


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
    """The most that the estimate may hold of another's update; 0 where there is none."""
    rule: Rule | None = None
    """How the sets were drawn that the round's estimates share; None where these are pairs."""

    def draws(self) -> Array:
        """Return draws of how much of each other's update the estimate holds, (draws, others).

        Designs whose masks are about as strong as the estimate's own are taken. Where nobody says
        how large designs are, or they are so large that it makes no difference, coefficients are
        taken for normal.
        """
        found, strength = self._designs()
        if not len(found):
            normal = _normal(len(self.weights)) * self.weights
            return np.asarray(normal * float(self.strength / np.square(self.weights).sum()) ** 0.5)
        # The middle of those that are as strong: the strengths of equal weights are few numbers.
        margin = 1e-9 * max(1.0, self.strength)
        ends = np.searchsorted(strength, (self.strength - margin, self.strength + margin))
        middle = int(ends.sum()) // 2
        start = max(0, min(middle - NEAREST // 2, len(found) - NEAREST))
        return found[start : start + NEAREST]

    def _designs(self) -> tuple[Array, Array]:
        """Return what designs hold of others, and their strength, in its order; none of normal."""
        if self.rule is not None:
            return _shared(self.rule, self.weights)
        many = 2 * self.pairs * len(self.weights) * NEAREST > NUMBERS
        if many or self.pairs < 1 or not 1 <= self.others < len(self.weights):
            return np.zeros((0, len(self.weights))), np.zeros(0)
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

    def plus(self, leaks: Array) -> "Law":
        """Return the law of a sum with one more round, whose leaks are equally likely."""
        steps = np.rint(leaks * STEPS).astype(np.int64)
        first = int(steps.min())
        counts = np.bincount(steps - first) / len(steps)
        return Law(self.first + first, np.convolve(self.probabilities, counts))

    def tail(self, deviations: float, marks: int) -> float:
        """Return how often chance and this are that many standard deviations together, never 0.

        Chance is Student's t with `marks` degrees of freedom, standard normal without any.
        """
        from scipy.special import ndtr, stdtr

        beyond = self.values - deviations
        tails = stdtr(marks, beyond) if marks else ndtr(beyond)
        return min(1.0, max(float(self.probabilities @ tails), stouffer.SMALLEST))


def shown(z: float, spread: float) -> float:
    """Return which share of a client's scores above 0 counts as a mark: sqrt(1 - S^2 / Z^2).

    What a Z shows beyond chance is Z^2 - S^2 on average; it is spread over the client's rounds as
    its scores are. A Z within its standard deviation S shows nothing.
    """
    return float(max(0.0, 1 - (spread / z) ** 2) ** 0.5) if z > 0 else 0.0


def laws(
    mixtures: Sequence[Mixture], shown: Sequence[Sequence[float]], spread: float
) -> tuple[Law, ...]:
    """Return the law of what a client's Z takes from others, under each of `LAWS`; none for none.

    `mixtures` are of the rounds that it took part in, `shown` has for each round how strongly each
    other participant shows the mark (a score, 0 or more), `spread` is the standard deviation of Z
    by chance.
    """
    found = [Law(0, np.ones(1))] * len(LAWS)
    scale = 1 / (spread * len(mixtures) ** 0.5)
    seen = [(m, np.array(own, dtype=np.float64)) for m, own in zip(mixtures, shown, strict=True)]
    seen = [(mixture, own) for mixture, own in seen if own.any()]
    for mixture, own in seen:
        held, most = mixture.draws() @ own, float(own.max())
        found = [one.plus(law(held, most) * scale) for one, law in zip(found, LAWS, strict=True)]
    return tuple(found) if seen else ()


@lru_cache(maxsize=256)
def _designs(
    others: int, pairs: int, limit: float, weights: tuple[float, ...]
) -> tuple[Array, Array]:
    """Return what designs hold of each other's update, and their masks' strength, in its order.

    Those above the limit are left out, unless most are: it may have been on something else.
    """
    draws = min(DRAWS, NUMBERS // (2 * pairs * len(weights)))
    held = subsets.sample(len(weights) + 1, others, pairs, draws=draws) * weights
    within = np.abs(held).max(axis=1) <= (limit or np.inf) + 1e-9
    if within.sum() >= NEAREST:
        held = held[within]
    return _ordered(held)


@lru_cache(maxsize=256)
def _shared(rule: Rule, weights: tuple[float, ...]) -> tuple[Array, Array]:
    """Return the same of sets that a round shares."""
    draws = min(DRAWS, NUMBERS // len(weights))
    return _ordered(shared_law.coefficients(rule, draws) * weights)


def _ordered(held: Array) -> tuple[Array, Array]:
    # Rounded: the last digits of equal strengths depend on which client has which coefficient.
    strength = np.round(np.square(held).sum(axis=1), 9)
    order = np.argsort(strength, kind="stable")
    return held[order], strength[order]


@lru_cache(maxsize=64)
def _normal(others: int) -> Array:
    return np.random.default_rng(0).standard_normal((NEAREST, others))
