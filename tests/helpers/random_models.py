"""Small models of any kind, with random weights."""

import torch
from transformers import CONFIG_MAPPING, AutoModelForCausalLM

SIZES = {
    "vocab_size": 300,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 80,
    "d_model": 32,
    "decoder_layers": 2,
    "decoder_attention_heads": 4,
    "decoder_ffn_dim": 64,
    "ffn_dim": 64,
    "n_layer": 2,
    "n_head": 4,
    "n_layers": 2,
    "n_heads": 4,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 2,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "pad_token_id": 2,
}
MAMBA_2 = {
    "mamba_n_heads": 8,
    "mamba_d_head": 8,
    "mamba_expand": 2,
    "mamba_d_state": 16,
    "mamba_chunk_size": 8,
}
EXPERTS = {"num_experts": 2, "num_experts_per_tok": 1, "moe_intermediate_size": 32}
HYBRIDS = [
    ("lfm2", {"layer_types": ["conv", "full_attention"]}),
    ("lfm2_moe", EXPERTS | {"layer_types": ["conv", "full_attention"]}),
    ("qwen3_5_text", {"num_hidden_layers": 4}),
    ("qwen3_next", EXPERTS | {"num_hidden_layers": 4, "shared_expert_intermediate_size": 32}),
    ("granitemoehybrid", MAMBA_2 | {"layer_types": ["mamba", "attention"], "num_local_experts": 0}),
    ("bamba", MAMBA_2 | {"attn_layer_indices": [1]}),
    ("falcon_h1", MAMBA_2 | {"mamba_d_ssm": 64, "mamba_n_groups": 1}),
    ("olmo_hybrid", {"num_hidden_layers": 4}),
]
"""Models with layers of convolutions, states or linear attention, and others of attention."""

UNPADDED = [
    ("bart", {}),
    ("mamba", {}),
    ("jamba", {"attn_layer_period": 2, "attn_layer_offset": 1}),
]
"""Models that count their tokens themselves, or that do not go on from their states by several
tokens at once."""


def made(kind, changes, std=0.15):
    """Return a model of two layers with random matrices, each number as large as the others."""
    config_class = CONFIG_MAPPING[kind]
    known = {*config_class().to_dict(), *getattr(config_class, "attribute_map", {})}
    sizes = {name: value for name, value in SIZES.items() if name in known}
    model = AutoModelForCausalLM.from_config(config_class(**sizes | changes)).float().eval()
    generator = torch.Generator().manual_seed(0)
    for parameter in model.parameters():
        if parameter.ndim > 1:
            parameter.data = torch.randn(parameter.shape, generator=generator) * std
    model.tie_weights()
    return model
