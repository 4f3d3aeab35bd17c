"""Models of two layers, and adapters on them, for tests of what adapters do to a model."""

import warnings
from pathlib import Path

import torch
from peft import LoraConfig
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

from fedaudit.engine.loading.loader import LoadedBase, tensors_of, with_adapter
from fedaudit.federation import adapters
from fedaudit.simulation.initialization import plain_config

ENDS = [2, *range(7, 300, 14)]
"""So many tokens end a text that texts end at different lengths."""


def llama(tokenizer, *, hidden=32, tied=False):
    torch.manual_seed(3)
    config = LlamaConfig(
        vocab_size=300,
        hidden_size=hidden,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=80,
        tie_word_embeddings=tied,
    )
    return ready(LlamaForCausalLM(config), tokenizer)


def gpt2(tokenizer):
    """Return a model whose layers keep their weights as (in, out), some of them square."""
    torch.manual_seed(4)
    config = GPT2Config(vocab_size=300, n_positions=80, n_embd=32, n_layer=2, n_head=4)
    return ready(GPT2LMHeadModel(config), tokenizer)


def ready(model, tokenizer):
    for parameter in model.parameters():  # further from zero than a new model's
        parameter.data.add_(torch.randn_like(parameter) / 10)
    model.eval().requires_grad_(False)
    model.generation_config.eos_token_id = ENDS
    return LoadedBase("tiny", Path(), "", model, tokenizer)


def write(base, folder, *, seed=0, **options):
    """Write a random adapter on `base`, which is left without it."""
    config = LoraConfig(**{"task_type": "CAUSAL_LM", "lora_dropout": 0.5} | options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        peft = with_adapter(base.model, config, "made", trainable=True)
    torch.manual_seed(seed)
    drawn = {name: torch.randn(t.shape) / 4 for name, t in tensors_of(peft, "made").items()}
    peft.unload()
    adapters.write(drawn, plain_config({**config.to_dict(), "inference_mode": True}), folder)
    return folder
