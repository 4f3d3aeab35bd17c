"""Distinct suffixes of many sequences, counted: runs in a sort of the sequences from their ends."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int32]
Level = tuple[Integers, Integers, Integers, NDArray[np.bool_]]
"""First rank, count, length and wholeness of suffixes."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Suffixes:
    """Distinct suffixes of N sequences: most frequent first, then longest, then by tokens.

    Each is a run of sequences that end alike, among all of them sorted from their ends: memory is
    13 bytes a suffix, however long it is.
    """

    order: NDArray[np.int64]
    """(N,): the sequences' indices, sorted by their tokens from the last one backwards."""
    first: Integers
    """(S,): where in `order` the sequences that have the suffix begin."""
    count: Integers
    """(S,): how many there are."""
    length: Integers
    """(S,): tokens of the suffix."""
    is_whole: NDArray[np.bool_]
    """(S,): whether it is a sequence marked as whole from its first token on."""


def suffixes(
    sequences: Sequence[Sequence[int]], whole_flags: Sequence[bool], longest: int
) -> Suffixes:
    """Return every distinct suffix of 1 to `longest` tokens, with its number of occurrences.

    A sequence that is marked in `whole_flags` and no longer than `longest` counts, taken whole, as
    another suffix than the same tokens at the end of a longer sequence. Neither the suffixes nor
    their order depend on the order of the sequences. Raises ValueError for tokens below 0.
    """
    tokens, lengths, marked = _backwards(sequences, whole_flags, longest)
    order = _sort_rows(tokens, marked)
    tokens, lengths, marked = tokens[order], lengths[order], marked[order]
    levels = list(_levels(_common(tokens, lengths), lengths, marked, longest))
    columns = [np.concatenate(column) for column in zip(*levels, strict=True)]
    first, count, length, is_whole = columns
    by_count = np.lexsort((first, -length, -count))
    return Suffixes(
        order=order,
        first=first[by_count],
        count=count[by_count],
        length=length[by_count],
        is_whole=is_whole[by_count],
    )


def _backwards(
    sequences: Sequence[Sequence[int]], whole_flags: Sequence[bool], longest: int
) -> tuple[Integers, Integers, NDArray[np.bool_]]:
    """Return the last tokens of every sequence, last one first, (N, longest) with -1 behind."""
    if longest < 1:
        raise ValueError("longest must be at least 1.")
    tokens = np.full((len(sequences), longest), -1, dtype=np.int32)
    for row, sequence in enumerate(sequences):
        last = sequence[-longest:]
        tokens[row, : len(last)] = last[::-1]
    lengths = np.fromiter((min(len(s), longest) for s in sequences), np.int32, len(sequences))
    if (tokens < 0).sum() != tokens.size - lengths.sum():
        raise ValueError("A token's id is below 0.")
    fits = np.fromiter((len(s) <= longest for s in sequences), np.bool_, len(sequences))
    return tokens, lengths, fits & np.asarray(whole_flags, dtype=np.bool_)


def _sort_rows(tokens: Integers, marked: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return the order of the rows by their tokens; of equal ones those marked first.

    Rows are compared as bytes, most significant first: one sort instead of one for each column.
    """
    keys = np.empty((len(tokens), tokens.shape[1] + 1), dtype=">u4")
    keys[:, :-1] = tokens + 1
    keys[:, -1] = ~marked
    rows = keys.view(np.dtype((np.void, keys.shape[1] * keys.itemsize))).reshape(len(tokens))
    return np.argsort(rows, kind="stable")


def _common(tokens: Integers, lengths: Integers) -> Integers:
    """Return for each sorted row how many tokens it begins with like the row before it."""
    common = np.zeros(len(tokens), dtype=np.int32)
    if len(tokens) > 1:
        differs = np.ones((len(tokens) - 1, tokens.shape[1] + 1), dtype=np.bool_)
        np.not_equal(tokens[1:], tokens[:-1], out=differs[:, :-1])
        shorter = np.minimum(lengths[1:], lengths[:-1])
        common[1:] = np.minimum(differs.argmax(axis=1), shorter)
    return common


def _levels(
    common: Integers, lengths: Integers, marked: NDArray[np.bool_], longest: int
) -> Iterator[Level]:
    """Yield the distinct suffixes of each length: runs of rows that begin with the same tokens."""
    for length in range(1, longest + 1):
        first = np.flatnonzero(common < length)
        size = np.diff(first, append=len(common))
        long_enough = lengths[first] >= length
        first, size = first[long_enough], size[long_enough]
        # Within a run the rows of just this length come first, and of those the marked ones.
        ends_here = np.concatenate(([0], np.cumsum(marked & (lengths == length))))
        whole_counts = ends_here[first + size] - ends_here[first]
        for start, count, is_whole in (
            (first, whole_counts, True),
            (first + whole_counts, size - whole_counts, False),
        ):
            nonzero = count > 0
            yield (
                start[nonzero].astype(np.int32),
                count[nonzero].astype(np.int32),
                np.full(int(nonzero.sum()), length, dtype=np.int32),
                np.full(int(nonzero.sum()), is_whole, dtype=np.bool_),
            )
