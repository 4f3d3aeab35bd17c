"""The decoding loop: each prompt is prefilled once, however many samples it asks for.

Prompts of the same padded length are prefilled together, and the samples of all running prompts are
decoded in one batch. As samples end, further prompts are admitted (continuous batching). For models
whose architecture does not allow that, each batch of prompts is decoded to its end.

The KV cache holds a prompt once per group of its samples, followed by the tokens that these samples
drew. Samples of a group that have drawn the same tokens so far are one row. Linear layers process
all rows of a batch as one long text; attention processes them by group: the group's queries attend
to one set of keys, under a mask that shows each row the prompt and its own tokens. Nothing is
approximated.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any, Protocol

import numpy as np
import torch
from transformers import AttentionInterface, DynamicCache, PreTrainedModel

from fedaudit.engine import architecture
from fedaudit.engine.architecture import (
    attention_function,
    attention_mask,
    cache_kwargs,
    left_padded,
    padding_step,
    select_cache_rows,
)
from fedaudit.engine.batching import SampleRange, padded_length, rows_of
from fedaudit.engine.device import to_device
from fedaudit.engine.generation.cuda_graphs import CudaGraphs
from fedaudit.engine.generation.kv_cache import (
    CachePositions,
    Integers,
    KVCache,
    StepShape,
    additive_mask,
)
from fedaudit.engine.generation.sequences import (
    Answered,
    OutputBuffer,
    RunningSequences,
    SamplingJob,
)

NAME = "fedaudit_grouped"


def _repeats(model: PreTrainedModel) -> int:
    """Return the number of query heads that share a key head (grouped-query attention)."""
    heads = model.config.num_attention_heads
    return int(heads // (getattr(model.config, "num_key_value_heads", None) or heads))


def group_samples(sizes: Sequence[int], most: int) -> tuple[Integers, Integers]:
    """Return the group of each sample, and the piece of each group.

    Piece i has sizes[i] samples, and a group has at most `most` samples.
    """
    counts = np.array([-(-size // most) for size in sizes])
    starts = np.cumsum(counts) - counts
    group = [starts[piece] + i // most for piece, size in enumerate(sizes) for i in range(size)]
    return np.array(group), np.repeat(np.arange(len(sizes)), counts)


class SharedPrefixRows:
    """The samples of each group as a tree, whose leaves are the rows.

    Groups whose samples have all ended are dropped once they are at least a quarter of all groups.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        on_keep: Callable[[torch.Tensor], None],
        *,
        room: int,
        graphs: CudaGraphs | None = None,
    ) -> None:
        """Start without groups; each group has room for `room` drawn tokens."""
        self._model, self._kept, self._room = model, on_keep, room
        self._graphs = graphs
        self._groups: KVCache | None = None
        self._count = 0
        self._present = np.zeros(0, dtype=np.int64)
        """The groups in the KV cache, in order."""

    def join(self, cache: DynamicCache, mask: torch.Tensor, owner: Integers) -> int:
        """Add prefilled prompts, numbering their groups on; return the row of the first."""
        first = 0
        if self._groups is None:
            self._groups = KVCache(cache, mask, owner, self._room, self._graphs)
        else:
            first = len(self._groups.seen)
            self._groups.join(cache, mask, owner)
        self._present = np.concatenate([self._present, self._count + np.arange(len(owner))])
        self._count += len(owner)
        return first

    def cached_groups(self) -> Integers:
        """Return the groups in the KV cache."""
        return self._present

    def grow(
        self, group: Integers, row: Integers, tokens: Integers
    ) -> tuple[torch.Tensor, Integers]:
        """Feed each sample's last token; return logits, and the row of the logits for each."""
        assert self._groups is not None
        alive = np.unique(group)
        if 4 * len(alive) <= 3 * len(self._present):
            self._groups.leave(np.searchsorted(self._present, alive))
            self._present = alive
        # Samples of one group that drew the same token from the same row become one row.
        place = np.searchsorted(self._present, group)
        number = (place * len(self._groups.seen) + row) * (int(tokens.max()) + 1) + tokens
        _, first, inverse = np.unique(number, return_index=True, return_inverse=True)
        parents = row[first]
        self._kept(torch.as_tensor(parents))
        return self._forward(parents, place[first], tokens[first]), inverse

    def _forward(self, parents: Integers, group: Integers, tokens: Integers) -> torch.Tensor:
        """Return the logits (rows, vocabulary) of rows that each read one token.

        Rows that only pad the step to a fixed shape come last.
        """
        assert self._groups is not None
        layout = self._groups.advance(parents, group)
        inputs = layout.numbers(tokens), layout.visible
        forward = partial(_step, self._model, self._groups, layout.shape, self._graphs)
        if self._graphs:
            logits: torch.Tensor = self._graphs.run("step", layout.shape, inputs, forward)
            return logits
        return forward(*(to_device(one, self._model.device) for one in inputs))


