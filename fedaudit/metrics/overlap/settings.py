"""The thresholds of the detector, and whether the original's defects are reproduced."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class OverlapSettings:
    """What counts as overlap; the defaults are the published ones (PAN 2014, section 2 of docs)."""

    cosine: float = 0.30
    """Two sentences may begin a match if their tf-idf cosine is above this."""
    dice: float = 0.33
    """... and the Dice coefficient of their sets of terms above this."""
    passage: float = 0.34
    """A matched passage is kept if the cosine of its two sides is above this."""
    gap: int = 4
    """Sentences that may lie between two that belong to one passage."""
    wide_gap: int = 24
    """The same when ideas are looked for."""
    short: int = 3
    """A sentence of fewer terms is joined to the next one."""
    length: float = 50
    """Characters that both sides of a passage must have."""
    run: float = 50
    """A common run of words is verbatim if it has more characters in the training text."""
    ratio: float = 3
    """An idea's generated side is at least this many times as long as its training side."""
    han_weight: float = 2.5
    """How many characters a Chinese character counts for in `length`, `run` and `ratio`."""
    compat: bool = False
    """Reproduce the published program, its defects included; English only."""

    def __post_init__(self) -> None:
        if min(self.gap, self.wide_gap, self.short) < 0:
            raise ValueError("gap, wide_gap and short must not be negative.")
        if not self.han_weight > 0 or not self.ratio > 0:
            raise ValueError("han_weight and ratio must be above 0.")


DEFAULT = OverlapSettings()
ORIGINAL = OverlapSettings(compat=True, han_weight=1)
