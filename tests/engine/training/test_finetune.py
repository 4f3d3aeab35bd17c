import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
import tiny_models
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.api.errors import InputError, UsageError
from fedaudit.api.records import Target
from fedaudit.engine.local import LocalEngine
from fedaudit.engine.lora import adapter
from fedaudit.engine.training.finetune import (
    FinetuneConfig,
    TrainingExample,
    training_batches,
    tune,
)
from fedaudit.federation import adapters

LESSONS = [
    TrainingExample((1, 5, 9), (20, 21)),
    TrainingExample((7,), (30, 31, 32)),
    TrainingExample((4, 4, 4, 4), (40,)),
] * 4
QUICK = FinetuneConfig(rank=3, alpha=6, learning_rate=1e-2, batch_size=4)
ROWS = [(1, 5, 9, 20, 21, 8), (11, 12, 13), (7, 30, 31, 32)]


def model(tokenizer, kind):
    return tiny_models.gpt2(tokenizer) if kind == "gpt2" else tiny_models.llama(tokenizer)


def targets(kind):
    return ["c_attn", "c_proj"] if kind == "gpt2" else ["q_proj", "down_proj"]


@pytest.fixture(params=["llama", "gpt2"])
def made(base, tmp_path, request):
    """Return an engine on a tiny model, and an adapter of mixed ranks and scalings on it."""
    loaded = model(base.tokenizer, request.param)
    folder = tiny_models.write(
        loaded,
        tmp_path / "global",
        r=4,
        lora_alpha=12,
        target_modules=targets(request.param),
        rank_pattern={targets(request.param)[1]: 2},
    )
    return LocalEngine(loaded), folder


def written(done, folder):
    adapters.write(done.tensors, done.config, folder)
    return Target(name="copy", adapter=str(folder))


def logits(loaded, row):
    with torch.inference_mode():
        return loaded.model(input_ids=torch.tensor([row])).logits[0]


def products(folder):
    """Return scaling * B A of every module, in float64."""
    found = adapter.read(folder)
    return {
        name: found.scales[name] * (b.double() @ a.double()) for name, (a, b) in found.pairs.items()
    }


def parts(folder, done, rank):
    """Return the products of the first rows of a stack, and of the last `rank`."""
    found = adapter.read(folder)
    old, new = {}, {}
    for name, (a, b) in found.pairs.items():
        scale = found.scales[name]
        old[name] = scale * (b[:, :-rank].double() @ a[:-rank].double())
        new[name] = scale * (b[:, -rank:].double() @ a[-rank:].double())
    return old, new


def test_the_copy_is_base_and_global_and_new_adapter_together(made, tmp_path):
    engine, folder = made
    plain = [logits(engine.base, row) for row in ROWS]
    done = tune(engine, folder, LESSONS, QUICK)
    after = [logits(engine.base, row) for row in ROWS]
    assert all(torch.equal(a, b) for a, b in zip(plain, after, strict=True))
    copy = written(done, tmp_path / "copy")
    _, new = parts(tmp_path / "copy", done, QUICK.rank)
    scores = engine.score(copy, ROWS)

    # By hand: both adapters' products added to the base's own weights.
    layers = dict(engine.base.model.named_modules())
    for name, change in products(folder).items():
        layer = getattr(layers[name], "base_layer", layers[name])
        whole = change + new[name]
        gpt2 = type(layer).__name__ == "Conv1D"
        layer.weight.data = (layer.weight.double() + (whole.T if gpt2 else whole)).float()
    wanted = engine.score(Target(name="base"), ROWS)
    for row, other in zip(scores, wanted, strict=True):
        assert row == pytest.approx(other, abs=2e-5)


def test_the_global_part_is_kept_and_the_new_part_has_learnt(made, tmp_path):
    engine, folder = made
    done = tune(engine, folder, LESSONS, replace(QUICK, epochs=12))
    written(done, tmp_path / "copy")
    old, new = parts(tmp_path / "copy", done, QUICK.rank)
    for name, product in products(folder).items():
        torch.testing.assert_close(old[name], product, rtol=1e-6, atol=1e-7)
        assert new[name].abs().max() > 1e-4
    assert len(done.losses) == 36
    assert sum(done.losses[-3:]) < 0.9 * sum(done.losses[:3])  # one epoch each


def test_the_old_rows_are_the_same_to_the_last_bit_where_scalings_agree(base, tmp_path):
    loaded = tiny_models.llama(base.tokenizer)
    folder = tiny_models.write(
        loaded, tmp_path / "global", r=4, lora_alpha=8, target_modules=["q_proj"]
    )
    done = tune(LocalEngine(loaded), folder, LESSONS, QUICK)  # 6 / 3 is 8 / 4
    for name, (a, b) in adapter.read(folder).pairs.items():
        stem = f"base_model.model.{name}"
        assert torch.equal(done.tensors[f"{stem}.lora_A.weight"][:4], a)
        assert torch.equal(done.tensors[f"{stem}.lora_B.weight"][:, :4], b)


