import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import fork
import pytest
import torch
from fedaudit_plugins.defenses import dp
from hypothesis import given, settings
from hypothesis import strategies as st
from opacus.optimizers import DPOptimizer
from peft import LoraConfig
from scipy.stats import norm
from transformers import LlamaConfig, LlamaForCausalLM

from fedaudit.api.defense import ClientState, FinishedFederation, TrainingSession
from fedaudit.api.errors import InputError, TargetError, UsageError
from fedaudit.api.records import Document
from fedaudit.config import registry
from fedaudit.engine.loading.loader import with_adapter
from fedaudit.simulation.runner import simulate

SILENT = 1e-9
"""A noise multiplier that changes nothing that a test looks at."""
ROWS = [[1, 7, 9, 4, 3], [1, 8], [1, 5, 5, 2, 9, 11, 13], [1, 6, 30], [1, 40, 41, 42], [1, 2, 3]]


def defense(**options):
    return registry.create("defense", "dp", options)


def tiny(*, tied=True, dropout=0.0, checkpointing=False, **lora):
    """Return a tiny Llama with a trainable adapter, always the same one."""
    torch.manual_seed(3)
    shape = LlamaConfig(
        vocab_size=50,
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        tie_word_embeddings=tied,
    )
    base = LlamaForCausalLM(shape).requires_grad_(False).eval()
    config = LoraConfig(
        r=2,
        lora_alpha=4,
        lora_dropout=dropout,
        target_modules=["q_proj", "v_proj"],
        init_lora_weights=False,  # B is not 0, so that A has a gradient at once
        task_type="CAUSAL_LM",
        **lora,
    )
    model = with_adapter(base, config, "client", trainable=True)
    if checkpointing:
        model.enable_input_require_grads()
        base.activation_checkpointing_enable({"use_reentrant": False})
    return model.train()


def trained(model):
    return {name: w for name, w in model.named_parameters() if w.requires_grad}


def session(model, **changes):
    values = {
        "model": model,
        "weights": trained(model),
        "sequences": ROWS,
        "batch_size": len(ROWS),
        "steps": 1,
        "rounds": 1,
        "rate": lambda step: 1e-2 / (step + 1),
        "weight_decay": 0.1,
        "clip": 1e-6,
        "seed": 5,
    }
    return TrainingSession(**values | changes)


def state(model):
    return {name: weight.detach().clone() for name, weight in trained(model).items()}


def furthest(one, other):
    return max(float((one[name] - other[name]).abs().max()) for name in one)


@pytest.fixture
def steps(monkeypatch):
    """Return a list that gets each optimizer step's rate and gradients."""
    seen, step = [], torch.optim.AdamW.step

    def spy(self, *args, **kwargs):
        (group,) = self.param_groups
        flat = torch.cat([w.grad.flatten() for w in group["params"]])
        seen.append(SimpleNamespace(rate=group["lr"], gradient=flat.clone()))
        return step(self, *args, **kwargs)

    monkeypatch.setattr(torch.optim.AdamW, "step", spy)
    return seen


def slow_gradients(model, rows, limit, expected):
    """Return DP-SGD's gradient without noise: one document at a time, by ordinary autograd."""
    weights = trained(model)
    total = {name: torch.zeros_like(weight) for name, weight in weights.items()}
    norms = []
    for row in rows:
        model.zero_grad()
        ids = torch.tensor([row])
        model(input_ids=ids, labels=ids).loss.backward()  # the mean of this row's tokens
        size = math.sqrt(sum(float((w.grad**2).sum()) for w in weights.values()))
        norms.append(size)
        for name, weight in weights.items():
            total[name] += weight.grad * min(1.0, limit / size) / expected
    model.zero_grad()
    return total, norms


