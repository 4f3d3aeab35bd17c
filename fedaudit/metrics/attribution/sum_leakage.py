"""Leakage of a series of admissible sums, none of which leaks by itself (FedAttr, section 5).

Everything here is about one round: a client's updates in two rounds are different unknowns, and
nothing assumes that they are similar. docs/estimator.md has the argument.
"""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

PRIME = 2**31 - 1
"""The modulus of ranks: see `Span`."""

DIGITS = 9
"""Decimals of a share of a variance; the rest is rounding."""

EXHAUSTIVE = 16
"""The maximum number of clients of which every group is tried."""


def leakage_bits(strength: float, dimension: int) -> float:
    """Return (d/2) log2(1 + 1/rho), in bits: what one estimate tells of its target's update.

    This is the first term of theorem 4's bound; the second, C d / n_eff, has an unknown constant C.
    `strength` is rho of the design, or E[rho]/2 for any accepted one; d, `dimension`, is that of
    the updates' subspace. It is about a single estimate; for a series see `sum_leakage`.
    Infinite for rho = 0. Raises ValueError for negative numbers.
    """
    if strength < 0 or dimension < 0:
        raise ValueError("A masking strength and a dimension are not negative.")
    if not strength:
        return math.inf if dimension else 0.0
    return dimension / 2 * math.log1p(1 / strength) / math.log(2)


@dataclass(frozen=True, slots=True)
class Group:
    """Clients whose updates' sum follows from the series by linear algebra."""

    members: tuple[str, ...]
    """Empty only if there are no sums."""
    exact: bool
    """Whether all groups were tried, so that there is no smaller one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InnerProducts:
    """The inner products of a round's updates: how long they are, and how alike."""

    names: tuple[str, ...]
    matrix: np.ndarray

    def of(self, names: Sequence[str]) -> np.ndarray:
        """Return the inner products of these clients' updates, in their order."""
        at = [self.names.index(name) for name in names]
        products: np.ndarray = self.matrix[np.ix_(at, at)]
        return products

    def scaled(self, factors: Mapping[str, float]) -> "InnerProducts":
        """Return the inner products of the updates times their factors."""
        by = np.array([factors[name] for name in self.names])
        return InnerProducts(names=self.names, matrix=self.matrix * np.outer(by, by))


@dataclass(frozen=True, slots=True, kw_only=True)
class SumLeakage:
    """What the sums that were requested in one round expose."""

    queries: int
    sets: int
    """The number of distinct sets, including the round's own sum of weighted updates."""
    smallest: int
    """The number of members of the smallest set; 0 without sets."""
    differences: int
    """The number of pairs of distinct, nested sets that differ by fewer clients than the
    threshold."""
    closest: tuple[str, ...]
    """The smallest group that such a pair exposes; empty if there is no pair."""
    rank: int
    """The rank of the known sums: the number of independent ones."""
    determined: Mapping[str, int]
    """The clients whose update follows exactly, each with the number of queries that it took."""
    group: Group
    """The smallest group found whose sum follows exactly."""
    hidden: Mapping[str, float]
    """By client: the share of its update's variance that the best linear reconstruction from all
    known sums leaves."""
    measured: bool = False
    """Whether `hidden` is that of the round's own updates; otherwise updates are taken to be
    unlike each other and of equal length."""

    @property
    def queries_until_determined(self) -> int | None:
        """Return the number of queries after which the first client is determined, or None."""
        return min(self.determined.values(), default=None)

    @property
    def least_hidden(self) -> tuple[str, float]:
        """Return the client of whose update the least is hidden, and that share."""
        client = min(self.hidden, key=lambda name: (self.hidden[name], name), default="")
        return client, self.hidden.get(client, 1.0)


