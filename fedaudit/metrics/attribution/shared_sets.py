"""Sets of half the clients that the estimates of a whole round share, in place of pairs for each.

N participants of a round; the known sums are of Q + 1 sets: Q of half the clients and everybody, or
Q + 1 of half. Every client's estimate is a combination of the same sums, so a round has Q + 1 of
them, not 2 K N. Fewer equations than clients can leave all of them undetermined, and no others are
drawn. docs/estimator.md has the derivations.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from fedaudit.api.errors import UsageError
from fedaudit.metrics.attribution.combinations import Combination
from fedaudit.metrics.attribution.shared_rule import SharedSetsRule
from fedaudit.metrics.attribution.sum_leakage import sum_leakage

STARTS = 50
"""Systems that a search for an admissible one starts from before it gives up."""

STEPS = 400
"""Exchanges of two clients that are tried on each."""

INITIAL_TEMPERATURE = 5.0
"""The first temperature of the annealing, over N^2: worse exchanges are sometimes kept. Every
second search keeps none that is worse: some systems are found by one way only."""

TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True)
class SharedSets:
    """The sets of one round, each client's estimate as a combination of their sums."""

    participants: tuple[str, ...]
    """In order; the columns of `rows`."""
    sets: tuple[tuple[str, ...], ...]
    """Everybody last, where the sum over everybody is one of them."""
    tries: int = field(compare=False)
    """Systems that were looked at, this one included."""

    @property
    def rows(self) -> np.ndarray:
        """Return the 0/1 membership matrix, int64 [sets, participants]."""
        matrix = [[client in members for client in self.participants] for members in self.sets]
        return np.array(matrix, dtype=np.int64)

    def combinations(self) -> list[Combination]:
        """Return every participant's estimate, in order."""
        table = sum_factors(self.rows)
        return [
            Combination(client, dict(zip(self.sets, factors, strict=True)))
            for client, factors in zip(self.participants, table.tolist(), strict=True)
        ]


@dataclass(frozen=True, slots=True)
class SetSearch:
    """The result of one search."""

    rows: np.ndarray
    tries: int
    """Systems that were looked at."""
    largest: float
    """The largest share of another client's update in an estimate."""
    accepted: bool
    """Whether it may be asked for: by `is_accepted`, and no group below the threshold follows."""
    accepted_without_limit: bool
    """Whether it would be accepted with a limit of 1."""


def estimate_shares(rows: np.ndarray) -> np.ndarray:
    """Return how much of each client's update each estimate holds, float64 [clients, clients].

    Row i is the shortest combination of the rows of `rows` (0 and 1, [sets, clients]) that has
    1 at i and sums to 1: the rest, c, sums to 0. NaN where no combination of the sets has both.
    """
    projection = np.linalg.pinv(rows.astype(np.float64)) @ rows
    diagonal, every = np.diag(projection), projection.sum(axis=1)
    total = every.sum()
    spread = diagonal * total - every**2  # 0 where the sets do not tell i from the mean of all
    spread = np.where(spread > TOLERANCE, spread, np.nan)
    unit, mean = (total - every) / spread, (diagonal - every) / spread
    shares: np.ndarray = unit[:, None] * projection + mean[:, None] * every
    return shares


def sum_factors(rows: np.ndarray) -> np.ndarray:
    """Return the factor of each sum in each estimate, float64 [clients, sets]."""
    factors: np.ndarray = estimate_shares(rows) @ np.linalg.pinv(rows.astype(np.float64))
    return factors


def masks(rows: np.ndarray) -> np.ndarray:
    """Return c, float64 [clients, clients]: the shares without each target's own update."""
    coefficients: np.ndarray = estimate_shares(rows) - np.eye(rows.shape[1])
    return coefficients


def masking_strengths(rows: np.ndarray) -> np.ndarray:
    """Return rho of each client's estimate, float64 [clients]: the sum of its c_j^2."""
    strengths: np.ndarray = np.square(masks(rows)).sum(axis=1)
    return strengths