def test_steps_are_those_of_a_loop_over_single_documents(steps):
    """Clipping, averaging, the rate of each step and weight decay; `clip` plays no part."""
    fast, slow = tiny(), tiny()
    _, norms = slow_gradients(slow, ROWS, 1.0, 1)
    limit = sorted(norms)[2] * 0.999
    assert sum(size > limit for size in norms) == 4  # of six documents
    loss = defense(noise_multiplier=SILENT, max_grad_norm=limit).train(session(fast, steps=3))
    assert [step.rate for step in steps] == [1e-2, 1e-2 / 2, 1e-2 / 3]
    adam = torch.optim.AdamW(trained(slow).values(), weight_decay=0.1)
    losses = []
    for step in range(3):
        for row in ROWS:
            ids = torch.tensor([row])
            losses.append(float(slow(input_ids=ids, labels=ids).loss.detach()))
        gradient, _ = slow_gradients(slow, ROWS, limit, len(ROWS))
        for name, weight in trained(slow).items():
            weight.grad = gradient[name]
        adam.param_groups[0]["lr"] = 1e-2 / (step + 1)
        adam.step()
    assert furthest(state(fast), state(slow)) < 1e-5 < furthest(state(fast), state(tiny()))
    assert loss == pytest.approx(sum(losses) / len(losses), rel=1e-5)


def test_plain_descent_steps_along_the_clipped_gradients():
    model = tiny()
    before, limit, rate = state(model), 0.4, 0.05
    total, _ = slow_gradients(tiny(), ROWS, limit, len(ROWS))
    chosen = defense(noise_multiplier=SILENT, max_grad_norm=limit, optimizer="sgd")
    chosen.train(session(model, rate=lambda step: rate, weight_decay=0.0))
    for name, weight in state(model).items():
        torch.testing.assert_close(weight, before[name] - rate * total[name], rtol=0, atol=1e-6)


@pytest.mark.parametrize("how", [{"tied": False}, {"checkpointing": True}], ids=str)
@pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing. is deprecated:FutureWarning")
def test_gradients_are_right_in_other_models_too(steps, how):
    wanted, _ = slow_gradients(tiny(**how), ROWS, 0.05, len(ROWS))
    defense(noise_multiplier=SILENT, max_grad_norm=0.05).train(session(tiny(**how)))
    whole = torch.cat([gradient.flatten() for gradient in wanted.values()])
    torch.testing.assert_close(steps[0].gradient, whole, rtol=1e-4, atol=1e-6)


@given(st.lists(st.lists(st.integers(0, 49), min_size=1, max_size=9), min_size=2, max_size=12))
@settings(max_examples=8, deadline=None)
def test_a_document_moves_the_sum_by_the_clipping_norm_at_most(rows):
    """The sensitivity that the noise is made for, whatever the documents are."""
    sums = []
    for own in (rows, rows[1:]):
        weights = trained(model := tiny())
        with dp.per_document(model, weights) as gradients:
            adam = torch.optim.SGD(weights.values(), lr=1.0)
            optimizer = DPOptimizer(
                adam, noise_multiplier=0.0, max_grad_norm=0.01, expected_batch_size=1
            )
            before = state(model)
            list(dp._step(optimizer, gradients, own, 1.0))
        after = state(model)
        sums.append(torch.cat([(after[name] - before[name]).flatten() for name in before]))
    assert float((sums[0] - sums[1]).norm()) <= 0.01 * 1.001


@pytest.mark.parametrize("together", [1, 2, 4])
def test_how_many_documents_go_through_the_model_at_once_changes_nothing(monkeypatch, together):
    whole, parts = tiny(), tiny()
    assert len(ROWS) <= dp.CHUNK_SIZE
    options = {"noise_multiplier": 0.5, "max_grad_norm": 0.05}
    loss = defense(**options).train(session(whole, steps=4))
    monkeypatch.setattr(dp, "CHUNK_SIZE", together)
    assert defense(**options).train(session(parts, steps=4)) == pytest.approx(loss, rel=1e-5)
    assert furthest(state(whole), state(parts)) < 1e-5


