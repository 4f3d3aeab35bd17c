"""LoRA in one operation: outputs and gradients as PEFT and finite differences have them."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from peft import LoraConfig
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

from fedaudit.engine.loading.loader import with_adapter
from fedaudit.engine.lora.linear import LoraProduct, _merges, fused_lora
from fedaudit.engine.training.loss import mean_loss, pad_batch

SEQUENCES = [[1, 9, 30, 200, 7], [77, 150], [3, 41, 5]]
LLAMA = {
    "vocab_size": 300,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}


def wrapped(*, biased=False, **options):
    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(**LLAMA, attention_bias=biased))
    settings = {"r": 4, "lora_alpha": 12, "target_modules": "all-linear", "task_type": "CAUSAL_LM"}
    peft = with_adapter(model, LoraConfig(**{**settings, **options}), "default", trainable=True)
    for weight in peft.parameters():
        weight.data.add_(torch.randn_like(weight) / 10)
    return peft


def gradients(model):
    batch = pad_batch(SEQUENCES, [0, 0, 0], "cpu")
    loss = mean_loss(model, batch)
    loss.backward()
    found = {name: w.grad.clone() for name, w in model.named_parameters() if w.requires_grad}
    model.zero_grad()
    return loss.item(), found


def test_a_layer_by_hand():
    x, weight = torch.tensor([[1.0, 2.0]]), torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    a = torch.tensor([[1.0, 1.0]], requires_grad=True)
    b = torch.tensor([[2.0], [0.0]], requires_grad=True)
    out = LoraProduct.apply(x, weight, a, b, 0.5)
    assert out.tolist() == [[1 + 0.5 * 2 * 3, 2.0]]  # x A^T = 3
    out.sum().backward()
    assert b.grad.tolist() == [[0.5 * 3], [0.5 * 3]]
    assert a.grad.tolist() == [[0.5 * 2 * 1, 0.5 * 2 * 2]]  # the sum over b's rows, times x


@given(st.integers(1, 4), st.integers(1, 5), st.integers(1, 5), st.integers(1, 3), st.booleans())
def test_gradients_are_those_of_finite_differences(rows, width, out, rank, needed):
    torch.manual_seed(rows * 100 + width)
    x = torch.randn(2, rows, width, dtype=torch.float64, requires_grad=needed)
    weight = torch.randn(out, width, dtype=torch.float64)
    a = torch.randn(rank, width, dtype=torch.float64, requires_grad=True)
    b = torch.randn(out, rank, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(LoraProduct.apply, (x, weight, a, b, 1.5))


def layer(tokens, width, out, rank):
    torch.manual_seed(tokens)
    sizes = (tokens, width), (out, width), (rank, width), (out, rank)
    x, weight, a, b = (torch.randn(size) for size in sizes)
    return x.requires_grad_(), weight, a.requires_grad_(), b.requires_grad_()


@pytest.mark.parametrize("tokens", [11, 12])
def test_for_many_tokens_the_products_are_added_first(tokens):
    x, weight, a, b = layer(tokens, 12, 12, 3)  # breaks even at 12 * 12 / 24 = 6 tokens
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
        out = LoraProduct.apply(x, weight, a, b, 0.5)
    together = weight + 0.5 * b @ a
    assert any(t.shape == together.shape and torch.allclose(t, together) for t in kept) == (
        tokens == 12
    )
    exact_x, exact_a, exact_b = (t.detach().double().requires_grad_() for t in (x, a, b))
    exact = exact_x @ weight.double().T + 0.5 * exact_x @ exact_a.T @ exact_b.T
    torch.testing.assert_close(out.double(), exact, rtol=1e-5, atol=1e-5)
    out.square().sum().backward()
    exact.square().sum().backward()
    for found, expected in ((x, exact_x), (a, exact_a), (b, exact_b)):
        torch.testing.assert_close(found.grad.double(), expected.grad, rtol=1e-4, atol=1e-3)


def test_in_bfloat16_products_are_never_added_first():
    _, weight, a, _ = layer(1, 12, 12, 3)
    assert _merges(12, weight, a)
    assert not _merges(1000, weight.bfloat16(), a)


@pytest.mark.parametrize("biased", [False, True])
def test_loss_and_gradients_are_pefts(biased):
    model = wrapped(biased=biased)
    loss, expected = gradients(model)
    with fused_lora(model, "default") as count:
        assert count == 14
        fast, found = gradients(model)
    assert fast == pytest.approx(loss, rel=1e-6)
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient, rtol=1e-4, atol=1e-6)
    assert not any("forward" in module.__dict__ for module in model.modules())


@pytest.mark.parametrize(
    "options",
    [{"lora_dropout": 0.5}, {"use_dora": True}, {"lora_bias": True}],
    ids=["dropout", "dora", "biases of B"],
)
def test_what_is_more_than_two_products_is_left_to_peft(options):
    with fused_lora(wrapped(**options), "default") as count:
        assert count == 0


def test_layers_of_another_kind_are_left_to_peft():
    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=300, n_embd=32, n_layer=1, n_head=4))
    config = LoraConfig(target_modules=["c_attn"], fan_in_fan_out=True, task_type="CAUSAL_LM")
    peft = with_adapter(model, config, "default", trainable=True)
    with fused_lora(peft, "default") as count:
        assert count == 0


def test_a_base_in_bfloat16_has_products_of_that_dtype_and_gradients_of_the_adapters():
    torch.manual_seed(0)
    weight = torch.randn(6, 8).bfloat16()
    a, b = (torch.randn(size, requires_grad=True) for size in ((3, 8), (6, 3)))
    x = torch.randn(2, 5, 8).bfloat16().requires_grad_()
    out = LoraProduct.apply(x, weight, a, b, 0.5)
    out.float().square().sum().backward()
    exact_x, exact_a, exact_b = (t.detach().float().requires_grad_() for t in (x, a, b))
    exact = exact_x @ weight.float().T + 0.5 * exact_x @ exact_a.T @ exact_b.T
    exact.square().sum().backward()
    assert (out.dtype, x.grad.dtype) == (torch.bfloat16, torch.bfloat16)
    assert (a.grad.dtype, b.grad.dtype) == (torch.float32, torch.float32)
    # A number in bfloat16 is off by up to 2^-9 of itself; sums of products by more.
    torch.testing.assert_close(out.float(), exact, rtol=0.03, atol=0.1)
    for found, expected in ((x, exact_x), (a, exact_a), (b, exact_b)):
        far = (found.grad.float() - expected.grad).norm() / expected.grad.norm()
        assert far < 0.02


def test_a_model_in_bfloat16_learns_about_as_under_peft():
    model = wrapped()
    exact, _ = gradients(model)
    for module in model.modules():
        for name, weight in module.named_parameters(recurse=False):
            if not weight.requires_grad:
                setattr(module, name, torch.nn.Parameter(weight.bfloat16(), requires_grad=False))
    loss, expected = gradients(model)
    with fused_lora(model, "default") as count:
        assert count == 14
        fast, found = gradients(model)
    assert fast == pytest.approx(loss, rel=0.01) == pytest.approx(exact, rel=0.01)
    assert {gradient.dtype for gradient in found.values()} == {torch.float32}
    whole = [torch.cat([g.flatten() for g in some.values()]) for some in (found, expected)]
    assert torch.cosine_similarity(*whole, dim=0) > 0.999


def test_mixed_dtypes_and_other_adapters_are_left_to_peft():
    model = wrapped()
    with fused_lora(model, "another") as count:
        assert count == 0
    model.base_model.model.model.layers[0].self_attn.q_proj.base_layer.to(torch.float16)
    with fused_lora(model, "default") as count:
        assert count == 13
    model.merge_adapter()
    with fused_lora(model, "default") as count:
        assert count == 0
