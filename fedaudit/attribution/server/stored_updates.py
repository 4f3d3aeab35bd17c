"""Single updates that a federation has stored: what sums are asked over, and how alike they are."""

from collections.abc import Iterable, Sequence

import numpy as np

from fedaudit.api.errors import InputError
from fedaudit.api.plugin import Aggregator, Update
from fedaudit.config import registry
from fedaudit.federation import adapters, manifest
from fedaudit.federation.folder import Federation
from fedaudit.federation.manifest import Round
from fedaudit.metrics.attribution.sum_leakage import InnerProducts

SCALING = ("r", "lora_alpha", "use_rslora", "rank_pattern", "alpha_pattern", "use_dora")
"""Settings by which equal tensors mean other changes of the base."""
APART = ("rank_pattern", "alpha_pattern", "target_parameters")
"""Settings of single modules, which the rules that add up products B A do not keep."""


def aggregator_of(federation: Federation) -> Aggregator:
    """Return the aggregation rule of a federation."""
    rule = manifest.chosen_plugin(federation.manifest, "aggregation")
    assert rule is not None  # the manifest has one
    aggregator: Aggregator = registry.create("aggregation", rule.name, rule.options)
    return aggregator


def check(federation: Federation, aggregator: Aggregator, numbers: Iterable[int]) -> None:
    """Raise InputError for adapters whose updates cannot be added, before any sum is asked for.

    Only headers and configurations are read, and the federation's first adapter.
    """
    rounds = federation.manifest.rounds
    first = federation.path / rounds[0].adapter
    config, initial = adapters.check(first), adapters.read(first)
    if aggregator.merges_each_round and (odd := [name for name in APART if config.get(name)]):
        raise InputError(
            f"{first} cannot be attributed under {aggregator.name}: it has {odd[0]}, and products "
            "of the clients' factors are added with one rank and scaling for all modules."
        )
    aggregator.difference(initial, initial)  # refuses tensors that the rule has no place for
    shapes = {name: tuple(tensor.shape) for name, tensor in initial.items()}
    for number in numbers:
        added = {f"of {client}": place for client, place in rounds[number].clients.items()}
        if not aggregator.merges_each_round:
            added["that clients started from"] = rounds[number - 1].adapter
        for whose, place in sorted(added.items()):
            folder = federation.path / place
            own, which = adapters.check(folder), f"the adapter {whose} in round {number}"
            difference = next((n for n in SCALING if (own.get(n) or 0) != (config.get(n) or 0)), "")
            if adapters.shapes(folder) != shapes:
                difference = "shapes (other ranks, as in HetLoRA, or other modules)"
            if difference:
                raise InputError(
                    f"{federation.path}: {which} differs from the federation's first one in its "
                    f"{difference}, so that updates cannot be added and nothing can be attributed."
                )


def inner_products(
    federation: Federation, aggregator: Aggregator, numbers: Sequence[int]
) -> dict[int, InnerProducts]:
    """Return the inner products of each round's updates, of rounds that store all of them."""
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
    return {client: aggregator.difference(start, tensors) for client, tensors in trained.items()}


def start_adapter(federation: Federation, aggregator: Aggregator, record: Round) -> str:
    """Return the adapter that clients started from in a round."""
    return federation.manifest.rounds[
        0 if aggregator.merges_each_round else record.round - 1
    ].adapter
