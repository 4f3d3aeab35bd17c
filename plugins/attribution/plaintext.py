"""What the methods share that read single clients' updates."""

from collections.abc import Callable, Iterator, Sequence

from fedaudit.api import InputError, RoundRecord, Update

Read = Callable[[str], Update]


def readable_rounds(
    rounds: Sequence[RoundRecord], method: str
) -> Iterator[tuple[RoundRecord, Read]]:
    """Return every round with what reads its updates; raises InputError where one hides them."""
    hidden = next((seen.round for seen in rounds if seen.updates is None), None)
    if hidden is not None:
        raise InputError(
            f"{method} needs single clients' updates, which secure aggregation hides: round "
            f"{hidden} has none."
        )
    return ((seen, seen.updates) for seen in rounds if seen.updates is not None)


def clients(rounds: Sequence[RoundRecord]) -> list[str]:
    """Return everybody who took part, sorted."""
    return sorted({client for seen in rounds for client in seen.participants})


def limit(method: str) -> str:
    """Return the sentence that says what the method takes for granted."""
    return f"{method} reads every client's own update: secure aggregation does not allow that."
