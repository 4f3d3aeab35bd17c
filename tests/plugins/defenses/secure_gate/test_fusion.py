"""Weights are found where they can be computed, never worse than one adapter alone."""

import json
import math
import random
import threading
import time

import numpy as np
import pytest
from fedaudit_plugins.defenses.secure_gate import deployment
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.api.errors import InputError, TargetError
from fedaudit.api.records import Target
from fedaudit.engine.local import LocalEngine
from fedaudit.federation import adapters

OPTIONS = {"psi": 0.01, "budget": 40, "seed": 3}


def bowl(weights):
    return (weights[0] - 0.7) ** 2 + (weights[1] + 0.4) ** 2 + 2


def objective(found, psi):
    return found.loss + psi * sum(map(abs, found.weights))


def test_the_minimum_is_where_the_derivative_of_loss_and_penalty_is_zero():
    found = deployment.search(bowl, **OPTIONS | {"psi": 0.1})
    # 2 (a - 0.7) + 0.1 = 0 and 2 (b + 0.4) - 0.1 = 0
    assert found.weights == pytest.approx((0.65, -0.35), abs=2e-3)
    # 0.05^2 + 0.05^2 + 2, and 0.1 * (0.65 + 0.35) on top
    assert found.loss == pytest.approx(2.005, abs=1e-3)
    assert objective(found, 0.1) == pytest.approx(2.105, abs=1e-4)
    assert 10 < found.evaluations <= 40


def test_the_penalty_is_the_sum_of_the_weights():
    losses = {(1.0, 0.0): 3.0, (0.0, 1.0): 2.5}
    found = deployment.search(lambda w: losses.get(w, 9.0), **OPTIONS | {"psi": 0.25, "budget": 2})
    assert found == deployment.Fused(weights=(0.0, 1.0), loss=2.5, evaluations=2)
    # A third of the loss at (1, 0.5), which COBYLA asks next, costs 0.25 * 1.5, not their mean.
    losses[1.0, 0.5] = losses[0.5, 1.0] = 1.0
    found = deployment.search(lambda w: losses.get(w, 9.0), **OPTIONS | {"psi": 0.25, "budget": 6})
    assert (found.loss, objective(found, 0.25)) == (1.0, 1.375)


def test_a_heavy_penalty_keeps_weights_small_and_none_leaves_them_alone():
    free = deployment.search(bowl, **OPTIONS | {"psi": 0.0})
    assert free.weights == pytest.approx((0.7, -0.4), abs=2e-3)
    light, heavy = (deployment.search(bowl, **OPTIONS | {"psi": psi}) for psi in (0.1, 0.5))
    sizes = [sum(map(abs, found.weights)) for found in (free, light, heavy)]
    assert sizes == sorted(sizes, reverse=True)
    assert free.loss < light.loss < heavy.loss


waves = st.tuples(*[st.floats(-4, 4)] * 6)


@given(wave=waves, psi=st.floats(0, 1), budget=st.integers(2, 25))
def test_it_is_never_worse_than_one_adapter_alone_and_keeps_to_its_bounds(wave, psi, budget):
    asked = []

    def loss(weights):
        asked.append(weights)
        (a, b), (p, q, r, s, t, u) = weights, wave
        return p * math.sin(q * a + r * b) + s * math.cos(t * a - u * b)

    found = deployment.search(loss, psi=psi, budget=budget, seed=0)
    assert objective(found, psi) == min(loss(w) + psi * (abs(w[0]) + abs(w[1])) for w in set(asked))
    assert found.loss == loss(found.weights)
    assert asked[:2] == [(1.0, 0.0), (0.0, 1.0)]
    assert max(abs(w) for pair in asked for w in pair) <= deployment.BOUND
    assert found.evaluations == len(set(asked)) <= budget


def helpers():
    """Return nevergrad's threads that are at work, after a moment to end."""
    for _ in range(100):
        found = [t for t in threading.enumerate() if type(t).__module__.startswith("nevergrad")]
        if not found:
            break
        time.sleep(0.02)
    return found


