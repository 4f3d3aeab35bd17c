"""Cross-entropy with its gradient, by hand and as torch has them."""

from math import e, log

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.engine.training.loss import WeightedCrossEntropy, mean_cross_entropy


def test_two_tokens_by_hand():
    logits = torch.tensor([[0.0, log(3.0)], [1.0, 0.0]], requires_grad=True)
    loss = mean_cross_entropy(logits, torch.tensor([1, 0]), torch.tensor([3.0, 1.0]))
    # Softmax is (1/4, 3/4) and (e, 1) / (e + 1); the first token counts three times out of four.
    other = e / (e + 1)
    assert loss.item() == pytest.approx((3 * log(4 / 3) - log(other)) / 4, rel=1e-6)
    loss.backward()
    assert logits.grad[0].tolist() == pytest.approx([3 / 4 * 1 / 4, 3 / 4 * (3 / 4 - 1)])
    assert logits.grad[1].tolist() == pytest.approx([(other - 1) / 4, (1 - other) / 4])


@given(st.integers(1, 5), st.integers(2, 9), st.floats(0.1, 80), st.integers(0, 99))
def test_loss_and_gradient_are_torchs(count, vocabulary, spread, seed):
    generator = torch.Generator().manual_seed(seed)
    logits = (torch.randn(count, vocabulary, generator=generator) * spread).requires_grad_()
    tokens = torch.randint(0, vocabulary, (count,), generator=generator)
    counts = torch.randint(1, 4, (count,), generator=generator).float()
    repeated = torch.repeat_interleave(torch.arange(count), counts.long())
    expected = torch.nn.functional.cross_entropy(logits[repeated], tokens[repeated])
    (gradient,) = torch.autograd.grad(expected, logits)
    found = mean_cross_entropy(logits, tokens, counts)
    assert float(found.detach()) == pytest.approx(float(expected.detach()), rel=1e-5, abs=1e-6)
    torch.testing.assert_close(
        torch.autograd.grad(found, logits)[0], gradient, rtol=1e-4, atol=1e-6
    )


def test_a_token_of_no_probability_in_float32_has_a_finite_loss():
    logits = torch.tensor([[0.0, 500.0]], requires_grad=True)
    loss = mean_cross_entropy(logits, torch.tensor([0]), torch.ones(1))
    assert float(loss.detach()) == 500.0
    loss.backward()
    assert logits.grad.tolist() == [[-1.0, 1.0]]


def test_of_no_tokens_there_is_no_mean():
    none = torch.zeros(0, 4), torch.zeros(0, dtype=torch.long), torch.zeros(0)
    assert mean_cross_entropy(*none).isnan()


def test_a_gradient_is_given_once():
    logits = torch.zeros(1, 3, requires_grad=True)
    loss = WeightedCrossEntropy.apply(logits, torch.tensor([1]), torch.ones(1))
    loss.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="modified"):
        loss.backward()
