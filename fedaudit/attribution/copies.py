"""Which adapters a federation holds more than once, as estimates and scores state it.

Only the server can compare the adapters that clients sent. Its findings go into estimates.json, and
from there into the scores, so that a decision over scores alone knows of them.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields

from fedaudit.api.errors import InputError
from fedaudit.federation.folder import name_rounds

ALIKE = 0.95
"""The cosine from which on two clients' updates in a round are said to be one."""
MOST_NAMED = 10
"""Groups of clients that limits name one by one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientRounds:
    """Clients that something is found of, and the rounds in which it is, in order."""

    clients: tuple[str, ...]
    rounds: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Copies:
    """Adapters that equal one sent before, received, or sent by others."""

    unchanged: tuple[ClientRounds, ...] = ()
    """For one client each: the rounds in which it sent back the adapter that it started from."""
    repeated: tuple[ClientRounds, ...] = ()
    """For one client each: rounds in which it sent one and the same adapter."""
    alike: tuple[ClientRounds, ...] = ()
    """For groups of clients: the rounds in which their updates were the same, or nearly so."""


NO_COPIES = Copies()


def copies_in_rounds(copies: Copies, numbers: Collection[int]) -> Copies:
    """Return what is found in the rounds `numbers` alone."""
    kept = {
        field.name: tuple(
            ClientRounds(clients=each.clients, rounds=rounds)
            for each in getattr(copies, field.name)
            if (rounds := tuple(number for number in each.rounds if number in numbers))
        )
        for field in fields(copies)
    }
    kept["repeated"] = tuple(each for each in kept["repeated"] if len(each.rounds) > 1)
    return Copies(**kept)


def copy_caveats(copies: Copies) -> Iterator[str]:
    """Yield the limits for adapters that are stored more than once."""
    if copies.repeated:
        yield (
            "the same adapter, number for number, is stored for several rounds of a client, and "
            f"each counts as evidence of its own: {_listed(copies.repeated)}"
        )
    if copies.alike:
        yield (
            f"several clients' updates of a round are the same or nearly so (a cosine of {ALIKE} "
            "or more), so whose documents they were trained on cannot be told: "
            f"{_listed(copies.alike)}"
        )
    if copies.unchanged:
        yield (
            "the adapter that was sent is, number for number, the one that the round began with, "
            f"so nothing can be said about the training: {_listed(copies.unchanged)}"
        )


def like_clients(copies: Copies) -> dict[str, dict[str, list[int]]]:
    """Return, by client, the others whose updates are like its own, each with the rounds."""
    others: dict[str, dict[str, list[int]]] = {}
    for group in copies.alike:
        for client in group.clients:
            for other in group.clients:
                if other != client:
                    rounds = others.setdefault(client, {}).setdefault(other, [])
                    rounds.extend(group.rounds)
    return others


def check_copies(copies: Copies, clients: Sequence[str], rounds: int, where: str) -> None:
    """Raise InputError for copies of unknown clients, or in rounds that the federation lacks."""
    groups: Mapping[str, tuple[ClientRounds, ...]] = {
        field.name: getattr(copies, field.name) for field in fields(copies)
    }
    for name, found in groups.items():
        for each in found:
            if strangers := sorted(set(each.clients) - set(clients)):
                raise InputError(f"{where}: copies.{name} names {strangers[0]!r}, no client.")
            if any(not 1 <= number <= rounds for number in each.rounds):
                raise InputError(f"{where}: copies.{name} has a round that is not from 1 on.")
            right_size = len(each.clients) > 1 if name == "alike" else len(each.clients) == 1
            if not right_size or len(set(each.clients)) < len(each.clients):
                raise InputError(f"{where}: copies.{name} has a group of clients that cannot be.")


def _listed(found: Sequence[ClientRounds]) -> str:
    shown = [f"{' and '.join(each.clients)} in {name_rounds(each.rounds)}" for each in found]
    more = f"; and {len(shown) - MOST_NAMED} more" if len(shown) > MOST_NAMED else ""
    return f"{'; '.join(shown[:MOST_NAMED])}{more}"
