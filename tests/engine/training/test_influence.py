"""Gradients of effective weights against finite differences, and products without a product."""

import copy
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from peft import LoraConfig
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

from fedaudit.api.errors import InputError
from fedaudit.api.records import Target
from fedaudit.engine.loading.loader import LoadedBase, tensors_of, with_adapter
from fedaudit.engine.local import LocalEngine
from fedaudit.engine.training import gradients
from fedaudit.federation import adapters
from fedaudit.simulation.initialization import plain_config

ROWS = [[5, 9, 200, 31], [7, 7, 8, 250, 3, 90, 14, 60, 2, 33], [11], [], [4, 100]]
ROOT = "base_model.model."


def models():
    torch.manual_seed(3)
    sizes = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1}
    llama = LlamaConfig(vocab_size=300, max_position_embeddings=40, **sizes, **heads)
    gpt = GPT2Config(vocab_size=300, n_positions=40, n_embd=16, n_layer=2, n_head=2)
    return {"llama": LlamaForCausalLM(llama), "gpt2": GPT2LMHeadModel(gpt)}


MODELS = {name: model.eval().requires_grad_(False) for name, model in models().items()}
ON = {"llama": ["q_proj", "down_proj"], "gpt2": ["c_attn"]}


def engine_of(kind, base, **options):
    model = copy.deepcopy(MODELS[kind]).double()
    return LocalEngine(LoadedBase(kind, Path(), "", model, base.tokenizer), **options)


@pytest.fixture(scope="module")
def write(tmp_path_factory):
    def made(kind, seed=0, **options):
        config = LoraConfig(task_type="CAUSAL_LM", target_modules=ON[kind], **options)
        torch.manual_seed(seed)
        peft = with_adapter(copy.deepcopy(MODELS[kind]), config, "made", trainable=True)
        drawn = {name: torch.randn(t.shape) / 4 for name, t in tensors_of(peft, "made").items()}
        folder = tmp_path_factory.mktemp("adapter")
        adapters.write(drawn, plain_config({**config.to_dict(), "inference_mode": True}), folder)
        return folder

    return made


def target(folder):
    return Target(name="tuned", adapter=str(folder))


def loss(engine, where):
    """Return the mean loss in float64, one row at a time; the engine itself scores in float32."""
    engine.score(where, ROWS[:1])  # makes the adapter active
    total = 0.0
    for row in (row for row in ROWS if len(row) > 1):
        with torch.no_grad():
            logits = engine.base.model(torch.tensor([row])).logits[0, :-1].double()
        losses = torch.nn.functional.cross_entropy(logits, torch.tensor(row[1:]), reduction="sum")
        total += float(losses)
    return total / 13


@pytest.mark.parametrize("kind", ["llama", "gpt2"])
@pytest.mark.filterwarnings("ignore:fan_in_fan_out:UserWarning")
def test_it_is_what_finite_differences_say(kind, base, write):
    engine, where = engine_of(kind, base), target(write(kind, r=3, lora_alpha=6))
    found = gradients.weight_gradients(engine, where, ROWS)
    tensors = adapters.read(Path(where.adapter))
    assert found.keys() == {name.partition(".lora_")[0] for name in tensors}
    layers = dict(engine.base.model.named_modules())
    generator = torch.Generator().manual_seed(0)
    for name, whole in found.items():
        weight = layers[name.removeprefix(ROOT)].base_layer.weight
        a, b = tensors[name + ".lora_A.weight"], tensors[name + ".lora_B.weight"]
        assert whole.shape == (len(b), a.shape[1])
        away = torch.randn(whole.shape, generator=generator, dtype=torch.float64)
        step = 1e-3 * (away.T if kind == "gpt2" else away)  # Conv1D keeps its weight transposed
        losses = []
        for sign in (1, -2):
            weight.data += sign * step
            losses.append(loss(engine, where))
        weight.data += step
        wanted = (losses[0] - losses[1]) / 2e-3
        assert float((whole.double() * away).sum()) == pytest.approx(wanted, rel=1e-3, abs=1e-4)


def test_tokens_count_alike_whatever_batch_they_are_in(base, write):
    where = target(write("llama"))
    whole = gradients.weight_gradients(engine_of("llama", base), where, ROWS)
    parts = [gradients.weight_gradients(engine_of("llama", base), where, [row]) for row in ROWS[:2]]
    last = gradients.weight_gradients(engine_of("llama", base), where, ROWS[4:])
    for bound, rows in ((1, ROWS), (10, ROWS[::-1])):
        again = gradients.weight_gradients(engine_of("llama", base, tokens=bound), where, rows)
        for name, one in again.items():
            torch.testing.assert_close(one, whole[name], rtol=1e-5, atol=1e-7)
    for name, one in whole.items():  # 3, 9 and 1 tokens are predicted
        mean = (3 * parts[0][name] + 9 * parts[1][name] + last[name]) / 13
        torch.testing.assert_close(mean, one, rtol=1e-5, atol=1e-7)


