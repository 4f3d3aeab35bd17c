"""A small random model of every kind that has standard attention."""

import torch
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    GPTNeoXConfig,
    GPTNeoXForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    Olmo2Config,
    Olmo2ForCausalLM,
    Phi3Config,
    Phi3ForCausalLM,
    PreTrainedModel,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

SIZES = {
    "vocab_size": 90,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 80,
    "pad_token_id": 0,
}
GROUPED = {**SIZES, "num_key_value_heads": 2}
MODELS = {
    "gpt2": (
        GPT2Config(vocab_size=90, n_positions=80, n_embd=32, n_layer=2, n_head=4),
        GPT2LMHeadModel,
    ),
    "gpt_neox": (
        GPTNeoXConfig(**SIZES),
        GPTNeoXForCausalLM,
    ),
    "llama": (LlamaConfig(**GROUPED), LlamaForCausalLM),
    "mistral": (MistralConfig(**GROUPED, sliding_window=None), MistralForCausalLM),
    "olmo2": (Olmo2Config(**GROUPED), Olmo2ForCausalLM),
    "phi3": (Phi3Config(**GROUPED), Phi3ForCausalLM),
    "qwen2": (Qwen2Config(**GROUPED), Qwen2ForCausalLM),
    "qwen3": (Qwen3Config(**GROUPED, head_dim=8), Qwen3ForCausalLM),
}


def random_model(kind: str) -> PreTrainedModel:
    """Return a model in evaluation mode, whose weights need no gradient."""
    torch.manual_seed(2)
    config, model = MODELS[kind]
    built: PreTrainedModel = model(config).eval().requires_grad_(False)
    for parameter in built.parameters():  # further from zero than a new model's
        parameter.data.add_(torch.randn_like(parameter) / 5)
    return built