def sum_leakage(
    sets: Iterable[Sequence[str]],
    threshold: int,
    weights: Mapping[str, float] | None = None,
    colluders: Collection[str] = (),
    products: InnerProducts | None = None,
) -> SumLeakage:
    """Return what the sums over these sets, in the order of the requests, expose in one round.

    Include the sum by which the round itself is aggregated, since the server knows it too. If that
    sum is weighted and the others are not, leave it out of `sets` and give its `weights`: it counts
    as one more query, the last. A set may be repeated; the order and repetition of its members do
    not matter.

    With the `products` of the clients' updates, what is hidden of each is that of these updates.

    The server knows the updates of `colluders` and subtracts them from every sum: everything except
    the numbers of queries, sets and members is then about the other clients.
    """
    queries = [tuple(sorted(set(members))) for members in sets]
    remaining = [
        tuple(name for name in members if name not in set(colluders)) for members in queries
    ]
    names = sorted(
        {name for members in remaining for name in members} | set(weights or ()) - set(colluders)
    )
    distinct_sets = [members for members in dict.fromkeys(remaining) if members]
    span = Span(len(names))
    rows = _membership(distinct_sets, names)
    own = [[weights.get(name, 0.0) for name in names]] if weights else []
    known = np.vstack([rows, np.array(own).reshape(len(own), len(names))])
    first = {members: query for query, members in reversed(list(enumerate(remaining, start=1)))}
    determined = span.extend(rows, [first[members] for members in distinct_sets])
    weighted_sums = 0 if weights is None else 1
    if weights is not None and any(weights.get(name) for name in names):
        last = _proportional([weights.get(name, 0.0) for name in names])
        determined = span.extend(last[None], [len(queries) + 1]) | determined
    differences, closest = _differences(rows, threshold)
    return SumLeakage(
        queries=len(queries) + weighted_sums,
        sets=len(set(queries)) + weighted_sums,
        smallest=min(map(len, queries), default=0),
        differences=differences,
        closest=_names(closest, names),
        rank=span.rank,
        determined={names[column]: query for column, query in sorted(determined.items())},
        hidden=dict(
            zip(
                names,
                hidden_variances(known, products.of(names) if products else None).tolist(),
                strict=True,
            )
        ),
        measured=products is not None,
        group=_group(span, rows, closest, names),
    )


def hidden_variances(rows: np.ndarray, products: np.ndarray | None = None) -> np.ndarray:
    """Return the share of each column's variance that is left given the sums `rows`.

    That is the least squared error of any linear reconstruction from these sums, [sums, clients],
    over the squared length of the update. `products` are the updates' inner products; without
    them, updates are unlike each other and of equal length, and the share is 1 - G_ii with G the
    projection onto the rows. An update of length 0 has nothing to hide: its share is 1.
    """
    values, vectors = np.linalg.eigh(np.eye(rows.shape[1]) if products is None else products)
    root = vectors * np.sqrt(np.clip(values, 0.0, None))  # the updates, in their own space
    known = rows.astype(np.float64) @ root
    left = np.square(root - root @ np.linalg.pinv(known, rcond=1e-9) @ known).sum(axis=1)
    total = np.square(root).sum(axis=1)
    shares = np.divide(left, total, out=np.ones_like(left), where=total > 0)
    rounded: np.ndarray = np.clip(shares, 0.0, 1.0).round(DIGITS)
    return rounded


class Span:
    """The span of integer rows, as a reduced basis modulo a prime.

    A sum over clients follows from the rows if and only if its 0/1 vector is a rational combination
    of them. Modulo the prime, this is decided without rounding. The result could differ only if the
    prime divides a determinant: those of 0/1 matrices of up to 22 columns are too small (Hadamard's
    bound), and for more columns the probability is one in two thousand million.
    """

    def __init__(self, columns: int) -> None:
        self.rank = 0
        self._rows = np.zeros((columns, columns), dtype=np.int64)
        self._pivots: list[int] = []

    @property
    def basis(self) -> np.ndarray:
        """The basis rows, int64 [rank, columns]; each has 1 at its pivot, where others have 0."""
        return self._rows[: self.rank]

    def add(self, row: np.ndarray) -> bool:
        """Add a row of integers; return whether it is independent of the earlier ones."""
        times = row[self._pivots, None] % PRIME
        remainder = (row - (times * self.basis % PRIME).sum(axis=0)) % PRIME
        if not remainder.any():
            return False
        pivot = int(np.flatnonzero(remainder)[0])
        remainder = remainder * pow(int(remainder[pivot]), -1, PRIME) % PRIME
        self.basis[:] = (self.basis - np.outer(self.basis[:, pivot], remainder) % PRIME) % PRIME
        self._rows[self.rank] = remainder
        self._pivots.append(pivot)
        self.rank += 1
        return True

    def reduce(self, rows: np.ndarray) -> np.ndarray:
        """Return the remainders of rows of small integers, which are 0 for rows in the span."""
        remainder: np.ndarray = (rows - rows[..., self._pivots] @ self.basis) % PRIME
        return remainder

    def determined_columns(self) -> list[int]:
        """Return the determined columns: those whose unit vector is in the basis."""
        single = np.count_nonzero(self.basis, axis=1) == 1
        return [self._pivots[i] for i in np.flatnonzero(single)]

    def extend(self, rows: np.ndarray, labels: Iterable[int]) -> dict[int, int]:
        """Add rows in turn; return each determined column with the label of its last row."""
        determined: dict[int, int] = {}
        for row, label in zip(rows, labels, strict=True):
            if self.rank == len(self._rows):
                break
            if self.add(row):
                determined = dict.fromkeys(self.determined_columns(), label) | determined
        return determined


