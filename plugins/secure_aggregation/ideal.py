"""Secure aggregation as it should be: the sum, and nothing else."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from fedaudit.api import SecureAggregation, Update


@dataclass(frozen=True, kw_only=True)
class Ideal(SecureAggregation):
    """Adds up in this process and gives out sums only; no cryptography."""

    name: ClassVar[str] = "ideal"
    threshold: int = 5
    """The fewest clients that a sum may include."""

    def __post_init__(self) -> None:
        if self.threshold < 1:
            raise ValueError("threshold must be at least 1.")

    def add(
        self, updates: Mapping[str, Update], sets: Sequence[tuple[str, ...]]
    ) -> Iterator[Update]:
        """Yield the sum over each set, one in memory at a time, whatever its members' order."""
        return (
            {
                name: sum(
                    (updates[client][name].float() for client in sorted(members)[1:]),
                    start=updates[sorted(members)[0]][name].float(),
                )
                for name in updates[sorted(members)[0]]
            }
            for members in sets
        )