def test_the_noise_has_the_standard_deviation_that_the_guarantee_needs(steps):
    """sigma C / (q n): 2 * 0.5 / 3. What the documents add is that of a run without noise."""
    given = {"sequences": ROWS * 5, "batch_size": 3}
    for seed in range(8):
        for sigma in (2.0, SILENT):
            chosen = defense(noise_multiplier=sigma, max_grad_norm=0.5)
            chosen.train(session(tiny(), seed=seed, **given))
    noise = torch.stack(
        [
            loud.gradient - quiet.gradient
            for loud, quiet in zip(steps[::2], steps[1::2], strict=True)
        ]
    )
    count, wanted = noise.numel(), 2 * 0.5 / 3
    assert count > 1500
    # Five standard errors, of a standard deviation (s / sqrt(2 N)) and of a mean (s / sqrt(N)).
    assert float(noise.std()) == pytest.approx(wanted, abs=5 * wanted / math.sqrt(2 * count))
    assert abs(float(noise.mean())) < 5 * wanted / math.sqrt(count)
    related = torch.corrcoef(noise) - torch.eye(len(noise))  # no two seeds share their noise
    assert float(related.abs().max()) < 5 / math.sqrt(noise.shape[1])


def test_each_step_has_noise_of_its_own(steps):
    defense(noise_multiplier=50.0).train(session(tiny(), steps=3))
    noise = torch.stack([step.gradient for step in steps])
    related = torch.corrcoef(noise) - torch.eye(3)
    assert float(related.abs().max()) < 5 / math.sqrt(noise.shape[1])


def test_a_step_that_drew_nobody_is_a_step_with_noise(steps):
    given = session(tiny(), sequences=ROWS * 8, batch_size=1, steps=12)
    drawn = [len(rows) for rows in dp.poisson_batches(given)]
    assert 0 < drawn.count(0) < 12  # e^-1 of them are expected to be
    defense(noise_multiplier=SILENT).train(given)
    assert [float(step.gradient.norm()) < 1e-6 for step in steps] == [n == 0 for n in drawn]
    assert all(float(step.gradient.norm()) > 0 for step in steps)


@given(st.integers(1, 40), st.integers(1, 50), st.integers(0, 2**32 - 1))
def test_every_document_is_drawn_with_the_same_chance(documents, batch, seed):
    own = [[i] for i in range(documents)]
    given = session(torch.nn.Identity(), sequences=own, batch_size=batch, seed=seed, steps=200)
    rounds = list(dp.poisson_batches(given))
    assert len(rounds) == 200
    chance = min(1.0, batch / documents)
    assert dp.sample_rate(batch, documents) == chance
    drawn = sum(map(len, rounds))
    # Five standard deviations of a binomial; exact where the chance is one.
    spread = 5 * math.sqrt(200 * documents * chance * (1 - chance))
    assert abs(drawn - 200 * documents * chance) <= spread
    assert all(len({row[0] for row in rows}) == len(rows) for rows in rounds)


def test_a_batch_larger_than_the_data_is_all_of_it(steps):
    """At every step, and the gradient is divided by what there is, not by what was asked for."""
    rows = list(dp.poisson_batches(session(tiny(), batch_size=100, steps=2)))
    assert [sorted(drawn) for drawn in rows] == [sorted(ROWS)] * 2
    for batch_size in (len(ROWS), 100):
        defense(noise_multiplier=SILENT).train(session(tiny(), batch_size=batch_size))
    assert torch.equal(steps[0].gradient, steps[1].gradient)


def test_the_seed_decides_and_nothing_else():
    options = {"noise_multiplier": 1.0}
    found = []
    for seed in (5, 5, 6):
        model = tiny()
        torch.rand(seed)  # the draws and the noise have generators of their own
        defense(**options).train(session(model, batch_size=2, steps=3, seed=seed))
        found.append(state(model))
    assert furthest(found[0], found[1]) == 0 < furthest(found[0], found[2])


