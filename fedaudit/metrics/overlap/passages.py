"""Passages, which are formed from seeds that are close to each other."""

from collections.abc import Iterator

from .seeds import Pair, Seed

Passage = tuple[int, int, int, int]
"""First and last unit in the training text, first and last unit in the generated text."""


def extend_seeds(pair: Pair, seeds: list[Seed], gap: int) -> list[Passage]:
    """Return the passages of some seeds, with at most `gap` other units between neighbours.

    A passage whose two sides are not similar is split with smaller gaps, and finally dropped.
    """
    passages = []
    for cluster in seed_clusters(seeds, gap):
        passage = _cluster_bounds(cluster)
        if pair.is_alike(passage):
            passages.append(passage)
        elif gap > 0:
            passages += extend_seeds(pair, cluster, gap - 1)
    return passages


def seed_clusters(seeds: list[Seed], gap: int) -> Iterator[list[Seed]]:
    """Yield clusters of seeds without a larger gap between neighbours in either text.

    Seeds are split by one text and the other in turn, until a pass splits nothing.
    """
    for cluster in _cut_at_gaps(seeds, 0, gap):
        yield from _split_clusters(cluster, 1, gap)


def _split_clusters(seeds: list[Seed], side: int, gap: int) -> Iterator[list[Seed]]:
    clusters = _cut_at_gaps(seeds, side, gap)
    if len(clusters) <= 1:
        yield from clusters
        return
    for cluster in clusters:
        yield from _split_clusters(cluster, 1 - side, gap)


def _cut_at_gaps(seeds: list[Seed], side: int, gap: int) -> list[list[Seed]]:
    """Split seeds, in the order of one text, where more than `gap` units separate neighbours."""
    ordered = sorted(seeds, key=lambda seed: seed[side])
    clusters: list[list[Seed]] = []
    last = 0
    for seed in ordered:
        if not clusters or seed[side] - last - 1 > gap:
            clusters.append([])
        clusters[-1].append(seed)
        last = seed[side]
    return clusters


def _cluster_bounds(seeds: list[Seed]) -> Passage:
    training_units, generated_units = zip(*seeds, strict=True)
    return min(training_units), max(training_units), min(generated_units), max(generated_units)
