"""An adapter merged into a base does what it does beside it, and leaves no trace afterwards."""

import pytest
import tiny_models
import torch
from peft import LoraConfig

from fedaudit.api.errors import InputError
from fedaudit.engine.loading import loader
from fedaudit.engine.lora import adapter
from fedaudit.federation import adapters

IDS = torch.tensor([[1, 9, 30, 31, 250, 7, 8, 99]])
NEAR = {"rtol": 1e-4, "atol": 1e-4}
"""Float32 sums in another order; logits are about 1."""
KINDS = {
    "plain": ("llama", {"r": 3, "lora_alpha": 6, "target_modules": ("q_proj", "down_proj")}),
    "rslora": (
        "llama",
        {"r": 4, "lora_alpha": 3, "use_rslora": True, "target_modules": ("v_proj",)},
    ),
    "patterns": (
        "llama",
        {
            "r": 2,
            "rank_pattern": {"q_proj": 4},
            "alpha_pattern": {"v_proj": 5},
            "target_modules": ("q_proj", "v_proj"),
        },
    ),
    "head": ("llama", {"r": 2, "lora_alpha": 3, "target_modules": ("lm_head",)}),
    "tied head": ("tied", {"r": 2, "lora_alpha": 3, "target_modules": ("lm_head",)}),
    "conv": ("gpt2", {"r": 2, "lora_alpha": 3, "target_modules": ("c_attn", "c_proj")}),
}


@pytest.fixture
def made(base):
    """Return a function that makes the same tiny model anew."""
    return {
        "llama": lambda: tiny_models.llama(base.tokenizer),
        "tied": lambda: tiny_models.llama(base.tokenizer, tied=True),
        "gpt2": lambda: tiny_models.gpt2(base.tokenizer),
    }


@pytest.fixture
def written(made, tmp_path):
    """Return a function that writes an adapter of a kind."""

    def write(kind, seed=1):
        which, options = KINDS[kind]
        return tiny_models.write(made[which](), tmp_path / f"{kind}{seed}", seed=seed, **options)

    return write


@torch.inference_mode()
def logits(model):
    return model.eval()(input_ids=IDS).logits


def weights(model):
    """Return what parameters hold, and which are one."""
    found = dict(model.named_parameters(remove_duplicate=False))
    return {name: (p, p.detach().clone()) for name, p in found.items()}


def same(before, model):
    after = dict(model.named_parameters(remove_duplicate=False))
    return before.keys() == after.keys() and all(
        after[name] is parameter and torch.equal(parameter, data)
        for name, (parameter, data) in before.items()
    )


@pytest.mark.parametrize("kind", KINDS)
def test_merged_is_attached_and_gone_afterwards(kind, made, written):
    folder, which = written(kind), KINDS[kind][0]
    wanted = logits(loader.attach(made[which]().model, folder, "beside"))
    model = made[which]().model
    before, bare = weights(model), logits(model)
    with adapter.merged_weights(model, folder):
        torch.testing.assert_close(logits(model), wanted, **NEAR)
        assert not torch.allclose(logits(model), bare, rtol=1e-2, atol=1e-2)
        assert not any(parameter.requires_grad for parameter in model.parameters())
    assert same(before, model)
    assert torch.equal(logits(model), bare)


def test_the_weights_by_hand(made, written):
    folder = written("patterns")
    model, tensors = made["llama"]().model, adapters.read(folder)
    name = "model.layers.1.self_attn.{}_proj"
    before = {n: p.detach().clone() for n, p in model.named_parameters()}
    with adapter.merged_weights(model, folder):
        # alpha over r: 8 / 4 on q (its own rank), 5 / 2 on v (its own alpha).
        for part, scale in (("q", 8 / 4), ("v", 5 / 2)):
            module = name.format(part)
            a, b = (tensors[f"base_model.model.{module}.lora_{x}.weight"] for x in "AB")
            wanted = before[f"{module}.weight"] + scale * (b @ a)
            found = model.get_submodule(module).weight
            torch.testing.assert_close(found.data, wanted, rtol=1e-6, atol=1e-6)
        other = model.get_submodule(name.format("k")).weight
        assert torch.equal(other, before[f"{name.format('k')}.weight"])


def test_the_old_weights_come_back_after_an_exception(made, written):
    model = made["llama"]().model
    before = weights(model)
    with (
        pytest.raises(RuntimeError, match="diverged"),
        adapter.merged_weights(model, written("plain")),
        adapter.merged_weights(model, written("rslora")),
    ):
        raise RuntimeError("diverged")
    assert same(before, model)


@pytest.mark.parametrize("kind", ["plain", "conv"])
def test_under_an_adapter_that_is_trained(kind, made, written):
    """The trained adapter sees the merged base, and only it gets a gradient."""
    which, options = KINDS[kind]
    below, above = written(kind, seed=1), written(kind, seed=2)
    wanted_base = made[which]().model
    for module, (a, b) in adapter.read(below).pairs.items():  # the slow obvious way
        change = adapter.read(below).scales[module] * (b @ a)
        weight = wanted_base.get_submodule(module).weight
        weight.data += change.T if which == "gpt2" else change
    wanted = logits(loader.attach(wanted_base, above, "above"))

    config = LoraConfig(task_type="CAUSAL_LM", **options)
    model = loader.with_adapter(made[which]().model, config, "client", trainable=True)
    loader.fit(model, adapters.read(above), "client", "above")
    alone, before = logits(model), weights(model)
    with adapter.merged_weights(model, below):
        torch.testing.assert_close(logits(model), wanted, **NEAR)
        model(input_ids=IDS, labels=IDS).loss.backward()
    with_gradient = {name for name, p in model.named_parameters() if p.grad is not None}
    assert with_gradient
    assert with_gradient == {name for name, p in model.named_parameters() if p.requires_grad}
    assert all("lora_" in name for name in with_gradient)
    assert same(before, model)
    assert torch.equal(logits(model), alone)


def test_a_half_precision_base_is_rounded_once(made, written):
    folder, model = written("plain"), made["llama"]().model.to(torch.bfloat16)
    [module, *_] = adapter.read(folder).pairs
    (a, b), scale = adapter.read(folder).pairs[module], adapter.read(folder).scales[module]
    exact = model.get_submodule(module).weight.double() + scale * (b.double() @ a.double())
    with adapter.merged_weights(model, folder):
        found = model.get_submodule(module).weight
        assert found.dtype == torch.bfloat16
        assert torch.equal(found, exact.to(torch.bfloat16))


def test_an_adapter_of_zeros_changes_no_bit(made, written, tmp_path):
    folder = written("plain")
    tensors = {n: t * (0.0 if "lora_B" in n else 1.0) for n, t in adapters.read(folder).items()}
    adapters.write(tensors, adapters.check(folder), tmp_path / "zero")
    model = made["llama"]().model
    bare = logits(model)
    with adapter.merged_weights(model, tmp_path / "zero"):
        assert torch.equal(logits(model), bare)


@pytest.mark.parametrize(("kind", "message"), [("conv", "there is no layer"), ("wide", "48 x 64")])
def test_an_adapter_for_another_base_changes_nothing(kind, message, made, written, base, tmp_path):
    if kind == "wide":
        other = tiny_models.llama(base.tokenizer, hidden=64)
        folder = tiny_models.write(other, tmp_path / kind, r=2, target_modules=("up_proj",))
    else:
        folder = written(kind)
    model = made["llama"]().model
    before = weights(model)
    with pytest.raises(InputError, match=message), adapter.merged_weights(model, folder):
        pass
    assert same(before, model)
