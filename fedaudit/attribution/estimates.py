"""Estimates on disk: all that the owner of a watermark gets from the server.

A folder of its own, estimates.json and adapters: for each round the global adapter that it began
with and, for each client that took part, that adapter moved by the client's estimated update. It
does not say which sets were asked for: whoever knows the designs can solve for the updates.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from fedaudit.api.errors import InputError, UsageError
from fedaudit.attribution.server.round_designs import DesignSettings, check_settings
from fedaudit.config.options import build
from fedaudit.federation import adapters
from fedaudit.federation.manifest import BaseModel
from fedaudit.system.files import atomic_text, check_version, read_json, sha256
from fedaudit.system.names import check_inside, check_name

SCHEMA_VERSION = "1.0"
NAME = "estimates.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientEstimate:
    """One client's estimated update of one round, as the adapter that it leads to."""

    client: str
    adapter: str
    strength: float
    """rho: the masks' variance, in updates of the others."""
    effective: float
    """n_eff: how many clients' worth of masks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundEstimates(DesignSettings):
    """One round, and how its sets were drawn."""

    round: int
    start: str
    """The global adapter that the round began with."""
    estimates: tuple[ClientEstimate, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimates:
    """estimates.json."""

    schema_version: str = SCHEMA_VERSION
    run: str
    """The identity of the federation; it stays the same while rounds are added."""
    base: BaseModel
    aggregation: str
    clients: tuple[str, ...]
    """Everybody in the federation, whether they took part in a round or not."""
    weights: str = "size"
    """The weights in the server's sums, "equal" or "size"; files older than "equal" say nothing."""
    shares: Mapping[str, float] = field(default_factory=dict)
    """What each client's update weighs in sums by size, to two digits; empty otherwise."""
    dimension: int
    """Numbers in an update."""
    asked: str = ""
    """When the first sum was asked for, as the server says: ISO 8601 with a time zone."""
    rounds: tuple[RoundEstimates, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    """The SHA-256 of every file that it names."""


def write(estimates: Estimates, folder: Path) -> None:
    """Write estimates.json into `folder`, whole or not at all."""
    atomic_text(folder / NAME, json.dumps(asdict(estimates), indent=2, allow_nan=False) + "\n")


def read(folder: Path) -> Estimates:
    """Return the estimates in `folder`, fully checked.

    Raises InputError for a folder that holds none, or whose files are missing or changed.
    """
    path = folder / NAME
    table = _table(path)
    check_version(table, path, SCHEMA_VERSION)
    try:
        rounds = tuple(_round(item) for item in table.get("rounds", ()))
        estimates = build(Estimates, {**table, "rounds": rounds}, NAME)
    except UsageError as error:
        raise InputError(f"{path}: {error}") from None
    except (KeyError, TypeError, AttributeError):
        raise InputError(f"{path}: its rounds are not those of estimates.") from None
    _check(estimates, folder)
    return estimates


def _table(path: Path) -> dict[str, Any]:
    table = read_json(
        path, f"{path.parent} holds no estimates; `fedaudit attribute estimate` writes them."
    )
    if not isinstance(table, dict):
        raise InputError(f"{path} must hold a JSON object.")
    return table


def _round(item: Mapping[str, Any]) -> RoundEstimates:
    estimates = tuple(
        build(ClientEstimate, table, f"{NAME} estimates") for table in item["estimates"]
    )
    return build(RoundEstimates, {**item, "estimates": estimates}, f"{NAME} rounds")


def _check(estimates: Estimates, folder: Path) -> None:
    numbers = [r.round for r in estimates.rounds]
    if repeated := sorted({n for n in numbers if numbers.count(n) > 1}):
        raise InputError(f"{folder} has round {repeated[0]} twice.")
    path = folder / NAME
    for client in estimates.clients:
        check_name(client, path, "the client")
    for record in estimates.rounds:
        check_settings(record, len(record.estimates), f"{folder}: round {record.round}")
        clients = [estimate.client for estimate in record.estimates]
        if len(set(clients)) < len(clients):
            raise InputError(f"{folder}: round {record.round} names a client twice.")
        if strangers := sorted(set(clients) - set(estimates.clients)):
            raise InputError(f"{folder}: round {record.round} names {strangers[0]!r}, no client.")
        for name in (record.start, *(estimate.adapter for estimate in record.estimates)):
            for file in (adapters.CONFIG, adapters.WEIGHTS):
                check_inside(f"{name}/{file}", path)
                _check_file(folder, f"{name}/{file}", estimates.files)


def _check_file(folder: Path, name: str, files: Mapping[str, str]) -> None:
    if not (folder / name).is_file():
        raise InputError(f"{folder} misses {name}, which {NAME} names.")
    if sha256(folder / name) != files.get(name):
        raise InputError(f"{folder / name} is not the file that {NAME} names (SHA-256).")