def leakage_bits(rows: np.ndarray, dimension: int) -> np.ndarray:
    """Return (d/2) log2(1 / (1 - h_i)), float64 [clients], in bits: what all known sums tell.

    h_i is the client's leverage, the diagonal of the projection onto the rows. Exact where updates
    are independent and normal, all with one mean and covariance that are known; `dimension` is that
    of their subspace. It covers the series of sums and all estimates of it, where
    `sum_leakage.leakage_bits` is about one estimate. Rows may be of weights too, as the round's own
    sum is. Infinite for a client that is determined. Raises ValueError for a negative dimension.
    """
    if dimension < 0:
        raise ValueError("A dimension is not negative.")
    leverage = np.diag(np.linalg.pinv(rows.astype(np.float64)) @ rows)
    residual = np.where(1 - leverage > TOLERANCE, 1 - leverage, 0.0)
    with np.errstate(divide="ignore"):
        bits: np.ndarray = (
            -np.log2(residual) * (dimension / 2) if dimension else np.zeros(len(residual))
        )
    return bits


def typical_strength(participants: int, queries: int) -> float:
    """Return (N - 1) (N - 1 - Q) / (N Q): rho of sets that weigh on every client alike.

    With the sum over everybody, no system of Q independent sets has a lower mean over its clients.
    """
    return (participants - 1) * (participants - 1 - queries) / (participants * queries)


def floor(participants: int, queries: int) -> float:
    """Return half the typical strength, which no estimate's masks may be weaker than."""
    return typical_strength(participants, queries) / 2


def is_accepted(rows: np.ndarray, queries: int, limit: float = 1.0, ratio: float = 1.0) -> bool:
    """Return whether all estimates of a round are masked: rho at the floor, no |c_j| above limit.

    Nor may a set follow from the others, or the sum over everybody where it is not one of them.
    The condition is on the whole system and the same for all names of the clients, so
    accepted systems are exchangeable as all of them are. Where sums are of w_j times the update,
    `ratio` is the largest weight over the smallest: whoever has which, what an estimate holds,
    c_j w_j / w_i, is then within the limit, and its strength at the floor.
    """
    everybody = np.ones_like(rows[:1])
    rank = len(rows) + (not rows[-1].all())
    independent = np.linalg.matrix_rank(np.vstack([rows, everybody])) == rank
    return bool(independent and _constraint_violation(rows, queries, limit, ratio) <= TOLERANCE**2)


def _constraint_violation(rows: np.ndarray, queries: int, limit: float, ratio: float) -> float:
    """Return by how much limit and floor are missed, 0 for an accepted system."""
    c = masks(rows)
    if np.isnan(c).any():
        return float("inf")
    least = floor(rows.shape[1], queries) * ratio**2
    over = np.maximum(0, np.abs(c) - limit / ratio * (1 + TOLERANCE))
    under = np.maximum(0, least * (1 - TOLERANCE) - np.square(c).sum(axis=1))
    return float(np.square(over).sum() + np.square(under).sum())