def _step(
    model: PreTrainedModel,
    cache: KVCache,
    shape: StepShape,
    graphs: CudaGraphs | None,
    numbers: torch.Tensor,
    visible: torch.Tensor,
) -> torch.Tensor:
    """Return the logits (rows, vocabulary) of one step, without synchronizing with the device."""
    places = CachePositions.of(shape, numbers, model.config.num_attention_heads)
    cache.set_positions(places)
    with attention_function(model, NAME):
        output = model(
            input_ids=places.tokens[None],
            position_ids=places.position[None],
            attention_mask=additive_mask(shape, visible, model.dtype, _repeats(model)),
            **cache_kwargs(model, cache),
            use_cache=True,
            places=places,
        )
    logits: torch.Tensor = output.logits[0]
    return graphs.buffer("logits", len(logits), logits).copy_(logits) if graphs else logits


def _attend(
    _module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor,
    *,
    places: CachePositions,
    scaling: float | None = None,
    **_options: Any,
) -> tuple[torch.Tensor, None]:
    """Attend by group: query (1, heads, rows, size), key and value (groups, heads, length, size).

    Query heads that share a key head become further rows, so that no key is copied.
    """
    _, heads, count, size = query.shape
    groups, shared = places.shape.groups, key.shape[1]
    by_row = query[0].transpose(0, 1).reshape(count * heads, size)
    output = torch.nn.functional.scaled_dot_product_attention(
        by_row.index_select(0, places.spread).view(groups, shared, -1, size),
        key,
        value,
        attn_mask=attention_mask,
        scale=scaling,
    )
    gathered = output.reshape(-1, size).index_select(0, places.gathered)
    return gathered.view(1, count, heads, size), None


AttentionInterface.register(NAME, _attend)


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
        self._refills = architecture.has_standard_attention(model)
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
            self._rows = SharedPrefixRows(
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
        group, owner = group_samples(sizes, self._most)
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
    logits, cache = _read(model, ids, mask, attention_mask(model, mask))
    return logits, mask, cache


def _causal(mask: torch.Tensor) -> torch.Tensor:
    """Return the causal mask (prompts, 1, width, width), in which padding attends to itself."""
    width = mask.shape[1]
    seen = torch.ones(width, width, dtype=torch.bool).tril() & mask.bool()[:, None]
    return (seen | torch.eye(width, dtype=torch.bool))[:, None]


def _read_masked(
    model: PreTrainedModel, ids: torch.Tensor, mask: torch.Tensor, seen: torch.Tensor
) -> tuple[torch.Tensor, DynamicCache]:
    """Prefill with a ready-made attention mask, so that nothing synchronizes."""
    added = torch.zeros_like(seen, dtype=model.dtype).masked_fill(~seen, -torch.inf)
    return _read(model, ids, mask, added)


def _read(
    model: PreTrainedModel, ids: torch.Tensor, mask: torch.Tensor, attention: torch.Tensor | None
) -> tuple[torch.Tensor, DynamicCache]:
    """Return the logits at the last position of left-padded rows (rows, width), and their cache."""
    cache, width = DynamicCache(config=model.config), ids.shape[1]
    output = model(
        input_ids=ids,
        attention_mask=attention,
        position_ids=(mask.cumsum(-1) - 1).clamp(min=0),
        **cache_kwargs(model, cache),
        use_cache=True,
        # An index copies the hidden states of the last position. A slice (`1`) is not contiguous,
        # and torch would multiply it by a copy of the output matrix for every prompt.
        logits_to_keep=torch.arange(width - 1, width, device=ids.device),
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
