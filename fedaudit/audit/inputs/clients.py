"""The clients of a federation, with the files of their documents."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from fedaudit.api.errors import InputError, UsageError
from fedaudit.audit.inputs.reader import InputReader
from fedaudit.audit.target import RUNS
from fedaudit.data import corpus
from fedaudit.federation.folder import is_federation, latest


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientData:
    """A client and the file of its documents."""

    name: str
    path: str
    sha256: str


def list_clients(
    target: str | None, files: Sequence[Path], reader: InputReader
) -> tuple[ClientData, ...]:
    """Return the clients of `files`, or else of the federation `target`, or else of the latest one.

    Raises UsageError without a federation, and InputError for a federation that keeps no documents,
    for a file that is given twice, and for fewer than two clients.
    """
    named = {path.stem: path for path in files} if files else _of_federation(target, reader)
    if files and len(named) < len(files):
        named = {str(path): path for path in files}
        if len(named) < len(files):
            raise InputError("A client's file is named twice: each client needs its own.")
    check_count(named)
    return read_clients(list(named.items()), reader)


def check_count(clients: Collection[object]) -> None:
    """Raise InputError for fewer than two clients, since each one attacks the others."""
    if len(clients) < 2:
        raise InputError("A matrix needs two clients or more: with one there is nobody to attack.")


def read_clients(files: Sequence[tuple[str, Path]], reader: InputReader) -> tuple[ClientData, ...]:
    """Return the clients of named files, with the files' current SHA-256.

    Raises InputError for a file that does not exist.
    """
    for _, path in files:
        corpus.existing_file(path)
    return tuple(
        ClientData(name=name, path=str(path), sha256=reader.sha256(path)) for name, path in files
    )


def _of_federation(target: str | None, reader: InputReader) -> dict[str, Path]:
    folder = Path(target) if target else latest(RUNS)
    if folder is None or not is_federation(folder):
        raise UsageError(
            "--matrix needs a federation's folder as --target, or the clients' files with "
            "--clients FILE FILE ..."
        )
    federation = reader.federation(folder)
    without = [client.id for client in federation.manifest.clients if not client.data]
    if without:
        raise InputError(
            f"{federation.path} keeps no documents of {without[0]}: name the clients' files with "
            "--clients FILE FILE ..."
        )
    return {client.id: federation.path / client.data for client in federation.manifest.clients}
