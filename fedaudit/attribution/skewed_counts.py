"""Tests with too few hits by chance for a z that is near to normal, as limits of a report."""

from math import isclose, sqrt

from fedaudit.api.watermark import Score
from fedaudit.attribution.scores import Scores

MIN_EXPECTED = 10.0
"""The fewest hits by chance at which a count is near enough to normal."""


def caveats(scores: Scores) -> list[str]:
    """Return a limit for each mark whose counts are too small for a normal z."""
    limits = []
    for mark in scores.marks:
        tests = [t[mark] for r in scores.rounds for t in (r.reference, *r.clients.values())]
        # By chance so many count for the mark, or against it where that is less.
        expected = [
            test.n * min(test.chance, 1 - test.chance) for test in tests if _is_binomial(test)
        ]
        if (least := min(expected, default=MIN_EXPECTED)) < MIN_EXPECTED:
            limits.append(
                f"by mark {mark} as few as {least:.2g} hits are expected by chance in a test; below"
                f" {MIN_EXPECTED:g} z is skewed, and p-values may be too small; more prompts or "
                "longer answers help"
            )
    return limits


def _is_binomial(score: Score) -> bool:
    """Tell whether z is that of a count against its chance: then alone it says how skewed z is."""
    variance = score.n * score.chance * (1 - score.chance)
    if variance <= 0:
        return False
    return isclose(score.z, (score.hits - score.n * score.chance) / sqrt(variance), abs_tol=1e-9)
