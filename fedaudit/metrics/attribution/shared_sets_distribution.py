"""What estimates by shared sets hold of other clients, by simulating how such sets are drawn."""

import math
from dataclasses import replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from fedaudit.api.errors import UsageError
from fedaudit.metrics.attribution import shared_sets
from fedaudit.metrics.attribution.shared_rule import SharedSetsRule

Array = npt.NDArray[np.float64]

SYSTEMS = 20
"""Systems of sets that are simulated, at most; each has an estimate of every client."""
STARTS = 100
"""Searches for them, at most."""
LARGEST = 128
"""Rounds of more clients are not simulated: their coefficients are many and small."""
DIGITS = 9
"""Decimals of a coefficient that are kept, so that machines agree on them."""

PROBES = 12
"""Searches at each limit that is tried."""
STEP = 0.1
"""Limits above the requested one are multiples of it."""


@lru_cache(maxsize=64)
def systems(rule: SharedSetsRule) -> tuple[Array, ...]:
    """Return c of whole rounds drawn by a rule, each [clients, clients], by seeded simulation.

    Row i is what the estimate of client i holds of each other client's update, 0 of its own. The
    clients are in no particular order: permute them. Empty for a rule that allows no sets, or has
    more than LARGEST clients.
    """
    try:
        rule.check()
    except UsageError:
        return ()
    if rule.participants > LARGEST:
        return ()
    matrices: list[Array] = []
    for search in shared_sets.searches(rule, np.random.default_rng(0), STARTS):
        if search.accepted:
            matrices.append(np.round(shared_sets.masks(search.rows), DIGITS))
        if len(matrices) == SYSTEMS:
            break
    return tuple(matrices)


def coefficients(rule: SharedSetsRule, draws: int) -> Array:
    """Return about so many draws of an estimate's c, [draws, clients - 1]; none without systems.

    Each estimate of a system is equally likely, and so is each order of its coefficients.
    """
    matrices = systems(rule)
    if not matrices:
        return np.zeros((0, rule.participants - 1))
    off_diagonal = ~np.eye(rule.participants, dtype=bool)
    rows = np.concatenate([c[off_diagonal].reshape(rule.participants, -1) for c in matrices])
    rng = np.random.default_rng(1)
    samples = rng.permuted(np.tile(rows, (math.ceil(draws / len(rows)), 1)), axis=1)
    return rng.permutation(samples)  # so that of equally strong ones each is as likely


def draw_matrix(rule: SharedSetsRule, rng: np.random.Generator) -> Array | None:
    """Return c of one round, [clients, clients], its clients permuted; None without systems."""
    matrices = systems(rule)
    if not matrices:
        return None
    order = rng.permutation(rule.participants)
    return matrices[int(rng.integers(len(matrices)))][np.ix_(order, order)]


@lru_cache(maxsize=64)
def lowest_limit(rule: SharedSetsRule) -> float | None:
    """Return the lowest limit, from the rule's own on, that sets can keep; None for none up to 1.

    Above the rule's own it is a multiple of STEP. By seeded search, independent of who takes part.
    """
    steps = range(math.floor(rule.limit / STEP + 1e-6) + 1, round(1 / STEP) + 1)
    reached, rng = math.inf, np.random.default_rng(2)
    for limit in (rule.limit, *(round(step * STEP, 2) for step in steps)):
        if reached <= limit * (1 + shared_sets.TOLERANCE):
            return limit
        for search in shared_sets.searches(replace(rule, limit=limit), rng, PROBES):
            if search.accepted:
                return limit
            reached = min(
                reached, search.largest * rule.ratio if search.accepted_without_limit else math.inf
            )
    return None
