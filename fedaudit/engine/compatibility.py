"""What has another name in other versions of transformers."""

from collections.abc import Callable
from functools import lru_cache
from inspect import signature
from typing import Any, cast

import torch
from torch import nn
from transformers import Cache, __version__

CACHE_RENAMED_IN = (5, 24)
"""The version in which models call their keys and values `cache`; `past_key_values` till then."""
_VERSION = tuple(map(int, __version__.split(".")[:2]))
_CACHE = "cache" if _VERSION >= CACHE_RENAMED_IN else "past_key_values"

_STATES = "cache_params"
"""What models without any attention, such as Mamba, call their states."""


def cache_kwargs(model: nn.Module, cache: Cache | None) -> dict[str, Cache | None]:
    """Return the keyword argument with which a model's forward takes a cache."""
    return {_STATES if _takes_states(type(model).forward) else _CACHE: cache}


def select_cache_rows(cache: Cache, rows: torch.Tensor) -> None:
    """Keep rows of a cache, in this order, whatever kinds of layers it has.

    Only `reorder_cache`, made for beams, knows layers with convolutions and recurrent states too.
    """
    cache.reorder_cache(cast("torch.LongTensor", rows))


@lru_cache
def _takes_states(forward: Callable[..., Any]) -> bool:
    return _STATES in signature(forward).parameters