def test_dropout_is_different_in_each_document_and_seeded_by_the_caller():
    found = []
    for seed in (1, 1, 2):
        model = tiny(dropout=0.5)
        torch.manual_seed(seed)
        defense(noise_multiplier=SILENT).train(session(model, sequences=[ROWS[0]] * 4))
        found.append(state(model))
    assert furthest(found[0], found[1]) == 0 < furthest(found[0], found[2])


def ordinary(model):
    """Return the adapter after three ordinary steps on all rows, padded, at a rate of 0.01."""
    adam = torch.optim.AdamW(trained(model).values(), lr=1e-2)
    for _ in range(3):
        loss = dp.mean_losses(model, ROWS, torch.device("cpu")).mean()
        loss.backward()
        adam.step()
        adam.zero_grad()
    return state(model)


def attributes(model):
    """Return the names of everything that hangs on a model's parts and parameters."""
    parts = [*model.named_modules(), *model.named_parameters()]
    hooks = {
        name: (len(p._forward_hooks), len(p._backward_hooks)) for name, p in model.named_modules()
    }
    flags = {name: p.requires_grad for name, p in model.named_parameters()}
    return [(name, sorted(vars(part))) for name, part in parts], hooks, flags, model.training


def test_the_model_comes_out_as_it_was_and_trains_on_in_the_ordinary_way():
    model, fresh = tiny(), tiny()
    before, start = attributes(model), state(model)
    defense(noise_multiplier=1.0).train(session(model, batch_size=2, steps=3))
    assert attributes(model) == before
    assert all(weight.grad is None for weight in model.parameters())
    with torch.no_grad():
        for name, weight in trained(model).items():
            weight.copy_(start[name])
    assert furthest(ordinary(model), ordinary(fresh)) == 0
    defense(noise_multiplier=1.0).train(session(model, batch_size=2, steps=3))  # and once more
    assert attributes(model) == before


def refused(model, match, **changes):
    """Check that training is refused in one line, and that the model is left as it was."""
    before = attributes(model)
    with pytest.raises(TargetError, match=match) as error:
        defense(noise_multiplier=1.0).train(session(model, **changes))
    assert "\n" not in str(error.value)
    assert attributes(model) == before


def test_weights_that_do_not_move_are_an_error(monkeypatch):
    refused(tiny(), r"lora_A.* did not change", rate=lambda step: 0.0)
    monkeypatch.setattr(torch.optim.AdamW, "step", lambda self: None)
    refused(tiny(), r"lora_A.* did not change")


def test_a_gradient_that_is_cut_is_an_error():
    model = tiny()
    model.base_model.model.model.norm.register_forward_hook(lambda *given: given[-1].detach())
    refused(model, "does not depend")
    model = tiny()
    layer = model.base_model.model.model.layers[0]
    layer.register_forward_hook(lambda *given: given[-1].detach())
    refused(model, r"layers\.0\..* gets no gradient")


def test_weights_of_another_model_are_an_error():
    """What is trained must be what the model computes with (opacus issue 820)."""
    other = {name: torch.nn.Parameter(w.detach().clone()) for name, w in trained(tiny()).items()}
    refused(tiny(), "gets no gradient", weights=other)


def test_a_use_of_a_weight_that_opacus_does_not_see_is_an_error():
    model = tiny()
    name, weight = next(iter(trained(model).items()))
    last = model.base_model.model.lm_head
    last.register_forward_hook(lambda *given: given[-1] * (1 + weight.sum()))
    refused(model, rf"own gradients of {name} do not add up")


def test_a_layer_that_opacus_has_no_rule_for_is_an_error():
    refused(tiny(use_dora=True), "no rule for .*lora_magnitude_vector")


@pytest.mark.parametrize(
    "wrong",
    [
        {"epsilon": 0.0},
        {"epsilon": -1.0},
        {"epsilon": 100.5},
        {"delta": 1.0},
        {"delta": -0.1},
        {"max_grad_norm": 0.0},
        {"noise_multiplier": -1.0},
        {"noise_multiplier": 1e-12},
        {"accountant": "gdp"},
    ],
    ids=str,
)
def test_options_that_cannot_be_are_refused(wrong):
    with pytest.raises(UsageError, match=next(iter(wrong))) as error:
        defense(**wrong)
    assert "\n" not in str(error.value)


