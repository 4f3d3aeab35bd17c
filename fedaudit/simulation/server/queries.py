"""What a simulated server asks secure aggregation for: the table [scale.*.queries]."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class SumQuerySettings:
    """The sums that a server asks secure aggregation for, to attribute watermarks later."""

    protocol: Literal["pairs", "shared"] = "pairs"
    """Pairs of sets for each client, as in the paper, or sets that a round's estimates share."""
    others: int = 5
    """Clients besides the one that a pair of sums is about: m."""
    pairs: int = 5
    """Pairs of sums for each client in each round: K."""
    sets: int = 0
    """Shared sets in each round, Q; 0 is half as many as there are clients."""
    limit: float = 1.0
    """The largest share of another client's update in an estimate; 1 sets no limit, as in the
    paper."""
    weights: Literal["equal", "size"] = "equal"
    """How updates are weighted in sums over some clients: equally, or by the clients' sizes."""

    def __post_init__(self) -> None:
        if self.others < 1 or self.pairs < 1:
            raise ValueError("others and pairs must be at least 1.")
        if self.sets < 0:
            raise ValueError("sets must be at least 0.")
        if self.protocol == "pairs" and not 1 <= self.limit * self.pairs <= self.pairs:
            raise ValueError("limit must lie between 1/pairs and 1.")
        if not 0 < self.limit <= 1:
            raise ValueError("limit must be above 0 and at most 1.")
