import json
from collections import Counter
from dataclasses import replace
from itertools import islice

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.api.defense import Defense
from fedaudit.api.errors import UsageError
from fedaudit.config import registry
from fedaudit.engine.training import loss
from fedaudit.federation import adapters
from fedaudit.simulation.client import trainer
from fedaudit.simulation.client.trainer import (
    ClientTraining,
    rate_at,
    schedule_span,
    steps_of,
    train,
)
from fedaudit.simulation.config import Training
from fedaudit.simulation.data.loss_mask import MaskedSequence


def rates(settings, *, steps, round_, rounds):
    span = schedule_span(settings, steps, round_, rounds)
    return [rate_at(settings, step, steps, *span) for step in range(steps)]


def test_rates_by_hand():
    flat = Training(learning_rate=8.0, decay="none")
    assert rates(flat, steps=3, round_=1, rounds=2) == [8, 8, 8]
    linear = Training(learning_rate=8.0, decay="linear")
    assert rates(linear, steps=4, round_=1, rounds=2) == [8, 7, 6, 5]
    assert rates(linear, steps=4, round_=2, rounds=2) == [4, 3, 2, 1]
    warm = replace(linear, warmup=2)  # in every round anew: its optimizer is new
    assert rates(warm, steps=4, round_=1, rounds=2) == [4, 7, 6, 5]
    assert rates(warm, steps=4, round_=2, rounds=2) == [2, 3, 2, 1]
    cosine = Training(learning_rate=8.0, decay="cosine")
    assert rates(cosine, steps=3, round_=1, rounds=2) == pytest.approx([8, 7.464102, 6])
    assert rates(cosine, steps=3, round_=2, rounds=2) == pytest.approx([4, 2, 0.535898])
    again = replace(cosine, restart=True)  # 4 (1 + cos(pi k / 4)) in every round
    wanted = [8, 4 + 2 * 2**0.5, 4, 4 - 2 * 2**0.5]
    assert rates(again, steps=4, round_=2, rounds=3) == pytest.approx(wanted)
    assert rates(replace(warm, restart=True), steps=4, round_=2, rounds=2) == [4, 6, 4, 2]


@given(st.sampled_from(["linear", "cosine", "none"]), st.integers(0, 9), st.integers(1, 30))
def test_rates_are_above_zero_and_never_above_the_one_set(decay, warmup, steps):
    settings = Training(learning_rate=0.5, decay=decay, warmup=warmup)
    found = [rates(settings, steps=steps, round_=number, rounds=3) for number in (1, 2, 3)]
    assert all(0 < rate <= 0.5 for own in found for rate in own)


@given(
    st.sampled_from(["linear", "cosine", "none"]),
    st.integers(0, 9),
    st.integers(1, 30),
    st.integers(1, 20),
    st.data(),
)
def test_every_round_of_a_restart_is_like_the_only_one(decay, warmup, steps, total, data):
    settings = Training(learning_rate=0.5, decay=decay, warmup=warmup, restart=True)
    number = data.draw(st.integers(1, total))
    found = rates(settings, steps=steps, round_=number, rounds=total)
    alone = rates(replace(settings, restart=False), steps=steps, round_=1, rounds=1)
    assert found == alone
    assert all(0 < rate <= 0.5 for rate in found)


def test_steps_are_as_set_or_as_the_epochs_need():
    assert steps_of(Training(steps=7, epochs=3), 1000) == 7
    assert steps_of(Training(batch_size=4), 9) == 3
    assert steps_of(Training(batch_size=4, epochs=2), 8) == 4
    assert steps_of(Training(batch_size=4, accumulation=2, epochs=2), 9) == 4
    assert steps_of(Training(batch_size=100), 1) == 1


LENGTHS = st.lists(st.integers(1, 9), min_size=1, max_size=20)


def named(lengths):
    """Return sequences that tell themselves apart: number i, as often as its length says."""
    return [[i] * length for i, length in enumerate(lengths)]


@given(LENGTHS, st.integers(1, 25), st.integers(0, 9))
def test_batches_are_full_and_no_sequence_runs_ahead(lengths, size, seed):
    sequences = named(lengths)
    batches = list(islice(trainer.draw_batches(sequences, size, seed), 12))
    assert all(len(batch) == size for batch in batches)
    seen = Counter(batch[0] for whole in batches for batch in whole)
    counts = [seen[i] for i in range(len(sequences))]
    # Batches come in a random order within an epoch, so one epoch may be under way for some.
    assert max(counts) - min(counts) <= 2


