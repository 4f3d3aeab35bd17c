"""The clients' own models in a round, which the server sees, and the clients' records."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fedaudit.api.errors import InputError, UsageError
from fedaudit.api.plugin import Attack
from fedaudit.api.records import ClientModel, Target
from fedaudit.api.templates import PromptTemplate
from fedaudit.audit.inputs.reader import InputReader
from fedaudit.audit.target import AuditTarget
from fedaudit.config import registry
from fedaudit.federation import adapters

if TYPE_CHECKING:
    from fedaudit.audit.request import AuditRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientFiles:
    """The paths of a client's model and of its records."""

    adapter: Path
    records: Path


def find(request: "AuditRequest", audited: AuditTarget) -> dict[str, ClientFiles]:
    """Return the files of every client whose model and records are at hand, by client.

    Records are those in the federation's folder, or else a given file with the client's name.
    Empty if no attack reads clients' models. Raises UsageError without a federation's round, and
    InputError if there are fewer than two such clients.
    """
    if not any(map(_reads_clients, request.attacks)):
        return {}
    federation, number = audited.federation, audited.round
    if federation is None or number is None:
        raise UsageError(
            f"{_names(request)} asks the clients' own models: give a federation's folder as "
            "--target, or one of its rounds with --round."
        )
    [of_round] = [entry for entry in federation.manifest.rounds if entry.round == number]
    named = [path for path in (request.input_path, request.victim_path, *request.members) if path]
    record_paths = {path.stem: path for path in named}
    record_paths |= {c.id: federation.path / c.data for c in federation.manifest.clients if c.data}
    client_files = {
        client: ClientFiles(adapter=federation.path / folder, records=record_paths[client])
        for client, folder in sorted(of_round.clients.items())
        if client in record_paths and record_paths[client].is_file()
    }
    if len(client_files) < 2:
        raise InputError(
            f"{_names(request)} tells clients apart: round {number} of {federation.path} has "
            f"{len(of_round.clients)} clients' models, and the records of {len(client_files)} of "
            "them are at hand; with --member, name files that are called as the clients are."
        )
    return client_files


def read(
    client_files: Mapping[str, ClientFiles], form: PromptTemplate, reader: InputReader
) -> dict[str, ClientModel]:
    """Return the models and records of clients."""
    return {
        client: ClientModel(
            target=Target(name=f"client {client}", adapter=str(files.adapter)),
            documents=reader.corpus(files.records, form).documents,
        )
        for client, files in client_files.items()
    }


def facts(client_files: Mapping[str, ClientFiles], reader: InputReader) -> dict[str, object]:
    """Return the facts about clients' models and records that identify a run; empty without any."""
    if not client_files:
        return {}
    every = client_files.items()
    hashes = {client: adapters.fingerprint(files.adapter, reader.sha256) for client, files in every}
    records = {client: reader.sha256(files.records) for client, files in every}
    return {"clients' adapters' SHA-256": hashes, "clients' records": records}


def _reads_clients(name: str) -> bool:
    plugin = registry.plugins("attack").get(name)
    return plugin is not None and issubclass(plugin, Attack) and plugin.reads_clients


def _names(request: "AuditRequest") -> str:
    return ", ".join(name for name in request.attacks if _reads_clients(name))
