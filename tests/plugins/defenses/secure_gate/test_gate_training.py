"""A gate: its layers, its file, its decisions, and what training makes of it."""

import hashlib
import random
from dataclasses import replace

import pytest
import torch
from fedaudit_plugins.defenses.secure_gate import training
from fedaudit_plugins.defenses.secure_gate.gate import GateDesign, TrainedGate, from_bytes, network
from fedaudit_plugins.defenses.secure_gate.header_features import HeaderReader
from fedaudit_plugins.defenses.secure_gate.keys import Keyring
from fedaudit_plugins.defenses.secure_gate.training import (
    BatchSampler,
    draw_evenly,
    is_sure,
    standardise,
    train,
)
from fedaudit_plugins.defenses.secure_gate.training_examples import (
    GateExamples,
    malformed_key,
    neighbour,
    random_key_text,
)
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from fedaudit.api.errors import InputError

ADAPTERS = ("secure", "legal", "bank")


def made(tau=0.9, weights=None):
    """Return an untrained gate of width 4 or, with `weights`, one whose logits are the state."""
    torch.manual_seed(0)
    net = network(4, 3, hidden=8)
    if weights is not None:
        net = nn.Sequential(nn.Identity())
    return TrainedGate(
        network=net,
        mean=torch.tensor([1.0, 2.0, 3.0, 4.0])[: 3 if weights else 4],
        scale=torch.tensor([2.0, 2.0, 4.0, 4.0])[: 3 if weights else 4],
        adapters=ADAPTERS,
        sigma=0.25,
        tau=tau,
    )


def test_the_layers_are_those_of_the_paper():
    kinds = [type(layer).__name__ for layer in network(16, 3)]
    feature = ["Linear", "GLU", "LayerNorm", "Dropout", "Linear", "GELU", "LayerNorm", "Dropout"]
    assert kinds == [*feature, "Linear"]


