"""Several adapters on one frozen base in one batch: each block of rows has its own adapter.

A linear layer runs on all rows of the batch together and then adds s x A^T B^T block by block: as
one batched matrix product while the blocks have the same size, else one block after the other.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from transformers import PreTrainedModel

from fedaudit.engine.lora.adapter import LoraAdapter, layer_of

Block = tuple[torch.Tensor, torch.Tensor]
"""A (adapters, in, rank) and B (adapters, rank, out), the scaling in B."""


class MultiLora:
    """The factors of several adapters, batched by module; None stands for the base alone.

    Raises InputError if the base has no such module, or one of another shape.
    """

    def __init__(self, model: PreTrainedModel, loras: Sequence[LoraAdapter | None]) -> None:
        self.count = len(loras)
        self._model = model
        names = sorted({name for lora in loras if lora for name in lora.pairs})
        self._blocks = {name: _block(model, name, loras) for name in names}
        self._owner, self._sizes = torch.zeros(0, dtype=torch.long), list[int]()

    @contextmanager
    def active(self, rows: int) -> Iterator[None]:
        """Apply adapter i to the i-th of `count` equal blocks of `rows` rows within the context."""
        self._owner = torch.arange(self.count).repeat_interleave(rows // self.count)
        self._sizes = [rows // self.count] * self.count
        hooks = [
            self._model.get_submodule(name).register_forward_hook(self._adding(*block))
            for name, block in self._blocks.items()
        ]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def keep_rows(self, rows: torch.Tensor) -> None:
        """Note which earlier row each row continues, in order; it keeps that row's adapter."""
        self._owner = self._owner[rows.cpu()]
        self._sizes = torch.bincount(self._owner, minlength=self.count).tolist()

    def _adding(self, a: torch.Tensor, b: torch.Tensor) -> Any:
        """Return a forward hook that adds each block's s x A^T B^T to a layer's output."""

        def hook(
            _layer: Any, inputs: tuple[torch.Tensor, ...], output: torch.Tensor
        ) -> torch.Tensor:
            return output + self._change(inputs[0].to(a.dtype), a, b).to(output.dtype)

        return hook

    def _change(self, x: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        """Return x A B block by block, in the shape of x except for the last dimension.

        x is (rows, length, in), or (1, rows, in) where rows are decoded as one long text.
        """
        if len(set(self._sizes)) == 1:
            rows = x.reshape(self.count, -1, x.shape[-1])
            return torch.bmm(torch.bmm(rows, a), b).reshape(*x.shape[:-1], b.shape[-1])
        rows_at = 0 if len(x) == len(self._owner) else 1
        chunks = torch.split(x, self._sizes, dim=rows_at)
        return torch.cat([chunk @ a[k] @ b[k] for k, chunk in enumerate(chunks)], dim=rows_at)


def _block(model: PreTrainedModel, name: str, loras: Sequence[LoraAdapter | None]) -> Block:
    """Return the adapters' A and B on a module; zeros for adapters that do not change it."""
    entries = [(lora, *lora.pairs[name]) if lora and name in lora.pairs else None for lora in loras]
    layers = [layer_of(model, entry[0], name) for entry in entries if entry]
    _, a, b = next(entry for entry in entries if entry)
    rank = max(entry[1].shape[0] for entry in entries if entry)
    # Half precision would round the adapters of a half-precision base before they are added.
    whole_a = torch.zeros(len(entries), a.shape[1], rank)
    whole_b = torch.zeros(len(entries), rank, b.shape[0])
    for row, entry in enumerate(entries):
        if entry:
            lora, a, b = entry
            whole_a[row, :, : a.shape[0]] = a.float().T
            whole_b[row, : a.shape[0]] = b.float().T * lora.scales[name]
    device = layers[0].get_parameter("weight").device
    return whole_a.to(device), whole_b.to(device)
