"""Whose records a federation is trained on again, and what it is not trained on."""

from collections.abc import Sequence
from pathlib import Path

from fedaudit.api.errors import InputError, UsageError
from fedaudit.assessment.discovery import Material
from fedaudit.system.files import existing_path


def client_files(material: Material, named: Sequence[str] = ()) -> dict[str, Path]:
    """Return each client's file of records: those that are `named`, or those that are kept.

    `named` are NAME=FILE. Raises UsageError where nobody's records are at hand, or not everybody's.
    """
    if named:
        return _named(named)
    federation, audited = material.audited.federation, material.audited
    where = federation.path if federation else audited.adapter or audited.base
    kept = {one.name: Path(one.path) for one in material.clients}
    known = [one.id for one in federation.manifest.clients] if federation else []
    missing = [name for name in known if name not in kept]
    if not kept or missing:
        whose = f"of {missing[0]}" if kept else "of any client"
        raise UsageError(
            f"--defenses trains again, and {where} keeps no records {whose}: name every client's "
            "with --defense-data NAME=FILE."
        )
    return kept


def _named(named: Sequence[str]) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for one in named:
        name, sign, file = one.partition("=")
        if not sign or not name or not file:
            raise UsageError(f"--defense-data {one}: it takes NAME=FILE, a client and its records.")
        if name in found:
            raise UsageError(f"--defense-data names {name} twice.")
        if not name.replace("-", "").replace("_", "").isalnum():
            raise UsageError(f"--defense-data {one}: a client's name is of letters and digits.")
        if not existing_path(Path(file), "file").is_file():
            raise InputError(f"{file} is no regular file; a JSONL file is needed.")
        found[name] = Path(file)
    return found