def test_the_first_loss_is_that_of_the_answers_alone(made):
    engine, folder = made
    done = tune(engine, folder, LESSONS[:3], FinetuneConfig(rank=2, alpha=2, batch_size=3))
    target = Target(name="tuned", adapter=str(folder))
    values = []
    for one in LESSONS[:3]:
        [row] = engine.score(target, [one.prompt + one.answer])
        values += row[len(one.prompt) - 1 :]
    assert len(values) == 6
    assert done.losses == [pytest.approx(-sum(values) / 6, abs=1e-5)]


def test_one_step_is_adams(base, tmp_path):
    """The first step of Adam moves every weight by the learning rate against its gradient."""
    loaded = tiny_models.llama(base.tokenizer)
    folder = tiny_models.write(loaded, tmp_path / "g", r=2, lora_alpha=4, target_modules=["v_proj"])
    tuning = FinetuneConfig(rank=2, alpha=4, learning_rate=1e-3, batch_size=99, clip=1e9)
    done = tune(LocalEngine(loaded), folder, LESSONS, tuning)
    for name, tensor in done.tensors.items():
        if name.endswith("lora_B.weight"):
            new = tensor[:, 2:]  # they began at zero
            assert new.abs().max() <= 1.001e-3
            assert (new.abs() - 1e-3).abs().median() < 1e-5


def test_without_an_adapter_every_linear_layer_but_the_output_gets_one(base, tmp_path):
    engine = LocalEngine(tiny_models.llama(base.tokenizer))
    for _ in range(2):  # the second time PEFT's layers may stand around the base's
        done = tune(engine, None, LESSONS, QUICK)
        names = {name.split(".")[-3] for name in done.tensors}
        assert names == {f"{x}_proj" for x in ("q", "k", "v", "o", "gate", "up", "down")}
        target = written(done, tmp_path / "copy")
        rows = [one.prompt + one.answer for one in LESSONS[:3]]
        before, after = (
            sum(sum(row) for row in engine.score(t, rows)) for t in (Target(name="base"), target)
        )
        assert after > before
    assert "lm_head" not in str(done.config["target_modules"])


def test_it_can_be_done_again_and_the_seed_matters(made):
    engine, folder = made
    first, again = (tune(engine, folder, LESSONS, QUICK) for _ in range(2))
    assert first.losses == again.losses
    assert all(torch.equal(first.tensors[n], again.tensors[n]) for n in first.tensors)
    other = tune(
        engine, folder, LESSONS, FinetuneConfig(rank=3, alpha=6, learning_rate=1e-2, seed=1)
    )
    assert any(not torch.equal(first.tensors[n], other.tensors[n]) for n in first.tensors)


def test_the_engine_goes_on_as_before(made, tmp_path, monkeypatch):
    engine, folder = made
    target = Target(name="tuned", adapter=str(folder))
    before = engine.score(target, ROWS)
    bare = engine.score(Target(name="base"), ROWS)
    tune(engine, folder, LESSONS, QUICK)
    # Weights that overflow are refused when they are read: here they stand for a loss that does.
    monkeypatch.setattr(adapters, "LARGEST", float("inf"))
    tensors = {name: tensor * 1e37 for name, tensor in adapters.read(folder).items()}
    adapters.write(tensors, adapters.check(folder), tmp_path / "huge")
    with pytest.raises(UsageError, match="no longer a number"):
        tune(engine, tmp_path / "huge", LESSONS, QUICK)
    assert engine.score(target, ROWS) == before
    assert engine.score(Target(name="base"), ROWS) == bare


def test_progress_counts_lessons(made):
    engine, folder = made
    told = []
    tune(
        engine, folder, LESSONS[:5], FinetuneConfig(rank=2, batch_size=2, epochs=2),
        lambda done, total: told.append((done, total)),
    )  # fmt: skip
    assert [total for _, total in told] == [10] * 6
    assert [done for done, _ in told][-1] == 10
    assert [done for done, _ in told] == sorted({done for done, _ in told})


@given(st.lists(st.integers(1, 9), max_size=40), st.integers(1, 7), st.integers(1, 3))
def test_every_lesson_is_in_one_batch_of_each_epoch(lengths, size, epochs):
    found = list(training_batches(lengths, FinetuneConfig(batch_size=size, epochs=epochs)))
    each = -(-len(lengths) // size)
    assert len(found) == each * epochs
    for epoch in range(epochs):
        some = found[epoch * each : (epoch + 1) * each]
        assert sorted(index for batch in some for index in batch) == list(range(len(lengths)))
    # Of about one length: sorted by their shortest, no batch reaches over the next one's shortest.
    spans = sorted((min(lengths[i] for i in b), max(lengths[i] for i in b)) for b in found[:each])
    assert all(a[1] <= b[0] for a, b in pairwise(spans))


def test_an_adapter_of_another_base_or_kind_is_refused(base, made, tmp_path):
    engine, folder = made
    other = tiny_models.write(
        tiny_models.llama(base.tokenizer, hidden=64), tmp_path / "other", target_modules=["q_proj"]
    )
    with pytest.raises(InputError, match="another base"):
        tune(engine, other, LESSONS, QUICK)
    config = json.loads((folder / adapters.CONFIG).read_text())
    Path(folder / adapters.CONFIG).write_text(json.dumps({**config, "use_dora": True}))
    with pytest.raises(InputError, match="not plain LoRA"):
        tune(engine, folder, LESSONS, QUICK)
    assert len(engine.score(Target(name="base"), ROWS)) == 3
