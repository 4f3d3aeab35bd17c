"""Rows of tokens as one tensor: padded ahead to be continued, or behind to be scored."""

from collections.abc import Sequence

import torch

from fedaudit.engine.device import to_device


def left_padded(
    rows: Sequence[Sequence[int]], width: int, device: torch.device | str
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return token ids and attention mask, (rows, width), with the padding ahead."""
    ids = torch.zeros(len(rows), width, dtype=torch.long)
    mask = torch.zeros_like(ids)
    for index, row in enumerate(rows):
        ids[index, width - len(row) :] = torch.tensor(row, dtype=torch.long)
        mask[index, width - len(row) :] = 1
    return to_device(ids, device), to_device(mask, device)


def right_padded(
    rows: Sequence[Sequence[int]], width: int, device: torch.device | str
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return token ids and attention mask, (rows, width), with the padding behind."""
    ids = torch.zeros(len(rows), width, dtype=torch.long)
    mask = torch.zeros_like(ids)
    for index, row in enumerate(rows):
        ids[index, : len(row)] = torch.tensor(row, dtype=torch.long)
        mask[index, : len(row)] = 1
    return to_device(ids, device), to_device(mask, device)
