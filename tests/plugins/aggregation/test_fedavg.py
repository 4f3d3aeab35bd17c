"""FedAvg against three clients worked out by hand, and what an average keeps to."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.config.registry import create

A, B = "q_proj.lora_A.weight", "q_proj.lora_B.weight"


def update(a: list[list[float]], b: list[list[float]], dtype=torch.float64) -> dict:
    return {A: torch.tensor(a, dtype=dtype), B: torch.tensor(b, dtype=dtype)}


START = update([[9.0, 9.0]], [[9.0], [9.0]])
CLIENTS = [
    update([[1.0, 0.0]], [[8.0], [-4.0]]),
    update([[3.0, 2.0]], [[0.0], [4.0]]),
    update([[5.0, -2.0]], [[0.0], [0.0]]),
]

SIZES = st.lists(st.integers(1, 10**6), min_size=3, max_size=3)
NUMBERS = st.floats(-1e3, 1e3, width=32)


def test_three_clients_by_hand():
    # 10, 20 and 10 examples: shares 1/4, 1/2, 1/4.
    # A: (1 + 2*3 + 5)/4 = 3,  (0 + 2*2 - 2)/4 = 0.5;  B: 8/4 = 2,  (-4 + 2*4)/4 = 1.
    made = create("aggregation", "fedavg").aggregate(START, CLIENTS, [10, 20, 10])
    assert list(made) == [A, B]
    assert made[A].tolist() == [[3.0, 0.5]]
    assert made[B].tolist() == [[2.0], [1.0]]


def test_a_and_b_are_averaged_apart_and_not_their_product():
    made = create("aggregation", "fedavg").aggregate(START, CLIENTS, [10, 20, 10])
    of_products = sum(
        share * client[B] @ client[A]
        for share, client in zip((0.25, 0.5, 0.25), CLIENTS, strict=True)
    )
    assert (made[B] @ made[A]).tolist() == [[6.0, 1.0], [3.0, 0.5]]
    assert of_products.tolist() == [[2.0, 0.0], [5.0, 4.0]]


def test_one_client_is_its_own_average_to_the_bit():
    tensor = torch.randn(50, generator=torch.Generator().manual_seed(0))
    made = create("aggregation", "fedavg").aggregate({A: tensor * 0}, [{A: tensor}], [7])
    assert torch.equal(made[A], tensor)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_the_sum_is_exact_before_it_is_rounded_to_the_tensors_type(dtype):
    # In float16 itself, 2048 + 1 is 2048: summed there, the ones would be lost.
    values = [2048.0, *[1.0] * 7]
    clients = [{A: torch.tensor([value], dtype=dtype)} for value in values]
    made = create("aggregation", "fedavg").aggregate(clients[0], clients, [1] * 8)
    assert made[A].dtype == dtype
    assert made[A].item() == torch.tensor(2055 / 8, dtype=dtype).item()


def test_clients_add_nothing_to_their_loss():
    assert create("aggregation", "fedavg").penalty(START, CLIENTS[0]) is None


@given(SIZES, st.integers(2, 1000), st.lists(NUMBERS, min_size=3, max_size=3))
def test_only_the_ratio_of_the_weights_matters(sizes, factor, values):
    clients = [{A: torch.tensor([value], dtype=torch.float64)} for value in values]
    rule = create("aggregation", "fedavg")
    small = rule.aggregate(clients[0], clients, sizes)[A]
    large = rule.aggregate(clients[0], clients, [size * factor for size in sizes])[A]
    assert torch.allclose(small, large, rtol=1e-12, atol=1e-9)


@given(SIZES, st.lists(NUMBERS, min_size=3, max_size=3), NUMBERS, st.floats(-8, 8, width=16))
def test_scaling_and_shifting_all_clients_scales_and_shifts_the_average(
    sizes, values, shift, scale
):
    def average(numbers: list[float]) -> float:
        clients = [{A: torch.tensor([number], dtype=torch.float64)} for number in numbers]
        return create("aggregation", "fedavg").aggregate(clients[0], clients, sizes)[A].item()

    moved = average([scale * value + shift for value in values])
    assert moved == pytest.approx(scale * average(values) + shift, rel=1e-9, abs=1e-9)
    assert min(values) - 1e-9 <= average(values) <= max(values) + 1e-9
