"""Clients that a counterfactual federation is without."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any, TypeVar

from fedaudit.federation.manifest import Counterfactual
from fedaudit.simulation.config import Simulation

T = TypeVar("T")


def select_participants(
    config: Simulation, client_documents: Sequence[T]
) -> tuple[list[str], list[T]]:
    """Return the names of the clients that are not left out, and the documents of each."""
    by_name = dict(zip(config.client_names, client_documents, strict=True))
    names = [name for name in by_name if name not in config.without]
    return names, [by_name[name] for name in names]


def origin(config: Simulation) -> dict[str, Any] | None:
    """Return the manifest entry on a counterfactual federation's origin; None for any other."""
    if not config.without:
        return None
    full_config = replace(config, without=())
    return asdict(Counterfactual(without=config.without, config_sha256=full_config.sha256()))
