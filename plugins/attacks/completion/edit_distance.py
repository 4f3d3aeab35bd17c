"""How far a continuation is from the true text, in edits of tokens (FedPII, appendix B.4)."""

import math
from collections.abc import Hashable, Sequence


def edit_distance(first: Sequence[Hashable], second: Sequence[Hashable]) -> int:
    """Return the fewest insertions, deletions and substitutions that make one the other.

    Levenshtein 1965, in units of the sequences' elements; at most the longer one's length.
    """
    from rapidfuzz.distance import Levenshtein

    return int(Levenshtein.distance(first, second))


def sample_deviation(values: Sequence[float]) -> float | None:
    """Return the standard deviation of a sample (n - 1 below), None for less than two values."""
    if len(values) < 2:
        return None
    mean = math.fsum(values) / len(values)
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))
