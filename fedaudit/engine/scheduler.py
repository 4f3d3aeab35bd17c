"""Running all requests of a job in batches, each as large as memory allows."""

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from transformers import PreTrainedModel

from fedaudit.api.engine import PrefixProbabilities, PrefixProbabilityRequest
from fedaudit.api.records import GenerationRequest
from fedaudit.engine import architecture
from fedaudit.engine.architecture import padding_step
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
from fedaudit.engine.generation.cuda_graphs import CudaGraphs
from fedaudit.engine.generation.sequences import Answered, SamplingJob
from fedaudit.engine.lora import multi
from fedaudit.engine.memory import BatchSizeFinder, ended_by_memory, free_memory
from fedaudit.engine.scoring import (
    AdaptiveBatchLimits,
    BatchLimits,
    Sequences,
    group_log_probabilities,
)

S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class Capacity:
    """How much goes through the model at once."""

    rows: int
    tokens: int
    memory: BatchSizeFinder
    """The batch sizes that were found too large."""


def generate_all(
    model: PreTrainedModel, job: SamplingJob, room: Capacity, graphs: CudaGraphs | None = None
) -> Iterator[Answered]:
    """Yield the samples of all requests, in the order in which they finish.

    If memory runs out, the unfinished samples start again in smaller batches.
    """
    for all_ in _by_new(job.requests, padding_step(model)):
        waiting = all_
        while waiting:
            length = _length(job.requests, waiting)  # the longest comes first
            each = length
            if architecture.has_standard_attention(model):
                each = _own_length(job.requests, waiting)
            rows = min(room.rows, room.tokens // each, rows_of(waiting))
            rows = room.memory.fewer(length, rows)
            waiting = [chunk for piece in waiting for [chunk] in split_batch([piece], rows)]
            waiting = yield from _until_full(model, job, waiting, rows, room.memory, graphs)


def _by_new(requests: Sequence[GenerationRequest], step: int) -> list[list[SampleRange]]:
    """Return all samples grouped by number of new tokens, each group longest prompts first."""
    ranges: dict[int, list[SampleRange]] = {}
    for (_, new), bucket in length_buckets(requests, step):
        ranges.setdefault(new, []).extend(bucket)
    return list(ranges.values())


def _until_full(
    model: PreTrainedModel,
    job: SamplingJob,
    waiting: list[SampleRange],
    rows: int,
    memory: BatchSizeFinder,
    graphs: CudaGraphs | None,
) -> Generator[Answered, None, list[SampleRange]]:
    """Yield samples as they finish until memory runs out; return the unfinished ones."""
    finished = set[SampleRange]()
    with ended_by_memory():
        for ranges, tokens in decoding.decode_refilled(model, job, waiting, rows, graphs):
            finished.update(ranges)
            yield ranges, tokens
        return []
    if graphs:
        graphs.clear()
    remaining = [piece for piece in waiting if piece not in finished]
    memory.failed(_length(job.requests, remaining), rows)
    return remaining


def generate_together(
    model: PreTrainedModel, job: SamplingJob, adapters: multi.MultiLora, room: Capacity
) -> Iterator[Answered]:
    """Yield the samples of all requests under each adapter; a batch is ordered by adapter."""

    def draw(chunk: list[SampleRange]) -> list[list[int]]:
        replicas = chunk * adapters.count
        with adapters.active(len(replicas)):
            return decoding.decode_batch(model, job, replicas, adapters.keep_rows)

    rows, tokens = (max(1, most // max(1, adapters.count)) for most in (room.rows, room.tokens))
    for batch in sample_batches(job.requests, rows, tokens, padding_step(model)):
        yield from room.memory.run(_length(job.requests, batch) * adapters.count, batch, draw)


def score_all(
    model: PreTrainedModel,
    sequences: Sequence[Sequence[int]],
    room: Capacity,
    measure: Callable[[PreTrainedModel, list[Sequence[int]]], list[S]],
) -> Iterator[tuple[list[int], list[S]]]:
    """Yield, batch by batch, the indices of sequences and the results of `measure` for them."""

    def read(chunk: list[SampleRange]) -> list[S]:
        return measure(model, [sequences[piece.index] or (0,) for piece in chunk])

    lengths = [max(1, len(sequence)) for sequence in sequences]
    for batch in by_length(lengths, room.tokens):
        rows = [SampleRange(index, 0, 1) for index in batch]
        for chunk, results in room.memory.run(padded_length(lengths[batch[0]]), rows, read):
            yield [piece.index for piece in chunk], results


def scored_groups(
    model: PreTrainedModel,
    groups: Sequence[Sequences],
    begins: Sequence[tuple[int, ...]],
    limits: AdaptiveBatchLimits,
) -> Iterator[tuple[list[tuple[int, int]], list[list[float]]]]:
    """Yield (group, index) of sequences and their scores, for groups with a common prefix only.

    `begins` are the groups' common prefixes. If memory runs out, it goes on as `_halving` says.
    """
    finished: set[tuple[int, int]] = set()

    def score(
        current: BatchLimits,
    ) -> Iterator[tuple[list[tuple[int, int]], list[list[float]]]]:
        remaining = {
            g: begin
            for g, begin in enumerate(begins)
            if begin and not all((g, i) in finished for i in range(len(groups[g])))
        }
        for members, rows in group_log_probabilities(model, groups, remaining, current):
            scores = {(m.group, m.index): row for m, row in zip(members, rows, strict=True)}
            new = [key for key in scores if key not in finished]
            finished.update(new)
            yield new, [scores[key] for key in new]

    return _halving(limits, score)


def search_all(
    model: PreTrainedModel,
    request: PrefixProbabilityRequest,
    config: SearchConfig,
    limits: AdaptiveBatchLimits,
) -> Iterator[tuple[list[int], list[PrefixProbabilities]]]:
    """Yield the indices of prompts and the probabilities of the strings after each.

    If memory runs out, it goes on as `_halving` says.
    """
    finished = set[int]()

    def search(
        current: BatchLimits,
    ) -> Iterator[tuple[list[int], list[PrefixProbabilities]]]:
        remaining = [index for index in range(len(request)) if index not in finished]
        for batch, results in probabilities.prefix_probabilities(
            model, request.select(remaining), config, current
        ):
            indices = [remaining[index] for index in batch]
            finished.update(indices)
            yield indices, results

    return _halving(limits, search)


def _halving(
    limits: AdaptiveBatchLimits,
    work: Callable[[BatchLimits], Iterator[S]],
) -> Iterator[S]:
    """Yield the results of `work`, which is called again for the rest after memory ran out.

    The limits are halved permanently. Raises BatchTooLargeError if even a single row does not fit.
    """
    while True:
        with ended_by_memory():
            yield from work(limits.current)
            return
        free_memory()
        limits.halve()


def _own_length(requests: Sequence[GenerationRequest], batch: Sequence[SampleRange]) -> int:
    """Return the most tokens of KV cache per sample if samples share the cache of their prompt."""
    request = requests[batch[0].index]
    most = decoding.group_size(request.max_new_tokens)
    sharing = min(most, *(piece.last - piece.first for piece in batch))
    return -(-padded_length(len(request.prompt)) // sharing) + request.max_new_tokens


def _length(requests: Sequence[GenerationRequest], batch: Sequence[SampleRange]) -> int:
    """Return the final length of a row in the batch: padded prompt and new tokens."""
    request = requests[batch[0].index]
    return padded_length(len(request.prompt)) + request.max_new_tokens
