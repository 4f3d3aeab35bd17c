"""The KV cache of groups of samples that are decoded together, and the keys each row attends to."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from transformers import Cache, DynamicCache
from transformers.cache_utils import CacheLayerMixin

from fedaudit.engine.batching import next_multiple
from fedaudit.engine.device import to_device
from fedaudit.engine.generation.cuda_graphs import CudaGraphs, bucket_size

Integers = npt.NDArray[np.int64]

ALIGNED = {"cuda": 8}
"""The number of keys in attention is a multiple of this: CUDA's kernel would copy a mask of any
other length, in every layer."""

FIXED_LENGTH = 64
"""The same multiple with CUDA graphs, so that shapes recur."""


@dataclass(frozen=True, slots=True)
class StepShape:
    """The shape of a decoding step."""

    rows: int
    groups: int
    slots: int
    """Rows per group in attention, which gets (groups x slots) rows."""
    length: int
    """The number of keys in attention."""


@dataclass(frozen=True, slots=True)
class StepLayout:
    """The layout of the rows of a step, in host memory."""

    shape: StepShape
    group: Integers
    """The group of each row (rows,)."""
    position: Integers
    """The position of each row's token in its text (rows,)."""
    entry: Integers
    """The entry of the group's KV cache that each row writes (rows,)."""
    slot: Integers
    """The index of each row among attention's (groups x slots) rows (rows,)."""
    visible: npt.NDArray[np.bool_]
    """The keys that each row of attention attends to (groups x slots, length)."""

    def numbers(self, tokens: Integers) -> Integers:
        """Return all numbers of a step in one array, which `CachePositions.of` splits again."""
        shape = self.shape
        source = np.zeros(shape.groups * shape.slots, dtype=np.int64)
        source[self.slot] = np.arange(shape.rows)
        filled = np.zeros(shape.rows, dtype=np.int64)
        filled[: len(tokens)] = tokens
        return np.concatenate(
            [filled, self.position, self.group, self.entry, self.slot, source], dtype=np.int64
        )


