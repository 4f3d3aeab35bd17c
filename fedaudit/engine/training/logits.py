"""Logits, and the last layer, computed at some positions only."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from transformers import PreTrainedModel

Tensors = tuple[torch.Tensor, ...]

BY_POSITION = frozenset({"q_proj", "o_proj", "c_proj", "dense", "mlp"})
"""Names of a layer's parts whose results at a position no other position of the layer uses."""


@contextmanager
def logits_at(head: torch.nn.Module, positions: torch.Tensor) -> Iterator[None]:
    """Let the output layer see these positions of the flattened batch only, as one row."""

    def select(_: torch.nn.Module, inputs: Tensors) -> Tensors:
        hidden, *remaining = inputs
        return (hidden.flatten(0, 1).index_select(0, positions)[None], *remaining)

    handle = head.register_forward_pre_hook(select)
    try:
        yield
    finally:
        handle.remove()


@contextmanager
def last_layer_at(model: PreTrainedModel, positions: torch.Tensor) -> Iterator[None]:
    """Let the last layer of a model with standard attention compute these positions only.

    Keys and values are computed at all positions, because attention reads them. Queries, and all
    that follows attention, are zero elsewhere, where the hidden states are not the model's.
    `positions` index the flattened batch, each once.
    """
    with ExitStack() as hooks:
        for part in _parts_by_position(model):
            hooks.enter_context(_results_at(part, positions))
        yield


def _parts_by_position(model: PreTrainedModel) -> list[torch.nn.Module]:
    """Return the outermost parts of the last layer that BY_POSITION names."""
    *_, layers = (m for m in model.base_model.children() if isinstance(m, torch.nn.ModuleList))
    parts: list[torch.nn.Module] = []
    waiting = [layers[-1]]
    while waiting:
        for name, part in waiting.pop().named_children():
            (parts if name in BY_POSITION else waiting).append(part)
    return parts


@contextmanager
def _results_at(part: torch.nn.Module, positions: torch.Tensor) -> Iterator[None]:
    """Let a part of a layer see these positions only, as one row, and return zero elsewhere."""
    shape: torch.Size = torch.Size()

    def select(_: torch.nn.Module, inputs: Tensors) -> Tensors:
        nonlocal shape
        (hidden,) = inputs
        shape = hidden.shape[:-1]
        return (hidden.flatten(0, -2).index_select(0, positions)[None],)

    def scatter(_: torch.nn.Module, _inputs: Any, output: torch.Tensor) -> torch.Tensor:
        all_positions = output.new_zeros(shape.numel(), output.shape[-1])
        return all_positions.index_copy(0, positions, output[0]).view(*shape, -1)

    handles = (part.register_forward_pre_hook(select), part.register_forward_hook(scatter))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
