"""What has another name in other versions of transformers."""

from collections.abc import Callable
from functools import lru_cache
from inspect import signature
from typing import Any

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


@lru_cache
def _takes_states(forward: Callable[..., Any]) -> bool:
    return _STATES in signature(forward).parameters
