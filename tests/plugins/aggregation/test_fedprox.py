"""FedProx: the proximal term and its gradient by hand, the server's step as FedAvg's."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.api.errors import UsageError
from fedaudit.config.registry import create

A, B = "q_proj.lora_A.weight", "q_proj.lora_B.weight"


def parts() -> tuple[dict, dict]:
    start = {A: torch.tensor([[1.0, 2.0]]), B: torch.tensor([[0.0], [0.5]])}
    weights = {
        A: torch.tensor([[3.0, 1.0]], requires_grad=True),
        B: torch.tensor([[0.0], [-1.5]], requires_grad=True),
    }
    return start, weights


def test_penalty_and_gradient_by_hand():
    # Distances: A (2, -1), B (0, -2); their squares sum to 4 + 1 + 0 + 4 = 9.
    # mu = 0.5: the term is 0.25 * 9 = 2.25, and its gradient mu * (w - w_start).
    start, weights = parts()
    term = create("aggregation", "fedprox", {"mu": 0.5}).penalty(start, weights)
    assert term.item() == 2.25
    term.backward()
    assert weights[A].grad.tolist() == [[1.0, -0.5]]
    assert weights[B].grad.tolist() == [[0.0], [-1.0]]


def test_mu_0_is_fedavg():
    assert create("aggregation", "fedprox", {"mu": 0}).penalty(*parts()) is None


@given(st.floats(0.001, 10), st.floats(0.001, 10), st.floats(-4, 4))
def test_the_term_is_linear_in_mu_and_quadratic_in_the_distance(mu, factor, scale):
    start, weights = parts()

    def term(mu_: float, scale_: float) -> float:
        moved = {name: start[name] + scale_ * (weights[name] - start[name]) for name in start}
        return create("aggregation", "fedprox", {"mu": mu_}).penalty(start, moved).item()

    assert term(mu * factor, 1.0) == pytest.approx(factor * term(mu, 1.0), rel=1e-4)
    assert term(mu, scale) == pytest.approx(scale**2 * term(mu, 1.0), rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("mu", [-0.1, float("nan"), float("inf"), "strong"])
def test_mu_must_be_a_number_and_not_negative(mu):
    with pytest.raises(UsageError, match="mu"):
        create("aggregation", "fedprox", {"mu": mu})
