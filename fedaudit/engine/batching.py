"""Which rows go through the model together; no torch needed.

A row is padded to a length that follows from its own length alone, never from its neighbours: so
what the model computes for it does not depend on the batch it happens to be in.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fedaudit.api.records import GenerationRequest

STEP = 8
"""Rows are padded to the next multiple of this many tokens."""


@dataclass(frozen=True, slots=True)
class SampleRange:
    """Samples first..last-1 of the request at `index`."""

    index: int
    first: int
    last: int


def padded_length(length: int, step: int = STEP) -> int:
    """Return the length that a row of `length` tokens is padded to; with a step of 1, its own."""
    return next_multiple(length, step)


def next_multiple(count: int, step: int) -> int:
    """Return the least multiple of `step` that is no less than `count`."""
    return -(-count // step) * step


def sample_batches(
    requests: Sequence[GenerationRequest], rows: int, tokens: int, step: int = STEP
) -> Iterator[list[SampleRange]]:
    """Yield batches of at most `rows` samples and `tokens` tokens, longest prompts first.

    Requests of one padded length and one number of new tokens share a batch. The longest come
    first, so that memory that does not suffice shows at once.
    """
    for (length, new), bucket in length_buckets(requests, step):
        yield from split_batch(bucket, max(1, min(rows, tokens // (length + new))))


def length_buckets(
    requests: Sequence[GenerationRequest], step: int = STEP
) -> list[tuple[tuple[int, int], list[SampleRange]]]:
    """Return all samples by padded length of the prompt and number of new tokens, longest first."""
    buckets: dict[tuple[int, int], list[SampleRange]] = defaultdict(list)
    for index, request in enumerate(requests):
        if request.samples > 0:
            key = padded_length(len(request.prompt), step), request.max_new_tokens
            buckets[key].append(SampleRange(index, 0, request.samples))
    return sorted(buckets.items(), reverse=True, key=lambda item: item[0])


def rows_of(batch: Sequence[SampleRange]) -> int:
    """Return how many samples a batch has."""
    return sum(piece.last - piece.first for piece in batch)


def split_batch(batch: Sequence[SampleRange], rows: int) -> Iterator[list[SampleRange]]:
    """Yield the samples of `batch` in its order, in batches of at most `rows`."""
    chunk: list[SampleRange] = []
    free = rows
    for piece in batch:
        first = piece.first
        while first < piece.last:
            last = min(piece.last, first + free)
            chunk.append(SampleRange(piece.index, first, last))
            first, free = last, free - (last - first)
            if not free:
                yield chunk
                chunk, free = [], rows
    if chunk:
        yield chunk


def by_length(lengths: Sequence[int], tokens: int, step: int = STEP) -> Iterator[list[int]]:
    """Yield batches of indices whose padded rows hold at most `tokens` tokens, longest first."""
    buckets: dict[int, list[int]] = defaultdict(list)
    for index, length in enumerate(lengths):
        buckets[padded_length(length, step)].append(index)
    for length, members in sorted(buckets.items(), reverse=True):
        room = max(1, tokens // length)
        for start in range(0, len(members), room):
            yield members[start : start + room]
