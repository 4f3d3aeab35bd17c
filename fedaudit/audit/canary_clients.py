"""Whether the clients that canaries were planted for trained the model under audit.

A client that took part in no round, or sent back what it received, trained on no canary: its
secrets are then no likelier than others, whatever training gives away.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from fedaudit.api.errors import InputError
from fedaudit.attribution import copied_updates
from fedaudit.audit.target import AuditTarget
from fedaudit.federation.folder import Federation, client_order, name_rounds
from fedaudit.federation.manifest import Round


class UntrainedError(InputError):
    """Canaries were planted for a client that took part in no round behind the audited model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CanaryClients:
    """What a federation's folder says of the training of canaries' clients."""

    idle: Mapping[str, Sequence[int]]
    """Clients whose stored updates are all the adapter that they had received, with the rounds."""
    unchecked: Sequence[str]
    """Clients of which that cannot be told, since the folder lacks rounds."""

    def caveats(self) -> Iterator[str]:
        """Yield caveats about clients that trained nothing, and about those that may not have."""
        for client, rounds in self.idle.items():
            yield (
                f"{client} {sent_back(rounds)}: it trained on no canary, and nothing can be said "
                "about what training gives away of its canaries."
            )
        if self.unchecked:
            yield (
                "The federation was imported without some of its rounds or their participants: "
                f"whether {', '.join(self.unchecked)} trained on the canaries was not checked."
            )


def sent_back(rounds: Sequence[int]) -> str:
    """Return in words that a client trained nothing in `rounds`."""
    return f"sent back the adapter that it got in {name_rounds(rounds)}"


def check_clients(audited: AuditTarget, clients: Collection[str]) -> CanaryClients:
    """Return what is known of the training of canaries' clients behind the audited model.

    Raises UntrainedError for a client that took part in no round behind it.
    """
    federation = audited.federation
    if federation is None:
        return CanaryClients(idle={}, unchecked=())
    present = _trained_by_round(audited, federation)
    absent = set(clients).difference(*present.values())
    if not _knows_all_rounds(federation):
        return CanaryClients(idle={}, unchecked=sorted(clients, key=client_order))
    if absent:
        names = " and ".join(sorted(absent, key=client_order))
        raise UntrainedError(
            f"{names} took part in no round of {federation.path} up to round {max(present)}: "
            "canaries of a client that did not train say nothing about the model."
        )
    among = {number: present[number].intersection(clients) for number in present}
    idle = copied_updates.idle_clients(federation, among)
    # The first round of an import may be one of training, whose start is not stored.
    first = _participants(federation.manifest.rounds[0])
    return CanaryClients(
        idle={client: rounds for client, rounds in idle.items() if client not in first},
        unchecked=(),
    )


def round_of(audited: AuditTarget) -> int | None:
    """Return the round that the audited adapter is of; None for one from elsewhere."""
    federation = audited.federation
    if audited.round is not None or federation is None or audited.adapter is None:
        return audited.round
    place = audited.adapter.resolve()
    return next(
        (
            record.round
            for record in federation.manifest.rounds
            for folder in (record.adapter, *record.clients.values())
            if (federation.path / folder).resolve() == place
        ),
        None,
    )


def _trained_by_round(audited: AuditTarget, federation: Federation) -> dict[int, set[str]]:
    """Return the clients whose training is in the audited model, by round.

    A client's own update has its training on top of what all clients did before. An adapter from
    elsewhere may have come after every round.
    """
    rounds, last = federation.manifest.rounds, round_of(audited)
    present = {r.round: _participants(r) for r in rounds if last is None or r.round <= last}
    if audited.update_of and last is not None:
        present[last] = {audited.update_of}
    return present


def _participants(record: Round) -> set[str]:
    return {*record.participants, *record.clients}


def _knows_all_rounds(federation: Federation) -> bool:
    """Tell whether all rounds and their participants are known, as only an import may lack them."""
    rounds = federation.manifest.rounds
    return federation.manifest.imported is None or (
        [record.round for record in rounds] == list(range(len(rounds)))
        and all(map(_participants, rounds[1:]))
    )