def finished(documents, *, batch_size, steps, rounds, took_part=None):
    """Return a federation of one client after its last round."""
    own = [Document(id=str(i), text="x") for i in range(documents)]
    party = ClientState(
        documents=[],
        prepared=own,
        shared=Path(),
        private={},
        rounds=rounds if took_part is None else took_part,
        steps=steps,
    )
    return FinishedFederation(
        engine=None,
        folder=Path(),
        adapter=Path(),
        parties={"c0": party},
        batch_size=batch_size,
        rounds=rounds,
        max_length=8,
        seed=0,
    )


def row(chosen, *given, **values):
    result = chosen.deploy(finished(*given, **values))
    (found,) = result.measurements
    assert (found.kind, found.plugin, found.metric) == ("defense", "dp", "epsilon")
    assert result.limits == dp.LIMITS
    return found


@pytest.mark.parametrize(
    ("accountant", "steps", "rounds", "wanted"),
    [("rdp", 225, 10, 7.32911117143), ("prv", 173, 13, 6.777395712150674)],
)
def test_epsilon_is_what_opacus_own_tests_pin(accountant, steps, rounds, wanted):
    """sigma 1.5, q 0.04, delta 1e-5, 90 epochs: 2,250 steps; 2,249 where 90 // 0.04 rounds down."""
    chosen = defense(noise_multiplier=1.5, delta=1e-5, accountant=accountant)
    found = row(chosen, 100, batch_size=4, steps=steps, rounds=rounds)
    assert found.value == pytest.approx(wanted, abs=1e-7)
    assert found.scope == {
        "client": "c0",
        "delta": 1e-5,
        "accountant": accountant,
        "noise_multiplier": 1.5,
        "sample_rate": 0.04,
        "steps": steps * rounds,
    }


def gaussian(sigma, steps, delta):
    """Return the exact epsilon of `steps` Gaussian mechanisms (Balle and Wang 2018, theorem 8).

    Together they are one with mu = sqrt(steps) / sigma, whose delta at epsilon is
    Phi(mu / 2 - epsilon / mu) - e^epsilon Phi(-mu / 2 - epsilon / mu); bisected.
    """
    mu, low, high = math.sqrt(steps) / sigma, 0.0, 200.0
    for _ in range(80):
        middle = (low + high) / 2
        tail = math.exp(middle) * norm.cdf(-mu / 2 - middle / mu)
        wide = norm.cdf(mu / 2 - middle / mu) - tail > delta
        low, high = (middle, high) if wide else (low, middle)
    return high


@pytest.mark.parametrize(("sigma", "steps"), [(5.0, 100), (2.0, 10), (20.0, 1)])
def test_with_all_of_the_data_at_every_step_it_is_the_gaussian_mechanism(sigma, steps):
    exact = gaussian(sigma, steps, 1 / 50)
    tight, _ = dp.spent_epsilon(sigma, 1 / 50, 1.0, steps, "prv")
    coarse, _ = dp.spent_epsilon(sigma, 1 / 50, 1.0, steps, "rdp")
    assert exact <= tight <= exact + 0.011  # PRV's own error is 0.01
    assert exact <= coarse


def test_a_bound_too_large_to_mean_anything_comes_from_the_quick_accountant():
    value, whose = dp.spent_epsilon(0.1, 0.01, 0.1, 320, "prv")
    assert (value, whose) == dp.spent_epsilon(0.1, 0.01, 0.1, 320, "rdp")
    assert value > dp.MAX_PRV_EPSILON
    assert whose == "rdp"
    assert math.isfinite(dp.spent_epsilon(1e-9, 0.01, 0.1, 320, "prv")[0])


