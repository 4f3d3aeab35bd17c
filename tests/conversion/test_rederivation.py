"""Weights of a mean follow from the clients' adapters, and what is not a mean is seen."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.conversion import pipeline
from fedaudit.federation import adapters

NAME = "base_model.model.model.layers.0.self_attn.q_proj.lora_{}.weight"
CONFIG = {"peft_type": "LORA", "r": 2, "lora_alpha": 4, "target_modules": ["q_proj"]}


def write(place, values):
    """Write an adapter of four numbers, two in A and two in B."""
    tensors = {NAME.format("A"): torch.tensor(values[:2]).reshape(2, 1).clone(),
               NAME.format("B"): torch.tensor(values[2:]).reshape(1, 2).clone()}  # fmt: skip
    adapters.write(tensors, CONFIG, place)
    return place


def fitted(place, whole, **clients):
    folders = {who: write(place / who, values) for who, values in clients.items()}
    return pipeline.fit(write(place / "global", whole), folders)


def test_distances_are_those_of_a_hand_computation(tmp_path):
    # c0 = (0, 0, 0, 0), c1 = (4, 0, 0, 0): the mean is 2 in the first place, each is 2 from it.
    found = fitted(tmp_path, [1.0, 0.0, 3.0, 0.0], c0=[0.0] * 4, c1=[4.0, 0.0, 0.0, 0.0])
    assert found.spread == pytest.approx(2.0)
    # With weights 3 : 1 the mean is 1 there, and the global one is 3 off in the third.
    assert found.distance({"c0": 3, "c1": 1}) == pytest.approx(3.0)
    # All on c1: |(1 - 4, 0, 3, 0)| = sqrt(18).
    assert found.distance({"c0": 0, "c1": 1}) == pytest.approx(18**0.5)
    # The nearest point of the line between the clients is 1 : a quarter of c1.
    assert found.best() == pytest.approx({"c0": 0.75, "c1": 0.25})
    assert not found.is_mean(found.best())


@given(
    counts=st.lists(st.integers(1, 1000), min_size=2, max_size=4),
    seed=st.integers(0, 2**16),
)
def test_weights_of_a_mean_are_found(tmp_path_factory, counts, seed):
    place = tmp_path_factory.mktemp("fit")
    drawn = torch.randn(len(counts), 4, generator=torch.Generator().manual_seed(seed)).double()
    share = torch.tensor(counts, dtype=torch.float64) / sum(counts)
    clients = {f"c{n}": values.tolist() for n, values in enumerate(drawn)}
    found = fitted(place, (share @ drawn).tolist(), **clients)
    weights = {f"c{n}": float(count) for n, count in enumerate(counts)}
    assert found.is_mean(weights)
    assert found.is_mean(pipeline.weights_of([found]))


def test_rounds_that_share_clients_share_a_scale(tmp_path):
    a, b, c = [1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]
    first = fitted(tmp_path / "1", [0.75, 0.25, 0.0, 0.0], a=a, b=b)  # 3 : 1
    second = fitted(tmp_path / "2", [0.0, 0.2, 0.8, 0.0], b=b, c=c)  # 1 : 4
    found = pipeline.weights_of([first, second])  # 3 : 1 : 4, with a mean of 1 before c
    assert found["a"] / found["b"] == pytest.approx(3.0, rel=1e-5)
    assert found["c"] / found["b"] == pytest.approx(4.0, rel=1e-5)


def test_plain_means_give_equal_weights(tmp_path):
    found = fitted(tmp_path, [0.5, 0.5, 0.0, 0.0], a=[1.0, 0, 0, 0], b=[0, 1.0, 0, 0])
    assert pipeline.weights_of([found]) == {"a": 1.0, "b": 1.0}


def test_one_client_alone_is_its_own_mean(tmp_path):
    found = fitted(tmp_path / "same", [1.0, 2.0, 3.0, 4.0], a=[1.0, 2.0, 3.0, 4.0])
    assert found.is_mean({"a": 1.0})
    other = fitted(tmp_path / "other", [1.0, 2.0, 3.0, 4.1], a=[1.0, 2.0, 3.0, 4.0])
    assert not other.is_mean({"a": 1.0})


def test_adapters_of_other_tensors_are_not_compared(tmp_path):
    whole = write(tmp_path / "global", [1.0, 2.0, 3.0, 4.0])
    tensors = {NAME.format("A"): torch.zeros(2, 3), NAME.format("B"): torch.zeros(1, 2)}
    adapters.write(tensors, CONFIG, tmp_path / "c0")
    assert pipeline.fit(whole, {"c0": tmp_path / "c0"}) is None
    del tensors[NAME.format("B")]
    adapters.write(tensors, CONFIG, tmp_path / "c1")
    assert pipeline.fit(whole, {"c1": tmp_path / "c1"}) is None
