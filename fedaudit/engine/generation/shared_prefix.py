"""Many samples of one prompt as a tree, whose shared tokens are computed and cached once.

The KV cache holds a prompt once per group of its samples, followed by the tokens that these samples
drew. Samples of a group that have drawn the same tokens so far are one row. Linear layers process
all rows of a batch as one long text; attention processes them by group: the group's queries attend
to one set of keys, under a mask that shows each row the prompt and its own tokens. Nothing is
approximated.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from transformers import AttentionInterface, DynamicCache, PreTrainedModel

from fedaudit.engine.attention import attention_function
from fedaudit.engine.compatibility import cache_kwargs
from fedaudit.engine.device import to_device
from fedaudit.engine.generation.cuda_graphs import CudaGraphs
from fedaudit.engine.generation.kv_cache import (
    CachePositions,
    Integers,
    KVCache,
    StepShape,
    additive_mask,
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
