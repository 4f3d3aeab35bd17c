"""What models call their keys and values differs between versions of transformers."""

import warnings

import torch
from torch import nn
from transformers import (
    DynamicCache,
    LlamaConfig,
    LlamaForCausalLM,
    MambaConfig,
    MambaForCausalLM,
)

from fedaudit.engine.architecture import cache_kwargs


def test_a_model_takes_the_cache_without_a_warning_and_fills_it():
    config = LlamaConfig(
        vocab_size=11,
        hidden_size=8,
        intermediate_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
    )
    model, cache = LlamaForCausalLM(config).eval(), DynamicCache(config=config)
    with warnings.catch_warnings(), torch.inference_mode():
        warnings.simplefilter("error")
        model(input_ids=torch.tensor([[3, 4, 5]]), use_cache=True, **cache_kwargs(model, cache))
    assert cache.get_seq_length() == 3


def test_without_a_cache_the_argument_is_none():
    assert list(cache_kwargs(nn.Linear(1, 1), None).values()) == [None]


def test_a_model_of_states_takes_the_cache_by_its_own_name():
    config = MambaConfig(vocab_size=11, hidden_size=8, num_hidden_layers=1, state_size=4)
    model, cache = MambaForCausalLM(config).eval(), DynamicCache(config=config)
    with torch.inference_mode():
        model(input_ids=torch.tensor([[3, 4, 5]]), use_cache=True, **cache_kwargs(model, cache))
    assert cache.has_previous_state()
