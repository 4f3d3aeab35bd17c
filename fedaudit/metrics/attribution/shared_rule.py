"""The rule by which a round's shared sets are drawn: number, limit, threshold and participants."""

from collections.abc import Iterable
from dataclasses import dataclass

from fedaudit.api.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedSetsRule:
    """The rule by which the sets of a round are drawn, independent of the clients' names."""

    participants: int
    queries: int
    """Q: the number of sets without the set of everybody or, if that is not known, the last set."""
    threshold: int = 1
    limit: float = 1.0
    """The largest share of another client's update in an estimate."""
    whole: bool = True
    """Whether the sum over everybody is one of the known sums."""
    ratio: float = 1.0
    """The largest weight in the sums, divided by the smallest: see `shared_sets.is_accepted`."""

    @property
    def sets(self) -> int:
        """The number of sets whose sums are requested: Q + 1."""
        return self.queries + 1

    def check(self) -> None:
        """Raise UsageError for a rule that allows no sets; see `check`."""
        if not 0 < self.limit <= 1:
            message = f"A limit of {self.limit:g} is not a share of an update: above 0, 1 at most."
            raise UsageError(message)
        check(self.participants, self.queries, self.threshold, total_known=self.whole)


def has_equal_weights(weights: Iterable[float]) -> bool:
    """Return whether a round's weights are all 1, so its own sum is that of equal weights."""
    return all(abs(weight - 1) <= 1e-9 for weight in weights)


def max_queries(participants: int, *, total_known: bool = True) -> int:
    """Return the largest Q that does not determine any update."""
    return participants - (2 if total_known else 3)


def default_queries(participants: int, *, total_known: bool = True) -> int:
    """Return the default Q: half the clients, or fewer in a small round."""
    if total_known:
        return max(1, min(participants // 2, max_queries(participants)))
    return max(2, min(participants // 2, participants - 4))


def check(participants: int, queries: int, threshold: int, *, total_known: bool = True) -> None:
    """Raise UsageError if N, Q and the threshold of secure aggregation allow no sets.

    `total_known` means that the sum over everybody is one of the known sums. Without it, the
    round's own sum, which has other weights, is one more equation.
    """
    if participants < 4:
        raise UsageError(
            f"{participants} clients in a round have no halves to share: it takes at least 4."
        )
    least, highest = (1 if total_known else 2), max_queries(participants, total_known=total_known)
    if least > highest:
        raise UsageError(
            f"{participants} clients of unequal weights have no sets to share: it takes at least 5."
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