def uniform_sets(
    participants: int, queries: int, rng: np.random.Generator, *, total_known: bool = True
) -> np.ndarray:
    """Return uniform sets of half the clients, int64 [R, N]; everybody last if `total_known`."""
    lowest = rng.random((queries + (not total_known), participants)).argsort(axis=1)
    rows = (lowest < participants // 2).astype(np.int64)
    return np.vstack([rows, np.ones((1, participants), dtype=np.int64)]) if total_known else rows


def draw(
    participants: Sequence[str],
    *,
    queries: int,
    threshold: int,
    seed: int,
    number: int,
    limit: float = 1.0,
    total_known: bool = True,
    ratio: float = 1.0,
) -> SharedSets:
    """Return the sets of the round `number`, for all of its targets, before anything is asked.

    Sets are drawn uniformly, and pairs of clients exchanged between a set and the rest of them
    until the system is accepted and no group below the threshold follows. Then the clients are
    permuted at random, so that their distribution is exchangeable however the search went. It
    depends on the seed, the round and the set of participants. Raises UsageError where no sets can
    be, see `check`, and where none are found.
    """
    rule = SharedSetsRule(
        participants=len(participants),
        queries=queries,
        threshold=threshold,
        limit=limit,
        whole=total_known,
        ratio=ratio,
    )
    return draw_by(rule, participants, seed=seed, number=number)


def draw_by(
    rule: SharedSetsRule, participants: Sequence[str], *, seed: int, number: int
) -> SharedSets:
    """Return the same for a rule of as many participants."""
    names = sorted(participants)
    if len(set(names)) < len(names):
        raise UsageError("A participant of the round is named more than once.")
    rule.check()
    key = json.dumps(["shared", seed, number]).encode()
    rng = np.random.default_rng(int.from_bytes(hashlib.sha256(key).digest(), "big"))
    tries, best = 0, np.inf
    for search in searches(rule, rng, STARTS):
        tries, best = tries + search.tries, min(best, search.largest)
        if search.accepted:
            rows = search.rows[:, rng.permutation(len(names))]
            return SharedSets(tuple(names), _member_names(rows, names), tries)
    raise UsageError(_refusal(tries, rule, best))


def is_feasible(rule: SharedSetsRule) -> bool:
    """Return whether N - 1 coefficients within the limit can have the strength of the floor."""
    most = (rule.participants - 1) * (rule.limit / rule.ratio) ** 2
    return bool(most >= floor(rule.participants, rule.queries) * rule.ratio**2 * (1 - TOLERANCE))


def searches(rule: SharedSetsRule, rng: np.random.Generator, starts: int) -> Iterator[SetSearch]:
    """Yield the results of so many searches for admissible sets, clients not yet permuted."""
    starts = starts if is_feasible(rule) else min(starts, 1)
    names = [str(i) for i in range(rule.participants)]
    for number in range(starts):
        start = uniform_sets(rule.participants, rule.queries, rng, total_known=rule.whole)
        initial_temperature = number % 2 * INITIAL_TEMPERATURE / rule.participants**2
        rows, tries = _search_rows(start, rule, rng, initial_temperature)
        accepted_without_limit = (
            is_accepted(rows, rule.queries, ratio=rule.ratio)
            and _smallest(_member_names(rows, names), rule.threshold) >= rule.threshold
        )
        accepted = accepted_without_limit and is_accepted(
            rows, rule.queries, rule.limit, rule.ratio
        )
        yield SetSearch(
            rows, tries, float(np.abs(masks(rows)).max()), accepted, accepted_without_limit
        )


def _refusal(tries: int, rule: SharedSetsRule, best: float) -> str:
    message = (
        f"None of {tries:,} systems of {rule.queries} shared sets keeps every other client's share "
        f"within {rule.limit:g}, the masks' strength at "
        f"{floor(rule.participants, rule.queries):.2f} and every group "
        f"that follows at the threshold; the largest share was {best * rule.ratio:.2f} at least."
    )
    if rule.ratio == 1:
        return message
    return (
        f"{message} In sums weighted by size clients' weights differ up to {rule.ratio:.3g} times. "
        "Ask for --weights equal."
    )


def _search_rows(
    rows: np.ndarray, rule: SharedSetsRule, rng: np.random.Generator, initial_temperature: float
) -> tuple[np.ndarray, int]:
    """Return rows that miss limit and floor by less, and how many systems were looked at."""
    rows, halves = rows.copy(), len(rows) - bool(rows[-1].all())
    settings = rule.queries, rule.limit, rule.ratio
    violation = _constraint_violation(rows, *settings)
    for step in range(STEPS):
        if not violation:
            return rows, step + 1
        row = rows[rng.integers(halves)]
        pair = [rng.choice(np.flatnonzero(row == value)) for value in (0, 1)]
        row[pair] = 1, 0
        new_violation = _constraint_violation(rows, *settings)
        temperature = initial_temperature * (1 - step / STEPS)
        if new_violation <= violation or (
            temperature and rng.random() < np.exp((violation - new_violation) / temperature)
        ):
            violation = new_violation
        else:
            row[pair] = 0, 1
    return rows, STEPS + 1


def _member_names(rows: np.ndarray, names: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(names[int(i)] for i in np.flatnonzero(row)) for row in rows)


def _smallest(sets: Sequence[tuple[str, ...]], threshold: int) -> int:
    """Return the size of the smallest group whose sum follows from those of the sets."""
    return len(sum_leakage(sets, threshold).group.members)
