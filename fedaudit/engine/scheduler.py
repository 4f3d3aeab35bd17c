"""All of some work, batch by batch, each as large as memory allows."""

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from transformers import PreTrainedModel

from fedaudit.api.engine import PrefixProbabilities, PrefixProbabilityRequest
from fedaudit.api.records import GenerationRequest
from fedaudit.engine.batching import (
    SampleRange,
    by_length,
    length_buckets,
    padded_length,
    rows_of,
    sample_batches,
    split_batch,
)
from fedaudit.engine.exact import probabilities
from fedaudit.engine.exact.search import SearchConfig
from fedaudit.engine.generation import decoding
from fedaudit.engine.generation.sequences import Answered, SamplingJob
from fedaudit.engine.lora import multi
from fedaudit.engine.memory import BatchSizeFinder, free_memory, is_out_of_memory
from fedaudit.engine.scoring import log_likelihood, shared_prefix

S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class Capacity:
    """How much goes through the model at once."""

    rows: int
    tokens: int
    memory: BatchSizeFinder
    """What was found too much."""


def generate_all(model: PreTrainedModel, work: SamplingJob, room: Capacity) -> Iterator[Answered]:
    """Yield the samples of all requests, in the order in which they end.

    What memory does not suffice for is begun again, fewer at once; what has ended counts.
    """
    for all_ in _by_new(work.requests):
        waiting = all_
        while waiting:
            length = _length(work.requests, waiting)  # the longest is the first
            rows = min(room.rows, room.tokens // length, rows_of(waiting))
            rows = room.memory.fewer(length, rows)
            waiting = [part for piece in waiting for [part] in split_batch([piece], rows)]
            waiting = yield from _until_full(model, work, waiting, rows, room.memory)


def _by_new(requests: Sequence[GenerationRequest]) -> list[list[SampleRange]]:
    """Return all samples by their number of new tokens, those of the longest prompts first."""
    found: dict[int, list[SampleRange]] = {}
    for (_, new), bucket in length_buckets(requests):
        found.setdefault(new, []).extend(bucket)
    return list(found.values())


def _until_full(
    model: PreTrainedModel,
    work: SamplingJob,
    waiting: list[SampleRange],
    rows: int,
    memory: BatchSizeFinder,
) -> Generator[Answered, None, list[SampleRange]]:
    """Yield what ends until memory does not suffice; return what has not ended then."""
    ended = set[SampleRange]()
    try:
        for some, tokens in decoding.decode_refilled(model, work, waiting, rows):
            ended.update(some)
            yield some, tokens
        return []
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
    left = [piece for piece in waiting if piece not in ended]
    memory.failed(_length(work.requests, left), rows)
    return left


def generate_together(
    model: PreTrainedModel, work: SamplingJob, adapters: multi.MultiLora, room: Capacity
) -> Iterator[Answered]:
    """Yield the samples of all requests under each of `adapters`: adapter by adapter in a batch."""

    def draw(part: list[SampleRange]) -> list[list[int]]:
        everyone = part * adapters.count
        with adapters.active(len(everyone)):
            return decoding.decode_batch(model, work, everyone, adapters.kept)

    rows, tokens = (max(1, most // max(1, adapters.count)) for most in (room.rows, room.tokens))
    for batch in sample_batches(work.requests, rows, tokens):
        yield from room.memory.run(_length(work.requests, batch) * adapters.count, batch, draw)


def score_all(
    model: PreTrainedModel,
    sequences: Sequence[Sequence[int]],
    room: Capacity,
    measure: Callable[[PreTrainedModel, list[Sequence[int]]], list[S]],
) -> Iterator[tuple[list[int], list[S]]]:
    """Yield indices of sequences and what `measure` says of them, a batch at a time."""

    def read(part: list[SampleRange]) -> list[S]:
        return measure(model, [sequences[one.index] or (0,) for one in part])

    lengths = [max(1, len(sequence)) for sequence in sequences]
    for batch in by_length(lengths, room.tokens):
        rows = [SampleRange(index, 0, 1) for index in batch]
        for part, found in room.memory.run(padded_length(lengths[batch[0]]), rows, read):
            yield [piece.index for piece in part], found


def score_together(
    model: PreTrainedModel,
    sequences: Sequence[Sequence[int]],
    adapters: multi.MultiLora,
    room: Capacity,
) -> Iterator[tuple[list[int], list[list[float]]]]:
    """Yield indices of sequences and their scores under each of `adapters`, one after the other."""

    def read(part: list[SampleRange]) -> list[list[float]]:
        rows = [sequences[one.index] or (0,) for one in part] * adapters.count
        with adapters.active(len(rows)):
            return log_likelihood.log_probabilities(model, rows)

    lengths = [max(1, len(sequence)) for sequence in sequences]
    for batch in by_length(lengths, max(1, room.tokens // max(1, adapters.count))):
        rows = [SampleRange(index, 0, 1) for index in batch]
        length = padded_length(lengths[batch[0]]) * adapters.count
        for part, found in room.memory.run(length, rows, read):
            yield [piece.index for piece in part], found


def scored_groups(
    model: PreTrainedModel,
    groups: Sequence[shared_prefix.Sequences],
    limits: shared_prefix.AdaptiveBatchLimits,
) -> Iterator[tuple[list[tuple[int, int]], list[list[float]]]]:
    """Yield (group, index) of sequences and their scores; groups that share nothing are left out.

    Where memory does not suffice, the limits are halved for good and what is left is begun again.
    Raises BatchTooLargeError where a single row does not fit.
    """
    begins = {g: shared_prefix.common_prefix(group) for g, group in enumerate(groups)}
    known: set[tuple[int, int]] = set()
    while True:
        left = {
            g: begin
            for g, begin in begins.items()
            if begin and not all((g, i) in known for i in range(len(groups[g])))
        }
        try:
            for members, found in shared_prefix.log_probabilities(
                model, groups, left, limits.bounds
            ):
                scores = {(m.group, m.index): row for m, row in zip(members, found, strict=True)}
                new = [place for place in scores if place not in known]
                known.update(new)
                yield new, [scores[place] for place in new]
            return
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
        free_memory()
        limits.halve()


def search_all(
    model: PreTrainedModel,
    request: PrefixProbabilityRequest,
    walk: SearchConfig,
    limits: shared_prefix.AdaptiveBatchLimits,
) -> Iterator[tuple[list[int], list[PrefixProbabilities]]]:
    """Yield indices of prompts and their chances.

    Where memory does not suffice, the limits are halved for good and what is left is begun again.
    Raises BatchTooLargeError where a single row does not fit.
    """
    left = list(range(len(request)))
    while left:
        known = set[int]()
        try:
            for batch, found in probabilities.prefix_probabilities(
                model, request.select(left), walk, limits.bounds
            ):
                known.update(batch)
                yield [left[index] for index in batch], found
            return
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
        left = [prompt for index, prompt in enumerate(left) if index not in known]
        free_memory()
        limits.halve()


def _length(requests: Sequence[GenerationRequest], batch: Sequence[SampleRange]) -> int:
    """Return how long a row of a batch gets."""
    request = requests[batch[0].index]
    return padded_length(len(request.prompt)) + request.max_new_tokens
