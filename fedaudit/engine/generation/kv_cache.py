"""The KV cache of prompts that are continued together, and which rows see which keys."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch.nn.functional import pad
from transformers import Cache, DynamicCache
from transformers.cache_utils import CacheLayerMixin

from fedaudit.engine.device import to_device

Integers = npt.NDArray[np.int64]

ALIGNED = {"cuda": 8}
"""Attention looks at a multiple of this many keys: CUDA's kernel would copy any other mask, in
every layer."""


@dataclass(frozen=True, slots=True)
class CachePositions:
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


class LayerCache(CacheLayerMixin):
    """Keys and values of one layer, (groups, heads, entries, size), written in place."""

    def __init__(self, keys: torch.Tensor, values: torch.Tensor) -> None:
        self.keys, self.values, self.is_initialized = keys, values, True
        self.places: CachePositions | None = None

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Do nothing: the prompts were read before."""

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write the rows' keys and values (1, heads, rows, size); return those of all groups."""
        assert self.places is not None
        where, (keys, values) = self.places, self.tensors()
        keys[where.group, :, where.entry] = key_states[0].transpose(0, 1)
        values[where.group, :, where.entry] = value_states[0].transpose(0, 1)
        return keys[:, :, : where.length], values[:, :, : where.length]

    def leave(self, stay: torch.Tensor) -> None:
        """Forget all groups but those of `stay`."""
        self.keys, self.values = (tensor[stay] for tensor in self.tensors())

    def join(self, other: "LayerCache") -> None:
        """Append the groups of another layer."""
        most = max(tensor.shape[2] for tensor in (*self.tensors(), *other.tensors()))
        own_tensors, other_tensors = (
            [pad(tensor, (0, 0, 0, most - tensor.shape[2])) for tensor in layer.tensors()]
            for layer in (self, other)
        )
        self.keys, self.values = map(torch.cat, zip(own_tensors, other_tensors, strict=True))

    def tensors(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the keys and the values, (groups, heads, entries, size) each."""
        assert self.keys is not None
        assert self.values is not None
        return self.keys, self.values

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Return how many keys there are, and that they begin at the first."""
        return self.get_seq_length(), 0

    def get_seq_length(self) -> int:
        """Return how many keys there are."""
        return self.places.length if self.places else 0

    def get_max_length(self) -> int:
        """Return how many keys there is room for."""
        return 0 if self.keys is None else int(self.keys.shape[2])


class KVCache(Cache):
    """The keys and values of all groups, and which rows see which of them."""

    def __init__(self, read: DynamicCache, mask: torch.Tensor, owner: Integers, room: int) -> None:
        """Take the prompts as read; group i continues prompt owner[i] with `room` entries."""
        width, self.device = mask.shape[1], mask.device
        chosen = to_device(owner, mask.device)
        self.rows = [_layer(layer, chosen, room) for layer in read.layers]
        super().__init__(layers=[*self.rows])
        self.used = np.full(len(owner), width)
        self.seen = np.zeros((len(mask), width + room), dtype=bool)
        self.seen[:, :width] = mask.cpu().numpy()
        self.position = self.seen.sum(1)[owner] - 1
        """The last position that was read of each group."""

    def join(self, cache: "KVCache") -> None:
        """Append the groups and rows of another cache; all get the larger number of entries."""
        for layer, other_layer in zip(self.rows, cache.rows, strict=True):
            layer.join(other_layer)
        most = max(self.seen.shape[1], cache.seen.shape[1])
        self.seen, cache.seen = (
            np.pad(mask, ((0, 0), (0, most - mask.shape[1]))) for mask in (self.seen, cache.seen)
        )
        self.used = np.concatenate([self.used, cache.used])
        self.position = np.concatenate([self.position, cache.position])
        self.seen = np.concatenate([self.seen, cache.seen])

    def advance(self, parents: Integers, group: Integers) -> CachePositions:
        """Give each row its own place; rows are children of earlier rows, in order of groups."""
        counts = np.bincount(group, minlength=len(self.used))
        rank = np.arange(len(group)) - (np.cumsum(counts) - counts)[group]
        entry = self.used[group] + rank
        self.seen = self.seen[parents]
        self.seen[np.arange(len(group)), entry] = True
        self.used += counts
        self.position += 1
        slots = int(counts.max())
        places = CachePositions(
            group=to_device(group, self.device),
            entry=to_device(entry, self.device),
            slot=to_device(group * slots + rank, self.device),
            groups=len(counts),
            slots=slots,
            length=self._length(),
        )
        for layer in self.rows:
            layer.places = places
        return places

    def _length(self) -> int:
        """Return how many keys attention looks at: all that there are, rounded up for alignment."""
        step = ALIGNED.get(self.device.type, 1)
        return min(-(-int(self.used.max()) // step) * step, self.seen.shape[1])

    def leave(self, stay: Integers) -> None:
        """Forget all groups but those of `stay`, which are counted anew, in their order."""
        chosen = to_device(stay, self.device)
        for layer in self.rows:
            layer.leave(chosen)
        self.used, self.position = self.used[stay], self.position[stay]

    def mask(self, places: CachePositions, dtype: torch.dtype, repeats: int) -> torch.Tensor:
        """Return the additive attention mask: 0 where a row sees a key.

        (groups, 1, repeats x slots, length): once for each of the heads that share a key.
        """
        visible = to_device(self.seen[:, : places.length], self.device)
        shape = (places.groups * places.slots, places.length)
        # Slots without a row see all: their answers are not read, but must be finite.
        added = torch.zeros(shape, device=self.device, dtype=dtype)
        added[places.slot] = torch.zeros_like(visible, dtype=dtype).masked_fill(
            ~visible, -torch.inf
        )
        added = added.view(places.groups, 1, places.slots, places.length)
        return added.repeat(1, 1, repeats, 1) if repeats > 1 else added


def _layer(read: Any, chosen: torch.Tensor, room: int) -> LayerCache:
    """Return a layer with prompts in front of `room` empty entries."""
    tensors = []
    for source in (read.keys, read.values):
        _, heads, width, size = source.shape
        # Zero, not empty: what is masked is multiplied by 0, and 0 x NaN is NaN.
        new = source.new_zeros(len(chosen), heads, width + room, size)
        new[:, :, :width] = source[chosen]
        tensors.append(new)
    keys, values = tensors
    return LayerCache(keys, values)
