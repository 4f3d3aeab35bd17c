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


def beside(federation: Federation, client: str) -> Federation | None:
    """Return the federation without a client that is kept beside one, checked; None for none."""
    place = place_of(federation.path, [client])
    if not is_federation(place):
        return None
    found = open_federation(place)
    check_origin(federation, found)
    return found


def check_origin(federation: Federation, other: Federation) -> Counterfactual:
    """Return whom `other` was trained without; InputError unless it is of this very federation."""
    found = manifest.counterfactual(other.manifest)
    if found is None:
        raise InputError(
            f"{other.path} is no counterfactual federation; `fedaudit simulate --without CLIENT` "
            "trains one."
        )
    if difference := _difference(federation, other, found):
        raise InputError(
            f"{other.path} is the counterfactual of another federation than {federation.path}: "
            f"its {difference} differ."
        )
    return found


def _difference(federation: Federation, other: Federation, found: Counterfactual) -> str:
    """Return what of two federations differs that must not; empty where nothing does."""
    ours, theirs = federation.manifest, other.manifest
    if not ours.config_sha256 or ours.config_sha256 != found.config_sha256:
        return "settings"
    if ours.base.sha256 != theirs.base.sha256:
        return "bases"
    initial = f"{ours.rounds[0].adapter}/{adapters.WEIGHTS}"
    if ours.files.get(initial) != theirs.files.get(initial):
        return "initial adapters"
    left = {one.id for one in ours.clients} - set(found.without)
    shared = [one for one in ours.clients if one.id in left]
    same = all(ours.files.get(one.data) == theirs.files.get(one.data) for one in shared)
    return "" if same and left == {one.id for one in theirs.clients} else "clients"
