"""A few documents of every kind: what clients train on where data is scarce (FewFedPIT, A)."""

import random
from collections import defaultdict
from collections.abc import Sequence

from fedaudit.api.records import Document


def few_shot_documents(
    documents: Sequence[Document], clusters: Sequence[int], *, shots: int, seed: int
) -> tuple[list[Document], list[int]]:
    """Return `shots` documents drawn at random from every cluster, with each one's cluster.

    A smaller cluster gives all of its documents. Documents stay in their order. The sample from a
    cluster depends only on the seed, the cluster's number and its documents.
    """
    members: dict[int, list[int]] = defaultdict(list)
    for index, cluster in enumerate(clusters):
        members[cluster].append(index)
    indices = sorted(
        i
        for cluster, pool in members.items()
        for i in random.Random(f"few shot {seed} {cluster}").sample(pool, min(shots, len(pool)))
    )
    return [documents[i] for i in indices], [clusters[i] for i in indices]
