"""Bases of every kind, and the adapters that PEFT makes, draws, asks and saves on them."""

import warnings
from pathlib import Path

import tiny_models
import torch
from peft import LoraConfig, get_peft_model
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    GPTNeoXConfig,
    GPTNeoXForCausalLM,
    GptOssConfig,
    GptOssForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    MixtralConfig,
    MixtralForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3MoeConfig,
    Qwen3MoeForCausalLM,
)

from fedaudit.engine.loading.loader import LoadedBase

SIZES = {
    "vocab_size": 300,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 80,
}
GROUPED = {**SIZES, "num_key_value_heads": 2}
GPT2 = {"vocab_size": 300, "n_positions": 80, "n_embd": 32, "n_layer": 2, "n_head": 4}
BASES = {
    "llama": lambda: LlamaForCausalLM(LlamaConfig(**GROUPED)),
    "tied llama": lambda: LlamaForCausalLM(LlamaConfig(**GROUPED, tie_word_embeddings=True)),
    "gpt2": lambda: GPT2LMHeadModel(GPT2Config(**GPT2)),
    "neox": lambda: GPTNeoXForCausalLM(GPTNeoXConfig(**SIZES)),
    "qwen2": lambda: Qwen2ForCausalLM(Qwen2Config(**GROUPED)),
}
QV = ["q_proj", "v_proj"]
ANSWERED = {
    "plain": ("llama", {"target_modules": QV}),
    "all-linear": ("llama", {"target_modules": "all-linear"}),
    "dora": ("llama", {"target_modules": QV, "use_dora": True}),
    "rslora": ("llama", {"target_modules": QV, "use_rslora": True, "r": 6}),
    "rank pattern": (
        "llama",
        {"target_modules": QV, "rank_pattern": {"q_proj": 2, "1.*v_proj": 7}},
    ),
    "lower ranks for all": (
        "llama",
        {"target_modules": QV, "r": 16, "rank_pattern": {"q_proj": 4, "v_proj": 8}},
    ),
    "a rank for no target": ("llama", {"target_modules": QV, "rank_pattern": {"down_proj": 32}}),
    "alpha pattern": ("llama", {"target_modules": QV, "alpha_pattern": {"v_proj": 3}}),
    "one layer": ("llama", {"target_modules": QV, "layers_to_transform": [1]}),
    "biases of B": ("llama", {"target_modules": QV, "lora_bias": True}),
    "embeddings": ("llama", {"target_modules": ["embed_tokens", "q_proj"]}),
    "head": ("llama", {"target_modules": ["lm_head", "q_proj"]}),
    "tied base": ("tied llama", {"target_modules": QV}),
    "embeddings of a tied base": ("tied llama", {"target_modules": ["embed_tokens", "q_proj"]}),
    "gpt2": ("gpt2", {"target_modules": ["c_attn", "c_proj"], "fan_in_fan_out": True}),
    "neox": ("neox", {"target_modules": ["query_key_value"]}),
    "qwen2": ("qwen2", {"target_modules": "all-linear"}),
}
REFUSED = {
    "modules_to_save": ("llama", {"target_modules": QV, "modules_to_save": ["lm_head"]}),
    "bias": ("qwen2", {"target_modules": QV, "bias": "lora_only"}),
    "trainable_token_indices": ("llama", {"target_modules": QV, "trainable_token_indices": [1, 2]}),
}
IDS = [1, 9, 30, 200, 7, 77, 150, 3, 41]


def made(kind, base):
    torch.manual_seed(5)
    return tiny_models.ready(BASES[kind](), base.tokenizer)


@torch.inference_mode()
def log_probabilities(model):
    logits = model(input_ids=torch.tensor([IDS]), use_cache=False).logits[0].double()
    return torch.log_softmax(logits, -1)[torch.arange(len(IDS) - 1), IDS[1:]].tolist()


def save(loaded: LoadedBase, folder: Path, options):
    """Have PEFT draw and save an adapter; returns what it then answers."""
    config = LoraConfig(task_type="CAUSAL_LM", **{"r": 4, "lora_alpha": 8, **options})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        peft = get_peft_model(loaded.model, config).eval()
        torch.manual_seed(6)
        for name, parameter in peft.named_parameters():
            if "lora_" in name:
                parameter.data.add_(torch.randn_like(parameter) / 5)
        found = log_probabilities(peft)
        peft.save_pretrained(folder)
    return found


HEADS = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8}
TEXT = {"vocab_size": 300, "num_hidden_layers": 2, "max_position_embeddings": 80, **HEADS}
EXPERTS = 4


def qwen(hidden):
    sizes = {"hidden_size": hidden, "intermediate_size": 48, "moe_intermediate_size": 16}
    mixture = {"num_experts": EXPERTS, "num_experts_per_tok": 2}
    return Qwen3MoeForCausalLM(Qwen3MoeConfig(**TEXT, **sizes, **mixture))


def gpt_oss():
    mixture = {"num_local_experts": EXPERTS, "num_experts_per_tok": 2}
    sizes = {"hidden_size": 32, "intermediate_size": 16, "sliding_window": 8}
    return GptOssForCausalLM(GptOssConfig(**TEXT, **sizes, **mixture))


def mixtral():
    mixture = {"num_local_experts": EXPERTS, "num_experts_per_tok": 2}
    sizes = {"hidden_size": 32, "intermediate_size": 24}
    return MixtralForCausalLM(MixtralConfig(**TEXT, **sizes, **mixture))


def ready(build, base):
    torch.manual_seed(8)
    return tiny_models.ready(build(), base.tokenizer)
