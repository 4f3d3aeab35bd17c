"""What is known of how much of other clients' updates an estimate holds: draws of such shares.

An estimate holds c_j of every other client's update, with coefficients c that sum to 0 and that the
decider does not know. Their distribution is known: it follows from how sets are drawn.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from fedaudit.metrics.attribution import shared_sets_distribution, subset_design
from fedaudit.metrics.attribution.shared_rule import SharedSetsRule

Array = npt.NDArray[np.float64]

DRAWS = 40_000
"""Designs that the distribution of the coefficients is taken from, at most."""
NUMBERS = 40_000_000
"""Random numbers that are drawn for designs, at most: of large designs, fewer are drawn."""
NEAREST = 1_500
"""Of these, the ones whose masking strength is nearest to an estimate's own."""
STRENGTH_ROUNDING = 0.005 + 1e-9
"""By how much a strength may differ from the one that is told, which has two digits."""


@dataclass(frozen=True, slots=True)
class CoefficientSample:
    """Coefficients of designs, a column each: what is read at once lies side by side."""

    coefficients: Array
    """Of every other client, (others, designs)."""
    squares: Array
    largest: Array
    """The largest square of each design."""

    @classmethod
    def from_designs(cls, designs: Array) -> "CoefficientSample":
        """Return the sample of coefficients that come as (designs, others)."""
        coefficients = np.ascontiguousarray(designs.T)
        squares = np.square(coefficients)
        return cls(coefficients, squares, squares.max(axis=0, initial=0.0))

    def designs_within_limit(self, limit: float, weights: Array) -> npt.NDArray[np.intp]:
        """Return the designs that keep the limit, with weights or without.

        It is unknown whether it limited coefficients, as for stored sums, or shares in estimates:
        either will do. All designs, where most are above it: it may have limited something else.
        """
        everything = np.arange(self.squares.shape[1])
        if not limit:
            return everything
        most, top = (limit + 1e-9) ** 2, self.largest.max()
        shares_within = np.ones(len(everything), dtype=bool)
        for row, square in zip(self.squares, np.square(weights).tolist(), strict=True):
            if square * top > most:
                shares_within &= row * square <= most
        within = np.flatnonzero(shares_within | (self.largest <= most))
        return within if len(within) >= NEAREST else everything


@dataclass(frozen=True, slots=True)
class WeightedDesigns:
    """Designs that an estimate may be, with the weights of updates."""

    sample: CoefficientSample
    weights: Array
    indices: npt.NDArray[np.intp]
    """Of the designs in the sample."""
    strengths: Array
    """Of each of these."""

    @classmethod
    def from_sample(
        cls, sample: CoefficientSample, weights: Array, indices: npt.NDArray[np.intp]
    ) -> "WeightedDesigns":
        """Return these designs of a sample, with their strengths.

        Rounded: the last digits of equal strengths depend on which client has which coefficient.
        """
        strengths = np.round(np.square(weights) @ sample.squares, 6)[indices]
        return cls(sample, weights, indices, strengths)

    def shares_of_similar_strength(self, strength: float) -> Array:
        """Return shares of the NEAREST designs of about this strength, (designs, others).

        The middle ones where many are as strong: with equal weights there are few strengths. The
        same as in the order of all strengths, which need not be sorted for it. Where fewer are just
        as strong, and more than NEAREST are to the digits that strengths are told in, some of all
        of these: the nearest ones would be of one strength alone.
        """
        count = len(self.strengths)
        margin = 1e-6 * max(1.0, strength)
        off_by = np.abs(self.strengths - strength)
        alike = np.flatnonzero(off_by <= STRENGTH_ROUNDING)
        if (off_by < margin).sum() < NEAREST < len(alike):
            evenly = np.linspace(0, len(alike) - 1, NEAREST).astype(np.intp)
            chosen = self.indices[alike[evenly]]
            return np.ascontiguousarray(self.sample.coefficients[:, chosen].T) * self.weights
        middle = int(
            (self.strengths < strength - margin).sum() + (self.strengths < strength + margin).sum()
        )
        start = max(0, min(middle // 2 - NEAREST // 2, count - NEAREST))
        end = min(start + NEAREST, count)
        low, high = np.partition(self.strengths, (start, end - 1))[[start, end - 1]]
        candidates = np.flatnonzero((self.strengths >= low) & (self.strengths <= high))
        candidates = candidates[np.argsort(self.strengths[candidates], kind="stable")]
        first = start - int((self.strengths < low).sum())
        chosen = self.indices[candidates[first : first + end - start]]
        return np.ascontiguousarray(self.sample.coefficients[:, chosen].T) * self.weights


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
        return _draws(self)

    def designs(self) -> "WeightedDesigns | None":
        """Return the designs that the estimate may be; None where coefficients are normal."""
        if self.rule is not None:
            return _shared_designs(self.rule, self.weights)
        too_large = 2 * self.pairs * len(self.weights) * NEAREST > NUMBERS
        if too_large or self.pairs < 1 or not 1 <= self.others < len(self.weights):
            return None
        return _designs(self.others, self.pairs, self.limit, self.weights)


@lru_cache(maxsize=512)
def _draws(mixture: Mixture) -> Array:
    if not mixture.weights:
        return np.zeros((NEAREST, 0))
    if (designs := mixture.designs()) is not None:
        return designs.shares_of_similar_strength(mixture.strength)
    weights = np.array(mixture.weights)
    scale = (mixture.strength / np.square(weights).sum()) ** 0.5
    return np.asarray(_normal(len(weights)) * weights * scale)


@lru_cache(maxsize=8)
def _designs(
    mask_size: int, pairs: int, limit: float, weights: tuple[float, ...]
) -> WeightedDesigns:
    sample, weight = _sample(len(weights), mask_size, pairs), np.array(weights)
    return WeightedDesigns.from_sample(sample, weight, sample.designs_within_limit(limit, weight))


@lru_cache(maxsize=64)
def _shared_designs(rule: SharedSetsRule, weights: tuple[float, ...]) -> WeightedDesigns | None:
    """Return the designs of sets that a round shares; None where no sets follow the rule."""
    sample = _shared_sample(rule, min(DRAWS, NUMBERS // len(weights)))
    count = sample.coefficients.shape[1]
    if not count:
        return None
    return WeightedDesigns.from_sample(sample, np.array(weights), np.arange(count))


@lru_cache(maxsize=4)
def _shared_sample(rule: SharedSetsRule, draws: int) -> CoefficientSample:
    return CoefficientSample.from_designs(shared_sets_distribution.coefficients(rule, draws))


@lru_cache(maxsize=4)
def _sample(pool_size: int, mask_size: int, pairs: int) -> CoefficientSample:
    """Return the coefficients of designs over `pool_size` other clients."""
    draws = min(DRAWS, NUMBERS // (2 * pairs * pool_size))
    return CoefficientSample.from_designs(
        subset_design.sample_coefficients(pool_size + 1, mask_size, pairs, draws=draws)
    )


@lru_cache(maxsize=64)
def _normal(count: int) -> Array:
    return np.random.default_rng(0).standard_normal((NEAREST, count))
