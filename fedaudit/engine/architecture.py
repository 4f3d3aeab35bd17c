"""How models differ: whether they can be padded, how they attend, and how their cache is passed.

Right padding has no effect on a causal model. Left padding may: attention can be masked, but a
convolution or a recurrent state has read the padding, and some models count it as positions. Such
models prefill prompts together only if the prompts have the same length.

A model with standard attention depends on the other tokens of a sequence by attention alone, over
all tokens before. Its linear layers can then process the tokens of several sequences as one long
text, in which every token has its own position, while another function attends by sequence.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from inspect import signature
from typing import Any, cast
from weakref import WeakSet

import torch
from torch import nn
from transformers import Cache, DynamicCache, PreTrainedModel, __version__

from fedaudit.engine.batching import STEP
from fedaudit.engine.device import to_device

KINDS = ("gpt2", "gpt_neox", "llama", "mistral", "olmo2", "phi3", "qwen2", "qwen3")
"""Model types with standard attention; tests run each of them."""
CACHE_RENAMED_IN = (5, 24)
"""From this version on, forward takes the KV cache as `cache`; before, as `past_key_values`."""
_VERSION = tuple(map(int, __version__.split(".")[:2]))
_CACHE = "cache" if _VERSION >= CACHE_RENAMED_IN else "past_key_values"

_STATES = "cache_params"
"""The name of the cache argument in models without any attention, such as Mamba."""
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


def has_standard_attention(model: PreTrainedModel) -> bool:
    """Tell whether all layers have standard attention, without a sliding window.

    Positions must depend neither on the longest row of a batch nor on padding.
    """
    config = model.config
    rope = (getattr(config, "rope_parameters", None) or {}).get("rope_type", "default")
    plain = config.model_type in KINDS and rope not in ("dynamic", "longrope")
    if not plain or not allows_padding(model):
        return False
    layers = DynamicCache(config=config).layers
    return bool(layers) and not any(getattr(layer, "is_sliding", False) for layer in layers)


@contextmanager
def attention_function(model: PreTrainedModel, name: str) -> Iterator[None]:
    """Let the model use the attention function registered as `name` within the context."""
    config = model.config  # the public setter would check and set every part of the model
    before = config._attn_implementation  # noqa: SLF001
    config._attn_implementation = name  # noqa: SLF001
    try:
        yield
    finally:
        config._attn_implementation = before  # noqa: SLF001


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
