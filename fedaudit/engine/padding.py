"""Rows of tokens as one tensor: padded ahead to be continued, or behind to be scored."""

from collections.abc import Sequence

import torch

from fedaudit.engine.device import to_device


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
