"""Which rows go through the model together; no torch needed.

The padded length of a row follows from the row's own length alone, never from its neighbours, so
that what the model computes for a row does not depend on the batch that the row is in.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fedaudit.api.records import GenerationRequest

STEP = 8
"""Rows are padded to the next multiple of this many tokens."""


@dataclass(frozen=True, slots=True)
class SampleRange:
    """Samples first to last - 1 of the request at `index`."""

    index: int
    first: int
    last: int


def padded_length(length: int, step: int = STEP) -> int:
    """Return the length to which a row of `length` tokens is padded; a step of 1 adds nothing."""
    return next_multiple(length, step)


def next_multiple(count: int, step: int) -> int:
    """Return the smallest multiple of `step` that is at least `count`."""
    return -(-count // step) * step


def sample_batches(
    requests: Sequence[GenerationRequest], rows: int, tokens: int, step: int = STEP
) -> Iterator[list[SampleRange]]:
    """Yield batches of at most `rows` samples and `tokens` tokens, longest prompts first.

    Only requests with the same padded length and the same number of new tokens share a batch. The
    longest come first, so that a lack of memory shows at once.
    """
    for (length, new), bucket in length_buckets(requests, step):
        yield from split_batch(bucket, max(1, min(rows, tokens // (length + new))))


def length_buckets(
    requests: Sequence[GenerationRequest], step: int = STEP
) -> list[tuple[tuple[int, int], list[SampleRange]]]:
    """Return all samples by (padded prompt length, number of new tokens), longest first."""
    buckets: dict[tuple[int, int], list[SampleRange]] = defaultdict(list)
    for index, request in enumerate(requests):
        if request.samples > 0:
            key = padded_length(len(request.prompt), step), request.max_new_tokens
            buckets[key].append(SampleRange(index, 0, request.samples))
    return sorted(buckets.items(), reverse=True, key=lambda item: item[0])


def rows_of(batch: Sequence[SampleRange]) -> int:
    """Return the number of samples in a batch."""
    return sum(piece.last - piece.first for piece in batch)


def split_batch(batch: Sequence[SampleRange], rows: int) -> Iterator[list[SampleRange]]:
    """Yield the samples of `batch`, in the same order, in batches of at most `rows` samples."""
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


def by_length(
    lengths: Sequence[int], tokens: int, step: int = STEP, *, rows: int | None = None, new: int = 0
) -> Iterator[list[int]]:
    """Yield batches of indices of rows of one padded length, longest first.

    A batch has at most `rows` rows, and at most `tokens` tokens with `new` further ones a row.
    """
    buckets: dict[int, list[int]] = defaultdict(list)
    for index, length in enumerate(lengths):
        buckets[padded_length(length, step)].append(index)
    for length, members in sorted(buckets.items(), reverse=True):
        room = max(1, min(rows or len(members), tokens // (length + new)))
        for start in range(0, len(members), room):
            yield members[start : start + room]


def common_length(rows: Sequence[Sequence[int]]) -> int:
    """Return how many tokens rows have in common at their beginning."""
    # What the lexicographically first and last row share is shared by all.
    pairs = zip(min(map(tuple, rows)), max(map(tuple, rows)), strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), min(map(len, rows)))
