"""The global models of the rounds before the one that is audited, where an attack reads them."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from fedaudit.api.records import Target
from fedaudit.audit.target import AuditTarget
from fedaudit.config import registry
from fedaudit.federation import adapters

if TYPE_CHECKING:
    from fedaudit.audit.request import AuditRequest


def find(request: "AuditRequest", audited: AuditTarget) -> dict[int, Path]:
    """Return the adapter after each earlier round of training; empty where no attack reads it."""
    made = (registry.create("attack", name, request.options.get(name)) for name in request.attacks)
    if not any(one.reads_rounds for one in made):
        return {}
    federation, last = audited.federation, audited.round
    if federation is None or last is None:
        return {}
    rounds = {one.round: one.adapter for one in federation.manifest.rounds}
    return {n: federation.path / rounds[n] for n in sorted(rounds) if 0 < n < last}


def targets(found: Mapping[int, Path]) -> dict[int, Target]:
    """Return the models of these rounds."""
    return {n: Target(name=f"round {n}", adapter=str(path)) for n, path in found.items()}


def hashes(found: Mapping[int, Path]) -> dict[str, str]:
    """Return the SHA-256 of each round's adapter."""
    return {str(n): adapters.fingerprint(path) for n, path in found.items()}
