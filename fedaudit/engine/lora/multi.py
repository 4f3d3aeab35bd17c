"""Several adapters on one frozen base at once: each block of rows has an adapter of its own.

The rows of a batch come in blocks, one block an adapter. A linear layer reads all of them together
and then adds s x A^T B^T block by block: as one batched product while the blocks are equal, and one
after the other once rows have left them.
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
    """Adapters side by side, by module; None is the bare base.

    Raises InputError when a module is none of the base's, or of another shape there.
    """

    def __init__(self, model: PreTrainedModel, loras: Sequence[LoraAdapter | None]) -> None:
        self.count = len(loras)
        self._model = model
        names = sorted({name for lora in loras if lora for name in lora.pairs})
        self._blocks = {name: _block(model, name, loras) for name in names}
        self._owner, self._sizes = torch.zeros(0, dtype=torch.long), list[int]()

    @contextmanager
    def active(self, rows: int) -> Iterator[None]:
        """Let the model answer `rows` rows in `count` equal blocks, an adapter each, in order."""
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
        """Note which rows of the batch stay, in order; each keeps its adapter."""
        self._owner = self._owner[rows.cpu()]
        self._sizes = torch.bincount(self._owner, minlength=self.count).tolist()

    def _adding(self, a: torch.Tensor, b: torch.Tensor) -> Any:
        """Return a hook that adds each block's own change to what a layer put out."""

        def hook(
            _layer: Any, inputs: tuple[torch.Tensor, ...], output: torch.Tensor
        ) -> torch.Tensor:
            return output + self._change(inputs[0].to(a.dtype), a, b).to(output.dtype)

        return hook

    def _change(self, x: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        """Return x A B block by block, in the shape of x but for the last size.

        Rows are those of a batch, or (where samples are branches) stand in a line, (1, rows, in).
        """
        if len(set(self._sizes)) == 1:
            rows = x.reshape(self.count, -1, x.shape[-1])
            return torch.bmm(torch.bmm(rows, a), b).reshape(*x.shape[:-1], b.shape[-1])
        rows_at = 0 if len(x) == len(self._owner) else 1
        chunks = torch.split(x, self._sizes, dim=rows_at)
        return torch.cat([chunk @ a[k] @ b[k] for k, chunk in enumerate(chunks)], dim=rows_at)


def _block(model: PreTrainedModel, name: str, loras: Sequence[LoraAdapter | None]) -> Block:
    """Return the adapters' A and B on a module; zeros where an adapter leaves it alone."""
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
