"""Single updates that a federation has stored: what sums are asked over, and how alike they are."""

from collections.abc import Sequence

from fedaudit.api.errors import InputError
from fedaudit.api.plugin import Aggregator, Update
from fedaudit.federation import adapters
from fedaudit.federation.folder import Federation
from fedaudit.federation.manifest import Round
from fedaudit.metrics.attribution.sum_leakage import InnerProducts


def inner_products(
    federation: Federation, aggregator: Aggregator, numbers: Sequence[int]
) -> dict[int, InnerProducts]:
    """Return the inner products of each round's updates, of rounds that store all of them."""
    import numpy as np

    found = {}
    for number in numbers:
        record = federation.manifest.rounds[number]
        if record.sums or not set(record.participants) <= set(record.clients):
            continue
        updates = plaintext_updates(federation, aggregator, record)
        matrix = np.zeros((len(updates), len(updates)))
        for name in next(iter(updates.values())):
            rows = np.stack([u[name].double().numpy().ravel() for u in updates.values()])
            matrix += rows @ rows.T
        found[number] = InnerProducts(names=tuple(updates), matrix=matrix)
    return found


def plaintext_updates(
    federation: Federation, aggregator: Aggregator, record: Round
) -> "dict[str, Update]":
    """Return every participant's update; raises InputError if the folder lacks one."""
    start = adapters.read(federation.path / start_adapter(federation, aggregator, record))
    if missing := [client for client in record.participants if client not in record.clients]:
        raise InputError(
            f"{federation.path} has neither the update of {missing[0]} in round {record.round} nor "
            "sums: there is nothing to estimate from."
        )
    trained = {
        client: adapters.read(federation.path / record.clients[client])
        for client in record.participants
    }
    shapes = {
        client: {name: t.shape for name, t in tensors.items()}
        for client, tensors in trained.items()
    }
    if odd := [client for client, s in shapes.items() if s != shapes[record.participants[0]]]:
        raise InputError(
            f"{federation.path}: the adapter of {odd[0]} in round {record.round} has not the "
            f"shapes of that of {record.participants[0]}: their updates cannot be added."
        )
    return {client: aggregator.difference(start, tensors) for client, tensors in trained.items()}


def start_adapter(federation: Federation, aggregator: Aggregator, record: Round) -> str:
    """Return the adapter that clients started from in a round."""
    return federation.manifest.rounds[
        0 if aggregator.merges_each_round else record.round - 1
    ].adapter
