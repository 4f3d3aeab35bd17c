"""A few documents of every kind: what clients train on where data is scarce (FewFedPIT, A)."""

import random
from collections import defaultdict
from collections.abc import Sequence

from fedaudit.api.records import Document


def few_shot_documents(
    documents: Sequence[Document], clusters: Sequence[int], *, each: int, seed: int
) -> tuple[list[Document], list[int]]:
    """Return `each` documents of every cluster, drawn at random, with the clusters they are of.

    A cluster of fewer gives all of its own. The documents stay in their order. What is drawn of a
    cluster depends on the seed, the cluster's number and its documents alone.
    """
    members: dict[int, list[int]] = defaultdict(list)
    for place, cluster in enumerate(clusters):
        members[cluster].append(place)
    drawn = sorted(
        place
        for cluster, own in members.items()
        for place in random.Random(f"few shot {seed} {cluster}").sample(own, min(each, len(own)))
    )
    return [documents[place] for place in drawn], [clusters[place] for place in drawn]
