"""Document frequency: in how many training texts a string stands (FedPII, section 5.4, figure 8).

If a model was trained on masked data, many of the strings that it still produces stand in no
training text: it guessed them, or knew them from pre-training.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from statistics import median
from typing import Any

import numpy as np
import numpy.typing as npt

from fedaudit.api.records import Measurement

Codes = npt.NDArray[Any]

SIZES = (8, 4, 3, 2, 1)
"""Lengths of the pieces used to search for strings; each string uses the longest that fits."""

CHUNK = 2_000_000
"""About how many characters are searched at once."""

_FACTOR = np.uint64(0x9E3779B97F4A7C15)


def document_frequency(
    strings: Iterable[str],
    documents: Sequence[str],
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> dict[str, int]:
    """Return in how many of `documents` each of `strings` stands, be it within a word.

    Every string is indexed by one of its pieces, the one that the fewest strings share. The hashes
    of all pieces of the text are looked up at once (Karp & Rabin 1987), and wherever a hash is
    indexed, its strings are searched for, so that the result is exact. Time grows with the length
    of the text and the number of matches, hardly with the number of strings. Raises ValueError for
    an empty string, which stands in every document.
    """
    counts = dict.fromkeys(strings, 0)
    if "" in counts:
        raise ValueError("An empty string stands in every document.")
    piece_sets = [_Pieces(size, group) for size, group in _by_size(counts).items()]
    done = 0
    for chunk in _chunks(documents):
        codes = _codes("".join(chunk))
        document_ends = np.cumsum([len(text) for text in chunk])
        for pieces in piece_sets:
            for number, string in pieces.candidates(codes, document_ends):
                counts[string] += string in chunk[number]
        done += len(chunk)
        progress(done, len(documents))
    return counts


def present_strings(strings: Iterable[str], documents: Sequence[str]) -> set[str]:
    """Return those of `strings` that stand in any of `documents`, be it within a word."""
    return {string for string, count in document_frequency(strings, documents).items() if count}


def absent_strings(strings: Iterable[str], documents: Sequence[str]) -> set[str]:
    """Return those of `strings` that stand in none of `documents`, not even within a word."""
    return {string for string, count in document_frequency(strings, documents).items() if not count}


class _Pieces:
    """An index of strings by the hash of each string's rarest piece of one size."""

    def __init__(self, size: int, strings: Sequence[str]) -> None:
        cut = {s: [s[i : i + size] for i in range(len(s) - size + 1)] for s in strings}
        shared = Counter(piece for pieces in cut.values() for piece in set(pieces))
        rarest = [min(pieces, key=lambda p: shared[p]) for pieces in cut.values()]
        strings_by_hash: dict[int, list[str]] = defaultdict(list)
        for string, key in zip(cut, _hashes(_codes("".join(rarest)), size)[::size], strict=True):
            strings_by_hash[int(key)].append(string)
        self.size = size
        self.keys = np.array(sorted(strings_by_hash), dtype=np.uint64)
        self.strings = [strings_by_hash[int(key)] for key in self.keys]
        bits = min(22, 6 + len(self.keys).bit_length())
        self.shift = np.uint64(64 - bits)
        self.table = np.zeros(1 << bits, dtype=bool)
        self.table[self.keys >> self.shift] = True

    def candidates(self, codes: Codes, document_ends: Codes) -> Iterator[tuple[int, str]]:
        """Yield (document, string) once for each pair that may match."""
        hashes = _hashes(codes, self.size)
        positions = np.flatnonzero(self.table[hashes >> self.shift])
        keys = np.searchsorted(self.keys, hashes[positions])
        sure = (keys < len(self.keys)) & (self.keys[keys % len(self.keys)] == hashes[positions])
        numbers = np.searchsorted(document_ends, positions[sure], side="right")
        for pair in np.unique(keys[sure] * len(document_ends) + numbers).tolist():
            key, number = divmod(pair, len(document_ends))
            for string in self.strings[key]:
                yield number, string


def frequency_rows(
    frequencies: Mapping[str, int], plugin: str, scope: Mapping[str, object]
) -> list[Measurement]:
    """Return the median document frequency, and the share of strings that stand in no document.

    The median's 95 % interval lies between two of the values and holds for any distribution (order
    statistics: Hahn & Meeker 1991, section 5.2); the share's is Wilson's. Without strings both rows
    have no value, but a reason.
    """
    if not frequencies:
        return [
            Measurement.missing(
                "nothing came out whose frequency could be counted",
                kind="extraction",
                plugin=plugin,
                metric=metric,
                scope=scope,
            )
            for metric in ("document_frequency", "unseen")
        ]
    values, n = sorted(frequencies.values()), len(frequencies)
    rank = _median_rank(n)
    unseen = sum(value == 0 for value in values)
    return [
        Measurement(
            kind="extraction",
            plugin=plugin,
            metric="document_frequency",
            value=float(median(values)),
            low=float(values[rank - 1]) if rank else None,
            high=float(values[n - rank]) if rank else None,
            n=n,
            scope=scope,
        ),
        Measurement.rate(unseen, n, kind="extraction", plugin=plugin, metric="unseen", scope=scope),
    ]


def _by_size(strings: Iterable[str]) -> dict[int, list[str]]:
    groups: dict[int, list[str]] = defaultdict(list)
    for string in strings:
        groups[next(size for size in SIZES if size <= len(string))].append(string)
    return groups


def _chunks(documents: Sequence[str]) -> Iterator[list[str]]:
    """Yield the documents in groups of about CHUNK characters."""
    chunk: list[str] = []
    length = 0
    for text in documents:
        chunk.append(text)
        length += len(text)
        if length >= CHUNK:
            yield chunk
            chunk, length = [], 0
    if chunk:
        yield chunk


def _codes(text: str) -> Codes:
    """Return the code points of `text`, shape (characters,)."""
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")


def _hashes(codes: Codes, size: int) -> Codes:
    """Return the hash of every piece of `size` code points, 64 bits, shape (pieces,)."""
    count = max(0, len(codes) - size + 1)
    hashes = np.zeros(count, dtype=np.uint64)
    for offset in range(size):
        hashes = (hashes + codes[offset : offset + count] + np.uint64(1)) * _FACTOR
    return hashes


def _median_rank(n: int) -> int:
    """Return the largest r for which the r-th lowest and highest of n enclose the median at 95 %.

    That is the largest r with P(Binomial(n, 1/2) < r) <= 2.5 %; 0 if there is none (n below 6).
    """
    from scipy.stats import binom

    return int(binom.cdf(np.arange(n // 2), n, 0.5).searchsorted(0.025, "right"))
