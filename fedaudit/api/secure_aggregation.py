"""What secure aggregation is: a server learns sums over sets of clients and nothing else."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence

from fedaudit.api.errors import UsageError
from fedaudit.api.plugin import Plugin, Update


class SecureAggregation(Plugin, ABC):
    """Adds up the updates of sets of clients; its fields are its options."""

    threshold: int
    """The fewest clients that a sum may be over."""

    def check(self) -> None:
        """Raise UsageError where this machine lacks what the protocol needs."""
        return

    @abstractmethod
    def add(
        self, updates: Mapping[str, Update], sets: Sequence[tuple[str, ...]]
    ) -> Iterable[Update]:
        """Return the sum of the members' updates for each set, float32.

        `updates` are all clients' of one round, in the clear: a simulation holds them.
        """

    def sums(
        self, updates: Mapping[str, Update], sets: Sequence[tuple[str, ...]]
    ) -> Iterable[Update]:
        """Return the sum over each set; raises UsageError for one that is not admissible."""
        for members in sets:
            if len(members) < self.threshold:
                raise UsageError(
                    f"A sum over {len(members)} clients is below the threshold of secure "
                    f"aggregation, {self.threshold}."
                )
            if missing := sorted(set(members) - set(updates)):
                raise UsageError(f"{missing[0]} took no part in the round and is in no sum of it.")
            if len(set(members)) < len(members):
                raise UsageError(f"A set names {members[0]} and others more than once.")
        return self.add(updates, sets)
