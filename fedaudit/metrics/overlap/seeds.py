"""Similar units of two texts (seeds), from one sparse product over their common terms."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fedaudit.metrics.overlap.prepared_text import Floats, Ints, PreparedText

Seed = tuple[int, int]


@dataclass(frozen=True)
class Pair:
    """Two texts, with weights, cosines and seeds that are computed on first use.

    With N units in both texts, df of which contain a term, the term's weight in a unit is
    tf ln((N + 1) / df), which is never 0; with `compat` it is tf ln(N / df), as published.
    """

    a: PreparedText
    b: PreparedText

    @cached_property
    def common(self) -> tuple[Ints, Ints]:
        """The indices of the common terms, in the terms of a and in those of b."""
        if not len(self.a.terms) or not len(self.b.terms):
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        positions = np.searchsorted(self.b.terms, self.a.terms)
        positions[positions == len(self.b.terms)] = 0
        a_terms = np.flatnonzero(self.b.terms[positions] == self.a.terms)
        return a_terms, positions[a_terms]

    @cached_property
    def products(self) -> tuple[Ints, Ints, Ints]:
        """All (posting of a, posting of b, cell) of common terms, with cell = i * len(b) + j."""
        a_terms, b_terms = self.common
        a_start, b_start = self.a.first[a_terms], self.b.first[b_terms]
        width = self.b.first[b_terms + 1] - b_start
        counts = (self.a.first[a_terms + 1] - a_start) * width
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        row, column = np.divmod(within, np.repeat(width, counts))
        row += np.repeat(a_start, counts)
        column += np.repeat(b_start, counts)
        return row, column, self.a.units[row] * len(self.b) + self.b.units[column]

    @cached_property
    def dice(self) -> Floats:
        """The Dice coefficients of the units' term sets, (units of a, units of b)."""
        same = np.bincount(self.products[2], minlength=len(self.a) * len(self.b))
        sizes = self.a.sizes()[:, None] + self.b.sizes()[None, :]
        dice: Floats = 2 * same.reshape(sizes.shape) / sizes
        return dice

    @cached_property
    def frequencies(self) -> tuple[Ints, Ints]:
        """The number of units of both texts that contain each term of a, and each term of b."""
        a_terms, b_terms = self.common
        in_a, in_b = self.a.frequency(), self.b.frequency()
        totals = in_a[a_terms] + in_b[b_terms]
        in_a[a_terms] = totals
        in_b[b_terms] = totals
        return in_a, in_b

    @cached_property
    def weights(self) -> tuple[Floats, Floats]:
        """The weights of the postings of a, and of b."""
        units = len(self.a) + len(self.b) + (not self.a.settings.compat)
        logs: list[Floats] = [np.log(units / frequency) for frequency in self.frequencies]
        return self.a.counts * logs[0][self.a.columns], self.b.counts * logs[1][self.b.columns]

    @cached_property
    def dots(self) -> Floats:
        """The inner products of the units' weights, (units of a, units of b)."""
        row, column, cell = self.products
        values = self.weights[0][row] * self.weights[1][column]
        dots: Floats = np.bincount(cell, values, len(self.a) * len(self.b)).astype(np.float64)
        return dots.reshape(len(self.a), len(self.b))

    @cached_property
    def cosines(self) -> Floats:
        """The cosines of the units, (units of a, units of b); 0 if a unit has no weight."""
        norms = [
            np.sqrt(np.bincount(side.units, weights**2, len(side)))
            for side, weights in zip((self.a, self.b), self.weights, strict=True)
        ]
        scale = norms[0][:, None] * norms[1][None, :]
        cosines: Floats = np.divide(self.dots, scale, out=np.zeros_like(scale), where=scale > 0)
        return cosines

    def seeds(self) -> list[Seed]:
        """Return the pairs of similar units, sorted by the unit of a."""
        settings = self.a.settings
        alike = self.dice > settings.dice
        if not alike.any():
            return []
        alike &= self.cosines > settings.cosine
        return [(int(i), int(j)) for i, j in zip(*np.nonzero(alike), strict=True)]

    def is_alike(self, case: tuple[int, int, int, int]) -> bool:
        """Tell whether the two sides of a passage, with their units summed, are similar."""
        a0, a1, b0, b1 = case
        scale = _norm(self.a, self.weights[0], a0, a1) * _norm(self.b, self.weights[1], b0, b1)
        dot = float(self.dots[a0 : a1 + 1, b0 : b1 + 1].sum())
        return scale > 0 and dot / scale > self.a.settings.passage


def _norm(side: PreparedText, weights: Floats, first: int, last: int) -> float:
    """Return the norm of the sum of the weight vectors of units `first` to `last`."""
    inside = side.by_unit[side.bounds[first] : side.bounds[last + 1]]
    total = np.bincount(side.columns[inside], weights[inside])
    return math.sqrt(total @ total)
