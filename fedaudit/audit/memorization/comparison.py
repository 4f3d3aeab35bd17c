"""Comparing many continuations with many suffixes, in parallel processes."""

import os
from collections.abc import Collection, Iterator, Sequence

from fedaudit.api.progress import Progress, no_progress
from fedaudit.metrics.overlap import (
    Overlap,
    OverlapSettings,
    PreparedText,
    compare_prepared,
    prepare_texts,
)
from fedaudit.system.processes import processes

MIN_PARALLEL_PAIRS = 4000
"""The number of pairs that one process compares in the time that others need to start."""

CHUNK = 2000
"""The approximate number of pairs in a chunk."""

REMEMBERED = 1 << 13
"""The maximum number of prepared texts in a process's cache."""

_READY: dict[OverlapSettings, dict[str, PreparedText]] = {}

BROKEN = "A process that compares texts died; there may be too little memory."

Pair = tuple[str, str]
"""A suffix and a continuation."""

Row = tuple[str, tuple[str, ...]]
"""A suffix, and the continuations that it is compared with."""


def compare_all(
    pairs: Collection[Pair],
    settings: OverlapSettings,
    *,
    workers: int = 0,
    progress: Progress = no_progress,
) -> dict[Pair, Overlap]:
    """Return the overlap of each pair, without pairs whose verdict is "none".

    The result depends neither on the number of processes nor on the order of the pairs. 0 workers
    means one per core.
    """
    chunks = list(_chunks(pairs))
    count = min(workers or len(os.sched_getaffinity(0)), len(chunks))
    pair_overlaps: dict[Pair, Overlap] = {}
    done = 0
    for chunk, overlaps in _compare_chunks(
        chunks, settings, count if len(pairs) > MIN_PARALLEL_PAIRS else 1
    ):
        for (suffix, texts), row in zip(chunk, overlaps, strict=True):
            pair_overlaps |= {(suffix, texts[index]): overlap for index, overlap in row}
            done += len(texts)
        progress(done, len(pairs))
    return pair_overlaps


def _chunks(pairs: Collection[Pair]) -> Iterator[list[Row]]:
    """Yield all pairs in chunks, grouped by suffix."""
    by_suffix: dict[str, list[str]] = {}
    for suffix, text in sorted(pairs):
        by_suffix.setdefault(suffix, []).append(text)
    chunk: list[Row] = []
    size = 0
    for suffix, texts in by_suffix.items():
        chunk.append((suffix, tuple(texts)))
        size += len(texts)
        if size >= CHUNK:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


ChunkOverlaps = list[list[tuple[int, Overlap]]]
"""For each suffix of a chunk, the indices of the continuations that overlap with it, and how."""


def _compare_chunks(
    chunks: Sequence[list[Row]], settings: OverlapSettings, count: int
) -> Iterator[tuple[list[Row], ChunkOverlaps]]:
    if count < 2:
        yield from ((chunk, _compare(settings, chunk)) for chunk in chunks)
        return
    with processes(count, BROKEN) as pool:
        waiting = [pool.submit(_compare, settings, chunk) for chunk in chunks]
        for chunk, answer in zip(chunks, waiting, strict=True):
            yield chunk, answer.result()


def _compare(settings: OverlapSettings, chunk: Sequence[Row]) -> ChunkOverlaps:
    """Compare the pairs of a chunk; this runs in a worker process."""
    ready = _prepare_texts({text for suffix, texts in chunk for text in (suffix, *texts)}, settings)
    rows: ChunkOverlaps = []
    for suffix, texts in chunk:
        prepared = ready[suffix]
        overlaps = ((i, compare_prepared(prepared, ready[text])) for i, text in enumerate(texts))
        rows.append([(i, overlap) for i, overlap in overlaps if overlap.verdict != "none"])
    return rows


def _prepare_texts(texts: Collection[str], settings: OverlapSettings) -> dict[str, PreparedText]:
    """Return prepared texts, cached since continuations occur again in the next chunk."""
    ready = _READY.setdefault(settings, {})
    if len(ready) + len(texts) > REMEMBERED:
        ready.clear()
    new = sorted(text for text in texts if text not in ready)
    ready.update(zip(new, prepare_texts(new, settings), strict=True))
    return ready
