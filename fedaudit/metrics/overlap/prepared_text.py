"""A text made ready for comparing: its units, their terms, and where they stand."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedaudit.metrics.overlap.tokenization import term_codes

from .sentences import Span, has_han, sentences
from .settings import DEFAULT, OverlapSettings

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """The units of a text: sentences with terms, short ones joined to the next.

    Terms are sorted codes. A posting is a term in a unit; those of term t are `first[t]` to
    `first[t + 1]`, by unit, and those of unit u are `by_unit[bounds[u]:bounds[u + 1]]`. It can be
    pickled, and compared with any text of the same settings.
    """

    text: str
    starts: Ints
    ends: Ints
    terms: Ints
    first: Ints
    columns: Ints
    """The term of every posting, as an index of `terms`."""
    units: Ints
    counts: Ints
    by_unit: Ints
    bounds: Ints
    han: Ints | None
    """How many Chinese characters lie before every position; None if there is none."""
    settings: OverlapSettings

    def __len__(self) -> int:
        return len(self.starts)

    def frequency(self) -> Ints:
        """Return how many units hold each term."""
        return self.first[1:] - self.first[:-1]

    def sizes(self) -> Ints:
        """Return how many distinct terms each unit holds."""
        return self.bounds[1:] - self.bounds[:-1]

    def places(self, positions: Ints) -> Floats:
        """Return positions as weighted characters: a Chinese one counts for `han_weight`."""
        if self.han is None:
            return positions.astype(np.float64)
        return positions + (self.settings.han_weight - 1) * self.han[positions]


def lower_sentence(sentence: str, settings: OverlapSettings) -> str:
    """Return a sentence in lower case; the default keeps its length."""
    return (sentence if settings.compat else sentence.replace("İ", "I")).lower()


def prepare_text(text: str, settings: OverlapSettings = DEFAULT) -> Prepared:
    """Return the units of a text; the same text is prepared once, however often it is compared."""
    text = text.replace("\0", " ")
    han = not settings.compat and has_han(text)
    spans, rows = _with_terms(text, settings, han=han)
    lengths = np.array([len(row) for row in rows], dtype=np.int64)
    unit_of, last = _joined(lengths, settings.short)
    starts, ends = _places(spans, unit_of, last, settings)
    codes = np.array([term for row in rows for term in row], dtype=np.int64)
    found, column = np.unique(codes, return_inverse=True)
    width = max(1, len(starts))
    keys, counts = np.unique(column * width + np.repeat(unit_of, lengths), return_counts=True)
    columns, units = np.divmod(keys, width)
    return Prepared(
        text=text,
        starts=starts,
        ends=ends,
        terms=found,
        first=_bounds(columns, len(found)),
        columns=columns,
        units=units,
        counts=counts,
        by_unit=np.argsort(units, kind="stable"),
        bounds=_bounds(units, len(starts)),
        han=_counted(text) if han else None,
        settings=settings,
    )


def _with_terms(
    text: str, settings: OverlapSettings, *, han: bool
) -> tuple[list[Span], list[list[int]]]:
    """Return the sentences that have a term, and their terms."""
    spans, rows = [], []
    for start, end in sentences(text, han=han):
        sentence = lower_sentence(text[start:end], settings)
        if row := term_codes(sentence, han=han):
            spans.append((start, end))
            rows.append(row)
    return spans, rows


def _joined(lengths: Ints, short: int) -> tuple[Ints, Ints]:
    """Return every sentence's unit, and the last sentence of every unit.

    A unit of fewer than `short` terms goes on with the next sentence; the last one never does.
    """
    last, total = [], 0
    for number, length in enumerate(lengths.tolist()):
        total += length
        if total >= short or number == len(lengths) - 1:
            last.append(number)
            total = 0
    ends = np.array(last, dtype=np.int64)
    return np.searchsorted(ends, np.arange(len(lengths))), ends


def _places(
    spans: list[Span], unit_of: Ints, last: Ints, settings: OverlapSettings
) -> tuple[Ints, Ints]:
    """Return where units start and end.

    The original adds up the lengths of joined sentences, without the gaps between them, so that
    the unit ends too early.
    """
    table = np.array(spans, dtype=np.int64).reshape(-1, 2)
    head = np.concatenate(([0], last[:-1] + 1)) if len(last) else last
    starts = table[head, 0]
    if not settings.compat:
        return starts, table[last, 1]
    lengths = np.bincount(unit_of, table[:, 1] - table[:, 0], len(last)).astype(np.int64)
    return starts, starts + lengths


def _counted(text: str) -> Ints:
    """Return how many Chinese characters lie before every position of a text."""
    letters, places = np.unique(list(text), return_inverse=True)
    marks = np.array([has_han(letter) for letter in letters], dtype=np.int64)
    return np.concatenate(([0], np.cumsum(marks[places])))


def _bounds(labels: Ints, count: int) -> Ints:
    """Return where each of `count` labels begins when labels are sorted, and the end."""
    return np.concatenate(([0], np.cumsum(np.bincount(labels, minlength=count))))
