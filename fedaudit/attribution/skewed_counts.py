"""Tests with too few expected hits for a nearly normal z, as limits of a report."""

from math import isclose, sqrt

from fedaudit.api.watermark import Score
from fedaudit.attribution.scores import Scores

MIN_EXPECTED = 10.0
"""The fewest expected hits by chance at which a count is taken as normal."""


def caveats(scores: Scores) -> list[str]:
    """Return a limit for each mark whose counts are too small for a normal z."""
    limits = []
    for mark in scores.marks:
        tests = [t[mark] for r in scores.rounds for t in (r.reference, *r.clients.values())]
        # The expected count of hits by chance, or of misses if that is smaller.
        expected = [
            test.n * min(test.chance, 1 - test.chance) for test in tests if _is_binomial(test)
        ]
        if (least := min(expected, default=MIN_EXPECTED)) < MIN_EXPECTED:
            limits.append(
                f"for mark {mark}, as few as {least:.2g} hits are expected by chance in a test; "
                f"below {MIN_EXPECTED:g} z is skewed, and p-values may be too small; more prompts "
                "or longer answers help"
            )
    return limits


def _is_binomial(score: Score) -> bool:
    """Tell whether z is that of a binomial count: only then does the count show its skewness."""
    variance = score.n * score.chance * (1 - score.chance)
    if variance <= 0:
        return False
    return isclose(score.z, (score.hits - score.n * score.chance) / sqrt(variance), abs_tol=1e-9)
