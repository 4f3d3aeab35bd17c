"""Which models have standard attention, and how they use another function for it.

A model with standard attention depends on the other tokens of a sequence by attention alone, over
all tokens before. Its linear layers can then process the tokens of several sequences as one long
text, in which every token has its own position, while another function attends by sequence.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from transformers import DynamicCache, PreTrainedConfig, PreTrainedModel

from fedaudit.engine.padding import allows_padding

KINDS = ("gpt2", "gpt_neox", "llama", "mistral", "olmo2", "phi3", "qwen2", "qwen3")
"""Model types with standard attention; tests run each of them."""


def has_standard_attention(model: PreTrainedModel) -> bool:
    """Tell whether all layers have standard attention, without a sliding window.

    Positions must depend neither on the longest row of a batch nor on padding.
    """
    config = model.config
    plain = config.model_type in KINDS and _rope(config) not in ("dynamic", "longrope")
    if not plain or not allows_padding(model):
        return False
    layers = DynamicCache(config=config).layers
    return bool(layers) and not any(getattr(layer, "is_sliding", False) for layer in layers)


def _rope(config: PreTrainedConfig) -> str:
    """Return the type of a model's rotary position embedding, as transformers names it."""
    return str((getattr(config, "rope_parameters", None) or {}).get("rope_type", "default"))


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
