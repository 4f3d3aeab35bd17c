"""How much is asked at once, and kept at once: little at first, and more as more is kept.

What is lost when an audit is stopped is the piece that was being asked. However fast the model
is, that is at most a first piece or a SHARE of what the pass asked before. The sizes follow from
the questions alone and not from the clock, so that a resumed audit puts the same questions into
the same batches.
"""

SHARE = 16
"""A piece is at most one part in so many of what was asked before it."""


ANSWER, TOKEN = 128, 256
"""Bytes of JSON that an answer takes at most beside its tokens, and each of these: the longest of
a vocabulary have that many, and no answer is of these alone."""


def journal_bytes(answers: int, tokens: int = 0) -> int:
    """Return the most bytes that the answers to a piece take in a journal, with their tokens."""
    return 4096 + answers * ANSWER + tokens * TOKEN


def size(before: int, least: int, most: int) -> int:
    """Return how much the next piece may hold, from `least` to `most`, `before` it was asked."""
    return max(1, min(most, max(least, before // SHARE)))
