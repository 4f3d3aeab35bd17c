"""Common runs of words, found by hashing."""

from functools import lru_cache

import numpy as np

from fedaudit.metrics.overlap.prepared_text import Floats, Ints, lower_sentence
from fedaudit.metrics.overlap.tokenization import words

from .sentences import Span, sentences
from .settings import OverlapSettings

Run = tuple[int, int, int, int]
"""Start and end in the training text, start and end in the generated text."""

_BASE = 0x9E3779B97F4A7C15 - (1 << 64)


@lru_cache(maxsize=1 << 12)
def word_positions(text: str, settings: OverlapSettings, *, han: bool) -> tuple[Ints, Ints, Ints]:
    """Return codes, starts and ends of the words of a text, each (words,).

    The first word of a sentence begins where the sentence does and the last one ends where it
    does; a sentence without words lengthens the word before it.
    """
    rows: list[tuple[int, int, int]] = []
    for start, end in sentences(text, han=han):
        found = words(lower_sentence(text[start:end], settings), han=han)
        own = [(word, start + s, start + e) for word, s, e in found]
        if own:
            own[0] = (own[0][0], start, own[0][2])
            rows += own
        if rows:
            rows[-1] = (*rows[-1][:2], end)
    table = np.array(rows, dtype=np.int64).reshape(-1, 3)
    return table[:, 0], table[:, 1], table[:, 2]


def matching_positions(a: Ints, b: Ints, width: int) -> tuple[Ints, Ints]:
    """Return the positions in both sequences at which the same `width` codes begin."""
    left, right = _grams(a, width), _grams(b, width)
    order = np.argsort(right, kind="stable")
    low, high = (np.searchsorted(right, left, side, sorter=order) for side in ("left", "right"))
    many = high - low
    within = np.arange(many.sum()) - np.repeat(np.cumsum(many) - many, many)
    return np.repeat(np.arange(len(left)), many), order[within + np.repeat(low, many)]


def common_runs(
    a: Ints, b: Ints, starts: Floats, ends: Floats, least: float
) -> list[tuple[Span, Span]]:
    """Return the maximal common runs as (first, last word) in both, longer than `least` in a.

    `starts` and `ends` are the places of a's words; both must not fall. No shorter run is looked
    at: as many words are hashed together as the shortest run long enough has.
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
    kept = ends[last] - starts[rows[heads]] > least
    table = (rows[heads], columns[heads], last, columns[tails] + width - 1)
    found = np.stack(table, axis=1)[kept].tolist()
    return [((i, k), (j, m)) for i, j, k, m in sorted(map(tuple, found))]


def outermost_runs(runs: list[Run], *, compat: bool) -> list[Run]:
    """Return the runs that no other one contains in the generated text.

    Of runs in the same place there, as when a training text repeats itself, the first stays; in
    the original they drop each other.
    """
    order = sorted(range(len(runs)), key=lambda k: (runs[k][2], -runs[k][3], k))
    places = [runs[k][2:] for k in order]
    kept, reach = [], -1
    for at, (k, place) in enumerate(zip(order, places, strict=True)):
        twin = compat and at + 1 < len(order) and places[at + 1] == place
        if place[1] > reach and not twin:
            kept.append(k)
        reach = max(reach, place[1])
    return [runs[k] for k in sorted(kept)]


def _grams(codes: Ints, width: int) -> Ints:
    """Return one code for every `width` neighbouring codes, in wrapping 64-bit integers."""
    count = len(codes) - width + 1
    grams = np.zeros(count, dtype=np.int64)
    base = np.int64(_BASE)
    for k in range(width):
        grams = grams * base + codes[k : k + count]
    return grams
