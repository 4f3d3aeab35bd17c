"""Dealing documents to clients, each about equally many."""

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fedaudit.api.records import Document

if TYPE_CHECKING:
    import numpy as np


def deal_documents(
    documents: Sequence[Document],
    classes: Sequence[int],
    *,
    clients: int,
    alpha: float | None,
    seed: int,
    whole_groups: bool = True,
) -> list[list[Document]]:
    """Return the documents of each client.

    Each client draws its class shares from Dirichlet(alpha) and takes whole groups from the classes
    until it has its quota (balanced, as in FedLab's client_inner_dirichlet). With alpha None
    (IID), groups are dealt at random. A document without a group is its own group, and so is every
    document if groups may be split.
    """
    import numpy as np

    rng = np.random.default_rng(seed)
    units = _units(documents, classes, whole_groups=whole_groups)
    order = [units[i] for i in rng.permutation(len(units))]
    if alpha is None:
        chosen = _round_robin(order, clients)
    else:
        chosen = _by_dirichlet(order, clients, alpha, rng)
    return [[documents[i] for unit in units for i in sorted(unit[1])] for units in chosen]


def corpus_of(document: Document) -> str:
    """Return a document's corpus: the part of its group's name before a slash."""
    return document.group.partition("/")[0]


def deal_by_corpus(
    documents: Sequence[Document], *, clients: int, seed: int
) -> list[list[Document]]:
    """Return the documents of each client, all of one corpus; corpora share the clients evenly.

    Corpora are dealt in the order of their names; if there are more corpora than clients, some
    clients get several.
    """
    corpora = sorted({corpus_of(document) for document in documents})
    client_documents: list[list[Document]] = [[] for _ in range(clients)]
    for number, corpus in enumerate(corpora):
        first = number * clients // len(corpora)
        count = max(1, (number + 1) * clients // len(corpora) - first)
        selected = [document for document in documents if corpus_of(document) == corpus]
        shares = deal_documents(selected, [0] * len(selected), clients=count, alpha=None, seed=seed)
        for client, share in enumerate(shares, first):
            client_documents[client] += share
    return client_documents


Unit = tuple[int, list[int]]
"""A class, and the indices of the documents of one group."""


def _units(
    documents: Sequence[Document], classes: Sequence[int], *, whole_groups: bool
) -> list[Unit]:
    """Return the groups, each with the commonest class among its documents."""
    groups: dict[str, list[int]] = defaultdict(list)
    for index, document in enumerate(documents):
        group = document.group if whole_groups else ""
        groups[group or f"\x00{index}"].append(index)
    return [(_commonest([classes[i] for i in members]), members) for members in groups.values()]


def _round_robin(units: Sequence[Unit], clients: int) -> list[list[Unit]]:
    """Give each unit in turn to the client with the fewest documents."""
    client_units: list[list[Unit]] = [[] for _ in range(clients)]
    for unit in units:
        min(client_units, key=_documents).append(unit)
    return client_units


def _by_dirichlet(
    units: Sequence[Unit], clients: int, alpha: float, rng: "np.random.Generator"
) -> list[list[Unit]]:
    import numpy as np

    count = max(unit[0] for unit in units) + 1
    class_shares = rng.dirichlet([alpha] * count, size=clients)
    remaining: list[list[Unit]] = [[u for u in units if u[0] == c] for c in range(count)]
    client_units: list[list[Unit]] = [[] for _ in range(clients)]
    for _ in units:
        client = min(range(clients), key=lambda k: _documents(client_units[k]))
        open_ = np.array([bool(units_) for units_ in remaining])
        # A client whose classes are all used up takes from what is left, uniformly.
        weights = np.where(open_, np.maximum(class_shares[client], 1e-12), 0.0)
        client_units[client].append(
            remaining[int(rng.choice(count, p=weights / weights.sum()))].pop()
        )
    return client_units


def _commonest(values: Sequence[int]) -> int:
    return min(set(values), key=lambda value: (-values.count(value), value))


def _documents(units: Sequence[Unit]) -> int:
    return sum(len(members) for _, members in units)
