"""The thresholds of the detector, and whether the original's defects are reproduced."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class OverlapSettings:
    """The thresholds for overlap; defaults are the published ones (PAN 2014, section 2 of docs)."""

    cosine: float = 0.30
    """Two units are a seed if their tf-idf cosine is above this, and `dice` allows it."""
    dice: float = 0.33
    """Two units are a seed if the Dice coefficient of their term sets is above this, too."""
    passage: float = 0.34
    """A passage is kept if the cosine of its two sides is above this."""
    gap: int = 4
    """The maximum number of other units between neighbouring seeds of a passage."""
    wide_gap: int = 24
    """The same for passages that may be ideas."""
    short: int = 3
    """A sentence with fewer terms is joined to the next one."""
    length: float = 50
    """The minimum number of characters of each side of a passage."""
    run: float = 50
    """A common run of words is verbatim if it has more characters in the training text."""
    ratio: float = 3
    """The generated side of an idea is at least this many times as long as the training side."""
    han_weight: float = 2.5
    """The number of characters as which a Chinese one counts in `length`, `run` and `ratio`."""
    compat: bool = False
    """Whether to reproduce the published program with its defects; English only."""

    def __post_init__(self) -> None:
        if min(self.gap, self.wide_gap, self.short) < 0:
            raise ValueError("gap, wide_gap and short must not be negative.")
        if not self.han_weight > 0 or not self.ratio > 0:
            raise ValueError("han_weight and ratio must be above 0.")


DEFAULT = OverlapSettings()
ORIGINAL = OverlapSettings(compat=True, han_weight=1)
