"""The size of a base and of an adapter on it, without loading weights.

A base that is not on this machine is sized by its published configuration, if it is one that the
shipped profiles name.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

from fedaudit.api.errors import TargetError
from fedaudit.engine.loading import loader


def _published(
    kind: str, hidden: int, intermediate: int, layers: int, heads: tuple[int, int], **more: Any
) -> Mapping[str, Any]:
    """Return a configuration; `heads` are those of queries and of keys."""
    return {
        "model_type": kind,
        "hidden_size": hidden,
        "intermediate_size": intermediate,
        "num_hidden_layers": layers,
        "num_attention_heads": heads[0],
        "num_key_value_heads": heads[1],
        **more,
    }


_LLAMA_3: Mapping[str, Any] = {"vocab_size": 128_256, "tie_word_embeddings": True}
_QWEN: Mapping[str, Any] = {"vocab_size": 151_936, "tie_word_embeddings": True}

PUBLISHED: Mapping[str, Mapping[str, Any]] = {
    "HuggingFaceTB/SmolLM2-135M-Instruct": _published(
        "llama", 576, 1536, 30, (9, 3), vocab_size=49_152, tie_word_embeddings=True
    ),
    "meta-llama/Llama-2-7b-hf": _published("llama", 4096, 11_008, 32, (32, 32), vocab_size=32_000),
    "meta-llama/Llama-3.2-1B": _published(
        "llama", 2048, 8192, 16, (32, 8), head_dim=64, **_LLAMA_3
    ),
    "meta-llama/Llama-3.2-3B": _published(
        "llama", 3072, 8192, 28, (24, 8), head_dim=128, **_LLAMA_3
    ),
    "allenai/OLMo-2-1124-7B": _published("olmo2", 4096, 11_008, 32, (32, 32), vocab_size=100_352),
    "google/gemma-2-2b": _published(
        "gemma2", 2304, 9216, 26, (8, 4), head_dim=256, vocab_size=256_000, tie_word_embeddings=True
    ),
    "hfl/llama-3-chinese-8b": _published("llama", 4096, 14_336, 32, (32, 8), vocab_size=128_256),
    "zai-org/GLM-4-9B-0414": _published(
        "glm4", 4096, 13_696, 40, (32, 2), head_dim=128, vocab_size=151_552
    ),
    "Qwen/Qwen2.5-0.5B": _published("qwen2", 896, 4864, 24, (14, 2), **_QWEN),
    "Qwen/Qwen2.5-1.5B": _published("qwen2", 1536, 8960, 28, (12, 2), **_QWEN),
    "Qwen/Qwen2.5-3B": _published("qwen2", 2048, 11_008, 36, (16, 2), **_QWEN),
    "Qwen/Qwen3-1.7B": _published("qwen3", 2048, 6144, 28, (16, 8), head_dim=128, **_QWEN),
    "Qwen/Qwen3-8B": _published(
        "qwen3", 4096, 12_288, 36, (32, 8), head_dim=128, vocab_size=151_936
    ),
}
"""Configurations by hub id; what they leave out has transformers' default."""


PROCESS_BYTES = 600_000_000
"""Memory of a process that has imported torch and transformers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseSize:
    """The numbers of a base that determine memory and time."""

    parameters: int
    multiplied: int
    """Parameters that each token is multiplied by: all but an embedding without products."""
    adapter: int
    """Parameters of the adapter; 0 without one."""
    hidden: int
    layers: int
    vocabulary: int
    folder: Path | None
    """Where the base is; None if only its published configuration is known."""


def base_size(name: str, lora: LoraConfig | None = None) -> BaseSize | None:
    """Return the size of a base, and of an adapter on it; None for an unknown base.

    Raises InputError for a folder without a causal language model, and for an adapter that does
    not fit the base.
    """
    folder = None
    try:
        folder = loader.locate(name, fetch=False)
        model = loader.empty_model(folder)
    except TargetError:
        if name not in PUBLISHED:
            return None
        model = _build(PUBLISHED[name])
    config = model.config.get_text_config()
    parameters = sum(weight.numel() for weight in model.parameters())
    hidden, vocabulary = int(config.hidden_size), int(config.vocab_size)
    adapter = 0
    if lora is not None:
        with torch.device("meta"):
            peft = loader.with_adapter(model, lora, "size", trainable=False)
        adapter = sum(tensor.numel() for tensor in loader.state_of(peft, "size").values())
    return BaseSize(
        parameters=parameters,
        multiplied=parameters - (0 if config.tie_word_embeddings else hidden * vocabulary),
        adapter=adapter,
        hidden=hidden,
        layers=int(config.num_hidden_layers),
        vocabulary=vocabulary,
        folder=folder,
    )


def _build(published: Mapping[str, Any]) -> PreTrainedModel:
    loader.quiet()
    config = AutoConfig.for_model(**published)
    with torch.device("meta"):
        model: PreTrainedModel = AutoModelForCausalLM.from_config(config)
    model.tie_weights()
    return model


def products_per_second(
    size: BaseSize, tokens: int, device: torch.device, dtype: torch.dtype
) -> float:
    """Return the operations a second that products of this base's width reach on this machine.

    The products are those of up to 512 tokens with a square matrix; they are tried for 0.3 seconds.
    """
    states = torch.randn(min(max(tokens, 1), 512), size.hidden, device=device, dtype=dtype)
    weights = torch.randn(size.hidden, size.hidden, device=device, dtype=dtype)
    states @ weights  # the first product also sets up the library
    count, began = 0, time.perf_counter()
    while (spent := time.perf_counter() - began) < 0.3:
        states @ weights
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        count += 1
    return 2 * states.shape[0] * size.hidden**2 * count / spent
