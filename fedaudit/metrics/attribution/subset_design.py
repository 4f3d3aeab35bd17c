"""Designs of the sums to request for one client, and their properties (FedAttr, section 4.1).

A round has N participants, n1 = N - 1 of them other than the target. A design has K sets with the
target and K without, with m others (`mask_size`) in every set. docs/estimator.md has the
derivations.
"""

import hashlib
import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fedaudit.api.errors import UsageError

TRIES = 10_000
"""The maximum number of designs that are drawn for one client."""

MAX_PAIRS = 10_000
"""The maximum number of pairs of sums per estimate."""

BLOCK = 1 << 21
"""The number of random numbers in memory at a time in a simulation of designs."""


Members = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Combination:
    """One client's estimated update: the sum over sets of coefficient times sum."""

    target: str
    coefficients: Mapping[Members, float]
    """By set; none is zero."""

    def client_shares(self) -> dict[str, float]:
        """Return the share of each client's update in the estimate, including the target's own 1.

        Clients that are in none of the sets are left out.
        """
        coefficients: dict[str, list[float]] = defaultdict(list)
        for members, coefficient in self.coefficients.items():
            for client in members:
                coefficients[client].append(coefficient)
        return {client: math.fsum(coefficients[client]) for client in sorted(coefficients)}


@dataclass(frozen=True, slots=True)
class Design:
    """The sets of one client's estimate, each with its members in sorted order."""

    target: str
    include: tuple[Members, ...]
    """K sets of the target and m others."""
    exclude: tuple[Members, ...]
    """K sets of m others."""

    @property
    def combination(self) -> Combination:
        """The estimate: +1/K for each draw of a set with the target, -1/K of one without."""
        times = Counter(self.include)
        times.subtract(Counter(self.exclude))
        factors = {members: times[members] / len(self.include) for members in sorted(times)}
        return Combination(self.target, factors)


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
) -> Design:
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
    factors = None if weights is None else _weight_ratios(weights, target, pool)
    rng = _generator(seed, number, target)
    draws = (_random_masks(rng, (2 * queries, len(pool)), mask_size) for _ in range(TRIES))
    accepted = (
        picked
        for picked in draws
        if is_accepted(_difference(picked), mask_size, queries, limit, factors)
    )
    if (picked := next(accepted, None)) is None:
        least = floor(len(participants), mask_size, queries)
        raise UsageError(_refusal(TRIES, queries, limit, least, factors))
    sets = [[pool[i] for i in np.flatnonzero(row)] for row in picked]
    include = tuple(tuple(sorted([*members, target])) for members in sets[:queries])
    exclude = tuple(tuple(members) for members in sets[queries:])
    return Design(target, include, exclude)


def _weight_ratios(weights: Mapping[str, float], target: str, clients: Sequence[str]) -> np.ndarray:
    """Return w_j / w_i, float64: the factor of each coefficient in the target's estimate.

    Raises UsageError for a client without a weight, or whose weight is not a positive finite
    number.
    """
    for client in (target, *clients):
        if client not in weights:
            raise UsageError(f"{client} has no weight.")
        if not 0 < weights[client] < math.inf:
            raise UsageError(f"{client} has no positive weight, but {weights[client]:g}.")
    quotients = [weights[client] / weights[target] for client in clients]
    if not all(0 < ratio < math.inf for ratio in quotients):
        raise UsageError(f"The weight of {target} and those of others are too far apart.")
    return np.array(quotients)


def _refusal(tries: int, pairs: int, limit: float, least: float, factors: np.ndarray | None) -> str:
    """Return the error message for when none of `tries` draws was accepted."""
    text = f"None of {tries:,} designs of {pairs} pairs keeps every other client's share within "
    if factors is None or (factors == 1).all():
        return f"{text}{limit:g}; a limit is a multiple of 1/{pairs} and 1 allows any."
    return (
        f"{text}{limit:g} and the masks' strength at {least:.2f}: in sums weighted by size others "
        f"count for {factors.min():.2g} to {factors.max():.2g} times as much as the client itself. "
        "Ask for --weights equal."
    )


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
    pool_size = difference.shape[-1]
    if factors is not None and (factors != 1).any():
        # Ties are accepted up to rounding, so that weights with the same ratios give the same.
        c, least = difference / queries * factors, floor(pool_size + 1, mask_size, queries)
        enough = np.square(c).sum(-1) >= least * (1 - 1e-9)
        within_limit = np.abs(c).max(-1) <= limit * (1 + 1e-9)
    else:
        least = queries * mask_size * (pool_size - mask_size)
        enough = (difference**2).sum(-1) * pool_size >= least
        within_limit = np.abs(difference).max(-1) <= math.floor(limit * queries + 1e-9)
    accepted: np.ndarray = enough & within_limit
    return accepted


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


def covariance_scale(participants: int, strength: float) -> float:
    """Return s, such that the estimator's covariance is s times that of the others (divisor n1).

    `strength` is the mean rho of the distribution of designs. For E[rho], s is 2/K times the
    variance factor (theorem 2); with rejection, use `accepted_strength`.
    """
    return strength * (participants - 1) / (participants - 2)


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
