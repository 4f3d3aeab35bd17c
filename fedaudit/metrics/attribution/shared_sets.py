"""Sets of half the clients that all estimates of a round share, instead of pairs for each client.

A round has N participants, and the known sums are over Q + 1 sets: Q of half the clients and one of
everybody, or Q + 1 of half. Every client's estimate combines the same sums, so a round takes Q + 1
of them, not 2 K N. With fewer equations than clients, all updates can stay undetermined, and only
sets for which they do are drawn. docs/estimator.md has the derivations.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from fedaudit.api.errors import UsageError
from fedaudit.metrics.attribution.shared_rule import SharedSetsRule
from fedaudit.metrics.attribution.subset_design import Combination
from fedaudit.metrics.attribution.sum_leakage import sum_leakage

STARTS = 50
"""The number of random systems from which a search starts before it gives up."""

STEPS = 400
"""The number of exchanges of two clients that are tried per search."""

INITIAL_TEMPERATURE = 5.0
"""The initial temperature of simulated annealing, times N^2. Every second search has temperature 0,
so it keeps no worse exchange, since some systems are found in one of the two ways only."""

TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True)
class SharedSets:
    """The sets of one round; each client's estimate is a combination of their sums."""

    participants: tuple[str, ...]
    """The clients in sorted order, which are the columns of `rows`."""
    sets: tuple[tuple[str, ...], ...]
    """The sets; the set of everybody comes last if it is one of them."""

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
    """The number of systems that were examined."""
    largest: float
    """The largest share of another client's update in an estimate."""
    accepted: bool
    """Whether the system is admissible: by `is_accepted`, and if the sum of no group below the
    threshold follows from it."""
    accepted_without_limit: bool
    """Whether it would be admissible with a limit of 1."""


def estimate_shares(rows: np.ndarray) -> np.ndarray:
    """Return the share of each client's update in each estimate, float64 [clients, clients].

    Row i is the shortest linear combination of `rows` (0 and 1, [sets, clients]) that has 1 at i
    and sums to 1, so that the rest, c, sums to 0. It is NaN if there is no such combination.
    """
    projection = _pseudo_inverse(rows) @ rows
    diagonal, every = np.diag(projection), projection.sum(axis=1)
    total = every.sum()
    spread = diagonal * total - every**2  # 0 where the sets do not tell i from the mean of all
    spread = np.where(spread > TOLERANCE, spread, np.nan)
    unit, mean = (total - every) / spread, (diagonal - every) / spread
    shares: np.ndarray = unit[:, None] * projection + mean[:, None] * every
    return shares


def _pseudo_inverse(rows: np.ndarray) -> np.ndarray:
    # By default, rounding decides whether the singular value 0 of dependent rows is inverted.
    return np.linalg.pinv(rows.astype(np.float64), rcond=TOLERANCE)


def sum_factors(rows: np.ndarray) -> np.ndarray:
    """Return the factor of each sum in each estimate, float64 [clients, sets]."""
    factors: np.ndarray = estimate_shares(rows) @ _pseudo_inverse(rows)
    return factors


def masks(rows: np.ndarray) -> np.ndarray:
    """Return c, float64 [clients, clients]: the shares of other clients in each estimate."""
    coefficients: np.ndarray = estimate_shares(rows) - np.eye(rows.shape[1])
    return coefficients


def masking_strengths(rows: np.ndarray) -> np.ndarray:
    """Return rho of each client's estimate, float64 [clients]: the sum of its c_j^2."""
    strengths: np.ndarray = np.square(masks(rows)).sum(axis=1)
    return strengths


def typical_strength(participants: int, queries: int) -> float:
    """Return (N - 1) (N - 1 - Q) / (N Q): rho of sets that treat all clients equally.

    With the sum over everybody, no system of Q independent sets has a lower mean rho.
    """
    return (participants - 1) * (participants - 1 - queries) / (participants * queries)


def floor(participants: int, queries: int) -> float:
    """Return half the typical strength, the lowest admissible rho of an estimate."""
    return typical_strength(participants, queries) / 2


def is_accepted(rows: np.ndarray, queries: int, limit: float = 1.0, ratio: float = 1.0) -> bool:
    """Return whether all estimates are masked: rho at least the floor, no |c_j| above `limit`.

    The sets must be linearly independent, also of the set of everybody if it is not one of them.
    The condition does not depend on the clients' names, so accepted systems are exchangeable, as
    all systems are. In sums of w_j times the update, `ratio` is the largest weight divided by the
    smallest: whichever client has which weight, the shares c_j w_j / w_i are then within the limit,
    and their strength is at least the floor.
    """
    everybody = np.ones_like(rows[:1])
    rank = len(rows) + (not rows[-1].all())
    independent = np.linalg.matrix_rank(np.vstack([rows, everybody])) == rank
    return bool(independent and _constraint_violation(rows, queries, limit, ratio) <= TOLERANCE**2)


def _constraint_violation(rows: np.ndarray, queries: int, limit: float, ratio: float) -> float:
    """Return the squared violations of limit and floor, summed; 0 if both are met."""
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
    """Return random sets of half the clients, int64 [R, N]; everybody last if `total_known`."""
    lowest = rng.random((queries + (not total_known), participants)).argsort(axis=1)
    rows = (lowest < participants // 2).astype(np.int64)
    return np.vstack([rows, np.ones((1, participants), dtype=np.int64)]) if total_known else rows


def draw(
    rule: SharedSetsRule, participants: Sequence[str], *, seed: int, number: int
) -> SharedSets:
    """Return the sets of the round `number`, for all targets, before any sum is requested.

    Sets are drawn uniformly, and clients inside and outside a set are exchanged until the system is
    accepted and the sum of no group below the threshold follows. Then the clients are permuted at
    random, so that the distribution is exchangeable however the search went. The result depends on
    the seed, the round and the set of participants. Raises UsageError if the rule allows no sets
    (`SharedSetsRule.check`), or none are found.
    """
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
            return SharedSets(tuple(names), _member_names(rows, names))
    raise UsageError(_refusal(tries, rule, best))


def is_feasible(rule: SharedSetsRule) -> bool:
    """Return whether N - 1 coefficients within the limit can reach the floor of rho."""
    most = (rule.participants - 1) * (rule.limit / rule.ratio) ** 2
    return bool(most >= floor(rule.participants, rule.queries) * rule.ratio**2 * (1 - TOLERANCE))


def searches(rule: SharedSetsRule, rng: np.random.Generator, starts: int) -> Iterator[SetSearch]:
    """Yield the results of `starts` searches for admissible sets, without permuting clients."""
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
    """Return rows with a smaller violation of limit and floor, and the number of systems tried."""
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
        # Ties are frequent, and rounding, which differs between processors, must not decide them.
        if new_violation <= violation * (1 + TOLERANCE) or (
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
