"""Texts near a record: the same with a few tokens that are drawn at random.

Mattern et al. 2023 (arXiv:2305.18462) have a masked language model write them. This is the form of
their published re-implementation (MIMIR, Duan et al. 2024) that needs no second model: a token is
replaced with a probability of 0.15 by one drawn evenly from a dictionary, here of all tokens of the
records that are compared.
"""

import random
from collections.abc import Iterable, Sequence

SHARE = 0.15
"""How likely a token is replaced: a share of 0.3 masked, in spans of 2 with 1 left on each side."""

Ids = tuple[int, ...]


def dictionary(texts: Iterable[Sequence[int]]) -> Ids:
    """Return every token of some texts once, in order."""
    return tuple(sorted({token for text in texts for token in text}))


def sample_neighbours(
    text: Sequence[int], tokens: Sequence[int], *, count: int, seed: int
) -> list[Ids]:
    """Return `count` texts near one; they depend on it, the dictionary and the seed alone."""
    rng = random.Random(f"neighbours {seed} {tuple(text)}")
    return [
        tuple(rng.choice(tokens) if rng.random() < SHARE else token for token in text)
        for _ in range(count)
    ]
