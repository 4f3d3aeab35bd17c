"""Names that differ between versions of transformers."""

from collections.abc import Callable
from functools import lru_cache
from inspect import signature
from typing import Any, cast

import torch
from torch import nn
from transformers import Cache, __version__

CACHE_RENAMED_IN = (5, 24)
"""From this version on, forward takes the KV cache as `cache`; before, as `past_key_values`."""
_VERSION = tuple(map(int, __version__.split(".")[:2]))
_CACHE = "cache" if _VERSION >= CACHE_RENAMED_IN else "past_key_values"

_STATES = "cache_params"
"""The name of the cache argument in models without any attention, such as Mamba."""


def cache_kwargs(model: nn.Module, cache: Cache | None) -> dict[str, Cache | None]:
    """Return `cache` under the keyword by which the model's forward takes it."""
    return {_STATES if _takes_states(type(model).forward) else _CACHE: cache}


def select_cache_rows(cache: Cache, rows: torch.Tensor) -> None:
    """Keep the given rows of a cache, in the order given, whatever kinds of layers it has.

    `reorder_cache`, made for beam search, is the only method of a cache that also handles layers
    with convolutions and recurrent states.
    """
    cache.reorder_cache(cast("torch.LongTensor", rows))


def recomputes_activations(model: nn.Module) -> bool:
    """Tell whether a model's layers are checkpointed: computed again in the backward pass."""
    # Older versions have only the second name; newer ones warn about it.
    newer = getattr(model, "is_activation_checkpointing", None)
    return bool(model.is_gradient_checkpointing if newer is None else newer)


@lru_cache
def _takes_states(forward: Callable[..., Any]) -> bool:
    return _STATES in signature(forward).parameters