def _membership(sets: Sequence[tuple[str, ...]], names: Sequence[str]) -> np.ndarray:
    """Return the 0/1 matrix, int64 [sets, names]."""
    column = {name: index for index, name in enumerate(names)}
    rows = np.zeros((len(sets), len(names)), dtype=np.int64)
    for index, members in enumerate(sets):
        rows[index, [column[name] for name in members]] = 1
    return rows


def _proportional(weights: Sequence[float]) -> np.ndarray:
    """Return integers modulo the prime in the ratios of the weights, int64.

    Ratios of document counts up to a million are exact, others are rounded to a millionth.
    """
    unit = min(weight for weight in weights if weight)
    ratios = [Fraction(weight / unit).limit_denominator(10**6) for weight in weights]
    denominator = math.lcm(*(ratio.denominator for ratio in ratios))
    return np.array([int(ratio * denominator) % PRIME for ratio in ratios], dtype=np.int64)


def _names(row: np.ndarray | None, names: Sequence[str]) -> tuple[str, ...]:
    return () if row is None else tuple(names[int(i)] for i in np.flatnonzero(row))


def _first(rows: np.ndarray) -> np.ndarray:
    """Return the 0/1 row with the fewest ones; among equals, the first by its members."""
    sizes = rows.sum(axis=1)
    fewest = rows[sizes == sizes.min()]
    first: np.ndarray = fewest[np.lexsort(fewest.T[::-1])[-1]]
    return first


def _differences(rows: np.ndarray, threshold: int) -> tuple[int, np.ndarray | None]:
    """Return the number of nested pairs closer than the threshold, and the smallest difference."""
    pairs, closest = 0, []
    for small, large in _nested_pairs(rows, threshold):
        pairs += len(small)
        closest.append(_first(rows[large] - rows[small]))
    return pairs, _first(np.array(closest)) if closest else None


def _nested_pairs(
    rows: np.ndarray, threshold: int, block: int = 1024
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the indices of the smaller and larger sets of nested pairs, a block at a time.

    A set is contained in another if the number of shared members is its size. Shared members are
    counted by a matrix product, which is exact in float32, and far faster, up to 2^24 members.
    """
    members, sizes = rows.astype(np.float32), rows.sum(axis=1)
    for start in range(0, len(rows), block):
        shared = members[start : start + block] @ members.T
        block_sizes = sizes[start : start + block, None]
        gap = sizes[None, :] - block_sizes
        small, large = np.nonzero((shared == block_sizes) & (gap > 0) & (gap < threshold))
        if len(small):
            yield small + start, large


def _group(span: Span, rows: np.ndarray, closest: np.ndarray | None, names: Sequence[str]) -> Group:
    """Return the smallest group whose sum follows, among all groups or, if many, obvious ones."""
    if not len(rows):
        return Group((), exact=True)
    if units := span.determined_columns():
        return Group((names[min(units)],), exact=True)
    if len(names) <= EXHAUSTIVE:
        every = np.arange(1, 2 ** len(names))[:, None] >> np.arange(len(names)) & 1
        return Group(_names(_first(every[~span.reduce(every).any(axis=1)]), names), exact=True)
    plain = span.basis[(span.basis <= 1).all(axis=1)]
    candidates = np.concatenate([rows, plain, *([] if closest is None else [closest[None]])])
    return Group(_names(_first(candidates), names), exact=False)
