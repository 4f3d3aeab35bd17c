"""Filtering passages: drops those that overlap in the training text, and short ones."""

import numpy as np

from fedaudit.metrics.overlap.passages import Passage

from .seeds import Pair
from .sentences import Span

_TINY = 1e-12
"""Scores closer than this count as equal, since they may differ in the order of summation only."""


def filter_passages(pair: Pair, passages: list[Passage]) -> list[Passage]:
    """Return passages that do not overlap in the training text, with both sides long enough."""
    least = pair.a.settings.length
    return [
        passage
        for passage in _drop_overlaps(pair, sorted(passages, key=lambda passage: passage[0]))
        if min(passage_lengths(pair, passage)) >= least
    ]


def passage_span(pair: Pair, passage: Passage) -> tuple[Span, Span]:
    """Return the character spans of a passage in both texts."""
    a0, a1, b0, b1 = passage
    return (
        (int(pair.a.starts[a0]), int(pair.a.ends[a1])),
        (int(pair.b.starts[b0]), int(pair.b.ends[b1])),
    )


def passage_lengths(pair: Pair, passage: Passage) -> tuple[float, float]:
    """Return the lengths of a passage in both texts, in weighted characters."""
    a, b = (
        side.places(np.array(span))
        for side, span in zip((pair.a, pair.b), passage_span(pair, passage), strict=True)
    )
    return float(a[1] - a[0]), float(b[1] - b[0])


def _drop_overlaps(pair: Pair, passages: list[Passage]) -> list[Passage]:
    """Return the best passage of every chain of passages that overlap in the training text."""
    winners: list[Passage] = []
    index, pending = 0, False
    while index < len(passages):
        current = winners[-1] if pending else passages[index]
        rivals = [passage for passage in passages[index + 1 :] if passage[0] <= current[1]]
        if not pending:
            winners.append(current)
        if not rivals:
            index, pending = index + 1, False
            continue
        winners[-1] = _best(pair, current, rivals)
        index, pending = index + len(rivals), True
    return winners


def _best(pair: Pair, current: Passage, rivals: list[Passage]) -> Passage:
    """Return the best of a passage and those that overlap it.

    Of two near-copies (both scores above 0.99) the longer one wins, otherwise the one with the
    higher score. In the original, a rival has to beat `current`, whose own score is never kept.
    """
    winner, height = current, 0.0
    for rival in rivals:
        current_score, rival_score = _score(pair, current, rival), _score(pair, rival, current)
        candidate, value = rival, rival_score
        if min(current_score, rival_score) > 0.99:
            if rival[1] - rival[0] <= current[1] - current[0]:
                candidate, value = current, current_score
        elif rival_score <= current_score + _TINY:
            if pair.a.settings.compat:
                continue
            candidate, value = current, current_score
        if value > height + _TINY:
            winner, height = candidate, value
    return winner


def _score(pair: Pair, passage: Passage, rival: Passage) -> float:
    """Return the score of a passage: s + (1 - s) x o.

    s is the mean of the best cosines of the units that it shares with the rival, o that of its
    other units.
    """
    a0, a1, b0, b1 = passage
    best = pair.cosines[a0 : a1 + 1, b0 : b1 + 1].max(axis=1)
    units = np.arange(a0, a1 + 1)
    shared = (units >= rival[0]) & (units <= rival[1])
    inside = float(best[shared].mean())
    return inside if shared.all() else inside + (1 - inside) * float(best[~shared].mean())
