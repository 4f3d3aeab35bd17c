"""Estimates on disk: all that the owner of a watermark gets from the server.

The folder holds estimates.json and adapters: for each round the global adapter that the round began
with and, for each client that took part, that adapter plus the client's estimated update. The
sets that were summed are left out, because anyone who knows the designs can solve for the updates.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from fedaudit.api.errors import InputError
from fedaudit.attribution import federation_checks as checks
from fedaudit.attribution.copies import NO_COPIES, Copies, check_copies
from fedaudit.attribution.server.round_designs import DesignSettings, check_settings
from fedaudit.config.options import read_record
from fedaudit.federation import adapters
from fedaudit.federation.manifest import BaseModel
from fedaudit.system.files import atomic_text, sha256
from fedaudit.system.names import check_inside, check_name

SCHEMA_VERSION = "1.0"
NAME = "estimates.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientEstimate:
    """One client's estimated update in one round, stored as start adapter plus update."""

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
    weights: str
    """The weights in the server's sums, "equal" or "size"."""
    shares: Mapping[str, float] = field(default_factory=dict)
    """The weight of each client's update in sums by size, to two digits; empty otherwise."""
    dimension: int
    """How many numbers an update has."""
    asked: str = ""
    """When the first sum was asked for, as the server says: ISO 8601 with a time zone."""
    trained: str = ""
    """When the first round began, as the server's files say: ISO 8601; empty if they do not."""
    noted: str = ""
    """The SHA-256 of the published commitments that the server noted with the first sum."""
    federation_rounds: int
    """How many rounds the federation had when these were written, estimated or not."""
    copies: Copies = NO_COPIES
    """What the server found of adapters that were sent more than once, in all of these rounds."""
    rounds: tuple[RoundEstimates, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    """The SHA-256 of every adapter file named here."""


def write(estimates: Estimates, folder: Path) -> None:
    """Write estimates.json into `folder`, whole or not at all."""
    atomic_text(folder / NAME, json.dumps(asdict(estimates), indent=2, allow_nan=False) + "\n")


def read(folder: Path) -> Estimates:
    """Return the estimates in `folder`, fully checked.

    Raises InputError for a folder without estimates, or if files are missing or changed.
    """
    path = folder / NAME
    missing = f"{folder} holds no estimates; `fedaudit attribute estimate` writes them."
    estimates = read_record(Estimates, path, SCHEMA_VERSION, missing)
    _check(estimates, folder)
    return estimates


def _check(estimates: Estimates, folder: Path) -> None:
    path = folder / NAME
    numbers = [r.round for r in estimates.rounds]
    checks.check_round_numbers(numbers, str(folder))
    checks.check_federation_rounds(numbers, estimates.federation_rounds, str(path))
    checks.check_clients(estimates.clients, str(path))
    check_copies(estimates.copies, estimates.clients, estimates.federation_rounds, str(path))
    checks.check_update(estimates.shares, estimates.clients, estimates.dimension, str(path))
    for client in estimates.clients:
        check_name(client, path, "the client")
    for record in estimates.rounds:
        _check_round(record, estimates.clients, folder)
    names = adapter_files(estimates)
    for name in dict.fromkeys((*estimates.files, *names)):
        check_inside(name, path)
    if strangers := sorted(set(estimates.files) - set(names)):
        raise InputError(f"{path} names the file {strangers[0]!r}, which no round has.")
    for name in names:
        _check_file(folder, name, estimates.files)
    hashes = {
        record.round: {
            e.client: adapters.tensors_sha256(
                folder / e.adapter, estimates.files[f"{e.adapter}/{adapters.WEIGHTS}"]
            )
            for e in record.estimates
        }
        for record in estimates.rounds
    }
    checks.check_copied_rounds(hashes, str(folder), "everybody's estimates")


def _check_round(record: RoundEstimates, known_clients: Sequence[str], folder: Path) -> None:
    where = f"{folder}: round {record.round}"
    check_settings(record, len(record.estimates), where)
    clients = [estimate.client for estimate in record.estimates]
    if len(set(clients)) < len(clients):
        raise InputError(f"{where} names a client twice.")
    if strangers := sorted(set(clients) - set(known_clients)):
        raise InputError(f"{where} names {strangers[0]!r}, no client.")
    checks.check_masks([x for e in record.estimates for x in (e.strength, e.effective)], where)


def adapter_files(estimates: Estimates) -> list[str]:
    """Return the files of all rounds' adapters, as paths within the folder, each once."""
    folders = [
        name for r in estimates.rounds for name in (r.start, *(e.adapter for e in r.estimates))
    ]
    files = (adapters.CONFIG, adapters.WEIGHTS)
    return list(dict.fromkeys(f"{folder}/{file}" for folder in folders for file in files))


def _check_file(folder: Path, name: str, files: Mapping[str, str]) -> None:
    if not (folder / name).is_file():
        raise InputError(f"{folder} misses {name}, which {NAME} names.")
    if sha256(folder / name) != files.get(name):
        raise InputError(f"{folder / name} is not the file that {NAME} names (SHA-256).")
