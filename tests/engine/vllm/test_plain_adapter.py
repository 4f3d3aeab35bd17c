"""An adapter as vLLM gets it changes the base exactly as PEFT's own reading of it does."""

import json

import pytest
import tiny_models
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fedaudit.api.errors import InputError
from fedaudit.engine.lora import adapter as lora
from fedaudit.engine.vllm.engine import lora_target_modules, write_plain_adapter
from fedaudit.federation import adapters


@pytest.fixture(params=["llama", "gpt2"])
def tiny(base, request):
    make = {"llama": tiny_models.llama, "gpt2": tiny_models.gpt2}
    return make[request.param](base.tokenizer)


def changes(folder):
    """Return what an adapter adds to each layer."""
    read = lora.read(folder)
    return {name: read.scales[name] * (b @ a) for name, (a, b) in read.pairs.items()}


OPTIONS = {
    "plain": {"r": 4, "lora_alpha": 6},
    "rank-stabilised": {"r": 4, "lora_alpha": 6, "use_rslora": True},
    "patterns": {"r": 2, "lora_alpha": 6, "rank_pattern": {"1": 5}, "alpha_pattern": {"1": 1}},
    "one layer": {"r": 3, "lora_alpha": 1, "layers_to_transform": [1]},
}


@pytest.mark.parametrize("kind", OPTIONS)
def test_it_adds_the_same_with_one_rank_and_no_scaling(tiny, tmp_path, kind):
    options = dict(OPTIONS[kind])
    if kind == "patterns":
        name = "q_proj" if "Llama" in type(tiny.model).__name__ else "c_attn"
        options |= {
            f"{key}_pattern": {name: options[f"{key}_pattern"]["1"]} for key in ("rank", "alpha")
        }
    modules = lora_target_modules(tiny.model)
    folder = tiny_models.write(tiny, tmp_path / "a", target_modules=modules, **options)
    rank = write_plain_adapter(folder, tmp_path / "b", tiny.model, modules)
    config = json.loads((tmp_path / "b" / adapters.CONFIG).read_text())
    assert config["r"] == config["lora_alpha"] == rank
    assert {t.shape[0] for n, t in adapters.read(tmp_path / "b").items() if lora.A in n} == {rank}
    before, after = changes(folder), changes(tmp_path / "b")
    assert before.keys() == after.keys()
    for name, change in before.items():
        torch.testing.assert_close(after[name], change)


@settings(
    max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(alpha=st.floats(0.01, 100), rank=st.integers(1, 9))
def test_any_scaling_is_worked_in(base, tmp_path_factory, alpha, rank):
    tiny, place = tiny_models.llama(base.tokenizer), tmp_path_factory.mktemp("plain")
    folder = tiny_models.write(
        tiny, place / "a", r=rank, lora_alpha=alpha, target_modules=["q_proj"]
    )
    write_plain_adapter(folder, place / "b", tiny.model, ["q_proj"])
    before, after = changes(folder), changes(place / "b")
    for name, change in before.items():
        torch.testing.assert_close(after[name], change)


def test_the_base_may_be_without_its_weights(base, tmp_path):
    tiny = tiny_models.llama(base.tokenizer)
    folder = tiny_models.write(tiny, tmp_path / "a", r=2, target_modules=["q_proj"])
    assert write_plain_adapter(folder, tmp_path / "b", tiny.model.to("meta"), ["q_proj"]) == 2


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"target_modules": ["q_proj", "embed_tokens"]}, "not of plain LoRA.*--engine local"),
        ({"target_modules": ["q_proj", "lm_head"]}, "lm_head, which vLLM does not"),
        ({"target_modules": ["q_proj"], "use_dora": True}, "cannot be served by vLLM.*--engine"),
        ({"target_modules": ["q_proj"], "modules_to_save": ["norm"]}, "--engine local"),
    ],
    ids=["embedding", "output layer", "DoRA", "whole layers"],
)
def test_what_vllm_would_serve_otherwise_is_refused(base, tmp_path, options, error):
    tiny = tiny_models.llama(base.tokenizer)
    folder = tiny_models.write(tiny, tmp_path / "a", r=2, **options)
    with pytest.raises(InputError, match=error):
        write_plain_adapter(folder, tmp_path / "b", tiny.model, lora_target_modules(tiny.model))
    assert not (tmp_path / "b").exists()


def test_an_adapter_of_another_base_is_refused(base, tmp_path):
    small = tiny_models.llama(base.tokenizer)
    wide = tiny_models.llama(base.tokenizer, hidden=64)
    folder = tiny_models.write(wide, tmp_path / "a", r=2, target_modules=["q_proj"])
    with pytest.raises(InputError, match="another base"):
        write_plain_adapter(folder, tmp_path / "b", small.model, ["q_proj"])
