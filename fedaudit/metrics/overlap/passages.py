"""Seeds that lie near each other become passages."""

from collections.abc import Iterator

from .seeds import Pair, Seed

Case = tuple[int, int, int, int]
"""First and last unit in the training text, first and last unit in the generated text."""


def extend_seeds(pair: Pair, seeds: list[Seed], gap: int) -> list[Case]:
    """Return the passages of some seeds, with at most `gap` other units between two of them.

    A passage whose two sides are not alike is tried again with smaller gaps, then dropped.
    """
    cases = []
    for cluster in seed_clusters(seeds, gap):
        case = _case(cluster)
        if pair.alike(case):
            cases.append(case)
        elif gap > 0:
            cases += extend_seeds(pair, cluster, gap - 1)
    return cases


def seed_clusters(seeds: list[Seed], gap: int) -> Iterator[list[Seed]]:
    """Yield the seeds that no gap divides in either text.

    They are divided by the one text, then by the other, and so on, until a pass divides nothing.
    """
    for part in _divided(seeds, 0, gap):
        yield from _settled(part, 1, gap)


def _settled(seeds: list[Seed], side: int, gap: int) -> Iterator[list[Seed]]:
    parts = _divided(seeds, side, gap)
    if len(parts) <= 1:
        yield from parts
        return
    for part in parts:
        yield from _settled(part, 1 - side, gap)


def _divided(seeds: list[Seed], side: int, gap: int) -> list[list[Seed]]:
    """Cut the seeds, in order of one text, wherever more than `gap` units lie between two."""
    ordered = sorted(seeds, key=lambda seed: seed[side])
    parts: list[list[Seed]] = []
    last = 0
    for seed in ordered:
        if not parts or seed[side] - last - 1 > gap:
            parts.append([])
        parts[-1].append(seed)
        last = seed[side]
    return parts


def _case(seeds: list[Seed]) -> Case:
    ours, theirs = zip(*seeds, strict=True)
    return min(ours), max(ours), min(theirs), max(theirs)
