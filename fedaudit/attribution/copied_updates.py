"""Adapters that were stored more than once: rounds that are copies, clients that sent the same.

Evidence adds up over rounds, so a round that is stored twice would count twice. Adapters are
compared by their tensors, so that a file counts as the same after it was saved again with other
metadata or in another dtype.
"""

from collections.abc import Iterator, Mapping

from fedaudit.api.records import Measurement
from fedaudit.attribution import federation_checks as checks
from fedaudit.attribution import measurements
from fedaudit.attribution.server import estimation
from fedaudit.config import registry
from fedaudit.federation import adapters
from fedaudit.federation.folder import Federation, name_rounds
from fedaudit.system.files import sha256

MOST_NAMED = 10
"""Groups of clients that limits name one by one."""


def check_rounds(federation: Federation) -> None:
    """Raise InputError if all clients' adapters of a round equal those of an earlier round.

    Two rounds of training never give exactly the same numbers.
    """
    checks.check_copied_rounds(_sent(federation), str(federation.path), "everybody's adapters")


def caveats(federation: Federation) -> list[str]:
    """Return limits for clients whose adapter equals one sent before, received, or sent by others.

    Here "received" is the adapter that the client started the round from.
    """
    sent, got = _sent(federation), _got(federation)
    limits = [*_repeated(sent, got), *_alike(sent, got)]
    if rounds := _unchanged(sent, got):
        limits.append(
            "the adapter that was sent is, number for number, the one that the round began with, "
            f"so nothing can be said about the training: {_listed(rounds)}"
        )
    return limits


def untested_rows(federation: Federation, threshold: float) -> Iterator[Measurement]:
    """Yield a row without a value for each client that only ever returned its start adapter."""
    sent = _sent(federation)
    for client, rounds in _unchanged(sent, _got(federation)).items():
        if len(rounds) == sum(client in by_client for by_client in sent.values()):
            yield measurements.row(
                measurements.PROTOCOL,
                "stouffer_z",
                None,
                {"client": client},
                n=0,
                baseline=threshold,
                reason=f"it sent back the adapter that it got in {name_rounds(rounds)}",
            )


def _sent(federation: Federation) -> dict[int, dict[str, str]]:
    return {
        record.round: {
            client: _hash(federation, folder) for client, folder in record.clients.items()
        }
        for record in federation.manifest.rounds[1:]
    }


def _got(federation: Federation) -> dict[int, str]:
    """Return the hash of the adapter that clients started from, by round."""
    rule = federation.manifest.aggregation
    aggregator = registry.create("aggregation", str(rule["name"]), rule.get("options"))
    return {
        record.round: _hash(federation, estimation.start_adapter(federation, aggregator, record))
        for record in federation.manifest.rounds[1:]
        if record.clients
    }


def _hash(federation: Federation, folder: str) -> str:
    path = federation.path / folder
    adapters.check(path)
    # The manifest's hashes were compared with the files when the folder was opened.
    stated_hash = federation.manifest.files.get(f"{folder}/{adapters.WEIGHTS}")
    return adapters.tensors_sha256(path, stated_hash or sha256(path / adapters.WEIGHTS))


def _unchanged(sent: checks.Hashes, got: Mapping[int, str]) -> dict[str, list[int]]:
    """Return, by client, the rounds in which it sent back the adapter that it started from."""
    rounds: dict[str, list[int]] = {}
    for number, by_client in sent.items():
        for client, digest in by_client.items():
            if digest == got[number]:
                rounds.setdefault(client, []).append(number)
    return rounds


def _repeated(sent: checks.Hashes, got: Mapping[int, str]) -> Iterator[str]:
    """Yield a limit for clients that sent the same adapter in several rounds."""
    seen: dict[tuple[str, str], list[int]] = {}
    for number, by_client in sent.items():
        for client, digest in by_client.items():
            if digest != got[number]:
                seen.setdefault((client, digest), []).append(number)
    rounds = {client: numbers for (client, _), numbers in seen.items() if len(numbers) > 1}
    if rounds:
        yield (
            "the same adapter, number for number, is stored for several rounds of a client, and "
            f"each counts as evidence of its own: {_listed(rounds)}"
        )


def _alike(sent: checks.Hashes, got: Mapping[int, str]) -> Iterator[str]:
    """Yield a limit for groups of clients that sent the same adapter in one round."""
    rounds: dict[str, list[int]] = {}
    for number, by_client in sent.items():
        groups: dict[str, list[str]] = {}
        for client, digest in by_client.items():
            groups.setdefault(digest, []).append(client)
        for digest, group in groups.items():
            if len(group) > 1 and digest != got[number]:
                rounds.setdefault(" and ".join(group), []).append(number)
    if rounds:
        yield (
            "several clients' adapters of a round are the same, number for number, so whose "
            f"documents they were trained on cannot be told: {_listed(rounds)}"
        )


def _listed(rounds: Mapping[str, list[int]]) -> str:
    shown = [f"{who} in {name_rounds(numbers)}" for who, numbers in rounds.items()]
    more = f"; and {len(shown) - MOST_NAMED} more" if len(shown) > MOST_NAMED else ""
    return f"{'; '.join(shown[:MOST_NAMED])}{more}"