def test_nothing_global_has_a_say_or_is_changed():
    found = []
    for seed in (1, 2):
        random.seed(seed)
        np.random.seed(seed)
        before = random.getstate(), np.random.get_state()[1].tolist()
        found.append(deployment.search(bowl, **OPTIONS))
        assert (random.getstate(), np.random.get_state()[1].tolist()) == before
    assert found[0] == found[1] == deployment.search(bowl, **OPTIONS)
    assert not helpers()


def test_nothing_is_printed_whatever_the_budget(capfd):
    for budget in (2, 3, 4, 5, 100):  # warnings are errors here
        deployment.search(bowl, **OPTIONS | {"budget": budget})
        deployment.search(lambda w: 1.0, **OPTIONS | {"budget": budget})
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf], ids=str)
def test_a_loss_that_is_no_number_ends_the_search_and_its_thread(value):
    def loss(weights):
        return bowl(weights) if weights in deployment.SINGLE_WEIGHTS else value

    with pytest.raises(TargetError, match=r"fused by 1 and 0\.5|fused by 1\.5 and 0") as error:
        deployment.search(loss, **OPTIONS)
    assert "\n" not in str(error.value)
    assert error.value.__traceback__ is not None  # as long as it is kept
    assert not helpers()


@pytest.fixture(scope="module")
def pair(federation):
    """Return the last global adapter and the last that a client sent."""
    last = federation.path / "rounds/002"
    return last / "global", last / "clients/c0"


@pytest.fixture
def engine(fresh_base):
    return LocalEngine(fresh_base)


@pytest.fixture
def query(engine, federation):
    lines = (federation.path / "data/c0.jsonl").read_text("utf-8").splitlines()[:2]
    return [[1, *t.ids][:32] for t in engine.tokenize([json.loads(line)["text"] for line in lines])]


def loss_of(engine, folder, query):
    """Return the slow obvious loss: every token's, of an adapter on disk."""
    scores = engine.score(Target(name="x", adapter=str(folder)), query)
    flat = [score for row in scores for score in row]
    return -sum(flat) / len(flat)


def test_the_fused_adapter_on_disk_is_what_was_found(engine, pair, query, tmp_path):
    from fedaudit.engine.lora import composition

    targets = [Target(name="base"), *(Target(name="x", adapter=str(f)) for f in pair)]
    before = [engine.score(target, query) for target in targets]
    found = deployment.fuse(engine, *pair, query, tmp_path / "fused", **OPTIONS)
    assert [engine.score(target, query) for target in targets] == before
    assert loss_of(engine, tmp_path / "fused", query) == pytest.approx(found.loss, rel=1e-6)
    rank = adapters.check(pair[0])["r"]
    assert adapters.check(tmp_path / "fused")["r"] == 2 * rank
    # No point of a coarse grid is better; both adapters on disk, their sum by equation 6.
    grid = [(a / 2, b / 2) for a in range(-2, 3) for b in range(-2, 3)]
    with composition.attached_composition(engine, pair) as both:
        least = min(both.loss(w, query) + 0.01 * sum(map(abs, w)) for w in grid)
    assert objective(found, 0.01) <= least


def test_one_seed_gives_one_adapter_and_the_order_of_the_query_set_does_not_matter(
    engine, pair, query, tmp_path
):
    runs = [
        deployment.fuse(engine, *pair, rows, tmp_path / str(n), **OPTIONS | {"budget": 12})
        for n, rows in enumerate((query, query, query[::-1]))
    ]
    assert runs[0] == runs[1]
    files = [(tmp_path / n / adapters.WEIGHTS).read_bytes() for n in "01"]
    assert files[0] == files[1]
    assert runs[2].weights == pytest.approx(runs[0].weights, abs=1e-3)
    assert runs[2].loss == pytest.approx(runs[0].loss, abs=1e-4)


def test_a_query_set_without_a_token_to_predict_writes_nothing(engine, pair, tmp_path):
    with pytest.raises(InputError, match="no text has two tokens"):
        deployment.fuse(engine, *pair, [[1], []], tmp_path / "fused", **OPTIONS)
    assert not (tmp_path / "fused").exists()
    assert engine.model is engine.base.model
