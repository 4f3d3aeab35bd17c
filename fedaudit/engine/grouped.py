"""Many samples of one prompt as a tree: what they share is read, kept and computed once.

The keys and values of a prompt stand in memory once, however many samples it has, and behind them
those of the tokens that its samples drew. Samples that have drawn the same so far are one row.
Linear layers see all rows of a batch side by side, as one long text; attention sees them by group,
the samples of one prompt: one group's queries against one set of keys, each row under a mask that
shows it the prompt and its own tokens. Nothing is approximated.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from transformers import AttentionInterface, Cache, DynamicCache, PreTrainedModel
from transformers.cache_utils import CacheLayerMixin

NAME = "fedaudit_grouped"
KINDS = ("gpt2", "gpt_neox", "llama", "mistral", "olmo2", "phi3", "qwen2", "qwen3")
"""Kinds of model whose attention is the plain one; a test runs each of them."""

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Places:
    """Where the rows of a step stand: for linear layers in a line, for attention by group."""

    group: torch.Tensor
    """Group of each row (rows,)."""
    entry: torch.Tensor
    """Where in the group's keys each row writes its own (rows,)."""
    slot: torch.Tensor
    """Row in the attention's (groups x slots) of each row (rows,)."""
    groups: int
    slots: int
    length: int
    """How many keys attention looks at."""


