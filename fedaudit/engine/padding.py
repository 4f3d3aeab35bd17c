"""Token rows as one tensor: left-padded to be continued, or right-padded to be scored.

Right padding has no effect on a causal model. Left padding may: attention can be masked, but a
convolution or a recurrent state has read the padding, and some models count it as positions. Such
models prefill prompts together only if the prompts have the same length.
"""

from collections.abc import Sequence
from weakref import WeakSet

import torch
from torch import nn

from fedaudit.engine.batching import STEP
from fedaudit.engine.device import to_device

_UNPADDED: "WeakSet[nn.Module]" = WeakSet()


def forbid_padding(model: nn.Module) -> None:
    """Mark a model as one whose results for a prompt change when the prompt is left-padded."""
    _UNPADDED.add(model)


def allows_padding(model: nn.Module) -> bool:
    """Tell whether prompts of different lengths may be left-padded and prefilled together."""
    return model not in _UNPADDED


def padding_step(model: nn.Module) -> int:
    """Return the step of padding: prompts are padded to a multiple of this many tokens."""
    return STEP if allows_padding(model) else 1


def attention_mask(model: nn.Module, mask: torch.Tensor) -> torch.Tensor | None:
    """Return the mask, or None for a model without padding: it needs none and may accept none."""
    return mask if allows_padding(model) else None


def left_padded(
    rows: Sequence[Sequence[int]], width: int, device: torch.device | str
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return token ids and attention mask, (rows, width), with the padding on the left."""
    return _padded(rows, [width - len(row) for row in rows], width, device)


def right_padded(
    rows: Sequence[Sequence[int]], width: int, device: torch.device | str
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return token ids and attention mask, (rows, width), with the padding on the right."""
    return _padded(rows, [0] * len(rows), width, device)


def _padded(
    rows: Sequence[Sequence[int]],
    starts: Sequence[int],
    width: int,
    device: torch.device | str,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return token ids and attention mask of rows that begin at the columns `starts`."""
    ids = torch.zeros(len(rows), width, dtype=torch.long)
    mask = torch.zeros_like(ids)
    for index, (row, start) in enumerate(zip(rows, starts, strict=True)):
        ids[index, start : start + len(row)] = torch.tensor(row, dtype=torch.long)
        mask[index, start : start + len(row)] = 1
    return to_device(ids, device), to_device(mask, device)
