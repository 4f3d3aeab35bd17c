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
    return _ordered(shared_sets_distribution.coefficients(rule, draws) * weights)


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
