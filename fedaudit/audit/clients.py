"""The clients whose files an audit reads: those of a federation, or one for each file."""

from collections.abc import Collection, Sequence
from pathlib import Path

from fedaudit.api.errors import InputError, UsageError
from fedaudit.audit.input_files import InputReader
from fedaudit.audit.request import ClientData
from fedaudit.audit.target import RUNS
from fedaudit.data import corpus
from fedaudit.federation.folder import is_federation, latest
from fedaudit.system.files import existing_path


def list_clients(
    folder: Path | None, files: Sequence[Path], reader: InputReader
) -> tuple[ClientData, ...]:
    """Return the clients of `files`, or else of the federation in `folder`, or else of the latest.

    A file's client has the file's name without `.jsonl`. Raises UsageError without a federation,
    InputError for a federation that keeps no documents, and for a file that is given twice.
    """
    named = [(path.stem, path) for path in files] if files else _of_federation(folder, reader)
    for _, path in named:
        existing_path(path, "file")  # its message is clearer than samefile's
    for name, path in named:
        if sum(path.samefile(p) for _, p in named) > 1:
            raise InputError(f"{path} is named twice: each client ({name}) needs its own file.")
    if len({name for name, _ in named}) < len(named):
        named = [(str(path), path) for _, path in named]
    return read_clients(named, reader)


def check_count(clients: Collection[object]) -> None:
    """Raise InputError for fewer than two clients, since each one attacks the others."""
    if len(clients) < 2:
        raise InputError("A matrix needs two clients or more: with one there is no one to attack.")


def read_clients(files: Sequence[tuple[str, Path]], reader: InputReader) -> tuple[ClientData, ...]:
    """Return the clients of named files, with the files' current SHA-256.

    Raises InputError for a file that does not exist.
    """
    for _, path in files:
        corpus.existing_file(path)
    return tuple(
        ClientData(name=name, path=str(path), sha256=reader.sha256(path)) for name, path in files
    )


def _of_federation(folder: Path | None, reader: InputReader) -> list[tuple[str, Path]]:
    folder = folder or latest(RUNS)
    if folder is None or not is_federation(folder):
        where = f"{folder} is not a federation" if folder else "There is no federation below runs/"
        raise UsageError(f"{where}: name one, or the clients' files with --clients FILE FILE ...")
    federation = reader.federation(folder)
    clients = federation.manifest.clients
    if without := [client.id for client in clients if not client.data]:
        raise InputError(
            f"{federation.path} keeps no documents of {without[0]}: name the clients' files with "
            "--clients FILE FILE ..."
        )
    return [(client.id, federation.path / client.data) for client in clients]
