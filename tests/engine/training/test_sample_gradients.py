"""Gradients of many texts in one pass against one text after the other by autograd."""

import copy
import json
from pathlib import Path

import pytest
import torch
from peft import LoraConfig
from test_influence import MODELS, ON

from fedaudit.api.errors import InputError
from fedaudit.api.records import Target
from fedaudit.engine.loading.loader import LoadedBase, tensors_of, with_adapter
from fedaudit.engine.local import LocalEngine
from fedaudit.engine.training import gradients
from fedaudit.engine.training.gradients import flattened, unit_gradients
from fedaudit.federation import adapters
from fedaudit.simulation.initialization import plain_config

ROWS = [[5, 9, 200, 31], [7, 7, 8, 250, 3, 90, 14, 60, 2, 33], [11, 3], [4, 100, 8]]


@pytest.fixture
def tuned(tmp_path):
    """Return, by kind of model, an adapter whose A and B both are far from zero."""

    def made(kind):
        config = LoraConfig(task_type="CAUSAL_LM", target_modules=ON[kind], r=3, lora_alpha=5)
        torch.manual_seed(1)
        peft = with_adapter(copy.deepcopy(MODELS[kind]), config, "made", trainable=True)
        drawn = {name: torch.randn(t.shape) / 4 for name, t in tensors_of(peft, "made").items()}
        config = plain_config({**config.to_dict(), "inference_mode": True})
        adapters.write(drawn, config, tmp_path / kind)
        return Target(name="tuned", adapter=str(tmp_path / kind))

    return made


def engine_of(kind, base):
    return LocalEngine(LoadedBase(kind, Path(), "", copy.deepcopy(MODELS[kind]), base.tokenizer))


def slow(engine, target, row):
    """Return the gradient of one text's mean loss, as autograd has it, of length 1."""
    with engine.activate(target) as model, torch.enable_grad():
        named = {name: w for name, w in model.named_parameters() if ".lora_" in name}
        modules = sorted({name.partition(".lora_")[0] for name in named})
        weights = [
            next(w for name, w in named.items() if name.startswith(f"{module}.lora_{part}."))
            for module in modules
            for part in "AB"
        ]
        for weight in weights:
            weight.requires_grad_(True)
        ids = torch.tensor([row])
        logits = model(input_ids=ids).logits[0, :-1]
        loss = torch.nn.functional.cross_entropy(logits, ids[0, 1:])
        found = torch.cat([one.flatten() for one in torch.autograd.grad(loss, weights)])
        for weight in weights:
            weight.requires_grad_(False)
    return found / found.norm()


@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_each_text_has_the_gradient_that_it_has_alone(kind, tuned, base, monkeypatch):
    engine, target = engine_of(kind, base), tuned(kind)
    found = unit_gradients(engine, target, ROWS)
    wanted = torch.stack([slow(engine, target, row) for row in ROWS])
    torch.testing.assert_close(found, wanted, rtol=0, atol=2e-6)
    assert found.shape[1] == len(flattened(Path(target.adapter)))
    # Neither batches nor their order matter.
    monkeypatch.setattr(gradients, "TOKENS", 8)
    torch.testing.assert_close(
        unit_gradients(engine, target, ROWS[::-1]).flip(0), wanted, rtol=0, atol=2e-6
    )
    assert all(weight.grad is None for weight in engine.model.parameters())
    with engine.activate(target) as model:
        assert not any(module._forward_hooks for module in model.modules())


def test_numbers_of_an_adapter_stand_in_the_order_of_its_gradients(tuned, base):
    engine, target = engine_of("llama", base), tuned("llama")
    folder = Path(target.adapter)
    direction = unit_gradients(engine, target, ROWS[1:2])[0]
    tensors = adapters.read(folder)
    config = json.loads((folder / adapters.CONFIG).read_text())
    before = engine.score(target, ROWS[1:2])[0]
    # A small step against the gradient lowers the loss by its length, to first order.
    step, start, moved = 1e-2, 0, {}
    names = sorted({name.partition(".lora_")[0] for name in tensors})
    for module in names:
        for part in "AB":
            name = f"{module}.lora_{part}.weight"
            size = tensors[name].numel()
            change = direction[start : start + size].reshape(tensors[name].shape)
            moved[name], start = tensors[name].float() - step * change, start + size
    adapters.write(moved, config, folder.parent / "moved")
    torch.testing.assert_close(
        flattened(folder.parent / "moved"), flattened(folder) - step * direction
    )
    after = engine.score(Target(name="m", adapter=str(folder.parent / "moved")), ROWS[1:2])[0]
    assert sum(after) > sum(before)


def test_what_cannot_be_derived_is_said_in_one_line(tuned, base, monkeypatch):
    engine, target = engine_of("llama", base), tuned("llama")
    with pytest.raises(InputError, match="one token"):
        unit_gradients(engine, target, [[1, 2], [3]])
    with pytest.raises(InputError, match="longer than the context"):
        unit_gradients(engine, target, [[1] * 41])
    with pytest.raises(InputError, match="no adapter"):
        unit_gradients(engine, Target(name="base"), ROWS)
    monkeypatch.setattr(gradients, "MAX_NUMBERS", 1000)
    with pytest.raises(InputError, match="too many to hold"):
        unit_gradients(engine, target, ROWS)
