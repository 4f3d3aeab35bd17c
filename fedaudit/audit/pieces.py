"""How much is asked at once, and kept at once: little at first, and more as more is kept.

What is lost when an audit is stopped is the piece that was being asked. However fast the model
is, that is at most a first piece or a SHARE of what the pass asked before. The sizes follow from
the questions alone and not from the clock, so that a resumed audit puts the same questions into
the same batches.
"""

SHARE = 16
"""A piece is at most one part in so many of what was asked before it."""


def size(before: int, least: int, most: int) -> int:
    """Return how much the next piece may hold, from `least` to `most`, `before` it was asked."""
    return max(1, min(most, max(least, before // SHARE)))
