"""Designs of the sums to request for one client, and their properties (FedAttr, section 4.1).

A round has N participants, n1 = N - 1 of them other than the target. A design has K sets with the
target and K without, with m others (`mask_size`) in every set. docs/estimator.md has the
derivations.
"""

import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fedaudit.api.errors import UsageError
from fedaudit.metrics.attribution import weighting

TRIES = 10_000
"""The maximum number of designs that are drawn for one client."""

MAX_PAIRS = 10_000
"""The maximum number of pairs of sums per estimate."""

BLOCK = 1 << 21
"""The number of random numbers in memory at a time in a simulation of designs."""


@dataclass(frozen=True, slots=True)
class Design:
    """The sets of one client's estimate, each with its members in sorted order."""

    target: str
    include: tuple[tuple[str, ...], ...]
    """K sets of the target and m others."""
    exclude: tuple[tuple[str, ...], ...]
    """K sets of m others."""


@dataclass(frozen=True, slots=True)
class DrawnDesign:
    """An accepted design, and the number of designs drawn, including itself."""

    design: Design
    tries: int


def check(participants: int, mask_size: int, queries: int, threshold: int) -> None:
    """Raise UsageError if N, m, K and the threshold of secure aggregation allow no design."""
    if participants < 3:
        raise UsageError(
            f"{participants} clients in a round are too few to hide one: it takes at least 3."
        )
    if queries < 1:
        raise UsageError(f"{queries} pairs of sums estimate nothing: 1 at least.")
    if queries > MAX_PAIRS:
        raise UsageError(f"{queries} pairs of sums are too many: {MAX_PAIRS:,} at most.")
    if mask_size < 1:
        raise UsageError(f"{mask_size} others in a set would ask for the target's own update.")
    if mask_size >= participants:
        raise UsageError(f"{mask_size} others in a set are too many: {participants - 1} take part.")
    if mask_size == participants - 1:
        raise UsageError(
            f"{mask_size} others in a set are all that take part: the difference would be the "
            "target's own update."
        )
    if mask_size < threshold:
        raise UsageError(
            f"{mask_size} others in a set are below the threshold of secure aggregation, "
            f"{threshold}."
        )


def draw(
    participants: Sequence[str],
    target: str,
    *,
    mask_size: int,
    queries: int,
    threshold: int,
    seed: int,
    number: int,
    limit: float = 1.0,
    weights: Mapping[str, float] | None = None,
) -> DrawnDesign:
    """Return a design for one target of the round `number`, drawn until its masks are strong.

    A draw is accepted if rho >= E[rho] / 2 (FedAttr, equation 5) and no |c_j| is above `limit`,
    before any sum is requested. With `weights`, for sums of w_j times the update, both conditions
    apply to the shares in the estimate, c_j w_j / w_i. The design depends on the seed, the round,
    the target, the set of participants and their weights' ratios, not on their order or on other
    targets. Raises UsageError if no design is admissible (`check`), for a weight that is missing or
    not a positive finite number, and if none of `TRIES` draws is accepted.
    """
    check(len(participants), mask_size, queries, threshold)
    pool = sorted(set(participants) - {target})
    if len(set(participants)) < len(participants):
        raise UsageError("A participant of the round is named more than once.")
    if not 0 < limit <= 1:
        raise UsageError(f"A limit of {limit:g} is not a share of an update: above 0, 1 at most.")
    if target not in participants:
        raise UsageError(f"{target} took no part in the round: there is nothing to estimate.")
    factors = None if weights is None else weighting.ratios(weights, target, pool)
    rng = _generator(seed, number, target)
    draws = (_random_masks(rng, (2 * queries, len(pool)), mask_size) for _ in range(TRIES))
    accepted = (
        (picked, tries)
        for tries, picked in enumerate(draws, start=1)
        if is_accepted(_difference(picked), mask_size, queries, limit, factors)
    )
    picked, tries = next(accepted, (None, TRIES))
    if picked is None:
        least = floor(len(participants), mask_size, queries)
        raise UsageError(weighting.refusal_message(TRIES, queries, limit, least, factors))
    sets = [[pool[i] for i in np.flatnonzero(row)] for row in picked]
    include = tuple(tuple(sorted([*members, target])) for members in sets[:queries])
    exclude = tuple(tuple(members) for members in sets[queries:])
    return DrawnDesign(Design(target, include, exclude), tries)


def _generator(seed: int, number: int, target: str) -> np.random.Generator:
    """Return a random generator of its own for each seed, round and target."""
    key = json.dumps(["design", seed, number, target]).encode()
    return np.random.default_rng(int.from_bytes(hashlib.sha256(key).digest(), "big"))


def _random_masks(rng: np.random.Generator, shape: tuple[int, ...], mask_size: int) -> np.ndarray:
    """Return uniform random 0/1 arrays with exactly `mask_size` ones along the last axis."""
    lowest = rng.random(shape).argpartition(mask_size - 1, axis=-1)[..., :mask_size]
    picked = np.zeros(shape, dtype=np.int64)
    np.put_along_axis(picked, lowest, 1, axis=-1)
    return picked


def _difference(picked: np.ndarray) -> np.ndarray:
    """Return K c: the sum over the first half of the sets (axis -2) minus that over the second."""
    middle = picked.shape[-2] // 2
    signed: np.ndarray = picked[..., :middle, :].sum(-2) - picked[..., middle:, :].sum(-2)
    return signed


