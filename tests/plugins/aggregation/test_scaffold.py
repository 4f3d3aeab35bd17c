"""SCAFFOLD against algorithm 1 of its paper, written out in NumPy on quadratics."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.api.errors import UsageError
from fedaudit.config.registry import create
from fedaudit.simulation.server.state import GradientCorrection

STEPS, ETA, DIM = 5, 0.05, 3


class Quadratics:
    """Clients with f_i(y) = (y - b_i) . A_i (y - b_i) / 2, whose optima lie apart."""

    def __init__(self, clients, seed=0):
        draw = np.random.default_rng(seed)
        roots = draw.normal(size=(clients, DIM, DIM))
        self.curved = [root @ root.T / DIM + np.eye(DIM) for root in roots]
        self.optima = list(draw.normal(size=(clients, DIM)) * 3)

    def gradient(self, i, y):
        return self.curved[i] @ (y - self.optima[i])


def obvious(problem, rounds, *, rate=1.0):
    """Return x, c and every c_i after `rounds` of participants: algorithm 1, line by line."""
    clients = len(problem.optima)
    x, c = np.zeros(DIM), np.zeros(DIM)
    own = [np.zeros(DIM) for _ in range(clients)]
    for chosen in rounds:
        moved, changed = np.zeros(DIM), np.zeros(DIM)
        for i in chosen:
            y = x.copy()
            for _ in range(STEPS):
                y = y - ETA * (problem.gradient(i, y) - own[i] + c)
            new = own[i] - c + (x - y) / (STEPS * ETA)
            moved += (y - x) / len(chosen)
            changed += (new - own[i]) / len(chosen)
            own[i] = new
        x = x + rate * moved
        c = c + len(chosen) / clients * changed
    return x, c, own


def federated(rule, problem, rounds, counts):
    """Return the same from the rule's hooks, its clients stepping by torch's plain SGD."""
    x, state = {"w": torch.zeros(DIM, dtype=torch.float64)}, {}
    own = [{} for _ in counts]
    for chosen in rounds:
        updates, before = [], [own[i] for i in chosen]
        for i in chosen:
            y = torch.nn.Parameter(x["w"].clone())
            gradients = GradientCorrection(rule, {"w": y}, state, own[i])
            optimizer = torch.optim.SGD([y], lr=ETA)
            for _ in range(STEPS):
                away = y - torch.tensor(problem.optima[i])
                (away @ torch.tensor(problem.curved[i]) @ away / 2).backward()
                gradients.correct()
                optimizer.step()
                optimizer.zero_grad()
            own[i] = gradients.final_state()
            updates.append({"w": y.detach()})
        weights = [counts[i] for i in chosen]
        x, state = rule.step(x, updates, weights, state)
        after = [own[i] for i in chosen]
        state = rule.collect_states(state, before, after, weights, counts)
    return x["w"].numpy(), variate(state), [variate(one) for one in own]


def variate(state):
    return state["variate"]["w"].double().numpy() if state else np.zeros(DIM)


def close(found, wanted):
    # The variates of clients are kept in float32.
    np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-5)


EVERYBODY = [[0, 1, 2]] * 6
SOME = [[0, 2], [1], [0, 1], [2], [0, 1, 2], [1, 2]]


@pytest.mark.parametrize("rounds", [EVERYBODY, SOME], ids=["everybody", "some"])
@pytest.mark.parametrize("rate", [1.0, 0.6])
@pytest.mark.parametrize("options", [{"weighting": "equal"}, {}], ids=["equal", "examples"])
def test_it_is_the_papers_algorithm(rounds, rate, options):
    # With as many examples each, the two weightings are one.
    counts = [5.0, 50.0, 7.0] if options else [9.0, 9.0, 9.0]
    problem = Quadratics(3)
    x, c, own = federated(
        create("aggregation", "scaffold", {"rate": rate, **options}), problem, rounds, counts
    )
    wanted_x, wanted_c, wanted_own = obvious(problem, rounds, rate=rate)
    close(x, wanted_x)
    close(c, wanted_c)
    close(own, wanted_own)


def test_one_round_by_hand():
    # Examples 1 and 3: shares 1/4 and 3/4. Mean gradients 8 and 4, first (c_i = c = 0):
    # c = 8/4 + 3*4/4 = 5. Then the corrections are 5 - 8 = -3 and 5 - 4 = 1, which the shares
    # make 0. In the next round the first alone takes part, with a mean gradient of 4:
    # c = 5 + (4 - 8)/4 = 4 = 4/4 + 3*4/4.
    rule = create("aggregation", "scaffold")
    first, second, later = ({"w": torch.tensor([v])} for v in (8.0, 4.0, 4.0))
    one, two = rule.client_state({}, first), rule.client_state({}, second)
    state = rule.collect_states({}, [{}, {}], [one, two], [1, 3], [1, 3])
    assert variate(state).tolist() == [5.0]
    assert rule.correction(state, one)["w"].tolist() == [-3.0]
    assert rule.correction(state, two)["w"].tolist() == [1.0]
    assert rule.correction(state, {})["w"].tolist() == [5.0]
    state = rule.collect_states(state, [one], [rule.client_state(one, later)], [1], [1, 3])
    assert variate(state).tolist() == [4.0]


def test_with_zero_variates_it_is_fedavg_to_the_bit():
    rule, average = create("aggregation", "scaffold"), create("aggregation", "fedavg")
    assert rule.correction({}, {}) is None
    draw = torch.Generator().manual_seed(0)
    start, *clients = ({"w": torch.randn(40, generator=draw)} for _ in range(4))
    found, state = rule.step(start, clients, [3, 1, 7], {})
    assert torch.equal(found["w"], average.aggregate(start, clients, [3, 1, 7])["w"])
    assert state == {}


def test_variates_hold_the_global_model_at_the_optimum_where_fedavg_drifts_off():
    problem = Quadratics(3)
    optimum = np.linalg.solve(
        sum(problem.curved), sum(a @ b for a, b in zip(problem.curved, problem.optima, strict=True))
    )
    rule = create("aggregation", "scaffold")
    x, *_ = federated(rule, problem, [[0, 1, 2]] * 60, [1.0] * 3)
    plain = obvious_fedavg(problem, 60)
    assert np.abs(x - optimum).max() < 1e-4
    assert np.abs(plain - optimum).max() > 0.01


def obvious_fedavg(problem, rounds):
    x = np.zeros(DIM)
    for _ in range(rounds):
        ends = []
        for i in range(len(problem.optima)):
            y = x
            for _ in range(STEPS):
                y = y - ETA * problem.gradient(i, y)
            ends.append(y)
        x = np.mean(ends, axis=0)
    return x


@given(st.lists(st.integers(1, 1000), min_size=4, max_size=4), st.data())
def test_the_servers_variate_is_always_the_mean_of_the_clients(counts, data):
    chosen = st.lists(st.integers(0, 3), min_size=1, max_size=4, unique=True)
    rounds = data.draw(st.lists(chosen, min_size=1, max_size=4))
    weighting = data.draw(st.sampled_from(["examples", "equal"]))
    rule = create("aggregation", "scaffold", {"weighting": weighting})
    _, c, own = federated(rule, Quadratics(4), rounds, [float(n) for n in counts])
    shares = counts if weighting == "examples" else None
    np.testing.assert_allclose(c, np.average(own, axis=0, weights=shares), rtol=1e-9, atol=1e-9)


def test_a_tensor_that_a_batch_does_not_use_is_corrected_all_the_same():
    rule = create("aggregation", "scaffold")
    used, unused = (torch.nn.Parameter(torch.zeros(1)) for _ in range(2))
    state = {"variate": {"a": torch.tensor([2.0]), "b": torch.tensor([3.0])}}
    gradients = GradientCorrection(rule, {"a": used, "b": unused}, state, {})
    (used * 5).sum().backward()
    gradients.correct()
    assert (used.grad.item(), unused.grad.item()) == (7.0, 3.0)
    kept = gradients.final_state()["variate"]
    assert {name: tensor.item() for name, tensor in kept.items()} == {"a": 5.0, "b": 0.0}


def test_a_round_without_a_step_leaves_a_client_as_it_was():
    rule, own = create("aggregation", "scaffold"), {"variate": {"w": torch.tensor([1.0])}}
    assert (
        GradientCorrection(rule, {"w": torch.nn.Parameter(torch.zeros(1))}, {}, own).final_state()
        is own
    )


def test_other_rules_have_no_memory_at_the_clients():
    rule = create("aggregation", "fedadam")
    assert not rule.stateful_clients
    assert rule.correction({}, {}) is None
    state = {"m": {"w": torch.tensor([1.0])}}
    assert rule.collect_states(state, [], [], [], []) is state
    assert rule.client_state(state, {}) is state


@pytest.mark.parametrize(
    "wrong",
    [{"rate": 0.0}, {"rate": -1.0}, {"rate": float("inf")}, {"weighting": "clients"}],
    ids=str,
)
def test_options_that_make_no_sense_are_refused(wrong):
    with pytest.raises(UsageError, match=next(iter(wrong))):
        create("aggregation", "scaffold", wrong)
