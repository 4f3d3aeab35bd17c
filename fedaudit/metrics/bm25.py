"""Which documents are most like a query: BM25 in this process."""

import os
import re
import unicodedata
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedaudit.api.scripts import HAN

K1, B = 1.2, 0.75
"""Lucene's defaults: K1 saturates the count of a repeated word, B normalizes for length."""

_TOKEN = re.compile(f"([{HAN}]+)|[^\\W_{HAN}]+")


def tokens(text: str) -> list[str]:
    """Return the lower-case words of a text; for Chinese, all pairs of neighbouring characters."""
    words = []
    for match in _TOKEN.finditer(unicodedata.normalize("NFKC", text).lower()):
        word = match[0]
        pairs = match[1] and len(word) > 1
        words += [word[i : i + 2] for i in range(len(word) - 1)] if pairs else [word]
    return words


def nearest_documents(
    queries: Sequence[str], documents: Sequence[str], k: int | None = 10
) -> list[tuple[int, ...]]:
    """Return the indices of the k best documents of every query, the best first.

    BM25 uses Lucene's idf ln(1 + (N - df + 0.5) / (df + 0.5)), k1 = 1.2 and b = 0.75; a word that a
    query repeats counts that many times. Ties are ordered by index. If k is None or there are at
    most k documents, all are returned, ranked; otherwise documents without a word of the query are
    left out. Raises ValueError for k below 1.
    """
    return Index(documents).nearest(queries, k)


class Index:
    """An index of documents that several sets of queries are put to."""

    def __init__(self, documents: Sequence[str]) -> None:
        """Index `documents`."""
        self._size = len(documents)
        self._index = _index([tokens(document) for document in documents])

    def nearest(self, queries: Sequence[str], k: int | None = 10) -> list[tuple[int, ...]]:
        """Return the indices of the k best documents of every query, as `nearest_documents`."""
        if k is not None and k < 1:
            raise ValueError("k must be at least 1.")
        everything = k is None or self._size <= k
        limit = self._size if k is None else k
        scores = (_scores(self._index, query, self._size) for query in queries)
        return [_best(row, limit, everything=everything) for row in scores]


def _index(documents: list[list[str]]) -> Any:
    """Return the index of tokenised documents, or None if there is no token."""
    if not any(documents):
        return None
    index = _bm25s().BM25(method="lucene", k1=K1, b=B, dtype="float64")
    index.index(documents, show_progress=False)
    return index


def _bm25s() -> Any:
    """Return the library bm25s, imported with JAX limited to the CPU.

    On import, bm25s calls JAX where that is installed, and JAX would take three quarters of a GPU's
    memory, in every process.
    """
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    import bm25s

    return bm25s


def _scores(index: Any, query: str, documents: int) -> NDArray[np.float64]:
    """Return every document's score for one query."""
    terms = [token for token in tokens(query) if index is not None and token in index.vocab_dict]
    if not terms:
        return np.zeros(documents)
    return np.asarray(index.get_scores(terms), dtype=np.float64)


def _best(scores: NDArray[np.float64], k: int, *, everything: bool) -> tuple[int, ...]:
    """Return the indices of the k highest scores, ties by index."""
    if k < len(scores):
        floor = np.partition(scores, len(scores) - k)[len(scores) - k]
        candidates = np.flatnonzero(scores >= floor)
    else:
        candidates = np.arange(len(scores))
    # Sums of the same terms in another order differ in the last digits: those are ties too.
    order = np.lexsort((candidates, -np.round(scores[candidates], 10)))
    chosen = candidates[order][:k]
    return tuple(int(i) for i in chosen if everything or scores[i] > 0)
