"""FedIT is FedAvg; its updates are differences of A and of B, and those add up to its steps."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.config.registry import create

A, B = "q.lora_A.weight", "q.lora_B.weight"


def adapter(a, b):
    return {A: torch.tensor([a]), B: torch.tensor([[x] for x in b])}


START = adapter([1.0, 2.0], [0.5, 0.0])
ONE, TWO = adapter([3.0, 2.0], [0.5, 4.0]), adapter([1.0, 0.0], [-1.5, 0.0])


def test_an_update_by_hand_and_back():
    rule = create("aggregation", "fedit")
    update = rule.difference(START, ONE)
    assert update[A].tolist() == [[2.0, 0.0]]
    assert update[B].tolist() == [[0.0], [4.0]]
    moved = rule.moved(START, update)
    assert all(torch.equal(moved[name], ONE[name]) for name in ONE)
    halves = {name: tensor.bfloat16() for name, tensor in ONE.items()}
    assert rule.difference(START, halves)[A].dtype == torch.float32


def test_it_is_fedavg_under_its_own_name():
    clients, sizes = [ONE, TWO], [3, 1]
    fedit, fedavg = create("aggregation", "fedit"), create("aggregation", "fedavg")
    found, wanted = (r.aggregate(START, clients, sizes) for r in (fedit, fedavg))
    assert all(torch.equal(found[name], wanted[name]) for name in wanted)
    # Shares 3/4 and 1/4.
    assert found[A].tolist() == [[2.5, 1.5]]
    assert found[B].tolist() == [[0.0], [3.0]]
    assert fedit.name == "fedit"


NUMBERS = st.floats(-100, 100, width=32)


@given(
    st.lists(st.tuples(NUMBERS, st.integers(1, 1000)), min_size=1, max_size=5),
    st.tuples(NUMBERS, NUMBERS),
)
def test_the_step_is_the_weighted_mean_of_the_updates(clients, begun):
    rule = create("aggregation", "fedit")
    start = adapter([begun[0], 0.0], [0.0, begun[1]])
    trained = [adapter([value, -value], [value, 1.0]) for value, _ in clients]
    sizes = [size for _, size in clients]
    updates = [rule.difference(start, own) for own in trained]
    total = {
        name: sum(u[name] * (n / sum(sizes)) for u, n in zip(updates, sizes, strict=True))
        for name in start
    }
    moved, wanted = rule.moved(start, total), rule.aggregate(start, trained, sizes)
    for name in start:
        torch.testing.assert_close(moved[name], wanted[name], rtol=1e-4, atol=1e-4)
