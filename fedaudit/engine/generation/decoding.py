"""The decoding loop: each prompt is prefilled once, however many samples it asks for.

Prompts of the same padded length are prefilled together, and the samples of all running prompts are
decoded in one batch. As samples end, further prompts are admitted (continuous batching). For models
whose architecture does not allow that, each batch of prompts is decoded to its end.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Protocol

import numpy as np
import torch
from transformers import DynamicCache, PreTrainedModel

from fedaudit.engine import attention
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
"""A prefill of more tokens keeps a GPU busy for longer than its kernels take to launch."""

MAX_GROUP_TOKENS = 256
"""The maximum number of drawn tokens in a group: the samples that share their prompt's KV cache."""


class DecodeRows(Protocol):
    """The rows that the model decodes after the prefill of their prompts."""

    def join(self, cache: DynamicCache, mask: torch.Tensor, owner: Integers) -> int:
        """Add prefilled prompts; return the row of the first.

        A new group i continues prompt owner[i]; groups are numbered on from earlier ones.
        """
        ...

    def grow(
        self, group: Integers, row: Integers, tokens: Integers
    ) -> tuple[torch.Tensor, Integers]:
        """Feed each sample's last token; return logits, and the row of the logits for each sample.

        `row` is the row that the sample was drawn from (at first, its prompt's), `group` its group.
        """
        ...

    def cached_groups(self) -> Integers:
        """Return the groups whose KV cache is in memory."""
        ...


@torch.inference_mode()
def decode_batch(
    model: PreTrainedModel, job: SamplingJob, batch: Sequence[SampleRange], on_keep: KeepCallback
) -> list[list[int]]:
    """Return the new tokens of every sample in `batch`, in order, up to an end token.

    All prompts must have the same padded length and number of new tokens. `on_keep` is called
    whenever the rows change, with the earlier row (at first, the prompt) that each row continues.
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

    All requests must have the same number of new tokens. At most `rows` samples are decoded at
    once, and no piece may have more. Adjacent prompts of the same padded length are prefilled
    together. Further prompts are admitted once a quarter of `rows` is free; the samples of a group
    are freed together, when the last of them has ended. With `graphs`, recurring forward passes are
    captured and replayed.
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
    """Return the maximum number of samples in a group, which share their prompt's KV cache."""
    return max(1, MAX_GROUP_TOKENS // max_new_tokens)


def _next_batch(
    job: SamplingJob, waiting: Iterable[SampleRange], room: int, step: int
) -> list[SampleRange]:
    """Return the longest run of first pieces with one padded length and at most `room` samples."""
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
    """The decoding of samples that all have the same number of new tokens."""

    def __init__(
        self,
        model: PreTrainedModel,
        job: SamplingJob,
        pieces: Sequence[SampleRange],
        on_keep: KeepCallback,
        graphs: CudaGraphs | None = None,
    ) -> None:
        """Start without samples; `pieces` are all pieces that may be admitted later."""
        self._model, self._job, self._kept, self._graphs = model, job, on_keep, graphs
        max_new_tokens = job.requests[pieces[0].index].max_new_tokens
        self._most = group_size(max_new_tokens)
        largest = min(self._most, max(piece.last - piece.first for piece in pieces))
        self._entries = largest * (max_new_tokens - 1)
        self._refills = attention.has_standard_attention(model)
        self._samples: RunningSequences | None = None
        self.drawn = OutputBuffer(job, max_new_tokens, rows_of(pieces))

    @property
    def is_running(self) -> bool:
        """Say whether any sample has not ended yet."""
        return self._samples is not None and len(self._samples.index) > 0

    def sample_count(self) -> int:
        """Return the number of samples in the groups that are in memory."""
        return int(self._sizes[self._rows.cached_groups()].sum()) if self.is_running else 0

    def _begin(self) -> None:
        """Start with a new cache, since no sample is running."""
        self._rows: DecodeRows = CopiedPrefixRows(self._model, self._kept)
        if self._refills:
            self._rows = shared_prefix.SharedPrefixRows(
                self._model, self._kept, room=self._entries, graphs=self._graphs
            )
        self._sizes = np.zeros(0, dtype=np.int64)
        """The number of samples that each group started with."""
        self._samples = None

    def takes(self, rows: int) -> bool:
        """Say whether further prompts can be admitted: at least a quarter of `rows` is free."""
        return not self.is_running or (self._refills and 4 * (rows - self.sample_count()) >= rows)

    def admit(self, batch: Sequence[SampleRange]) -> None:
        """Prefill the prompts of `batch`, and draw the first token of each of their samples."""
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
        """Feed each sample's last token to the model, and draw the next one."""
        assert self._samples is not None
        samples = self._samples
        logits, row = self._rows.grow(samples.group, samples.row, samples.token)
        samples.row[:] = row
        self._samples = self.drawn.draw(samples, logits, self._graphs)


def prefill(
    model: PreTrainedModel, prompts: Sequence[Sequence[int]], graphs: CudaGraphs | None = None
) -> tuple[torch.Tensor, torch.Tensor, DynamicCache]:
    """Prefill prompts; return next-token logits (prompts, vocabulary), the mask and the KV cache.

    Prompts have the same padded length and are left-padded, or have the same length if the model
    allows no padding. With `graphs`, short prefills are captured, and the next one overwrites the
    cache.
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
        # An index copies the hidden states of the last position. A slice (`1`) is not contiguous,
        # and torch would multiply it by a copy of the output matrix for every prompt.
        logits_to_keep=torch.tensor([ids.shape[1] - 1], device=ids.device),
    )
    return output.logits[:, -1], mask, cache


def _causal(mask: torch.Tensor) -> torch.Tensor:
    """Return the causal mask (prompts, 1, width, width), in which padding attends to itself."""
    width = mask.shape[1]
    seen = torch.ones(width, width, dtype=torch.bool).tril() & mask.bool()[:, None]
    return (seen | torch.eye(width, dtype=torch.bool))[:, None]


def _read_masked(
    model: PreTrainedModel, ids: torch.Tensor, mask: torch.Tensor, seen: torch.Tensor
) -> tuple[torch.Tensor, DynamicCache]:
    """Prefill as `prefill` does, with a ready-made attention mask, so that nothing synchronizes."""
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
    """One row per sample, with a copy of its prompt's KV cache; works for any architecture.

    Rows of ended samples are removed once they make up a quarter of the batch.
    """

    def __init__(self, model: PreTrainedModel, on_keep: KeepCallback) -> None:
        self._model, self._kept = model, on_keep

    def join(self, cache: DynamicCache, mask: torch.Tensor, owner: Integers) -> int:
        """Add prefilled prompts, which replace all earlier ones."""
        self._cache, self._mask = cache, mask
        self._position = mask.sum(-1, keepdim=True) - 1
        self._prompts = True
        return 0

    def cached_groups(self) -> Integers:
        """Return no groups, since no prompt is admitted until all samples have ended."""
        return np.zeros(0, dtype=np.int64)

    def grow(
        self, group: Integers, row: Integers, tokens: Integers
    ) -> tuple[torch.Tensor, Integers]:
        """Feed each sample's last token; return logits, and the row of the logits for each."""
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
