"""Every kind of adapter that PEFT saves is answered with as PEFT does, or refused in a line.

PEFT itself makes, draws, asks and saves each adapter here; fedaudit only reads the folder.
"""

import warnings
from pathlib import Path

import pytest
import tiny_models
import torch
from peft import LoraConfig, get_peft_model
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    GPTNeoXConfig,
    GPTNeoXForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
)

from fedaudit.api.errors import InputError
from fedaudit.api.records import Target
from fedaudit.engine.loading import loader
from fedaudit.engine.loading.loader import LoadedBase
from fedaudit.engine.local import LocalEngine

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


@pytest.mark.parametrize("kind", ANSWERED)
def test_it_is_answered_with_as_peft_does(kind, base, tmp_path):
    of, options = ANSWERED[kind]
    wanted = save(made(of, base), tmp_path / "lora", options)
    loaded = made(of, base)
    bare = log_probabilities(loaded.model)
    engine = LocalEngine(loaded)
    target = Target(name="tuned", adapter=str(tmp_path / "lora"))
    assert engine.score(target, [IDS])[0] == pytest.approx(wanted, rel=1e-5, abs=2e-5)
    assert wanted != pytest.approx(bare, abs=1e-2)
    assert engine.score(Target(name="base", adapter=None), [IDS])[0] == pytest.approx(
        bare, abs=2e-5
    )


@pytest.mark.parametrize("kind", ["rank pattern", "lower ranks for all", "a rank for no target"])
def test_attached_beside_the_base_it_answers_as_peft_does(kind, base, tmp_path):
    of, options = ANSWERED[kind]
    wanted = save(made(of, base), tmp_path / "lora", options)
    model = loader.attach(made(of, base).model, tmp_path / "lora", "tuned")
    assert log_probabilities(model) == pytest.approx(wanted, rel=1e-5, abs=2e-5)


@pytest.mark.parametrize("kind", REFUSED)
def test_it_is_refused_by_the_option(kind, base, tmp_path):
    of, options = REFUSED[kind]
    save(made(of, base), tmp_path / "lora", options)
    engine = LocalEngine(made(of, base))
    with pytest.raises(InputError, match=rf"it is no plain LoRA, its {kind} is set") as refused:
        engine.score(Target(name="tuned", adapter=str(tmp_path / "lora")), [IDS])
    assert refused.value.exit_code == 3
    assert "\n" not in str(refused.value)
