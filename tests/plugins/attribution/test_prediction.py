"""L-BFGS predictions against dense matrices, and against a world where they are exact."""

import numpy as np
import pytest
import torch
from baseline_trial import vector
from fedaudit_plugins.attribution import fldetector
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.api.errors import InputError

SIZE = 6


def dense(steps, changes):
    """Return the matrix that BFGS comes to, one rank-two change after the other."""
    matrix = np.eye(SIZE) * (changes[-1] @ steps[-1]) / (steps[-1] @ steps[-1])
    for s, y in zip(steps, changes, strict=True):
        along = matrix @ s
        matrix = matrix - np.outer(along, along) / (s @ along) + np.outer(y, y) / (y @ s)
    return matrix


def flat(update):
    return np.concatenate([update[name].double().numpy().ravel() for name in sorted(update)])


@pytest.mark.parametrize("pairs", [1, 2, 3, 5])
@pytest.mark.parametrize("sign", [1, -1])  # gradients' curvature is positive, updates' negative
def test_the_compact_form_is_the_dense_recursion(pairs, sign):
    rng = np.random.default_rng(pairs)
    root = rng.normal(size=(SIZE, SIZE))
    curvature = root @ root.T + np.eye(SIZE)
    steps = rng.normal(size=(pairs, SIZE))
    changes = sign * steps @ curvature
    v = rng.normal(size=SIZE)
    found = fldetector.hessian_product(
        [vector(*s) for s in steps], [vector(*y) for y in changes], vector(*v)
    )
    np.testing.assert_allclose(flat(found), dense(steps, changes) @ v, rtol=1e-8)
    # The latest pair is met exactly, whatever came before.
    met = fldetector.hessian_product(
        [vector(*s) for s in steps], [vector(*y) for y in changes], vector(*steps[-1])
    )
    np.testing.assert_allclose(flat(met), changes[-1], rtol=1e-8)


def test_nothing_moved_and_nothing_changed_are_no_division_by_zero():
    zero, one = vector(0.0, 0.0), vector(1.0, 2.0)
    assert flat(fldetector.hessian_product([zero], [one], one)).tolist() == [0.0, 0.0]
    assert flat(fldetector.hessian_product([one], [zero], one)).tolist() == [0.0, 0.0]


def rounds_of(tables):
    return [(tuple(table), table.__getitem__) for table in tables]


def test_one_number_by_hand():
    # Means 1 and 1/2: one step of 1 changed the mean by -1/2, so H = -1/2, and the third round,
    # 1/2 further, is expected to bring -1/4 to what each client sent. "a" sent .4, then .1: off by
    # .05. "b" sent .6, then .35: as expected.
    tables = [{"a": 0.8, "b": 1.2}, {"a": 0.4, "b": 0.6}, {"a": 0.1, "b": 0.35}]
    tables = [{c: {"w": torch.tensor([x])} for c, x in table.items()} for table in tables]
    first, second, third = fldetector.distances(rounds_of(tables), history=5)
    assert first == second == {}
    assert third == {"a": pytest.approx(0.05, abs=1e-7), "b": pytest.approx(0.0, abs=1e-7)}


def test_a_client_that_stayed_away_is_expected_to_have_moved_as_far_as_the_model():
    # All means 1, but for 3 in the last but one: H of (1 -> 0 change), (1 -> 2). The latest pair
    # gives H = 2 in one dimension. "b" sent 1 in round 0 and comes again in round 3, after
    # 1 + 1 + 3 = 5: expected 1 + 2 * 5 = 11.
    tables = [{"a": 1.0, "b": 1.0}, {"a": 1.0}, {"a": 3.0}, {"b": 10.0}]
    tables = [{c: {"w": torch.tensor([x])} for c, x in table.items()} for table in tables]
    *_, last = fldetector.distances(rounds_of(tables), history=5)
    assert last == {"b": pytest.approx(1.0)}


def slow(tables, history):
    """Return the distances by whole vectors and dense matrices, nothing kept between rounds."""
    means = [np.mean([flat(u) for u in table.values()], axis=0) for table in tables]
    position = [np.zeros(SIZE)]
    for mean in means:
        position.append(position[-1] + mean)
    found = []
    for t, table in enumerate(tables):
        far = {}
        for client, update in table.items():
            before = [r for r in range(t) if client in tables[r]]
            if t < 2 or not before:
                continue
            pairs = range(max(1, t - history), t)
            steps = [position[j] - position[j - 1] for j in pairs]
            changes = [means[j] - means[j - 1] for j in pairs]
            moved = position[t] - position[before[-1]]
            guess = flat(tables[before[-1]][client]) + dense(steps, changes) @ moved
            far[client] = np.linalg.norm(flat(update) - guess)
        found.append(far)
    return found


@pytest.mark.parametrize("history", [1, 2, 5])
def test_every_round_is_the_slow_reference(history):
    rng = np.random.default_rng(4)
    everybody = {f"c{i}": rng.normal(size=SIZE) for i in range(5)}
    tables = [
        {
            client: vector(*(own * 0.8**t + rng.normal(size=SIZE) / 9))
            for client, own in everybody.items()
            if (t + int(client[1])) % 3
        }
        for t in range(7)
    ]
    found = fldetector.distances(rounds_of(tables), history)
    wanted = slow(tables, history)
    assert [far.keys() for far in found] == [far.keys() for far in wanted]
    assert sum(map(len, found)) > 10
    for far, reference in zip(found, wanted, strict=True):
        assert far == {client: pytest.approx(value) for client, value in reference.items()}


@given(st.floats(0.01, 100), st.permutations(range(4)), st.sampled_from([1, -1]))
def test_order_does_not_matter_and_the_unit_goes_through(factor, order, sign):
    rng = np.random.default_rng(1)
    drawn = [{f"c{i}": rng.normal(size=SIZE) for i in range(4)} for _ in range(4)]
    tables = [{c: vector(*x) for c, x in table.items()} for table in drawn]
    other = [{f"c{i}": vector(*(sign * factor * table[f"c{i}"])) for i in order} for table in drawn]
    found = fldetector.distances(rounds_of(tables), 2)
    for far, scaled in zip(found, fldetector.distances(rounds_of(other), 2), strict=True):
        assert scaled == {client: pytest.approx(factor * far[client]) for client in far}


def test_a_round_of_nobody_is_passed_over():
    tables = [{"a": vector(1.0, 2.0)}, {}, {"a": vector(2.0, 1.0)}, {"a": vector(0.0, 1.0)}]
    without = [table for table in tables if table]
    found = fldetector.distances(rounds_of(tables), 5)
    assert found[1] == {}
    assert found[3] == fldetector.distances(rounds_of(without), 5)[2] != {}


def test_updates_of_other_shapes_are_refused():
    tables = [{"a": vector(1.0, 2.0)}, {"b": {"a": torch.ones(1), "b": torch.ones(2, 1)}}]
    with pytest.raises(InputError, match="The update of b has other tensors"):
        fldetector.distances(rounds_of(tables), 5)
