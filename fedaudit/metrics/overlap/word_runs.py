"""Common runs of words, found by hashing."""

from functools import lru_cache

import numpy as np

from fedaudit.metrics.overlap.prepared_text import Floats, Ints, lower_sentence
from fedaudit.metrics.overlap.tokenization import words

from .sentences import Span, sentences
from .settings import OverlapSettings

Run = tuple[int, int, int, int]
"""(start, end) in the training text, then (start, end) in the generated text."""

_BASE = 0x9E3779B97F4A7C15 - (1 << 64)


@lru_cache(maxsize=1 << 12)
def word_positions(text: str, settings: OverlapSettings, *, han: bool) -> tuple[Ints, Ints, Ints]:
    """Return the codes, starts and ends of the words of a text, each (words,).

    The first word of a sentence starts where the sentence does, and the last one ends where it
    does; a sentence without words extends the word before it.
    """
    rows: list[tuple[int, int, int]] = []
    for start, end in sentences(text, han=han):
        sentence_words = words(lower_sentence(text[start:end], settings), han=han)
        new_rows = [(word, start + s, start + e) for word, s, e in sentence_words]
        if new_rows:
            new_rows[0] = (new_rows[0][0], start, new_rows[0][2])
            rows += new_rows
        if rows:
            rows[-1] = (*rows[-1][:2], end)
    table = np.array(rows, dtype=np.int64).reshape(-1, 3)
    return table[:, 0], table[:, 1], table[:, 2]


def matching_positions(a: Ints, b: Ints, width: int) -> tuple[Ints, Ints]:
    """Return the pairs of positions in both sequences at which the same `width` codes start."""
    a_grams, b_grams = _grams(a, width), _grams(b, width)
    order = np.argsort(b_grams, kind="stable")
    low, high = (
        np.searchsorted(b_grams, a_grams, side, sorter=order) for side in ("left", "right")
    )
    counts = high - low
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.repeat(np.arange(len(a_grams)), counts), order[within + np.repeat(low, counts)]


def common_runs(
    a: Ints, b: Ints, starts: Floats, ends: Floats, least: float
) -> list[tuple[Span, Span]]:
    """Return the maximal common runs longer than `least` in a, as (first, last word) in a and in b.

    `starts` and `ends` are the positions of a's words, both in ascending order. The number of words
    hashed together is that of the shortest run that is long enough.
    """
    stop = np.searchsorted(ends, starts + least, side="right")
    enough = stop < len(a)
    if not enough.any():
        return []
    width = max(1, int((stop - np.arange(len(a)) + 1)[enough].min()))
    if width > min(len(a), len(b)):
        return []
    rows, columns = matching_positions(a, b, width)
    order = np.lexsort((rows, rows - columns))
    rows, columns = rows[order], columns[order]
    fresh = np.ones(len(rows) + 1, dtype=bool)
    fresh[1:-1] = (np.diff(rows) != 1) | (np.diff(columns) != 1)
    heads, tails = np.flatnonzero(fresh[:-1]), np.flatnonzero(fresh[1:])
    last = rows[tails] + width - 1
    long_enough = ends[last] - starts[rows[heads]] > least
    table = (rows[heads], columns[heads], last, columns[tails] + width - 1)
    runs = np.stack(table, axis=1)[long_enough].tolist()
    return [((i, k), (j, m)) for i, j, k, m in sorted(map(tuple, runs))]


def outermost_runs(runs: list[Run], *, compat: bool) -> list[Run]:
    """Return the runs that are not contained in another run in the generated text.

    Of runs with the same span there, as when a training text repeats itself, the first is kept; the
    original drops all of them.
    """
    order = sorted(range(len(runs)), key=lambda k: (runs[k][2], -runs[k][3], k))
    places = [runs[k][2:] for k in order]
    outermost, reach = [], -1
    for position, (k, span) in enumerate(zip(order, places, strict=True)):
        twin = compat and position + 1 < len(order) and places[position + 1] == span
        if span[1] > reach and not twin:
            outermost.append(k)
        reach = max(reach, span[1])
    return [runs[k] for k in sorted(outermost)]


def _grams(codes: Ints, width: int) -> Ints:
    """Return a hash of every `width` neighbouring codes, in wrapping 64-bit integers."""
    count = len(codes) - width + 1
    grams = np.zeros(count, dtype=np.int64)
    base = np.int64(_BASE)
    for k in range(width):
        grams = grams * base + codes[k : k + count]
    return grams