class Layer(CacheLayerMixin):
    """Keys and values of one layer, (groups, heads, entries, size), written in place."""

    def __init__(self, keys: torch.Tensor, values: torch.Tensor) -> None:
        self.keys, self.values, self.is_initialized = keys, values, True
        self.places: Places | None = None

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Do nothing: the prompts were read before."""

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write the rows' keys and values (1, heads, rows, size); return those of all groups."""
        assert self.places is not None
        where, keys, values = self.places, self.keys, self.values
        assert keys is not None
        assert values is not None
        keys[where.group, :, where.entry] = key_states[0].transpose(0, 1)
        values[where.group, :, where.entry] = value_states[0].transpose(0, 1)
        return keys[:, :, : where.length], values[:, :, : where.length]

    def leave(self, stay: torch.Tensor) -> None:
        """Forget all groups but those of `stay`."""
        assert self.keys is not None
        assert self.values is not None
        self.keys, self.values = self.keys[stay], self.values[stay]

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Return how many keys there are, and that they begin at the first."""
        return self.get_seq_length(), 0

    def get_seq_length(self) -> int:
        """Return how many keys there are."""
        return self.places.length if self.places else 0

    def get_max_length(self) -> int:
        """Return how many keys there is room for."""
        return 0 if self.keys is None else int(self.keys.shape[2])


class Groups(Cache):
    """What is remembered of all groups, and who sees what of it."""

    def __init__(self, read: DynamicCache, mask: torch.Tensor, owner: Integers, room: int) -> None:
        """Take the prompts as read; group i continues prompt owner[i] with `room` entries."""
        self.width, self.device = mask.shape[1], mask.device
        chosen = torch.as_tensor(owner, device=mask.device)
        self._own = [_layer(layer, chosen, room) for layer in read.layers]
        super().__init__(layers=[*self._own])
        self.used = np.full(len(owner), self.width)
        self.seen = np.zeros((len(mask), self.width + room), dtype=bool)
        self.seen[:, : self.width] = mask.cpu().numpy()
        self.position = self.seen.sum(1)[owner] - 1
        """The last position that was read of each group."""

    def advance(self, parents: Integers, group: Integers) -> Places:
        """Give each row, the child of a row before and in order of groups, a place of its own."""
        counts = np.bincount(group, minlength=len(self.used))
        rank = np.arange(len(group)) - (np.cumsum(counts) - counts)[group]
        entry = self.used[group] + rank
        self.seen = self.seen[parents]
        self.seen[np.arange(len(group)), entry] = True
        self.used += counts
        self.position += 1
        slots = int(counts.max())
        places = Places(
            group=torch.as_tensor(group, device=self.device),
            entry=torch.as_tensor(entry, device=self.device),
            slot=torch.as_tensor(group * slots + rank, device=self.device),
            groups=len(counts),
            slots=slots,
            length=int(self.used.max()),
        )
        for layer in self._own:
            layer.places = places
        return places

    def leave(self, stay: Integers) -> None:
        """Forget all groups but those of `stay`, which are counted anew, in their order."""
        chosen = torch.as_tensor(stay, device=self.device)
        for layer in self._own:
            layer.leave(chosen)
        self.used, self.position = self.used[stay], self.position[stay]

    def mask(self, places: Places, dtype: torch.dtype) -> torch.Tensor:
        """Return what is added to scores, (groups, 1, slots, length): 0 where a row sees a key."""
        seen = torch.as_tensor(self.seen[:, : places.length], device=self.device)
        shape = (places.groups * places.slots, places.length)
        # Slots without a row see all: their answers are not read, but must be finite.
        added = torch.zeros(shape, device=self.device, dtype=dtype)
        added[places.slot] = torch.zeros_like(seen, dtype=dtype).masked_fill(~seen, -torch.inf)
        return added.view(places.groups, 1, places.slots, places.length)


def _layer(read: Any, chosen: torch.Tensor, room: int) -> Layer:
    """Return a layer with prompts in front of `room` empty entries."""
    made = []
    for source in (read.keys, read.values):
        _, heads, width, size = source.shape
        # Zero, not empty: what is masked is multiplied by 0, and 0 x NaN is NaN.
        new = source.new_zeros(len(chosen), heads, width + room, size)
        new[:, :, :width] = source[chosen]
        made.append(new)
    keys, values = made
    return Layer(keys, values)


def fits(model: PreTrainedModel) -> bool:
    """Say whether this model can be asked in groups: plain attention in all its layers."""
    if model.config.model_type not in KINDS:
        return False
    layers = DynamicCache(config=model.config).layers
    return bool(layers) and not any(getattr(layer, "is_sliding", False) for layer in layers)


def grouped(sizes: Sequence[int], most: int) -> tuple[Integers, Integers]:
    """Return the group of each sample, and the piece of each group, of pieces of `sizes` samples.

    A group has at most `most` samples.
    """
    counts = np.array([-(-size // most) for size in sizes])
    starts = np.cumsum(counts) - counts
    group = [starts[piece] + i // most for piece, size in enumerate(sizes) for i in range(size)]
    return np.array(group), np.repeat(np.arange(len(sizes)), counts)


class Branches:
    """The samples of each prompt as a tree; its leaves are the rows.

    Groups of which all samples have ended are forgotten once they are a quarter.
    """

    def __init__(
        self, model: PreTrainedModel, groups: Groups, kept: Callable[[torch.Tensor], None]
    ) -> None:
        self._model, self._groups, self._kept = model, groups, kept
        self._left = np.arange(len(groups.used))
        """The groups that are remembered, in order."""

    def grow(
        self, group: Integers, row: Integers, tokens: Integers
    ) -> tuple[torch.Tensor, Integers]:
        """Let each sample read its token; return logits, and which row of them is its own."""
        alive = np.unique(group)
        if 4 * len(alive) <= 3 * len(self._left):
            self._groups.leave(np.searchsorted(self._left, alive))
            self._left = alive
        # Samples of one group that drew the same from the same row are one row from now on.
        told = np.stack([np.searchsorted(self._left, group), row, tokens])
        (group, parents, tokens), own = np.unique(told, axis=1, return_inverse=True)
        self._kept(torch.as_tensor(parents))
        return self._forward(parents, group, tokens), own.reshape(-1)

    def _forward(self, parents: Integers, group: Integers, tokens: Integers) -> torch.Tensor:
        """Return the logits (rows, vocabulary) of rows that each read one token."""
        model, places = self._model, self._groups.advance(parents, group)
        with _attention(model):
            output = model(
                input_ids=torch.as_tensor(tokens, device=model.device)[None],
                position_ids=torch.as_tensor(self._groups.position[group], device=model.device)[
                    None
                ],
                attention_mask=self._groups.mask(places, model.dtype),
                past_key_values=self._groups,
                use_cache=True,
                places=places,
            )
        logits: torch.Tensor = output.logits[0]
        return logits


@contextlib.contextmanager
def _attention(model: PreTrainedModel) -> Iterator[None]:
    """Let the model use the attention below."""
    config = model.config
    before = config._attn_implementation
    config._attn_implementation = NAME
    try:
        yield
    finally:
        config._attn_implementation = before


def _attend(
    _module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor,
    *,
    places: Places,
    scaling: float | None = None,
    **_options: Any,
) -> tuple[torch.Tensor, None]:
    """Attend by group: query (1, heads, rows, size), key and value (groups, heads, length, size).

    Heads that share a key stand beside each other as further rows, so that no key is copied.
    """
    _, heads, count, size = query.shape
    groups, slots, shared = places.groups, places.slots, key.shape[1]
    repeats, rows = heads // shared, query[0].transpose(0, 1)
    whole = groups * slots == count  # then rows stand in their slots as they are
    spread = rows
    if not whole:
        spread = rows.new_zeros(groups * slots, heads, size)
        spread[places.slot] = rows
    spread = spread.reshape(groups, slots, shared, repeats, size).permute(0, 2, 3, 1, 4)
    found = torch.nn.functional.scaled_dot_product_attention(
        spread.reshape(groups, shared, repeats * slots, size),
        key,
        value,
        attn_mask=attention_mask.repeat(1, 1, repeats, 1) if repeats > 1 else attention_mask,
        scale=scaling,
    )
    found = found.reshape(groups, shared, repeats, slots, size).permute(0, 3, 1, 2, 4)
    found = found.reshape(groups * slots, heads, size)
    return (found if whole else found[places.slot])[None], None


AttentionInterface.register(NAME, _attend)
