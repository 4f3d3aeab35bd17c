"""The clients' files of records that a federation is trained on again."""

from collections.abc import Sequence
from pathlib import Path

from fedaudit.api.errors import UsageError
from fedaudit.assessment.discovery import Material
from fedaudit.data import corpus


def client_files(material: Material, named: Sequence[str] = ()) -> dict[str, Path]:
    """Return each client's file of records: the `named` ones, or those in the federation's folder.

    `named` are NAME=FILE. Raises UsageError where the records of any client are missing.
    """
    if named:
        return _parse_files(named)
    federation, audited = material.audited.federation, material.audited
    where = federation.path if federation else audited.adapter or audited.base
    files = {client.name: Path(client.path) for client in material.clients}
    clients = [client.id for client in federation.manifest.clients] if federation else []
    missing = [name for name in clients if name not in files]
    if not files or missing:
        owner = f"of {missing[0]}" if files else "of any client"
        raise UsageError(
            f"--defenses trains again, and {where} keeps no records {owner}: name every client's "
            "with --defense-data NAME=FILE."
        )
    return files


def _parse_files(named: Sequence[str]) -> dict[str, Path]:
    files: dict[str, Path] = {}
    for argument in named:
        name, sign, file = argument.partition("=")
        if not sign or not name or not file:
            raise UsageError(
                f"--defense-data {argument}: it takes NAME=FILE, a client and its records."
            )
        if name in files:
            raise UsageError(f"--defense-data names {name} twice.")
        if not name.replace("-", "").replace("_", "").isalnum():
            raise UsageError(
                f"--defense-data {argument}: a client's name is of letters and digits."
            )
        corpus.existing_file(Path(file))
        files[name] = Path(file)
    return files