def is_accepted(
    difference: np.ndarray,
    mask_size: int,
    queries: int,
    limit: float = 1.0,
    factors: np.ndarray | None = None,
) -> np.ndarray:
    """Return whether rho >= E[rho] / 2 and no |c_j| is above `limit`, for K c on the last axis.

    n_eff >= E[rho] / 2, the paper's second condition, follows from |c_j| <= 1. A `limit` below 1 is
    an addition of fedaudit. Under both conditions, c and -c are equally likely and the distribution
    is exchangeable. With `factors`, both apply to c_j times its factor: the floor is that of equal
    weights, and c and -c are still equally likely, but the distribution is not exchangeable.
    """
    if factors is not None and (factors != 1).any():
        least = floor(difference.shape[-1] + 1, mask_size, queries)
        return weighting.is_accepted(difference / queries * factors, least, limit)
    pool_size = difference.shape[-1]
    enough = (difference**2).sum(-1) * pool_size >= queries * mask_size * (pool_size - mask_size)
    within_limit = np.abs(difference).max(-1) <= math.floor(limit * queries + 1e-9)
    accepted: np.ndarray = enough & within_limit
    return accepted


def sum_coefficients(design: Design) -> dict[tuple[str, ...], float]:
    """Return the coefficient of each set's sum in the estimate, sorted by set; none is zero.

    It is +1/K for each draw of a set with the target, -1/K for each draw of one without.
    """
    times = Counter(design.include)
    times.subtract(Counter(design.exclude))
    return {members: times[members] / len(design.include) for members in sorted(times)}


def coefficients(design: Design, clients: Sequence[str]) -> np.ndarray:
    """Return c, float64 [clients]: the share of each client's update in the estimate."""
    times = Counter(member for members in design.include for member in members)
    times.subtract(member for members in design.exclude for member in members)
    return np.array([times[client] for client in clients], dtype=np.float64) / len(design.include)


def weighted_coefficients(c: np.ndarray, weights: np.ndarray, target_weight: float) -> np.ndarray:
    """Return c_j w_j / w_i, float64: the shares in the estimate for sums of w_j times the update.

    The estimate of the target's update is then the combination divided by `target_weight`.
    Raises ValueError for a weight that is not positive.
    """
    if target_weight <= 0 or (np.asarray(weights) <= 0).any():
        raise ValueError("A client's weight in a sum is positive.")
    scaled: np.ndarray = np.asarray(c) * np.asarray(weights) / target_weight
    return scaled


def masking_strength(c: np.ndarray) -> float:
    """Return rho, the sum of the squared coefficients: the masks' variance, an update's being 1."""
    return float(np.square(c).sum())


def effective_size(c: np.ndarray) -> float:
    """Return n_eff = rho^2 / sum of c_j^4, the effective number of masking clients; 0 without."""
    rho = masking_strength(c)
    return rho**2 / float((np.asarray(c) ** 4).sum()) if rho else 0.0


def expected_strength(participants: int, mask_size: int, queries: int) -> float:
    """Return E[rho] = 2 m (n1 - m) / (K n1), before any draw is rejected (equation 21)."""
    pool_size = participants - 1
    return 2 * mask_size * (pool_size - mask_size) / (queries * pool_size)


def floor(participants: int, mask_size: int, queries: int) -> float:
    """Return E[rho] / 2 for equal weights, the lowest admissible rho of an estimate."""
    return expected_strength(participants, mask_size, queries) / 2


def covariance_scale(
    participants: int, mask_size: int, queries: int, strength: float | None = None
) -> float:
    """Return s, such that the estimator's covariance is s times that of the others (divisor n1).

    `strength` is the mean rho of the distribution of designs. By default it is E[rho], so that s is
    2/K times the variance factor (theorem 2); with rejection, use `accepted_strength`.
    """
    pool_size = participants - 1
    mean = expected_strength(participants, mask_size, queries) if strength is None else strength
    return mean * pool_size / (pool_size - 1)


def sample_coefficients(
    participants: int, mask_size: int, queries: int, *, draws: int, seed: int = 0
) -> np.ndarray:
    """Return c of `draws` designs, none of them rejected, float64 [draws, n1]."""
    return np.concatenate(list(_blocks(participants, mask_size, queries, draws, seed))) / queries


def acceptance_rate(
    participants: int,
    mask_size: int,
    queries: int,
    *,
    limit: float = 1.0,
    draws: int = 100_000,
    seed: int = 0,
) -> float:
    """Return the share of designs that is accepted, by seeded simulation.

    Its standard error is sqrt(rate (1 - rate) / draws).
    """
    accepted = [
        is_accepted(block, mask_size, queries, limit)
        for block in _blocks(participants, mask_size, queries, draws, seed)
    ]
    return float(np.concatenate(accepted).mean())


def accepted_strength(
    participants: int,
    mask_size: int,
    queries: int,
    *,
    limit: float = 1.0,
    draws: int = 100_000,
    seed: int = 0,
) -> float:
    """Return E[rho | accepted] by seeded simulation; divided by E[rho], 1.094 at (10, 5, 5)."""
    squares = [
        np.square(block[is_accepted(block, mask_size, queries, limit)]).sum(-1)
        for block in _blocks(participants, mask_size, queries, draws, seed)
    ]
    return float(np.concatenate(squares).mean()) / queries**2


def _blocks(
    participants: int, mask_size: int, queries: int, draws: int, seed: int
) -> Iterator[np.ndarray]:
    """Yield K c of designs in blocks, int64 [block, n1]; the block size changes no result."""
    check(participants, mask_size, queries, threshold=1)
    if draws < 1:
        raise ValueError(f"{draws} draws simulate nothing.")
    rng = np.random.default_rng(seed)
    shape = (2 * queries, participants - 1)
    size = max(1, BLOCK // math.prod(shape))
    for start in range(0, draws, size):
        yield _difference(_random_masks(rng, (min(size, draws - start), *shape), mask_size))
