"""The distribution of shares in estimates by shared sets, from a simulation of drawing the sets."""

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
"""The maximum number of simulated systems of sets; each has an estimate of every client."""
STARTS = 100
"""The maximum number of searches for them."""
LARGEST = 128
"""The maximum number of clients in a simulated round; with more, coefficients are small."""
DIGITS = 9
"""The decimals to which coefficients are rounded, so that machines agree on them."""

PROBES = 12
"""The number of searches per limit."""
STEP = 0.1
"""Limits above the requested one are multiples of this."""


@lru_cache(maxsize=64)
def systems(rule: SharedSetsRule) -> tuple[Array, ...]:
    """Return c of whole rounds drawn by a rule, each [clients, clients], by seeded simulation.

    Row i has the shares of each other client's update in the estimate of client i, and 0 for its
    own. Clients have not been permuted, which callers must do. Empty for a rule that allows no
    sets, or with more than LARGEST clients.
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
    """Return about `draws` draws of an estimate's c, [draws, clients - 1]; none without systems.

    Each estimate of a system is equally likely, and so is each order of its coefficients.
    """
    matrices = systems(rule)
    if not matrices:
        return np.zeros((0, rule.participants - 1))
    off_diagonal = ~np.eye(rule.participants, dtype=bool)
    rows = np.concatenate([c[off_diagonal].reshape(rule.participants, -1) for c in matrices])
    rng = np.random.default_rng(1)
    samples = rng.permuted(np.tile(rows, (math.ceil(draws / len(rows)), 1)), axis=1)
    return rng.permutation(samples)  # so that all of equal strength are equally likely


def draw_matrix(rule: SharedSetsRule, rng: np.random.Generator) -> Array | None:
    """Return c of one round, [clients, clients], its clients permuted; None without systems."""
    matrices = systems(rule)
    if not matrices:
        return None
    order = rng.permutation(rule.participants)
    return matrices[int(rng.integers(len(matrices)))][np.ix_(order, order)]


@lru_cache(maxsize=64)
def lowest_limit(rule: SharedSetsRule) -> float | None:
    """Return the lowest limit, at least the rule's own, that sets can keep; None if above 1.

    Above the rule's own, it is a multiple of STEP. It is found by seeded search, independent of the
    participants' names.
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
