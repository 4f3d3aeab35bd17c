"""Continuing prompts: each prompt is read once, however many samples it asks for.

Prompts of one padded length are read together, and the samples of all are drawn side by side. As
they end, further prompts take their place. Where the kind of model does not allow that, each batch
of prompts is decoded by itself.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Protocol

import numpy as np
import torch
from transformers import DynamicCache, PreTrainedModel

from fedaudit.engine.batching import SampleRange, padded_length, rows_of
from fedaudit.engine.compatibility import cache_kwargs, select_cache_rows
from fedaudit.engine.device import to_device
from fedaudit.engine.generation import shared_prefix
from fedaudit.engine.generation.cuda_graphs import CudaGraphs
from fedaudit.engine.generation.kv_cache import Integers
from fedaudit.engine.generation.sequences import (
    Answered,
    OutputBuffer,
    RunningSequences,
    SamplingJob,
)
from fedaudit.engine.padding import attention_mask, left_padded, padding_step

KeepCallback = Callable[[torch.Tensor], None]

MAX_CAPTURED_TOKENS = 4096
"""Prompts of more tokens keep a GPU busy for longer than their kernels take to launch."""

MAX_GROUP_TOKENS = 256
"""How many drawn tokens the samples that share their prompt's keys may have together."""


class DecodeRows(Protocol):
    """The rows that go through the model once the prompts are read."""

    def join(self, cache: DynamicCache, mask: torch.Tensor, owner: Integers) -> int:
        """Take prompts in as they were read; return the row of the first.

        Each further group continues prompt owner[group]; groups are counted on.
        """
        ...

    def grow(
        self, group: Integers, row: Integers, tokens: Integers
    ) -> tuple[torch.Tensor, Integers]:
        """Let each sample read its token; return logits, and which row of them is its own.

        `row` is the row that the sample drew from (at first, its prompt's), `group` its group.
        """
        ...

    def cached_groups(self) -> Integers:
        """Return the groups whose keys and values are in memory."""
        ...


@torch.inference_mode()
def decode_batch(
    model: PreTrainedModel, job: SamplingJob, batch: Sequence[SampleRange], on_keep: KeepCallback
) -> list[list[int]]:
    """Return the new tokens of every sample in `batch`, in order, up to an end token.

    All prompts have one padded length and one number of new tokens. `on_keep` is called
    whenever the rows change, with the earlier row (at first, the prompt) that each continues.
    """
    loop = DecodeLoop(model, job, batch, on_keep)
    loop.admit(batch)
    while loop.is_running:
        loop.step()
    return loop.drawn.tokens()


@torch.inference_mode()
def decode_refilled(
    model: PreTrainedModel,
    job: SamplingJob,
    waiting: Sequence[SampleRange],
    rows: int,
    graphs: CudaGraphs | None = None,
) -> Iterator[Answered]:
    """Yield the pieces of `waiting` with the new tokens of their samples, as they end.

    All have one number of new tokens; no piece has more than `rows` samples, the most that are
    drawn at once. Adjacent prompts of one padded length are read together. Once a quarter of the
    samples has left, others are admitted: all samples of a prompt leave together, and what they do
    not share stays until then. With `graphs`, what comes again is recorded and replayed.
    """
    loop, position = DecodeLoop(model, job, waiting, lambda rows: None, graphs), 0
    while position < len(waiting) or loop.is_running:
        while position < len(waiting) and loop.takes(rows):
            pieces, room = islice(waiting, position, None), rows - loop.sample_count()
            batch = _next_batch(job, pieces, room, padding_step(model))
            if not batch:
                break
            position += len(batch)
            loop.admit(batch)
        if loop.is_running:
            loop.step()
        yield from loop.drawn.take_finished()


