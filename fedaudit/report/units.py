"""Amounts in units that people use: bytes, operations, numbers of a model, time."""

import math

Steps = tuple[tuple[float, str], ...]
"""Factor and name of each unit, the smallest first."""

SIZES: Steps = tuple(
    (1000.0**n, unit) for n, unit in enumerate(("B", "kB", "MB", "GB", "TB", "PB"))
)
OPERATIONS: Steps = tuple(
    (1000.0**n, f"{prefix}FLOP") for n, prefix in enumerate(("", "k", "M", "G", "T", "P", "E"))
)
COUNTS: Steps = ((1.0, ""), (1e6, "million"), (1e9, "billion"), (1e12, "trillion"))
TIMES: Steps = ((1e-6, "µs"), (1e-3, "ms"), (1.0, "s"), (60.0, "min"), (3600.0, "h"))


def size(count: float) -> str:
    """Return a number of bytes: `512 B`, `2.10 MB`; a MB is a million bytes."""
    return _format_scaled(count, SIZES)


def operations(count: float) -> str:
    """Return a number of floating-point operations: `1.24 TFLOP`."""
    return _format_scaled(count, OPERATIONS)


def amount(count: float) -> str:
    """Return how many numbers a model or an adapter has: `6,144`, `2.10 million`."""
    return _format_scaled(count, COUNTS)


def duration(seconds: float) -> str:
    """Return a time in seconds as people say it: `0.61 ms`, `4.20 s`, `3.50 h`."""
    return _format_scaled(seconds, TIMES)


def _format_scaled(value: float, steps: Steps) -> str:
    """Return `value` in the largest unit of which it is one or more, to three significant digits.

    A value that rounds up to the next unit is spelt in that: 999,999 bytes are 1.00 MB. Without a
    unit it is spelt in full.
    """
    if value < 0:
        return f"-{_format_scaled(-value, steps)}"
    fits = [step for step in steps if _round(value / step[0]) >= 1] or [steps[0]]
    scale, unit = fits[-1]
    return f"{_number(value / scale, unscaled=scale == 1)} {unit}".rstrip()


def _round(value: float) -> float:
    """Return `value` to three significant digits; a huge one, which cannot be rounded, as it is."""
    return round(value, 2 - math.floor(math.log10(value))) if 0 < value < 1e15 else value


def _number(value: float, *, unscaled: bool) -> str:
    rounded = _round(value)
    if rounded and not 1e-3 <= rounded < 1e15:
        return f"{rounded:.3g}"
    if unscaled and (value == int(value) or rounded >= 100):
        return f"{value:,.0f}"
    places = 2 - math.floor(math.log10(rounded)) if rounded else 0
    return f"{rounded:,.{max(0, places)}f}"