def test_the_engine_is_afterwards_as_it_was(base, write):
    engine, where = engine_of("llama", base), target(write("llama"))
    before = engine.score(where, ROWS)
    state = [(n, p.requires_grad, p.sum().item()) for n, p in engine.base.model.named_parameters()]
    gradients.weight_gradients(engine, where, ROWS)
    after = [(n, p.requires_grad, p.sum().item()) for n, p in engine.base.model.named_parameters()]
    assert state == after
    assert all(parameter.grad is None for parameter in engine.base.model.parameters())
    assert not torch.is_inference_mode_enabled()
    assert engine.score(where, ROWS) == before


def test_only_the_targets_own_layers_are_derived_by(base, write):
    engine, where = engine_of("llama", base), target(write("llama", layers_to_transform=[1]))
    engine.score(target(write("llama")), ROWS)  # another adapter, on all layers
    found = gradients.weight_gradients(engine, where, ROWS)
    assert len(found) == 2
    assert all("layers.1." in name for name in found)


def products(folder):
    """Return what an adapter of r 3 or 2 and its alpha adds, by module, written out."""
    tensors, config = adapters.read(folder), adapters.check(folder)
    modules = {name.partition(".lora_")[0] for name in tensors}
    return {
        module: config["lora_alpha"]
        / config["r"]
        * tensors[module + ".lora_B.weight"].double()
        @ tensors[module + ".lora_A.weight"].double()
        for module in modules
    }


def test_a_change_is_the_difference_of_what_adapters_add(write):
    after, before = write("llama", 1, r=3, lora_alpha=5), write("llama", 2, r=2, lora_alpha=7)
    found = gradients.weight_change(after, before)
    wanted = {m: new - products(before)[m] for m, new in products(after).items()}
    assert found.keys() == wanted.keys()
    for module, (a, b) in found.items():
        torch.testing.assert_close(b.double() @ a.double(), wanted[module], rtol=1e-5, atol=1e-6)
    generator = torch.Generator().manual_seed(0)
    slopes = {m: torch.randn(w.shape, generator=generator) for m, w in wanted.items()}
    by_hand = sum(float((slopes[m].double() * w).sum()) for m, w in wanted.items())
    assert gradients.gradient_product(slopes, found) == pytest.approx(by_hand, rel=1e-5)
    length = sum(float(w.square().sum()) for w in wanted.values()) ** 0.5
    assert gradients.change_norm(found) == pytest.approx(length, rel=1e-5)
    assert gradients.change_norm(gradients.weight_change(after, after)) == pytest.approx(
        0, abs=1e-5
    )


def test_it_says_how_the_loss_answers_to_a_small_change(base, write, tmp_path):
    before = write("llama", r=3, lora_alpha=6)
    tensors, generator = adapters.read(before), torch.Generator().manual_seed(7)
    moved = {n: t + 1e-3 * torch.randn(t.shape, generator=generator) for n, t in tensors.items()}
    adapters.write(moved, adapters.check(before), tmp_path / "after")
    engine = engine_of("llama", base)
    slopes = gradients.weight_gradients(engine, target(before), ROWS)
    expected = gradients.gradient_product(
        slopes, gradients.weight_change(tmp_path / "after", before)
    )
    found = loss(engine, target(tmp_path / "after")) - loss(engine, target(before))
    assert abs(found) > 1e-5
    assert expected == pytest.approx(found, rel=2e-2)


@given(st.floats(-3, 3, width=32), st.floats(-3, 3, width=32), st.integers(0, 9))
def test_products_are_linear_and_bounded_by_norms(first, second, seed):
    torch.manual_seed(seed)
    changed = {
        "m": (torch.randn(2, 5), torch.randn(4, 2)),
        "n": (torch.randn(1, 3), torch.randn(3, 1)),
    }
    one, two = ({"m": torch.randn(4, 5), "n": torch.randn(3, 3)} for _ in range(2))
    both = {name: first * one[name] + second * two[name] for name in one}
    found = gradients.gradient_product(both, changed)
    parts = first * gradients.gradient_product(one, changed) + second * gradients.gradient_product(
        two, changed
    )
    assert found == pytest.approx(parts, rel=1e-4, abs=1e-4)
    length = sum(float(tensor.square().sum()) for tensor in both.values()) ** 0.5
    assert abs(found) <= length * gradients.change_norm(changed) * (1 + 1e-5) + 1e-9


def test_what_has_no_gradient_is_refused_in_one_line(base, write):
    engine, where = engine_of("llama", base), target(write("llama"))
    for ask, message in (
        (lambda: gradients.weight_gradients(engine, where, [[1], []]), "no text has two tokens"),
        (lambda: gradients.weight_gradients(engine, where, [[1] * 41]), "41 tokens is longer"),
        (lambda: gradients.weight_gradients(engine, Target(name="base"), ROWS), "no adapter"),
        (
            lambda: gradients.gradient_product({}, {"m": (torch.ones(1, 1), torch.ones(1, 1))}),
            "change of m cannot be judged",
        ),
    ):
        with pytest.raises(InputError, match=message) as error:
            ask()
        assert "\n" not in str(error.value)
    gradients.weight_gradients(engine, where, ROWS)
    with pytest.raises(InputError, match="no adapter"):
        gradients.weight_gradients(engine, Target(name="base"), ROWS)
