"""The rule by which a round's shared sets are drawn: how many, within which limit, for whom."""

from collections.abc import Iterable
from dataclasses import dataclass

from fedaudit.api.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedSetsRule:
    """How the sets of a round are drawn, whoever takes part in it."""

    participants: int
    queries: int
    """Q: sets besides everybody, or besides the last one where everybody is not among them."""
    threshold: int = 1
    limit: float = 1.0
    """The most that an estimate may hold of another client's update."""
    whole: bool = True
    """Whether the sum over everybody is one of the known ones."""
    ratio: float = 1.0
    """The largest weight in the sums over the smallest: see `shared_sets.is_accepted`."""

    @property
    def sets(self) -> int:
        """The sets that sums are asked over: Q + 1."""
        return self.queries + 1

    def check(self) -> None:
        """Raise UsageError for a rule that allows no sets; see `check`."""
        if not 0 < self.limit <= 1:
            message = f"A limit of {self.limit:g} is no share of an update: above 0, 1 at most."
            raise UsageError(message)
        check(self.participants, self.queries, self.threshold, total_known=self.whole)


def has_equal_weights(weights: Iterable[float]) -> bool:
    """Return whether the sum of equal weights is the round's own, whose weights these are."""
    return all(abs(weight - 1) <= 1e-9 for weight in weights)


def max_queries(participants: int, *, total_known: bool = True) -> int:
    """Return the largest Q that gives no update away."""
    return participants - (2 if total_known else 3)


def default_queries(participants: int, *, total_known: bool = True) -> int:
    """Return the default Q: half the clients, or fewer where there are few."""
    if total_known:
        return max(1, min(participants // 2, max_queries(participants)))
    return max(2, min(participants // 2, participants - 4))


def check(participants: int, queries: int, threshold: int, *, total_known: bool = True) -> None:
    """Raise UsageError where N, Q and the threshold of secure aggregation allow no sets.

    `total_known`: the sum over everybody is one of the known ones. Without it, the round's own sum,
    which has other weights, is one equation more.
    """
    if participants < 4:
        raise UsageError(f"{participants} clients in a round have no halves to share: 4 at least.")
    least, highest = (1 if total_known else 2), max_queries(participants, total_known=total_known)
    if least > highest:
        raise UsageError(
            f"{participants} clients of unequal weights have no sets to share: 5 at least."
        )
    if queries < least:
        raise UsageError(f"{queries} shared sets estimate nothing: {least} at least.")
    if queries > highest:
        raise UsageError(
            f"{queries} shared sets of {participants} clients would give every update away: "
            f"{highest} at most."
        )
    if participants // 2 < threshold:
        raise UsageError(
            f"Half of {participants} clients are {participants // 2}, below the threshold of "
            f"secure aggregation, {threshold}."
        )
