"""The size of the pieces in which questions are asked and kept: small at first, then growing.

An audit that is stopped loses the piece in progress. However fast the model is, that is at most a
first piece or one part in SHARE of what the pass asked before. The sizes depend only on the
questions, not on the clock, so that a resumed audit puts the same questions into the same batches.
"""

SHARE = 16
"""A piece after the first is at most 1 / SHARE of what was asked before it."""


ANSWER, TOKEN = 128, 256
"""The most bytes of JSON per answer besides its tokens, and per token: the longest tokens of a
vocabulary take that many, and no answer consists of those alone."""


def journal_bytes(answers: int, tokens: int = 0) -> int:
    """Return the most bytes that so many answers with so many tokens take in a journal."""
    return 4096 + answers * ANSWER + tokens * TOKEN


def size(before: int, least: int, most: int) -> int:
    """Return the size of the next piece, from `least` to `most`, after `before` was asked."""
    return max(1, min(most, max(least, before // SHARE)))
