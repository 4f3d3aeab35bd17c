"""The server optimizers against their published formulas, worked out by hand."""

import math

import pytest
import torch

from fedaudit.config import registry

NAMES = ("fedavgm", "fedadagrad", "fedadam", "fedyogi", "nesterov")


def adapters(*values):
    return [{"w": torch.tensor([value], dtype=torch.float64)} for value in values]


START = {"w": torch.tensor([1.0], dtype=torch.float64)}
# Clients 1.5, 2.0 and 4.0 with 1, 1 and 2 examples: mean (1.5 + 2 + 8) / 4 = 2.875, D = 1.875
CLIENTS, WEIGHTS, DELTA = adapters(1.5, 2.0, 4.0), [1.0, 1.0, 2.0], 1.875
# In the second round they are 0.5, 1.0 and 3.0 above wherever the server is: again a mean of
# (0.5 + 1 + 6) / 4 = 1.875 above it.
ABOVE = (0.5, 1.0, 3.0)


def two_rounds(name, **options):
    rule = registry.create("aggregation", name, options)
    first, state = rule.step(START, CLIENTS, WEIGHTS, {})
    x = first["w"].item()
    second, state = rule.step(first, adapters(*(x + d for d in ABOVE)), WEIGHTS, state)
    return x, second["w"].item(), state


def test_fedavgm_adds_up_velocity():
    # v1 = 1.875; v2 = 0.9 * 1.875 + 1.875 = 3.5625
    first, second, state = two_rounds("fedavgm", beta=0.9)
    assert first == pytest.approx(2.875)
    assert second == pytest.approx(2.875 + 3.5625)
    assert state["velocity"]["w"].item() == pytest.approx(3.5625)


def test_nesterov_by_hand():
    # round 1: p = 1, v = 0.4 * (2.875 - 1) = 0.75, w = 1.75
    # round 2: p = 1.75 + 0.5 * 0.75 = 2.125, wbar = 1.75 + 1.875 = 3.625,
    #          v = 0.375 + 0.4 * 1.5 = 0.975, w = 2.725
    first, second, state = two_rounds("nesterov", momentum=0.5, rate=0.4)
    assert (first, second) == pytest.approx((1.75, 2.725))
    assert state["velocity"]["w"].item() == pytest.approx(0.975)


def test_nesterov_at_rate_one_is_the_mean():
    for found in (two_rounds("nesterov", rate=1.0), two_rounds("fedavgm", beta=0.0)):
        assert found[:2] == pytest.approx((2.875, 4.75))


def test_nesterov_moves_by_its_steady_gain():
    rule, state, here = registry.create("aggregation", "nesterov"), {}, START
    for _ in range(60):
        before = here["w"].item()
        here, state = rule.step(here, adapters(before + 1.0), [1.0], state)
    assert here["w"].item() - before == pytest.approx(0.7 / (1 - 0.5 * 0.3))


def adaptive(v1, v2, rate=0.1, beta1=0.9, tau=1e-3):
    m1 = (1 - beta1) * DELTA
    m2 = beta1 * m1 + (1 - beta1) * DELTA
    x1 = 1.0 + rate * m1 / (math.sqrt(v1) + tau)
    return x1, x1 + rate * m2 / (math.sqrt(v2) + tau)


@pytest.mark.parametrize(
    ("name", "v1", "v2"),
    [
        # v0 = tau^2 = 1e-6, D^2 = 3.515625
        ("fedadagrad", 1e-6 + 3.515625, 1e-6 + 2 * 3.515625),
        ("fedadam", 0.99e-6 + 0.03515625, 0.99 * (0.99e-6 + 0.03515625) + 0.03515625),
        # v below D^2: sign(v - D^2) = -1, so v grows by (1 - beta2) D^2 in both rounds
        ("fedyogi", 1e-6 + 0.03515625, 1e-6 + 2 * 0.03515625),
    ],
)
def test_adaptive_rules_by_hand(name, v1, v2):
    first, second, state = two_rounds(name, rate=0.1)
    assert (first, second) == pytest.approx(adaptive(v1, v2), rel=1e-12)
    assert state["v"]["w"].item() == pytest.approx(v2, rel=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_equal_clients_give_that_clients_direction(name):
    rule = registry.create("aggregation", name)
    one, _ = rule.step(START, adapters(3.0), [1.0], {})
    many, _ = rule.step(START, adapters(3.0, 3.0, 3.0), [1.0, 5.0, 2.0], {})
    assert torch.equal(one["w"], many["w"])


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("fedavgm", {"beta": 1.0}),
        ("fedadam", {"tau": 0.0}),
        ("fedyogi", {"rate": -1.0}),
        ("nesterov", {"momentum": 1.0}),
    ],
)
def test_options_that_make_no_sense_are_refused(name, options):
    from fedaudit.api.errors import UsageError

    with pytest.raises(UsageError):
        registry.create("aggregation", name, options)


def test_state_survives_the_disk(tmp_path):
    from fedaudit.federation.adapters import read_state, write_state

    state = {"m": {"a.b": torch.tensor([1.5])}, "v": {"a.b": torch.tensor([2.5])}}
    write_state(state, tmp_path / "server/state.safetensors")
    back = read_state(tmp_path / "server/state.safetensors")
    assert {k: {n: t.tolist() for n, t in v.items()} for k, v in back.items()} == {
        "m": {"a.b": [1.5]},
        "v": {"a.b": [2.5]},
    }
    assert read_state(tmp_path / "none") == {}
    write_state({}, tmp_path / "nothing")
    assert not (tmp_path / "nothing").exists()
