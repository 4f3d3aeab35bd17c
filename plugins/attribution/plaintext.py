"""What all methods that read single clients' updates have in common."""

from collections.abc import Callable, Iterator, Sequence

from fedaudit.api import InputError, RoundRecord, Update

Read = Callable[[str], Update]


def readable_rounds(
    rounds: Sequence[RoundRecord], method: str
) -> Iterator[tuple[RoundRecord, Read]]:
    """Return every round with the reader of its updates; raises InputError where one hides them."""
    hidden = next((record.round for record in rounds if record.updates is None), None)
    if hidden is not None:
        raise InputError(
            f"{method} needs single clients' updates, which secure aggregation hides: round "
            f"{hidden} has none."
        )
    return ((record, record.updates) for record in rounds if record.updates is not None)


def clients(rounds: Sequence[RoundRecord]) -> list[str]:
    """Return everybody who took part, sorted."""
    return sorted({client for record in rounds for client in record.participants})


def limit(method: str) -> str:
    """Return the sentence that says what the method takes for granted."""
    return f"{method} reads every client's own update: secure aggregation does not allow that."
