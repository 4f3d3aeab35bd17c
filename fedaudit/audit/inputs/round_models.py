"""The global models of the rounds before the audited one, for attacks that read them."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from fedaudit.api.records import Target
from fedaudit.audit.inputs.reader import InputReader
from fedaudit.audit.target import AuditTarget
from fedaudit.config import registry
from fedaudit.federation import adapters

if TYPE_CHECKING:
    from fedaudit.audit.request import AuditRequest


def find(request: "AuditRequest", audited: AuditTarget) -> dict[int, Path]:
    """Return the adapter after each earlier round; empty if no attack reads them."""
    attacks = (
        registry.create("attack", name, request.options.get(name)) for name in request.attacks
    )
    if not any(attack.reads_rounds for attack in attacks):
        return {}
    federation, last = audited.federation, audited.round
    if federation is None or last is None:
        return {}
    rounds = {entry.round: entry.adapter for entry in federation.manifest.rounds}
    return {n: federation.path / rounds[n] for n in sorted(rounds) if 0 < n < last}


def targets(adapter_paths: Mapping[int, Path]) -> dict[int, Target]:
    """Return a target for the model of each round."""
    return {n: Target(name=f"round {n}", adapter=str(path)) for n, path in adapter_paths.items()}


def facts(adapter_paths: Mapping[int, Path], reader: InputReader) -> dict[str, object]:
    """Return the facts about earlier rounds' models that identify a run; empty without any."""
    hashes = {
        str(n): adapters.fingerprint(path, reader.sha256) for n, path in adapter_paths.items()
    }
    return {"rounds' SHA-256": hashes} if hashes else {}