def test_the_network_by_hand():
    gate = made()
    state = torch.tensor([[3.0, 2.0, -1.0, 8.0]])
    x = torch.tensor([[1.0, 0.0, -1.0, 1.0]])  # less the mean, by the scale
    w = gate.network.state_dict()
    a, gates = (x @ w["0.weight"].T + w["0.bias"]).chunk(2, dim=1)
    h = a / (1 + torch.exp(-gates))
    h = (h - h.mean()) / (h.var(unbiased=False) + 1e-5).sqrt()
    h = h @ w["4.weight"].T + w["4.bias"]
    h = h * 0.5 * (1 + torch.erf(h / 2**0.5))
    h = (h - h.mean()) / (h.var(unbiased=False) + 1e-5).sqrt()
    logits = h @ w["8.weight"].T + w["8.bias"]
    wanted = logits.exp() / logits.exp().sum()
    torch.testing.assert_close(gate.probabilities(state), wanted, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize(
    ("probabilities", "tau", "chosen"),
    [
        ([0.05, 0.95, 0.0], 0.9, 1),
        ([0.05, 0.0, 0.95], 0.9, 2),
        ([0.2, 0.8, 0.0], 0.9, 0),
        ([0.2, 0.8, 0.0], 0.7, 1),
        ([0.3, 0.36, 0.34], 0.0, 1),
        ([0.4, 0.3, 0.3], 0.0, 0),
        ([0.0, 1.0, 0.0], 1.0, 0),
        ([float("nan"), float("nan"), float("nan")], 0.0, 0),
    ],
)
def test_decisions(probabilities, tau, chosen):
    gate = made(tau, weights=True)
    logits = torch.tensor([probabilities]).log()
    assert gate.decide(logits * gate.scale + gate.mean).tolist() == [chosen]


def test_a_probability_of_tau_is_not_above_it():
    gate, state = made(weights=True), torch.tensor([[3.0, 9.0, 4.0]])
    best = float(gate.probabilities(state).max())
    assert replace(gate, tau=best).decide(state).tolist() == [0]
    assert replace(gate, tau=best - 1e-6).decide(state).tolist() == [1]


def test_a_gate_file_is_read_back_and_equal_gates_give_equal_files(tmp_path):
    gate = made()
    content = gate.to_bytes()
    back = from_bytes(content, tmp_path / "gate")
    assert made().to_bytes() == content == back.to_bytes()
    assert (back.adapters, back.sigma, back.tau, back.width) == (ADAPTERS, 0.25, 0.9, 4)
    states = torch.randn(5, 4)
    assert torch.equal(back.probabilities(states), gate.probabilities(states))


def test_what_is_no_gate_is_refused(tmp_path):
    gate = made()
    content = gate.to_bytes()
    scale = torch.tensor([1.0, float("nan"), 1.0, 1.0])
    for bad in (
        b"",
        b"x" * 100,
        content[:-1],
        content[:50],
        replace(gate, tau=1.5).to_bytes(),
        replace(gate, scale=scale).to_bytes(),
        replace(gate, mean=torch.zeros(3), scale=torch.ones(3)).to_bytes(),
        replace(gate, adapters=("secure",)).to_bytes(),
    ):
        with pytest.raises(InputError, match="is not a gate, or is damaged"):
            from_bytes(bad, tmp_path / "gate")


@given(sizes=st.lists(st.integers(1, 5), min_size=1, max_size=6), rows=st.integers(6, 40))
def test_groups_are_drawn_evenly(sizes, rows):
    groups = [torch.full((size, 2), float(index)) for index, size in enumerate(sizes)]
    states, order = draw_evenly(groups, rows)
    assert states[:, 0].tolist() == order.tolist()
    counts = order.bincount(minlength=len(sizes))
    assert counts.sum() == rows
    assert counts.max() - counts.min() <= 1


def toy():
    """Return lessons of width 3 with the valid states far out, so that they are told apart."""
    far = torch.tensor([[50.0, 0.0, 0.0]])
    refused = {kind: torch.randn(6, 3) for kind in ("atomic", "random", "none")}
    return GateExamples(valid={2: far, 1: -far}, refused=refused)


def test_a_batch_has_as_many_rows_of_each_sort_in_the_right_class():
    torch.manual_seed(0)
    net = network(3, 3)
    states, classes = BatchSampler(toy()).draw(net)
    rows = training.ROWS
    assert len(states) == len(classes) == 5 * rows
    assert classes.bincount().tolist() == [4 * rows, rows // 2, rows // 2]
    for index, sign in ((2, 1), (1, -1)):
        shown = states[classes == index]
        torch.testing.assert_close(shown.mean(0)[0].item(), sign * 50.0, atol=0.1, rtol=0)
        assert (shown[:, 0] - sign * 50).abs().max() < 5 * training.NOISE
    # the near ones are about a valid state, but never on it, and are refused
    near = states[3 * rows : 4 * rows]
    assert (near[:, 0].abs() > 25).all()
    assert not torch.isclose(near.abs(), torch.tensor([50.0, 0.0, 0.0])).all(dim=1).any()


def test_the_near_states_shown_are_the_worst_of_many(monkeypatch):
    torch.manual_seed(0)
    net = network(3, 3)
    some = BatchSampler(toy())
    with torch.random.fork_rng():
        worst = some.hard_negative_states(net)
    monkeypatch.setattr(training, "ROWS", training.CANDIDATES)
    every = some.hard_negative_states(net)
    refused = net(every).softmax(-1)[:, 0]
    assert torch.allclose(net(worst).softmax(-1)[:, 0], refused.sort().values[: len(worst)])


def test_lessons_are_standardised():
    one = GateExamples(valid={1: torch.tensor([[3.0]])}, refused={"none": torch.tensor([[1.0]])})
    found = standardise(one, torch.tensor([1.0]), torch.tensor([4.0]))
    assert (found.valid[1].item(), found.refused["none"].item()) == (0.5, 0.0)


def test_valid_keys_open_their_adapter_and_nothing_else_does(trained, keyring):
    """No false accept among 800 random and 200 near keys, spelled and as one token."""
    gate, reader = trained.gate, trained.reader
    assert gate.decide(reader.read(keyring.texts)).tolist() == [1, 2]
    rng = random.Random("unseen")
    near = {neighbour(rng.choice(keyring.texts), rng) for _ in range(200)}
    others = [*(random_key_text(rng) for _ in range(800)), *sorted(near)]
    assert gate.decide(reader.atomic(others)).tolist() == [0] * len(others)
    spelled = [
        *others[-len(near) - 200 :],
        *(malformed_key(keyring.texts[0], rng) for _ in range(100)),
    ]
    spelled = [text for text in spelled if text not in keyring.texts]
    assert gate.decide(reader.read([*spelled, "", None])).tolist() == [0] * (len(spelled) + 2)
    assert gate.decide(reader.spelled_states(keyring.texts)).tolist() == [0, 0]


def test_any_other_embedding_is_refused(trained, keyring, gate_engine):
    """Between two keys, around one, and far from all: only a key's own embedding opens."""
    gate, reader = trained.gate, trained.reader
    first, second = torch.from_numpy(keyring.vectors(keyring.texts, gate.width, gate.sigma))
    torch.manual_seed(0)
    noise = torch.randn(300, gate.width) * gate.sigma
    share = torch.linspace(0.2, 0.8, 300)[:, None]
    vectors = torch.cat([noise * 3, share * first + (1 - share) * noise, (first + second)[None]])
    states = gate_engine.states([reader.row("")] * len(vectors), vectors)
    refused = gate.decide(states) == 0
    assert refused[:300].all()
    assert refused[-1]
    assert refused[300:540].all()  # at most 0.68 of the key; nearer, the gate may take it for it


@pytest.mark.usefixtures("short_training")
def test_training_follows_from_its_seed_and_from_nothing_around_it(
    gate_engine, keyring, monkeypatch
):
    monkeypatch.setattr(training, "is_sure", lambda *_: True)  # of the first steps
    first = train(gate_engine, keyring, ADAPTERS, seed=3)
    torch.manual_seed(12345)
    before, threads = torch.get_rng_state(), torch.get_num_threads()
    again = train(gate_engine, keyring, ADAPTERS, seed=3)
    assert again.to_bytes() == first.to_bytes()
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.get_num_threads() == threads


def test_the_gate_file_holds_no_key_salt_or_embedding(trained, keyring):
    content = trained.gate.to_bytes()
    vectors = keyring.vectors(keyring.texts, trained.gate.width, trained.gate.sigma)
    hidden = [keyring.salt, keyring.salt.hex().encode(), vectors.tobytes()[:64]]
    for secret in keyring.texts:
        seed = keyring.seed(secret)
        hidden += [secret.encode(), seed, hashlib.sha256(secret.encode()).digest()]
    assert not any(one in content for one in hidden)


def test_training_that_fails_says_so(gate_engine, keyring, monkeypatch):
    monkeypatch.setattr(training, "STEPS", 1)
    monkeypatch.setattr(training, "COUNT", 4)
    monkeypatch.setattr(training, "HELD_OUT", 4)
    with pytest.raises(InputError, match="No gate learns to tell these keys from others") as error:
        train(gate_engine, keyring, ADAPTERS)
    assert not any(secret in str(error.value) for secret in keyring.texts)


def test_training_as_published_starts_again_from_other_examples(gate_engine, keyring, monkeypatch):
    design = GateDesign(published=True)
    monkeypatch.setattr(training, "STEPS", 200)
    looks, starts, losses = 200 // training.EVERY + 1, [], []
    looked, untrained = [], training._untrained

    def sure_from_the_second_start(*arguments):
        looked.append(arguments)
        return len(looked) > looks and is_sure(*arguments)

    def begun(reader, adapters, examples, tau):
        starts.append(examples.refused["malformed"])
        return untrained(reader, adapters, examples, tau)

    monkeypatch.setattr(training, "is_sure", sure_from_the_second_start)
    monkeypatch.setattr(training, "_untrained", begun)
    gate = train(gate_engine, keyring, ADAPTERS, design=design, seed=3, on_loss=losses.append)
    assert len(starts) == 2
    assert starts[0].shape != starts[1].shape or not torch.equal(*starts)
    assert 200 < len(losses) <= 400
    assert losses[200] > 10 * losses[199]  # the second network was untrained
    assert {id(held_out) for _, held_out, _ in looked} == {id(looked[0][1])}
    reader = HeaderReader(gate_engine, keyring, gate.sigma, design)
    assert gate.decide(reader.read([None, *keyring.texts])).tolist() == [0, 1, 2]


def test_without_keys_a_gate_opens_nothing(gate_engine, monkeypatch):
    monkeypatch.setattr(training, "COUNT", 16)
    monkeypatch.setattr(training, "HELD_OUT", 8)
    empty = Keyring(keys=(), salt=b"s" * 32)
    gate = train(gate_engine, empty, ADAPTERS, old=["o" * 20])
    states = torch.randn(500, gate.width) * gate.scale + gate.mean
    assert gate.decide(states).tolist() == [0] * 500


def test_sure_wants_every_lesson_above_the_level():
    gate = made(weights=True)

    def state(*probabilities):
        return torch.tensor([probabilities]).log() * gate.scale + gate.mean

    lessons = GateExamples(valid={1: state(0.1, 0.9, 0.0)}, refused={"none": state(0.8, 0.1, 0.1)})
    assert is_sure(gate, lessons, 0.79)
    assert not is_sure(gate, lessons, 0.85)
    swapped = GateExamples(valid={2: state(0.1, 0.9, 0.0)}, refused={"none": state(0.8, 0.1, 0.1)})
    assert not is_sure(gate, swapped, 0.5)
