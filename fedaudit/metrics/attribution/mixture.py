"""The distribution of the shares of other clients' updates in an estimate, as draws.

An estimate holds c_j of every other client's update, with coefficients c that sum to 0. Whoever
decides does not know them, but knows their distribution, which follows from how sets are drawn.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from fedaudit.metrics.attribution import shared_sets_distribution, subset_design
from fedaudit.metrics.attribution.shared_rule import SharedSetsRule

Array = npt.NDArray[np.float64]

DRAWS = 40_000
"""The maximum number of designs from which the distribution of coefficients is taken."""
NUMBERS = 40_000_000
"""The maximum number of random numbers for designs; of large designs, fewer are drawn."""
NEAREST = 1_500
"""The number of these designs, those with the masking strength nearest to an estimate's, to use."""
STRENGTH_ROUNDING = 0.005 + 1e-9
"""The largest rounding error of a published strength, which has two decimals."""


@dataclass(frozen=True, slots=True)
class CoefficientSample:
    """Coefficients of designs, one design per column, so that reads are contiguous."""

    coefficients: Array
    """The coefficient of every other client, (others, designs)."""
    squares: Array
    largest: Array
    """The largest square in each design."""

    @classmethod
    def from_designs(cls, designs: Array) -> "CoefficientSample":
        """Return the sample of the coefficients (designs, others)."""
        coefficients = np.ascontiguousarray(designs.T)
        squares = np.square(coefficients)
        return cls(coefficients, squares, squares.max(axis=0, initial=0.0))

    def designs_within_limit(self, limit: float, weights: Array) -> npt.NDArray[np.intp]:
        """Return the indices of the designs that keep the limit, with weights or without.

        It is unknown whether the limit applied to coefficients, as for stored sums, or to shares in
        estimates, so either counts. If fewer than NEAREST designs keep it, all are returned, since
        it may have applied to something else.
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
    """The designs that an estimate may have, with the weights of updates."""

    sample: CoefficientSample
    weights: Array
    indices: npt.NDArray[np.intp]
    """The indices of the designs in the sample."""
    strengths: Array
    """The masking strength of each of these designs."""

    @classmethod
    def from_sample(
        cls, sample: CoefficientSample, weights: Array, indices: npt.NDArray[np.intp]
    ) -> "WeightedDesigns":
        """Return these designs of a sample, with their strengths.

        Strengths are rounded, since the last digits of equal ones depend on the clients' order.
        """
        strengths = np.round(np.square(weights) @ sample.squares, 6)[indices]
        return cls(sample, weights, indices, strengths)

    def shares_of_similar_strength(self, strength: float) -> Array:
        """Return the shares in the NEAREST designs of about this strength, (designs, others).

        If many designs have the same strength, as with equal weights, the middle ones are returned,
        in the order of all strengths (computed without sorting all). If fewer than NEAREST have
        exactly this strength, but more have it after rounding as published, designs are spread over
        all of the latter: the nearest ones would have a single strength.
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
    """The known facts about one estimate's coefficients."""

    weights: tuple[float, ...]
    """The weight of each other participant's update in sums, divided by the target's own."""
    strength: float
    """rho, the sum of the squared coefficients, with those weights."""
    others: int = 0
    """m of the design; 0 if it is unknown."""
    pairs: int = 0
    """K of the design; 0 if it is unknown."""
    limit: float = 0.0
    """The largest share of another's update in the estimate, with or without its weight; 0 for no
    limit."""
    rule: SharedSetsRule | None = None
    """The rule of the sets that the round's estimates share; None for pairs of sets."""

    def draws(self) -> Array:
        """Return draws of the share of each other client's update in the estimate, (draws, others).

        They come from designs with about the estimate's masking strength. If the size of designs is
        unknown, or so large that it makes no difference, coefficients are assumed to be normal.
        """
        return _draws(self)

    def designs(self) -> "WeightedDesigns | None":
        """Return the designs that the estimate may have; None if coefficients count as normal."""
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
    """Return the designs of shared sets; None if no sets satisfy the rule."""
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
