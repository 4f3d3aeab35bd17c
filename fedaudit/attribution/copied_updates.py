"""Adapters that were stored more than once: rounds that are copies, clients that sent the same.

Evidence adds up over rounds, so a round that is stored twice would count twice. Adapters are
compared by their tensors, so that a file counts as the same after it was saved again with other
metadata or in another dtype. Clients' updates in a round are also compared by their cosine: one
that copies another's, with a factor or some noise, would be flagged for the other's documents.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import combinations

from fedaudit.api.errors import InputError
from fedaudit.attribution import federation_checks as checks
from fedaudit.attribution.copies import ALIKE, ClientRounds, Copies
from fedaudit.attribution.server import stored_updates
from fedaudit.federation import adapters
from fedaudit.federation.folder import Federation
from fedaudit.federation.manifest import Round
from fedaudit.system.files import sha256


def check_rounds(federation: Federation) -> None:
    """Raise InputError if all clients' adapters of a round equal those of an earlier round.

    Two rounds of training never give exactly the same numbers.
    """
    checks.check_copied_rounds(_sent(federation), str(federation.path), "everybody's adapters")


def find_copies(federation: Federation) -> Copies:
    """Return which clients' adapters equal one sent before, received, or sent by others.

    Here "received" is the adapter that the client started the round from. Nothing is found in
    rounds of which only sums are stored.
    """
    sent, got = _sent(federation), _got(federation)
    return Copies(
        unchanged=_unchanged(sent, got),
        repeated=_repeated(sent, got),
        alike=_alike(federation, sent, got),
    )


def idle_clients(
    federation: Federation, among: Mapping[int, Collection[str]] | None = None
) -> dict[str, list[int]]:
    """Return the clients that only ever returned their start adapter, with the rounds of these.

    `among` names the clients that matter, by round, and the rounds that do; without it all do.
    """
    starts = _starts(federation)
    stored: dict[str, list[Round]] = {}
    for record in federation.manifest.rounds[1:]:
        for client in record.clients:
            if among is None or client in among.get(record.round, ()):
                stored.setdefault(client, []).append(record)
    # all() ends at the first other adapter: of a client that trained, few files are read.
    return {
        client: [record.round for record in records]
        for client, records in stored.items()
        if all(
            _hash(federation, record.clients[client]) == _hash(federation, starts[record.round])
            for record in records
        )
    }


def _sent(federation: Federation) -> dict[int, dict[str, str]]:
    return {
        record.round: {
            client: _hash(federation, folder) for client, folder in record.clients.items()
        }
        for record in federation.manifest.rounds[1:]
    }


def _got(federation: Federation) -> dict[int, str]:
    """Return the hash of the adapter that clients started from, by round."""
    return {number: _hash(federation, start) for number, start in _starts(federation).items()}


def _starts(federation: Federation) -> dict[int, str]:
    """Return the folder of the adapter that clients started from, by round."""
    aggregator = stored_updates.aggregator_of(federation)
    return {
        record.round: stored_updates.start_adapter(federation, aggregator, record)
        for record in federation.manifest.rounds[1:]
        if record.clients
    }


def _hash(federation: Federation, folder: str) -> str:
    path = federation.path / folder
    adapters.check(path)
    # The manifest's hashes were compared with the files when the folder was opened.
    stated_hash = federation.manifest.files.get(f"{folder}/{adapters.WEIGHTS}")
    return adapters.tensors_sha256(path, stated_hash or sha256(path / adapters.WEIGHTS))


def _unchanged(sent: checks.Hashes, got: Mapping[int, str]) -> tuple[ClientRounds, ...]:
    """Return the rounds in which clients sent back the adapter that they started from."""
    rounds: dict[tuple[str, ...], list[int]] = {}
    for number, by_client in sent.items():
        for client, digest in by_client.items():
            if digest == got[number]:
                rounds.setdefault((client,), []).append(number)
    return _records(rounds)


def _repeated(sent: checks.Hashes, got: Mapping[int, str]) -> tuple[ClientRounds, ...]:
    """Return the rounds in which clients sent one and the same adapter, by client and adapter."""
    seen: dict[tuple[str, str], list[int]] = {}
    for number, by_client in sent.items():
        for client, digest in by_client.items():
            if digest != got[number]:
                seen.setdefault((client, digest), []).append(number)
    return tuple(
        ClientRounds(clients=(client,), rounds=tuple(numbers))
        for (client, _), numbers in seen.items()
        if len(numbers) > 1
    )


def _alike(
    federation: Federation, sent: checks.Hashes, got: Mapping[int, str]
) -> tuple[ClientRounds, ...]:
    """Return the groups of clients whose updates of one round are nearly the same."""
    starts = _starts(federation)
    rounds: dict[tuple[str, ...], list[int]] = {}
    for record in federation.manifest.rounds[1:]:
        hashes = sent[record.round]
        changed = [client for client in record.clients if hashes[client] != got[record.round]]
        for group in _groups(changed, _like_pairs(federation, record, changed, starts, hashes)):
            rounds.setdefault(tuple(group), []).append(record.round)
    return _records(rounds)


def _records(rounds: Mapping[tuple[str, ...], Sequence[int]]) -> tuple[ClientRounds, ...]:
    return tuple(
        ClientRounds(clients=clients, rounds=tuple(numbers)) for clients, numbers in rounds.items()
    )


def _like_pairs(
    federation: Federation,
    record: Round,
    clients: Sequence[str],
    starts: Mapping[int, str],
    hashes: Mapping[str, str],
) -> Iterator[tuple[str, str]]:
    """Yield the pairs of clients with equal adapters or, if these are plain LoRA, like updates."""
    from fedaudit.engine.lora import sketch

    if len(clients) < 2:
        return
    yield from ((a, b) for a, b in combinations(clients, 2) if hashes[a] == hashes[b])
    start = federation.path / starts[record.round]
    try:
        sketches = {
            client: sketch.sketch_update(federation.path / record.clients[client], start)
            for client in clients
        }
    except InputError:  # another kind of adapter, whose update is not a product
        return
    near = sketch.cosines(sketches).triu(1) >= ALIKE
    yield from ((clients[i], clients[j]) for i, j in near.nonzero().tolist())


def _groups(clients: Sequence[str], pairs: Iterable[tuple[str, str]]) -> list[list[str]]:
    """Return the clients in groups of two or more that pairs connect, in their order."""
    group_of = {client: client for client in clients}
    for first, second in pairs:
        kept, merged = group_of[first], group_of[second]
        group_of = {c: kept if group == merged else group for c, group in group_of.items()}
    groups: dict[str, list[str]] = {}
    for client in clients:
        groups.setdefault(group_of[client], []).append(client)
    return [group for group in groups.values() if len(group) > 1]
