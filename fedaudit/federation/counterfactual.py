"""Counterfactual federations, trained again without some clients: their folders and origins."""

from collections.abc import Callable, Iterable
from pathlib import Path

from fedaudit.api.errors import InputError
from fedaudit.federation import adapters, manifest
from fedaudit.federation.folder import Federation, is_federation, open_federation
from fedaudit.federation.manifest import Counterfactual

FOLDER = "without"
"""The folder of counterfactual federations, below the folder of the original federation."""


def place_of(federation: Path, without: Iterable[str]) -> Path:
    """Return the folder of the counterfactual federation that was trained without these clients."""
    return federation / FOLDER / "+".join(without)


def find_counterpart(
    federation: Federation, client: str, opened: Callable[[Path], Federation] = open_federation
) -> Federation | None:
    """Return the checked counterfactual federation without `client` below this one, or None."""
    path = place_of(federation.path, [client])
    if not is_federation(path):
        return None
    variant = opened(path)
    check_origin(federation, variant)
    return variant


def check_origin(federation: Federation, variant: Federation) -> Counterfactual:
    """Return which clients `variant` was trained without.

    Raises InputError unless `variant` is a counterfactual of `federation`.
    """
    origin = manifest.counterfactual(variant.manifest)
    if origin is None:
        raise InputError(
            f"{variant.path} is not a counterfactual federation; `fedaudit simulate --without "
            f"CLIENT` "
            "trains one."
        )
    if difference := _difference(federation, variant, origin):
        raise InputError(
            f"{variant.path} is the counterfactual of another federation than {federation.path}: "
            f"its {difference} differ."
        )
    return origin


def _difference(federation: Federation, variant: Federation, origin: Counterfactual) -> str:
    """Return the first thing that differs between two federations but must not, "" if none."""
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
