"""Rows of tokens as one tensor: padded ahead to be continued, or behind to be scored.

Padding behind is nothing to a causal model. Padding ahead is: attention can be told not to look
there, but a convolution or a recurrent state has read it, and some models count it as positions.
Prompts of such models are read together only where they have one length.
"""

from collections.abc import Sequence
from weakref import WeakSet

import torch
from torch import nn

from fedaudit.engine.batching import STEP
from fedaudit.engine.device import to_device

_UNPADDED: "WeakSet[nn.Module]" = WeakSet()


def forbid_padding(model: nn.Module) -> None:
    """Remember that a model does not read what stands behind padding as it does without."""
    _UNPADDED.add(model)


def allows_padding(model: nn.Module) -> bool:
    """Tell whether prompts of several lengths may be read together, padded ahead."""
    return model not in _UNPADDED


def padding_step(model: nn.Module) -> int:
    """Return the number of tokens to a multiple of which the model's prompts are padded."""
    return STEP if allows_padding(model) else 1


def attention_mask(model: nn.Module, mask: torch.Tensor) -> torch.Tensor | None:
    """Return the mask for a model; without padding none is needed, and some take no such mask."""
    return mask if allows_padding(model) else None


def left_padded(
    rows: Sequence[Sequence[int]], width: int, device: torch.device | str
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return token ids and attention mask, (rows, width), with the padding ahead."""
    return _padded(rows, [width - len(row) for row in rows], width, device)


def right_padded(
    rows: Sequence[Sequence[int]], width: int, device: torch.device | str
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return token ids and attention mask, (rows, width), with the padding behind."""
    return _padded(rows, [0] * len(rows), width, device)


def _padded(
    rows: Sequence[Sequence[int]],
    starts: Sequence[int],
    width: int,
    device: torch.device | str,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return ids and mask of rows that begin at `starts`."""
    ids = torch.zeros(len(rows), width, dtype=torch.long)
    mask = torch.zeros_like(ids)
    for index, (row, start) in enumerate(zip(rows, starts, strict=True)):
        ids[index, start : start + len(row)] = torch.tensor(row, dtype=torch.long)
        mask[index, start : start + len(row)] = 1
    return to_device(ids, device), to_device(mask, device)