@dataclass(frozen=True, slots=True)
class CachePositions:
    """The layout of the rows of a step on the device: one row of tokens, regrouped in attention."""

    shape: StepShape
    tokens: torch.Tensor
    position: torch.Tensor
    group: torch.Tensor
    entry: torch.Tensor
    """(rows,) each, as in `StepLayout`."""
    spread: torch.Tensor
    """The index into (rows x heads) for each of (groups x heads x slots)."""
    gathered: torch.Tensor
    """The index into (groups x heads x slots) for each of (rows x heads)."""

    @classmethod
    def of(cls, shape: StepShape, numbers: torch.Tensor, heads: int) -> "CachePositions":
        """Return the layout from the numbers of `StepLayout.numbers`, for `heads` query heads."""
        sizes = [shape.rows] * 5 + [shape.groups * shape.slots]
        tokens, position, group, entry, slot, source = torch.split(numbers, sizes)
        head = torch.arange(heads, device=numbers.device)
        spread = source.view(shape.groups, 1, shape.slots) * heads + head[:, None]
        start = (slot // shape.slots)[:, None] * heads + head
        gathered = start * shape.slots + (slot % shape.slots)[:, None]
        return cls(shape, tokens, position, group, entry, spread.reshape(-1), gathered.reshape(-1))


class LayerCache(CacheLayerMixin):
    """Keys and values of one layer, (groups, heads, entries, size), written in place.

    There is capacity for further groups, so that adding one does not change the addresses.
    """

    def __init__(self, keys: torch.Tensor, values: torch.Tensor) -> None:
        self.is_initialized = True
        self.places: CachePositions | None = None
        self._all = keys, values
        self.set_group_count(0)

    def set_group_count(self, groups: int) -> None:
        """Let `keys` and `values` be views of the first `groups` groups."""
        self.keys, self.values = (tensor[:groups] for tensor in self._all)

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Do nothing, since the prompts were prefilled before."""

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write the rows' keys and values (1, heads, rows, size); return those of all groups."""
        assert self.places is not None
        where, (keys, values) = self.places, self._all
        keys[where.group, :, where.entry] = key_states[0].transpose(0, 1)
        values[where.group, :, where.entry] = value_states[0].transpose(0, 1)
        groups, length = where.shape.groups, where.shape.length
        return keys[:groups, :, :length], values[:groups, :, :length]

    def leave(self, stay: torch.Tensor) -> None:
        """Drop all groups but those of `stay`, which move to the front."""
        for tensor in self._all:
            tensor[: len(stay)] = tensor[stay]
        self.set_group_count(len(stay))

    def join(self, read: Any, chosen: torch.Tensor) -> None:
        """Append a group for each of `chosen`, which are rows of a prefilled layer."""
        first = self.get_group_count()
        last = first + len(chosen)
        for tensor, source in zip(self._all, (read.keys, read.values), strict=True):
            tensor[first:last, :, : source.shape[2]] = source[chosen]
        self.set_group_count(last)

    def with_capacity(self, groups: int, entries: int) -> "LayerCache":
        """Return a copy with capacity for at least so many groups and entries."""
        keys, values = (_with_room(tensor, groups, entries) for tensor in self._all)
        other = LayerCache(keys, values)
        other.set_group_count(self.get_group_count())
        return other

    def get_group_count(self) -> int:
        """Return the number of groups."""
        assert self.keys is not None
        return len(self.keys)

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Return the number of keys, and 0, the index of the first key."""
        return self.get_seq_length(), 0

    def get_seq_length(self) -> int:
        """Return the number of keys in attention."""
        return self.places.shape.length if self.places else 0

    def get_max_length(self) -> int:
        """Return the capacity in keys per group."""
        return int(self._all[0].shape[2])

    def get_group_capacity(self) -> int:
        """Return the capacity in groups."""
        return len(self._all[0])


class KVCache(Cache):
    """The keys and values of all groups, and the keys that each row attends to."""

    def __init__(
        self,
        read: DynamicCache,
        mask: torch.Tensor,
        owner: Integers,
        room: int,
        graphs: CudaGraphs | None = None,
    ) -> None:
        """Start with prefilled prompts; group i continues prompt owner[i] with `room` entries.

        With `graphs`, steps have few different shapes, and the cache keeps its addresses.
        """
        self.device, self._room, self._graphs = (
            graphs.device if graphs else mask.device,
            room,
            graphs,
        )
        kept = graphs.kept_layers(read) if graphs else None
        self._own: list[LayerCache] = kept or [_empty(layer) for layer in read.layers]
        super().__init__(layers=[*self._own])
        self.used = np.zeros(0, dtype=np.int64)
        self.position = np.zeros(0, dtype=np.int64)
        """The last position that each group has read."""
        self.seen = np.zeros((0, 0), dtype=bool)
        """The entries of its group that each row attends to (rows, entries)."""
        self.join(read, mask, owner)

    def join(self, read: DynamicCache, mask: torch.Tensor, owner: Integers) -> None:
        """Append groups and rows; all groups get the larger number of entries."""
        width = mask.shape[1]
        entries = max(self.seen.shape[1], width + self._room)
        self._reserve(len(self.used) + len(owner), entries)
        chosen = to_device(owner, self.device)
        for layer, read_layer in zip(self._own, read.layers, strict=True):
            layer.join(read_layer, chosen)
        new = np.zeros((len(mask), entries), dtype=bool)
        new[:, :width] = mask.cpu().numpy()
        before = np.pad(self.seen, ((0, 0), (0, entries - self.seen.shape[1])))
        self.seen = np.concatenate([before, new])
        self.used = np.concatenate([self.used, np.full(len(owner), width)])
        self.position = np.concatenate([self.position, new.sum(1)[owner] - 1])

    def _reserve(self, groups: int, entries: int) -> None:
        if self._graphs:  # one group more, for the rows that pad a step to its shape
            groups, entries = bucket_size(groups + 1), next_multiple(entries, FIXED_LENGTH)
        first = self._own[0]
        if groups > first.get_group_capacity() or entries > first.get_max_length():
            self._own = [layer.with_capacity(groups, entries) for layer in self._own]
            self.layers = [*self._own]
            if self._graphs:
                self._graphs.keep_layers(self._own)

    def advance(self, parents: Integers, group: Integers) -> StepLayout:
        """Assign cache entries to the rows of the next step; return their layout.

        Row i continues row parents[i] in group[i]; rows are sorted by group.
        """
        counts = np.bincount(group, minlength=len(self.used))
        rank = np.arange(len(group)) - (np.cumsum(counts) - counts)[group]
        entry = self.used[group] + rank
        self.seen = self.seen[parents]
        self.seen[np.arange(len(group)), entry] = True
        self.used += counts
        self.position += 1
        shape = self._shape(len(group), int(counts.max()))
        more = shape.rows - len(group)
        last = np.full(more, shape.groups - 1)
        slot = group * shape.slots + rank
        # Slots without a row attend to all keys: no one reads their output, but it must be finite.
        visible = np.ones((shape.groups * shape.slots, shape.length), dtype=bool)
        width = min(shape.length, self.seen.shape[1])
        visible[slot, :width], visible[slot, width:] = self.seen[:, :width], False
        return StepLayout(
            shape=shape,
            group=np.concatenate([group, last]),
            position=np.concatenate([self.position[group], np.zeros_like(last)]),
            entry=np.concatenate([entry, np.zeros_like(last)]),
            slot=np.concatenate([slot, last * shape.slots + np.arange(more) % shape.slots]),
            visible=visible,
        )

    def set_positions(self, places: CachePositions) -> None:
        """Set where the next step writes its keys and values."""
        for layer in self._own:
            layer.places = places

    def _shape(self, rows: int, slots: int) -> StepShape:
        """Return the shape of a step: the smallest, or, with graphs, one of few that recur."""
        groups, keys = len(self.used), int(self.used.max())
        if self._graphs is None:
            length = next_multiple(keys, ALIGNED.get(self.device.type, 1))
            return StepShape(rows, groups, slots, min(length, self.seen.shape[1]))
        return StepShape(
            rows=bucket_size(rows),
            groups=bucket_size(groups + 1),
            slots=bucket_size(slots),
            length=next_multiple(keys, FIXED_LENGTH),
        )

    def leave(self, stay: Integers) -> None:
        """Drop all groups but those of `stay`, which are renumbered in their order."""
        chosen = to_device(stay, self.device)
        for layer in self._own:
            layer.leave(chosen)
        self.used, self.position = self.used[stay], self.position[stay]


def additive_mask(
    shape: StepShape, visible: torch.Tensor, dtype: torch.dtype, repeats: int
) -> torch.Tensor:
    """Return the additive attention mask (groups, 1, repeats x slots, length).

    It is 0 where a row attends to a key, else -inf, repeated for the heads that share a key.
    """
    added = torch.zeros_like(visible, dtype=dtype).masked_fill(~visible, -torch.inf)
    added = added.view(shape.groups, 1, shape.slots, shape.length)
    return added.repeat(1, 1, repeats, 1) if repeats > 1 else added


def _empty(read: Any) -> LayerCache:
    """Return a layer without groups, for keys and values of the shape and dtype of `read`."""
    return LayerCache(read.keys[:0, :, :0], read.values[:0, :, :0])


def _with_room(tensor: torch.Tensor, groups: int, entries: int) -> torch.Tensor:
    """Return a copy with capacity for at least so many groups and entries."""
    count, heads, before, size = tensor.shape
    # Zeros, not empty memory: masked values are multiplied by 0, and 0 x NaN is NaN.
    new = tensor.new_zeros(max(groups, count), heads, max(entries, before), size)
    new[:count, :, :before] = tensor
    return new