def group_size(max_new_tokens: int) -> int:
    """Return how many samples share their prompt's keys at most."""
    return max(1, MAX_GROUP_TOKENS // max_new_tokens)


def _next_batch(
    job: SamplingJob, waiting: Iterable[SampleRange], room: int, step: int
) -> list[SampleRange]:
    """Return as many of the first pieces as have one padded length and at most `room` samples."""
    batch: list[SampleRange] = []
    widths = set[int]()
    for piece in waiting:
        room -= piece.last - piece.first
        widths.add(padded_length(len(job.requests[piece.index].prompt), step))
        if room < 0 or len(widths) > 1:
            break
        batch.append(piece)
    return batch


class DecodeLoop:
    """The decoding of samples that have one number of new tokens."""

    def __init__(
        self,
        model: PreTrainedModel,
        job: SamplingJob,
        pieces: Sequence[SampleRange],
        on_keep: KeepCallback,
        graphs: CudaGraphs | None = None,
    ) -> None:
        """Start without samples; `pieces` are all that may be admitted."""
        self._model, self._job, self._kept, self._graphs = model, job, on_keep, graphs
        max_new_tokens = job.requests[pieces[0].index].max_new_tokens
        self._most = group_size(max_new_tokens)
        largest = min(self._most, max(piece.last - piece.first for piece in pieces))
        self._entries = largest * (max_new_tokens - 1)
        self._refills = shared_prefix.supports_grouping(model)
        self._samples: RunningSequences | None = None
        self.drawn = OutputBuffer(job, max_new_tokens, rows_of(pieces))

    @property
    def is_running(self) -> bool:
        """Say whether there is a sample that has not ended."""
        return self._samples is not None and len(self._samples.index) > 0

    def sample_count(self) -> int:
        """Return how many samples take up room."""
        return int(self._sizes[self._rows.cached_groups()].sum()) if self.is_running else 0

    def _begin(self) -> None:
        """Drop the cache: no sample is running."""
        self._rows: DecodeRows = CopiedPrefixRows(self._model, self._kept)
        if self._refills:
            self._rows = shared_prefix.SharedPrefixRows(
                self._model, self._kept, room=self._entries, graphs=self._graphs
            )
        self._sizes = np.zeros(0, dtype=np.int64)
        """Samples that each group began with."""
        self._samples = None

    def takes(self, rows: int) -> bool:
        """Say whether further prompts can be taken in now: a quarter of `rows` is free for them."""
        return not self.is_running or (self._refills and 4 * (rows - self.sample_count()) >= rows)

    def admit(self, batch: Sequence[SampleRange]) -> None:
        """Read the prompts of `batch`, and draw the first token of each of their samples."""
        if not self.is_running:
            self._begin()
        sizes = [piece.last - piece.first for piece in batch]
        group, owner = shared_prefix.group_samples(sizes, self._most)
        prompts = [self._job.requests[piece.index].prompt for piece in batch]
        logits, mask, cache = prefill(self._model, prompts, self._graphs)
        new = RunningSequences.start(self._job, batch, self.drawn.add(batch), group, owner[group])
        new = self.drawn.draw(new, logits)
        first = self._rows.join(cache, mask, owner)
        new.row[:] += first
        new.group[:] += len(self._sizes)
        self._sizes = np.concatenate([self._sizes, np.bincount(group)])
        self._samples = self._samples.and_(new) if self._samples is not None else new

    def step(self) -> None:
        """Let each sample read the token that it drew, and draw the next."""
        assert self._samples is not None
        samples = self._samples
        logits, row = self._rows.grow(samples.group, samples.row, samples.token)
        samples.row[:] = row
        self._samples = self.drawn.draw(samples, logits, self._graphs)


def prefill(
    model: PreTrainedModel, prompts: Sequence[Sequence[int]], graphs: CudaGraphs | None = None
) -> tuple[torch.Tensor, torch.Tensor, DynamicCache]:
    """Read prompts of one padded length, padded ahead, or of one length if that is not allowed.

    Return the logits of what follows each (prompts, vocabulary), the mask, and the cache. With
    `graphs`, few tokens are read as a recorded forward, whose cache the next one overwrites.
    """
    width = padded_length(len(prompts[0]), padding_step(model))
    if graphs and len(prompts) * width <= MAX_CAPTURED_TOKENS:
        ids, mask = left_padded(prompts, width, "cpu")
        logits, cache = graphs.run(
            "prefill", ids.shape, (ids, mask, _causal(mask)), partial(_read_masked, model)
        )
        return logits, mask, cache
    ids, mask = left_padded(prompts, width, model.device)
    cache = DynamicCache(config=model.config)
    output = model(
        input_ids=ids,
        attention_mask=attention_mask(model, mask),
        position_ids=(mask.cumsum(-1) - 1).clamp(min=0),
        **cache_kwargs(model, cache),
        use_cache=True,
        # By index, which copies the states of the last position. A slice of them (`1`) is not
        # contiguous, and torch then multiplies it by a copy of the matrix for every prompt.
        logits_to_keep=torch.tensor([ids.shape[1] - 1], device=ids.device),
    )
    return output.logits[:, -1], mask, cache


def _causal(mask: torch.Tensor) -> torch.Tensor:
    """Return which tokens each token sees, (prompts, 1, width, width); padding sees itself."""
    width = mask.shape[1]
    seen = torch.ones(width, width, dtype=torch.bool).tril() & mask.bool()[:, None]
    return (seen | torch.eye(width, dtype=torch.bool))[:, None]


def _read_masked(
    model: PreTrainedModel, ids: torch.Tensor, mask: torch.Tensor, seen: torch.Tensor
) -> tuple[torch.Tensor, DynamicCache]:
    """Read prompts as `prefill` does; with the mask as attention takes it, no step waits."""
    cache = DynamicCache(config=model.config)
    output = model(
        input_ids=ids,
        attention_mask=torch.zeros_like(seen, dtype=model.dtype).masked_fill(~seen, -torch.inf),
        position_ids=(mask.cumsum(-1) - 1).clamp(min=0),
        **cache_kwargs(model, cache),
        use_cache=True,
        logits_to_keep=torch.arange(ids.shape[1] - 1, ids.shape[1], device=ids.device),
    )
    return output.logits[:, -1], cache


class CopiedPrefixRows:
    """One row for each sample, with a copy of its prompt's keys: works for any kind of model.

    Rows of samples that have ended leave the batch once they are a quarter of it.
    """

    def __init__(self, model: PreTrainedModel, on_keep: KeepCallback) -> None:
        self._model, self._kept = model, on_keep

    def join(self, cache: DynamicCache, mask: torch.Tensor, owner: Integers) -> int:
        """Take the prompts in, replacing all earlier ones."""
        self._cache, self._mask = cache, mask
        self._position = mask.sum(-1, keepdim=True) - 1
        self._prompts = True
        return 0

    def cached_groups(self) -> Integers:
        """Return no groups: nothing is taken in until all have ended."""
        return np.zeros(0, dtype=np.int64)

    def grow(
        self, group: Integers, row: Integers, tokens: Integers
    ) -> tuple[torch.Tensor, Integers]:
        """Let each sample read its token; return logits, and which row of them is its own."""
        if self._prompts or 4 * len(row) <= 3 * len(self._mask):
            stay = to_device(row, self._mask.device)
            select_cache_rows(self._cache, stay)
            self._mask, self._position = self._mask[stay], self._position[stay]
            self._kept(stay)
            row, self._prompts = np.arange(len(row)), False
        self._mask = torch.nn.functional.pad(self._mask, (0, 1), value=1)
        self._position = self._position + 1
        ids = torch.zeros(len(self._mask), 1, dtype=torch.long)
        ids[row, 0] = torch.as_tensor(tokens)
        logits = self._model(
            input_ids=to_device(ids, self._mask.device),
            attention_mask=attention_mask(self._model, self._mask),
            position_ids=self._position,
            **cache_kwargs(self._model, self._cache),
            use_cache=True,
        ).logits
        return logits[:, -1], row
