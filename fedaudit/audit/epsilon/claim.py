"""The claimed epsilon, and the check that canaries were planted as their coins fell."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from fedaudit.api.errors import InputError, UsageError
from fedaudit.audit.target import AuditTarget
from fedaudit.canaries.coin_file import CoinSet
from fedaudit.data import corpus
from fedaudit.federation.folder import Federation, is_federation, open_federation
from fedaudit.report.document import read

REPORT = "report.json"


def claimed_epsilon(epsilon: float | None, audited: AuditTarget, coins: CoinSet) -> float:
    """Return the claimed epsilon: the given one, or that of the simulation's report.

    Raises UsageError if there is none, InputError if it is claimed at a larger delta.
    """
    if epsilon is not None:
        return epsilon
    path = audited.federation.path / REPORT if audited.federation else None
    rows = read(path)["measurements"] if path and path.is_file() else []
    epsilon_rows = [row for row in rows if (row["kind"], row["metric"]) == ("defense", "epsilon")]
    claims = [row for row in epsilon_rows if row["scope"].get("client") == coins.client]
    if not claims or claims[0]["value"] is None:
        raise UsageError(
            f"Nothing states which epsilon is claimed for {coins.client}: name it with --epsilon."
        )
    delta = float(claims[0]["scope"].get("delta", 1.0))
    if delta > coins.delta:
        raise InputError(
            f"{path} claims epsilon {claims[0]['value']:g} at delta {delta:g}; the coins are for "
            f"delta {coins.delta:g}: train with that delta, or name the epsilon claimed at it "
            "with --epsilon."
        )
    return float(claims[0]["value"])


def check_planted(federation: Federation, coins: CoinSet) -> bool:
    """Return whether the federation keeps records, after checking them against the coins.

    Raises InputError if the client's records do not hold its canaries as the coins fell, if the
    client is not in the federation, or if another client has some of the canaries.
    """
    clients = {client.id: federation.path / client.data for client in federation.manifest.clients}
    if coins.client not in clients:
        raise InputError(
            f"{federation.path} has no client {coins.client}, for whom the canaries were made."
        )
    text_counts = {client: Counter(_texts(path, federation)) for client, path in clients.items()}
    if not any(text_counts.values()):
        return False
    counts = text_counts.pop(coins.client)
    mismatches = sum(counts[canary.text] != canary.included for canary in coins.canaries)
    if mismatches:
        raise InputError(
            f"The records of {coins.client} in {federation.path} do not agree with the coins of "
            f"{mismatches:,} of {len(coins.canaries):,} canaries: plant them with `fedaudit dp "
            "plant` before training, each once, and hold none of them out."
        )
    for client, texts in text_counts.items():
        if any(canary.text in texts for canary in coins.canaries):
            raise InputError(
                f"{client} in {federation.path} has canaries of {coins.client} as well."
            )
    return True


def open_noiseless(path: Path, audited: AuditTarget, coins: CoinSet) -> Federation:
    """Return the federation in `path`, trained without noise with the same canaries.

    Raises InputError if it has another base, holds other canaries, is not complete, or is the
    audited federation itself; UsageError if no federation is audited.
    """
    if audited.federation is None:
        raise UsageError("--noiseless needs a federation as --target.")
    if not is_federation(path):
        raise InputError(f"{path} is no federation's folder.")
    federation = open_federation(path)
    federation.adapter()
    audited_manifest, manifest = audited.federation.manifest, federation.manifest
    if audited_manifest.base.sha256 != manifest.base.sha256:
        raise InputError(f"{path} was not trained on the base of {audited.federation.path}.")
    if federation.path.resolve() == audited.federation.path.resolve():
        raise InputError(f"{path} is the federation under audit itself, not one without noise.")
    check_planted(federation, coins)
    return federation


def client_texts(federation: Federation, coins: CoinSet) -> list[str]:
    """Return the records of the canaries' client without the canaries, as far as they are kept."""
    canaries = {canary.text for canary in coins.canaries}
    return [
        text
        for client in federation.manifest.clients
        if client.id == coins.client
        for text in _texts(federation.path / client.data, federation)
        if text not in canaries
    ]


def _texts(path: Path, federation: Federation) -> Iterator[str]:
    if path.is_file():
        yield from (document.text for document in corpus.read(path, federation.template))
