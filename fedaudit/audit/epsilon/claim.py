"""The claimed epsilon, and the check that canaries were planted as their coins fell."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from fedaudit.api.errors import InputError, UsageError
from fedaudit.audit.inputs.reader import InputReader
from fedaudit.audit.target import AuditTarget
from fedaudit.canaries.coin_file import CoinSet
from fedaudit.federation.folder import Federation, is_federation
from fedaudit.report.document import read
from fedaudit.report.query import Row

REPORT = "report.json"
SLACK = 0.01
"""How much less than its `epsilon` the defence dp may spend."""


def claimed_epsilon(epsilon: float | None, audited: AuditTarget, coins: CoinSet) -> float:
    """Return the claimed epsilon: the given one, or that of the simulation's report.

    Raises UsageError if there is none, InputError if it is claimed at a larger delta.
    """
    if epsilon is not None:
        return epsilon
    row = stated_epsilon(audited.federation, coins) if audited.federation else None
    if audited.federation is None or row is None:
        raise UsageError(
            f"Nothing states which epsilon is claimed for {coins.client}: name it with --epsilon."
        )
    delta = _delta(row)
    if delta > coins.delta:
        raise InputError(
            f"{audited.federation.path / REPORT} claims epsilon {row['value']:g} at delta "
            f"{delta:g}; the coins are for delta {coins.delta:g}: train with that delta, or name "
            "the epsilon claimed at it with --epsilon."
        )
    return float(row["value"])


def stated_epsilon(federation: Federation, coins: CoinSet) -> Row | None:
    """Return the row of the simulation's report on the client's epsilon; None without one."""
    path = federation.path / REPORT
    rows = read(path)["measurements"] if path.is_file() else []
    epsilon_rows = [row for row in rows if (row["kind"], row["metric"]) == ("defense", "epsilon")]
    client_rows = [row for row in epsilon_rows if row["scope"].get("client") == coins.client]
    return client_rows[0] if client_rows and client_rows[0]["value"] is not None else None


def claim_caveat(epsilon: float | None, federation: Federation | None, coins: CoinSet) -> str:
    """Return a caveat where --epsilon is not what the simulation's report states, else nothing."""
    row = stated_epsilon(federation, coins) if federation and epsilon is not None else None
    if row is None or epsilon is None:
        return ""
    if 0 <= epsilon - row["value"] <= SLACK and _delta(row) <= coins.delta:
        return ""
    return (
        f"The simulation's report states epsilon {row['value']:g} at delta {_delta(row):g} for "
        f"{coins.client}; the claim that was judged is --epsilon {epsilon:g} at delta "
        f"{coins.delta:g}."
    )


def _delta(row: Row) -> float:
    return float(row["scope"].get("delta", 1.0))


def check_planted(federation: Federation, coins: CoinSet, reader: InputReader) -> bool:
    """Return whether the federation keeps records, after checking them against the coins.

    Raises InputError if the client's records do not hold its canaries as the coins fell, if the
    client is not in the federation, or if another client has some of the canaries.
    """
    clients = {client.id: federation.path / client.data for client in federation.manifest.clients}
    if coins.client not in clients:
        raise InputError(
            f"{federation.path} has no client {coins.client}, for whom the canaries were made."
        )
    text_counts = {
        client: Counter(_texts(path, federation, reader)) for client, path in clients.items()
    }
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


def open_noiseless(
    path: Path, audited: AuditTarget, coins: CoinSet, reader: InputReader
) -> Federation:
    """Return the federation in `path`, trained without noise with the same canaries.

    Raises InputError if it has another base, holds other canaries, is not complete, was trained
    with as much noise, or is the audited federation itself; UsageError if no federation is audited.
    """
    if audited.federation is None:
        raise UsageError("--noiseless needs a federation as --target.")
    if not is_federation(path):
        raise InputError(f"{path} is no federation's folder.")
    federation = reader.federation(path)
    federation.adapter()
    audited_manifest, manifest = audited.federation.manifest, federation.manifest
    if audited_manifest.base.sha256 != manifest.base.sha256:
        raise InputError(f"{path} was not trained on the base of {audited.federation.path}.")
    if federation.path.resolve() == audited.federation.path.resolve():
        raise InputError(f"{path} is the federation under audit itself, not one without noise.")
    check_planted(federation, coins, reader)
    _check_noise(federation, audited.federation, coins)
    return federation


def _check_noise(federation: Federation, audited: Federation, coins: CoinSet) -> None:
    """Refuse a control whose report states no larger epsilon than the audited federation's."""
    row, audited_row = stated_epsilon(federation, coins), stated_epsilon(audited, coins)
    if row and audited_row and row["value"] <= audited_row["value"]:
        raise InputError(
            f"{federation.path} was trained with noise: its report states epsilon "
            f"{row['value']:g} for {coins.client}, and that of {audited.path} "
            f"{audited_row['value']:g}. --noiseless takes the federation without noise."
        )


def client_texts(federation: Federation, coins: CoinSet, reader: InputReader) -> list[str]:
    """Return the records of the canaries' client without the canaries, as far as they are kept."""
    canaries = {canary.text for canary in coins.canaries}
    return [
        text
        for client in federation.manifest.clients
        if client.id == coins.client
        for text in _texts(federation.path / client.data, federation, reader)
        if text not in canaries
    ]


def _texts(path: Path, federation: Federation, reader: InputReader) -> Iterator[str]:
    if path.is_file():
        yield from (d.text for d in reader.corpus(path, federation.template).documents)
