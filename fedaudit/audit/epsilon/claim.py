"""What is claimed, and whether the canaries were planted as their coins fell."""

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


def claimed_epsilon(asked: float | None, audited: AuditTarget, coins: CoinSet) -> float:
    """Return the epsilon that is claimed: the one asked about, or that of the simulation's report.

    Raises UsageError where nobody says, InputError where it is claimed at a larger delta.
    """
    if asked is not None:
        return asked
    place = audited.federation.path / REPORT if audited.federation else None
    rows = read(place)["measurements"] if place and place.is_file() else []
    own = [row for row in rows if (row["kind"], row["metric"]) == ("defense", "epsilon")]
    found = [row for row in own if row["scope"].get("client") == coins.client]
    if not found or found[0]["value"] is None:
        raise UsageError(
            f"Nobody says which epsilon is claimed for {coins.client}: name it with --epsilon."
        )
    delta = float(found[0]["scope"].get("delta", 1.0))
    if delta > coins.delta:
        raise InputError(
            f"{place} claims epsilon {found[0]['value']:g} at delta {delta:g}; what is audited is "
            f"delta {coins.delta:g}: train with that delta, or name the epsilon at it with "
            "--epsilon."
        )
    return float(found[0]["value"])


def check_planted(federation: Federation, coins: CoinSet) -> bool:
    """Tell whether the federation's records are there and hold the canaries as the coins fell.

    Raises InputError where they hold others, where the client is none of the federation's, or
    where another client has some of them.
    """
    clients = {one.id: federation.path / one.data for one in federation.manifest.clients}
    if coins.client not in clients:
        raise InputError(
            f"{federation.path} has no client {coins.client}, whose canaries they are."
        )
    seen = {who: Counter(_texts(path, federation)) for who, path in clients.items()}
    if not any(seen.values()):
        return False
    own = seen.pop(coins.client)
    wrong = sum(own[one.text] != one.included for one in coins.canaries)
    if wrong:
        raise InputError(
            f"The records of {coins.client} in {federation.path} do not hold {wrong:,} of "
            f"{len(coins.canaries):,} canaries as their coins fell: plant them with `fedaudit dp "
            "plant` before training, each once, and hold none of them out."
        )
    for who, texts in seen.items():
        if any(one.text in texts for one in coins.canaries):
            raise InputError(f"{who} in {federation.path} has canaries of {coins.client} as well.")
    return True


def open_noiseless(path: Path, audited: AuditTarget, coins: CoinSet) -> Federation:
    """Return the federation that was trained without noise, on the very same records.

    Raises InputError for one on another base or with other records, or that is not complete.
    """
    if audited.federation is None:
        raise UsageError("--noiseless goes with a federation as --target.")
    if not is_federation(path):
        raise InputError(f"{path} is no federation's folder.")
    found = open_federation(path)
    found.adapter()
    ours, theirs = audited.federation.manifest, found.manifest
    if ours.base.sha256 != theirs.base.sha256:
        raise InputError(f"{path} was not trained on the base of {audited.federation.path}.")
    if found.path.resolve() == audited.federation.path.resolve():
        raise InputError(f"{path} is the federation under audit itself, not one without noise.")
    check_planted(found, coins)
    return found


def _texts(path: Path, federation: Federation) -> Iterator[str]:
    if path.is_file():
        yield from (one.text for one in corpus.read(path, federation.template))