def test_noise_for_a_promise():
    """More of it for a smaller epsilon, less with the tighter accountant, and all is spent."""
    sigmas = {}
    for epsilon, accountant in [(1, "prv"), (1, "rdp"), (2.5, "rdp")]:
        chosen = defense(epsilon=epsilon, accountant=accountant)
        found = row(chosen, 100, batch_size=4, steps=20, rounds=2)
        assert epsilon - 0.02 < found.value <= epsilon
        assert found.scope["accountant"] == accountant
        sigma = found.scope["noise_multiplier"]
        assert sigma == chosen.noise(100, 4, 2 * 20)
        sigmas[epsilon, accountant] = sigma
    assert 0 < sigmas[1, "prv"] < sigmas[1, "rdp"]
    assert 0 < sigmas[2.5, "rdp"] < sigmas[1, "rdp"]


def test_noise_is_made_for_every_round_and_epsilon_counts_those_taken_part_in():
    given = {"batch_size": 4, "steps": 4, "rounds": 10}
    chosen = defense(epsilon=1, accountant="rdp")
    all_of_them = row(chosen, 100, **given)
    half = row(chosen, 100, took_part=5, **given)
    assert half.scope["noise_multiplier"] == all_of_them.scope["noise_multiplier"]
    assert (half.scope["steps"], all_of_them.scope["steps"]) == (20, 40)
    assert 0 < half.value < all_of_them.value <= 1
    assert all_of_them.scope["delta"] == 1 / 100
    assert row(defense(delta=1e-6, noise_multiplier=1.0), 100, **given).scope["delta"] == 1e-6


def test_training_uses_the_noise_that_is_accounted_for(steps):
    chosen = defense(epsilon=1, accountant="rdp", max_grad_norm=1e-6)  # next to no signal
    documents = (ROWS * 17)[:100]
    for seed in range(4):
        chosen.train(session(tiny(), sequences=documents, batch_size=4, rounds=40, seed=seed))
    sigma = row(chosen, 100, batch_size=4, steps=1, rounds=40).scope["noise_multiplier"]
    noise = torch.cat([step.gradient for step in steps]) * 4 / 1e-6
    # A document adds at most 1 to the whole vector: nothing next to sigma in each of its numbers.
    assert float(noise.std()) == pytest.approx(sigma, rel=5 / math.sqrt(2 * len(noise)) + 0.01)


def test_too_few_documents_and_a_budget_beyond_the_accountant_are_said_in_one_line():
    for documents, options in [(1, {}), (0, {}), (0, {"delta": 0.1})]:
        with pytest.raises(InputError, match=f"{documents} documents"):
            defense(**options).noise(documents, 4, 10)
    assert defense(delta=0.1, accountant="rdp").noise(1, 4, 10) > 0
    with pytest.raises(UsageError, match=r"epsilon 0.005 at delta 1e-09"):
        defense(epsilon=0.005, delta=1e-9).noise(100, 10, 10)


def test_a_federation_under_dp_says_what_each_client_spent(small, tmp_path):
    chosen = {"name": "dp", "epsilon": 8, "accountant": "rdp"}
    # All documents at every step: an accountant is slow where it has to sum over draws.
    training = replace(small.training, steps=2, batch_size=20)
    wanted = replace(small, rounds=1, evaluated=0, training=training, defenses=(chosen,))
    result = simulate(wanted, tmp_path / "run", listener=lambda event: None)
    rows = [found for found in result.measurements if found.metric == "epsilon"]
    assert [found.scope["client"] for found in rows] == ["c0", "c1"]
    assert all(7.98 < found.value <= 8 for found in rows)
    assert all(found.scope["steps"] == 2 for found in rows)
    assert set(dp.LIMITS) <= set(result.limits)


def test_opacus_sets_up_no_logging_of_its_own():
    """It would print what every other library logs, down to bm25s's debugging."""
    code = (
        "import logging; from fedaudit_plugins.defenses.dp import spent_epsilon;"
        "spent_epsilon(1.0, 1e-5, 0.1, 10, 'rdp'); print(logging.getLogger().handlers)"
    )
    done = fork.program(code, real=True)
    assert (done.returncode, done.stdout.strip()) == (0, "[]")
