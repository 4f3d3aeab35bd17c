"""The clients whose texts are searched for: those of a federation, or one per file."""

from collections.abc import Sequence
from pathlib import Path

from fedaudit.api.errors import InputError, UsageError
from fedaudit.audit.inputs.clients import ClientData, read_clients
from fedaudit.audit.inputs.reader import InputReader
from fedaudit.audit.target import RUNS
from fedaudit.federation.folder import is_federation, latest
from fedaudit.system.files import existing_path


def client_files(
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


def _of_federation(folder: Path | None, reader: InputReader) -> list[tuple[str, Path]]:
    folder = folder or latest(RUNS)
    if folder is None:
        raise UsageError(
            "There is no federation below runs/: name one (fedaudit memorize RUN), or the "
            "clients' files with --clients FILE FILE ..."
        )
    if not is_federation(folder):
        raise UsageError(
            f"{folder} is no federation, so it is not known whose texts to look for: name the "
            "clients' files with --clients FILE FILE ..."
        )
    federation = reader.federation(folder)
    clients = federation.manifest.clients
    if without := [client.id for client in clients if not client.data]:
        raise InputError(
            f"{federation.path} keeps no documents of {without[0]}: name the clients' files with "
            "--clients FILE FILE ..."
        )
    return [(client.id, federation.path / client.data) for client in clients]
