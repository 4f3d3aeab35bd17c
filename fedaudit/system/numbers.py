"""Numbers that strangers' files hold, and counts and durations in words."""

import math
from typing import TypeGuard


def count_of(count: int, noun: str) -> str:
    """Return a count with its noun, in the plural unless it is one: "1 round", "1,200 rounds"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def rough_duration(seconds: float) -> str:
    """Return an estimated duration in words, as precise as is useful."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 48 * 3600 else f"{seconds / 86400:,.0f} days"


def is_finite_number(value: object) -> TypeGuard[int | float]:
    """Return whether a value is a number that a float holds: no bool, NaN, 1e999 or 10^400."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number beyond every float
        return False
