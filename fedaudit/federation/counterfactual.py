"""Federations that were trained again without some client: where they lie, and whose they are."""

from collections.abc import Iterable
from pathlib import Path

from fedaudit.api.errors import InputError
from fedaudit.federation import adapters, manifest
from fedaudit.federation.folder import Federation, is_federation, open_federation
from fedaudit.federation.manifest import Counterfactual

FOLDER = "without"
"""The folder of counterfactual federations, below that of the federation that they are of."""


def place_of(federation: Path, without: Iterable[str]) -> Path:
    """Return where the federation is kept that was trained without these clients."""
    return federation / FOLDER / "+".join(without)


def find_counterpart(federation: Federation, client: str) -> Federation | None:
    """Return the federation without a client that is kept below this one, checked, or None."""
    path = place_of(federation.path, [client])
    if not is_federation(path):
        return None
    variant = open_federation(path)
    check_origin(federation, variant)
    return variant


def check_origin(federation: Federation, variant: Federation) -> Counterfactual:
    """Return what `variant` was trained without; InputError unless it is of this federation."""
    origin = manifest.counterfactual(variant.manifest)
    if origin is None:
        raise InputError(
            f"{variant.path} is no counterfactual federation; `fedaudit simulate --without CLIENT` "
            "trains one."
        )
    if difference := _difference(federation, variant, origin):
        raise InputError(
            f"{variant.path} is the counterfactual of another federation than {federation.path}: "
            f"its {difference} differ."
        )
    return origin


def _difference(federation: Federation, variant: Federation, origin: Counterfactual) -> str:
    """Return what differs between two federations and must not; empty where nothing does."""
    full, reduced = federation.manifest, variant.manifest
    if not full.config_sha256 or full.config_sha256 != origin.config_sha256:
        return "settings"
    if full.base.sha256 != reduced.base.sha256:
        return "bases"
    initial = f"{full.rounds[0].adapter}/{adapters.WEIGHTS}"
    if full.files.get(initial) != reduced.files.get(initial):
        return "initial adapters"
    remaining = {client.id for client in full.clients} - set(origin.without)
    shared = [client for client in full.clients if client.id in remaining]
    same = all(full.files.get(c.data) == reduced.files.get(c.data) for c in shared)
    return "" if same and remaining == {client.id for client in reduced.clients} else "clients"