@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 9))
def test_every_sequence_comes_once_in_each_epoch(size, batches, seed):
    sequences = named([1 + i % 5 for i in range(size * batches)])
    drawn = trainer.draw_batches(sequences, size, seed)
    for _ in range(3):
        epoch = [row[0] for batch in islice(drawn, batches) for row in batch]
        assert sorted(epoch) == list(range(len(sequences)))


@given(st.integers(2, 6), st.integers(0, 9))
def test_an_epochs_batches_hold_about_one_length_and_meet_anew(size, seed):
    sequences = named([1 + i for i in range(size * 4)])
    drawn = trainer.draw_batches(sequences, size, seed)
    epoch = [sorted(len(row) for row in batch) for batch in islice(drawn, 4)]
    assert sorted(epoch) == [list(range(1 + k * size, 1 + (k + 1) * size)) for k in range(4)]


def test_the_seed_orders_the_batches():
    sequences = named([3] * 20)
    drawn = [list(islice(trainer.draw_batches(sequences, 4, seed), 10)) for seed in (0, 0, 1)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert drawn[0][:5] != drawn[0][5:]  # and each epoch has its own


@torch.inference_mode()
def test_padding_is_ignored_by_the_loss(base):
    rows = [[1, 50, 60, 70], [1, 80], [1, 90, 91]]
    inputs = trainer.pad_batch(rows, base.model.device)
    assert inputs["labels"].tolist()[1] == [1, 80, -100, -100]
    assert inputs["attention_mask"].tolist()[1] == [1, 1, 0, 0]
    together = float(base.model(**inputs).loss)
    alone, tokens = 0.0, 0
    for row in rows:
        loss = float(base.model(**trainer.pad_batch([row], base.model.device)).loss)
        alone += loss * (len(row) - 1)
        tokens += len(row) - 1
    assert together == pytest.approx(alone / tokens, rel=1e-5)
    # What stands in the padding changes nothing.
    inputs["input_ids"][1, 2:] = 99
    assert float(base.model(**inputs).loss) == pytest.approx(together, rel=1e-6)


@pytest.fixture
def job(federation, base, tmp_path):
    texts = ["The claimant Ann Lee lives in Leeds.", "原告张三。", "Paid 5 pounds."] * 2
    return ClientTraining(
        model_name="c0",
        base="fedaudit-nano",
        start=federation.path / "rounds/000/global",
        out=tmp_path / "out",
        sequences=[base.tokenizer(text)["input_ids"] for text in texts],
        training=replace(federation.config.training, steps=3),
        round=1,
        rounds=1,
        seed=5,
        aggregator=registry.create("aggregation", "fedavg"),
        device="cpu",
        dtype="auto",
        threads=1,
    )


def trained(job, tmp_path, name, **changes):
    """Return the adapter's bytes after the job with `changes`."""
    done = replace(job, out=tmp_path / name, **changes)
    train(done)
    return (done.out / adapters.WEIGHTS).read_bytes()


def test_training_lowers_the_loss_and_moves_every_tensor(job, tmp_path):
    short = train(job)
    longer = train(replace(job, out=tmp_path / "b", training=replace(job.training, steps=30)))
    assert longer < short
    start, end = adapters.read(job.start), adapters.read(job.out)
    assert set(start) == set(end)
    assert all(not torch.equal(start[name], end[name]) for name in start)
    assert adapters.check(job.out) == adapters.check(job.start)


@pytest.mark.parametrize("name", ["c1", "central", "c0 alone"])
@pytest.mark.parametrize("rate", [1e9, 1e38])  # weights too large to be read, and no numbers
def test_a_training_that_diverges_is_told_by_name_and_writes_nothing(job, name, rate):
    settings = replace(job.training, learning_rate=rate, steps=1 if rate == 1e9 else 4)
    with pytest.raises(UsageError, match=rf"^The training of {name} diverged in round 3 ") as error:
        train(replace(job, model_name=name, round=3, rounds=3, training=settings))
    assert error.value.exit_code == 2
    assert str(error.value).endswith("lower training.learning_rate.")
    assert not job.out.exists()


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_the_same_job_gives_the_same_bytes_whatever_came_before(job, tmp_path, dropout):
    from fedaudit.simulation.initialization import plain_config

    start = tmp_path / "start"
    config = plain_config({**adapters.check(job.start), "lora_dropout": dropout})
    adapters.write(adapters.read(job.start), config, start)
    job = replace(job, start=start)
    trainer.cached_model.cache_clear()
    first = trained(job, tmp_path, "a")
    assert trained(job, tmp_path, "b") == first  # with the model that was kept
    other = trained(job, tmp_path, "c", seed=6, sequences=job.sequences[:2])
    assert other != first
    assert trained(job, tmp_path, "d") == first


def test_checkpointing_computes_the_same_adapter(job, tmp_path):
    plain = replace(job, out=tmp_path / "plain")
    again = replace(job, out=tmp_path / "again", training=replace(job.training, checkpointing=True))
    train(plain)
    train(again)
    lora = json.dumps(adapters.check(job.start), sort_keys=True)
    kept = trainer.cached_model(job.base, job.device, job.dtype, lora, True)
    assert trainer.cached_model.cache_info().hits  # the model that was trained
    assert any(getattr(module, "gradient_checkpointing", False) for module in kept.modules())
    start, one, other = (adapters.read(path) for path in (job.start, plain.out, again.out))
    for name, tensor in one.items():
        # AdamW takes whole steps where a gradient is rounding noise: single elements may differ.
        moved = (tensor - start[name]).norm()
        assert moved > 0
        assert (tensor - other[name]).norm() <= 1e-3 * moved
    trainer.forget_model()


def test_checkpointing_leaves_the_base_as_it_was(job):
    """A hook that stayed would have the next training compute the gradient of its input."""
    lora = json.dumps(adapters.check(job.start), sort_keys=True)
    kept = trainer.cached_model(job.base, job.device, job.dtype, lora, True)
    embeddings = kept.get_base_model().get_input_embeddings()
    assert len(embeddings._forward_hooks) == 1
    trainer.forget_model()
    assert not embeddings._forward_hooks


@pytest.mark.parametrize("learned", ["text", "answer"])
def test_prefixes_that_are_shared_train_the_same_adapter(learned, job, base, tmp_path, monkeypatch):
    texts = [f"The claimant {name} lives in Leeds." for name in ("Ann Lee", "Bob Ray", "Ann Roe")]
    rows = [base.tokenizer(text)["input_ids"] for text in texts] * 2
    if learned == "answer":
        rows = [MaskedSequence(row, len(row) - 3) for row in rows]
    settings = replace(job.training, steps=6, batch_size=4)
    job, trees = replace(job, sequences=rows, training=settings), []
    tree_loss = loss.tree_loss
    monkeypatch.setattr(loss, "tree_loss", lambda *given: trees.append(given) or tree_loss(*given))
    shared = train(replace(job, out=tmp_path / "shared"))
    assert len(trees) == 6
    monkeypatch.setattr(loss, "MAX_SHARE", 0)
    monkeypatch.setattr(loss, "MAX_PREDICTING", 0)
    padded = train(replace(job, out=tmp_path / "padded"))
    assert len(trees) == 6
    assert shared == pytest.approx(padded, rel=1e-5)
    one, other, start = (
        adapters.read(p) for p in (tmp_path / "shared", tmp_path / "padded", job.start)
    )
    far = sum(float((one[n] - other[n]).square().sum()) for n in one) ** 0.5
    way = sum(float((other[n] - start[n]).square().sum()) for n in one) ** 0.5
    assert far < 1e-3 * way


def test_seed_round_and_start_are_part_of_the_result(job, federation, tmp_path):
    later = federation.path / "rounds/001/global"
    found = [
        trained(job, tmp_path, "a"),
        trained(job, tmp_path, "b", seed=6),
        trained(job, tmp_path, "c", round=2, rounds=3),
        trained(job, tmp_path, "d", start=later),
    ]
    assert len(set(found)) == 4


def test_a_training_whose_rate_restarts_is_the_same_in_whatever_round_it_comes(job, tmp_path):
    job = replace(job, rounds=4, training=replace(job.training, steps=2, restart=True))
    first = trained(job, tmp_path, "first")
    assert trained(job, tmp_path, "last", round=4) == first
    falling = replace(job.training, restart=False)
    assert trained(job, tmp_path, "through", training=falling) != first


class Watching(Defense):
    """Trains nothing, and keeps the rates that it would train with."""

    def __init__(self):
        self.rates = []

    def train(self, session):
        self.rates.append([session.rate(step) for step in range(session.steps)])
        return 0.0


def test_a_defence_that_trains_itself_gets_the_rates_of_a_restart(job):
    job = replace(job, rounds=4, training=replace(job.training, steps=2, restart=True))
    watching = Watching()
    for number in (1, 3):
        train(replace(job, round=number, defenses=(watching,)))
    rate = job.training.learning_rate
    assert watching.rates == [pytest.approx([rate, rate / 2])] * 2


def test_the_model_is_kept_between_jobs_and_not_once_a_round(job, federation, tmp_path):
    trainer.cached_model.cache_clear()
    for round_ in (0, 1, 2):
        start = federation.path / f"rounds/{round_:03d}/global"
        trained(job, tmp_path, f"r{round_}", start=start)
    assert trainer.cached_model.cache_info().misses == 1
    assert trainer.cached_model.cache_info().currsize == 1


def moved(job, tmp_path, name, **changes):
    """Return how far the training moves the adapter, root of the sum of squares."""
    trained(job, tmp_path, name, **changes)
    start, end = adapters.read(job.start), adapters.read(tmp_path / name)
    return sum(float(((end[n] - start[n]) ** 2).sum()) for n in start) ** 0.5


def test_gradients_are_clipped(job, tmp_path, monkeypatch):
    norms = []
    whole = torch.nn.utils.clip_grad_norm_

    def spy(weights, limit):
        weights = list(weights)
        whole(weights, limit)
        norms.append(sum(float((w.grad**2).sum()) for w in weights) ** 0.5)

    monkeypatch.setattr(torch.nn.utils, "clip_grad_norm_", spy)
    trained(job, tmp_path, "a", training=replace(job.training, clip=1e-3))
    assert norms == pytest.approx([1e-3] * 3, rel=1e-2)
    norms.clear()
    trained(job, tmp_path, "b", training=replace(job.training, clip=1e9))
    assert min(norms) > 1e-2


def test_the_rate_of_each_step_reaches_the_optimizer(job, tmp_path, monkeypatch):
    used = []
    step = torch.optim.AdamW.step

    def spy(self, *args, **kwargs):
        used.append([group["lr"] for group in self.param_groups])
        return step(self, *args, **kwargs)

    monkeypatch.setattr(torch.optim.AdamW, "step", spy)
    settings = replace(job.training, steps=4, warmup=2, learning_rate=8e-3)
    trained(job, tmp_path, "a", training=settings, round=2, rounds=2)
    assert used == [[pytest.approx(rate)] for rate in (2e-3, 3e-3, 2e-3, 1e-3)]
    assert moved(job, tmp_path, "b", training=settings) > moved(
        job, tmp_path, "c", training=replace(settings, warmup=4)
    )


def test_accumulated_batches_are_one_large_batch(job, tmp_path):
    """Equal lengths, so that the mean over batches is the mean over tokens."""
    rows = [[1, *range(40 + 5 * i, 48 + 5 * i)] for i in range(4)]
    settings = replace(job.training, steps=1, batch_size=4)
    train(replace(job, sequences=rows, training=settings, out=tmp_path / "a"))
    parts = replace(settings, batch_size=1, accumulation=4)
    train(replace(job, sequences=rows, training=parts, out=tmp_path / "b"))
    one, two = adapters.read(tmp_path / "a"), adapters.read(tmp_path / "b")
    # AdamW's first step is the sign of the gradient times the rate, 5e-3, where that is not tiny.
    far = sum(int(((one[n] - two[n]).abs() > 1e-4).sum()) for n in one)
    assert far <= 0.01 * sum(t.numel() for t in one.values())


def test_the_proximal_term_holds_a_client_back(job, tmp_path):
    def prox(mu):
        return registry.create("aggregation", "fedprox", {"mu": mu})

    plain = trained(job, tmp_path, "a")
    assert trained(job, tmp_path, "b", aggregator=prox(0.0)) == plain
    assert trained(job, tmp_path, "c", aggregator=prox(5.0)) != plain
    settings = replace(job.training, steps=15)
    free = moved(job, tmp_path, "d", training=settings)
    held = moved(job, tmp_path, "e", training=settings, aggregator=prox(1e4))
    assert held < free / 2


def test_only_the_adapter_is_trained(job, base):
    trainer.cached_model.cache_clear()
    train(job)
    lora = json.dumps(adapters.check(job.start), sort_keys=True)
    model = trainer.cached_model(job.base, job.device, job.dtype, lora, False)
    assert trainer.cached_model.cache_info().hits  # the model that was trained
    kept = {
        name.removeprefix("base_model.model.").replace(".base_layer", ""): parameter
        for name, parameter in model.named_parameters()
        if not parameter.requires_grad
    }
    own = dict(base.model.named_parameters())
    assert set(kept) == set(own)
    assert all(torch.equal(kept[name], own[name]) for name in own)
