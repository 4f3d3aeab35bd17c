"""From token ids to a test: which n-grams count, how many are green, and how far from chance.

z = (G - gamma T) / sqrt(T gamma (1 - gamma)) of G green among T scored tokens (Kirchenbauer et
al., 2023, equation 2; z is 0 where nothing was scored).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from . import textseal
from .schemes import SCHEMES, is_green, lists

if TYPE_CHECKING:
    import numpy as np

LEAST_GAMMA, LARGEST_GAMMA = 0.05, 0.95
"""The shares of green tokens for which z is near enough to normal. Where few tokens are green by
chance, or nearly all, counts are skewed, and one lucky token is a high z."""


@dataclass(frozen=True)
class Count:
    """Scored tokens, and the green ones among them."""

    n: int
    green: int


@dataclass(frozen=True, kw_only=True)
class Detector:
    """One watermark's test: the scheme and all that its green lists depend on."""

    scheme: str
    key: int
    gamma: float = 0.25
    vocabulary: int = 0
    """Needed by every scheme but textseal."""
    width: int = 0
    """The scheme's own where 0."""
    bos: int | None = None
    """A token that is dropped where a text begins with it."""

    def __post_init__(self) -> None:
        if self.scheme not in SCHEMES:
            raise ValueError(f"scheme must be one of {', '.join(SCHEMES)}.")
        check_gamma(self.gamma)
        if self.width < 0:
            raise ValueError("width must not be negative.")
        if self.width > len(textseal.PRIMES):
            raise ValueError(f"width must be {len(textseal.PRIMES)} at most.")
        if SCHEMES[self.scheme].uses_vocabulary_size and self.vocabulary < 1:
            raise ValueError(f"The scheme {self.scheme} needs the size of the vocabulary.")

    def count_green(self, rows: "np.ndarray") -> Count:
        """Count the green ones of n-grams (n, before + 1), each as often as it is there."""
        green = is_green(
            self.scheme,
            rows[:, :-1],
            rows[:, -1],
            vocabulary=self.vocabulary,
            gamma=self.gamma,
            key=self.key,
        )
        return Count(len(rows), int(green.sum()))

    def ngrams(self, texts: Sequence[Sequence[int]]) -> "np.ndarray":
        """Return the scored tokens of all texts behind their windows, int64 (n, before + 1).

        Each choice of the key counts once, however many texts have it. A model that repeats itself
        from answer to answer would otherwise be counted again and again for one and the same
        choice, and its z grow with no new evidence.
        """
        rows = self.windows(texts)
        once: np.ndarray = rows[first_of_each(self.choices(rows))]
        return once

    def windows(self, texts: Sequence[Sequence[int]]) -> "np.ndarray":
        """Return every token that has a window, behind it, int64 (n, before + 1)."""
        import numpy as np

        rule = SCHEMES[self.scheme]
        size = rule.before(self.width or rule.width) + 1
        ngrams = [np.empty((0, size), dtype=np.int64)]
        for text in texts:
            ids = np.asarray(text, dtype=np.int64)
            ids = ids[1:] if len(ids) and ids[0] == self.bos else ids
            if len(ids) >= size:
                ngrams.append(np.lib.stride_tricks.sliding_window_view(ids, size))
        rows: np.ndarray = np.concatenate(ngrams)
        return rows

    def choices(self, rows: "np.ndarray") -> "np.ndarray":
        """Return the part of n-grams (n, before + 1) that the key decides on: a token in a list.

        Under minhash, skipgram and selfhash different n-grams share a list. The same token in it is
        then one and the same chance, not several: by n-gram, z would have a variance above 1.
        """
        import numpy as np

        if SCHEMES[self.scheme].uses_vocabulary_size:
            return np.stack([lists(self.scheme, rows, self.key), rows[:, -1]], axis=1)
        return rows


def check_gamma(gamma: float) -> None:
    """Raise ValueError for a share of green tokens of which z says too little."""
    if not LEAST_GAMMA <= gamma <= LARGEST_GAMMA:
        raise ValueError(
            f"gamma must lie between {LEAST_GAMMA} and {LARGEST_GAMMA}, not be {gamma}: outside "
            "this range, chance makes a high z too often."
        )


def first_of_each(rows: "np.ndarray") -> "np.ndarray":
    """Return the indices, ascending, of the first of every set of equal rows (n, columns)."""
    import numpy as np

    if not rows.size:  # a window of no tokens is one and the same
        return np.arange(min(len(rows), 1))
    order = np.lexsort(rows.T)  # stable: among equal rows the first comes first
    ordered = rows[order]
    new = np.concatenate([[True], (ordered[1:] != ordered[:-1]).any(axis=1)])
    indices: np.ndarray = np.sort(order[new])
    return indices


def z_score(count: Count, gamma: float) -> float:
    """Return how many standard deviations the green tokens lie above chance; 0 of none."""
    if not count.n:
        return 0.0
    return float((count.green - gamma * count.n) / (count.n * gamma * (1 - gamma)) ** 0.5)


def upper_tail(z: float) -> float:
    """Return P(Z >= z) of a standard normal Z, exact to rounding in the far tail."""
    from scipy.special import ndtr

    return float(ndtr(-z))
