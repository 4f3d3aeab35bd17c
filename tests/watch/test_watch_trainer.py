"""The test within a training: as the command's, and nothing of the training changes."""

import json
import random
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from peft import LoraConfig, set_peft_model_state_dict
from transformers import Trainer, TrainingArguments

from fedaudit.api.engine import EngineWrapper
from fedaudit.api.errors import InputError, UsageError
from fedaudit.api.records import Target
from fedaudit.engine import environment
from fedaudit.engine.fake import FakeEngine
from fedaudit.engine.loading.loader import load_base, with_adapter
from fedaudit.engine.local import LocalEngine
from fedaudit.federation import adapters
from fedaudit.report.document import read, validate
from fedaudit.watch.member import LimitPassed, LiveModel, MemberWatch, WatchSettings
from fedaudit.watch.rounds import RoundScorer, RoundScores
from fedaudit.watch.trainer import watch

NAMES = ["Ann Lee", "Bo Ash", "Cy Orr", "Di Fox", "Ed Ray", "Flo Kay", "Guy Day", "Ida May"]
TUNED, BASE = Target(name="round", adapter="in training"), Target(name="base")


@pytest.fixture
def files(tmp_path):
    rng = random.Random(4)

    def text():
        digits = " ".join(str(rng.randrange(1000, 9999)) for _ in range(6))
        return f"{rng.choice(NAMES)} paid for {digits}."

    lines = [json.dumps({"text": text()}) + "\n" for _ in range(80)]
    ours, aside = tmp_path / "ours.jsonl", tmp_path / "aside.jsonl"
    ours.write_text("".join(lines[:40]))
    aside.write_text("".join(lines[40:]))
    return {"ours": ours, "held_out": aside, "out": tmp_path / "out"}


def peft_model(base, **options):
    config = LoraConfig(r=8, lora_alpha=16, target_modules=["q_proj", "v_proj", "up_proj"],
                        task_type="CAUSAL_LM", **options)  # fmt: skip
    torch.manual_seed(0)
    return with_adapter(base.model, config, "default", trainable=True)


def test_a_model_in_training_has_the_scores_of_its_adapter_on_disk(
    base, fresh_base, write_adapter, tmp_path, files
):
    folder = write_adapter(base, tmp_path / "lora")
    config = LoraConfig(**{k: v for k, v in adapters.read_config(folder).items()
                           if k in ("r", "lora_alpha", "target_modules", "task_type")})  # fmt: skip
    model = with_adapter(fresh_base.model, config, "default", trainable=True)
    set_peft_model_state_dict(model, adapters.read(folder))
    model.train()
    records = WatchSettings(**files).read()
    live = RoundScorer(LiveModel(model, fresh_base.tokenizer), records).score(TUNED, BASE)
    assert model.training
    slow = RoundScorer(LocalEngine(base), records).score(
        Target(name="tuned", adapter=str(folder)), BASE
    )
    assert live.own == pytest.approx(slow.own, abs=1e-4)
    assert live.held_out == pytest.approx(slow.held_out, abs=1e-4)
    assert max(map(abs, live.own)) > 0.01


def trained(base, model, files, tmp_path, steps, callbacks):
    texts = [json.loads(line)["text"] for line in files["ours"].read_text().splitlines()]
    rows = [base.tokenizer(text)["input_ids"] for text in texts]
    length = min(map(len, rows))
    data = [{"input_ids": ids[:length], "labels": ids[:length]} for ids in rows]
    arguments = TrainingArguments(
        tmp_path / "trainer", max_steps=steps, per_device_train_batch_size=8, report_to=[],
        learning_rate=1e-2, warmup_steps=10, use_cpu=True, seed=1,
        save_strategy="no", disable_tqdm=True,
    )  # fmt: skip
    trainer = Trainer(model=model, args=arguments, train_dataset=data,
                      processing_class=base.tokenizer, callbacks=callbacks)  # fmt: skip
    trainer.train()
    return {name: tensor.clone() for name, tensor in model.state_dict().items() if "lora" in name}


def test_a_trainer_stops_before_it_trains_on_a_model_that_has_learnt_too_much(
    fresh_base, files, tmp_path, capsys
):
    model = peft_model(fresh_base)
    trained(fresh_base, model, files, tmp_path, 120, [watch(**files)])
    assert "nothing to test yet" in capsys.readouterr().err
    assert not (files["out"] / "report.json").exists()
    before = model.state_dict()[next(n for n in model.state_dict() if "lora_B" in n)].clone()
    # A new process would read the report again, as a new callback does.
    with pytest.raises(LimitPassed, match=r"after round 1 at least \d+ .* of 40 records"):
        trained(fresh_base, model, files, tmp_path, 1, [watch(**files)])
    after = model.state_dict()[next(n for n in model.state_dict() if "lora_B" in n)]
    assert torch.equal(before, after)
    report = read(files["out"] / "report.json")
    validate(report)
    assert report["verdict"]["status"] == "fail"
    with pytest.raises(LimitPassed):
        trained(fresh_base, model, files, tmp_path, 1, [watch(**files)])
    rows = read(files["out"] / "report.json")["measurements"]
    assert {row["scope"]["test"] for row in rows} == {1, 2}
    lows = [max(r["low"] for r in rows if r["scope"]["test"] == test) for test in (1, 2)]
    assert lows[1] < lows[0]  # the second test of the same model has less of the level


def test_nothing_of_a_training_changes(base, files, tmp_path):
    results = []
    for callbacks in ([], [watch(**files)]):
        fresh = load_base("fedaudit-nano", device="cpu")
        model = peft_model(fresh, lora_dropout=0.1)
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if "lora_B" in name:
                    parameter.add_(0.01)
        results.append(trained(fresh, model, files, tmp_path, 3, callbacks))
    assert results[0].keys() == results[1].keys()
    assert all(torch.equal(results[0][name], results[1][name]) for name in results[0])


def test_what_cannot_be_tested(base, files):
    with pytest.raises(UsageError, match="needs a PEFT model"):
        LiveModel(base.model, base.tokenizer)
    with pytest.raises(InputError, match="none"):
        watch(**{**files, "ours": Path("none.jsonl")})


def test_a_training_of_several_processes_is_refused(base, files):
    callback = watch(**files)
    with pytest.raises(UsageError, match="This training has 2 processes"):
        callback.on_train_begin(SimpleNamespace(world_size=2), None, None, model=base.model)
    assert not files["out"].exists()


def test_frozen_weights_of_an_adapter_stay_frozen(fresh_base, files):
    model = peft_model(fresh_base)
    frozen = [name for name, _ in model.named_parameters() if "lora_A" in name]
    for name, weight in model.named_parameters():
        if "lora_A" in name:
            weight.requires_grad_(False)
    before = {name: weight.requires_grad for name, weight in model.named_parameters()}
    RoundScorer(LiveModel(model, fresh_base.tokenizer), WatchSettings(**files).read()).score(
        TUNED, BASE
    )
    assert frozen
    assert {name: weight.requires_grad for name, weight in model.named_parameters()} == before


def test_a_limit_once_passed_stays_passed_whatever_model_comes_next(files, monkeypatch):
    """An untrained adapter, as after a training that was taken up again, says nothing new."""
    learnt = RoundScores(range(40, 80), range(40))
    untrained = RoundScores([0.0] * 40, [0.0] * 40)
    for scores in (learnt, untrained):
        monkeypatch.setattr(RoundScorer, "score", lambda *_, given=scores: given)
        engine = FakeEngine(lambda *_: "")
        with pytest.raises(LimitPassed, match="after round 1"):
            MemberWatch(WatchSettings(**files)).test(engine, TUNED, BASE, "base", "cpu")


def test_an_untrained_adapter_is_not_counted_before_the_first_test(files, monkeypatch):
    monkeypatch.setattr(RoundScorer, "score", lambda *_: RoundScores([0.0] * 40, [0.0] * 40))
    member = MemberWatch(WatchSettings(**files))
    said = member.test(FakeEngine(lambda *_: ""), TUNED, BASE, "base", "cpu")
    assert "nothing to test yet" in said
    assert not files["out"].exists()


def test_a_report_names_the_device_that_the_model_is_on(files, monkeypatch):
    named = []
    monkeypatch.setattr(RoundScorer, "score", lambda *_: RoundScores(range(40), range(40)))
    described = environment.describe("cpu")
    monkeypatch.setattr(environment, "describe", lambda device: named.append(device) or described)
    member = MemberWatch(WatchSettings(**files))
    member.test(FakeEngine(lambda *_: ""), TUNED, BASE, "base", "cuda:1")
    assert named == ["cuda:1"]


class Counting(EngineWrapper):
    def __init__(self, engine):
        super().__init__(engine)
        self.scored = []

    def score(self, target, sequences, **options):
        self.scored.append(target.name)
        return super().score(target, sequences, **options)


def test_the_base_is_read_in_the_first_round_only(base, write_adapter, tmp_path, files):
    member, scored = MemberWatch(WatchSettings(**files)), []
    for number in (1, 2):
        engine = Counting(LocalEngine(base))
        folder = write_adapter(base, tmp_path / f"lora{number}", seed=number)
        member.test(
            engine, Target(name=f"round {number}", adapter=str(folder)), BASE, "nano", "cpu"
        )
        scored += engine.scored
    assert scored == ["base", "round 1", "round 2"]
    rows = read(files["out"] / "report.json")["measurements"]
    assert {row["scope"]["test"] for row in rows} == {1, 2}


def test_the_report_of_other_records_is_not_gone_on_with(base, write_adapter, tmp_path, files):
    settings = WatchSettings(**files)
    tuned = Target(name="tuned", adapter=str(write_adapter(base, tmp_path / "lora")))
    said = MemberWatch(settings).test(LocalEngine(base), tuned, BASE, "fedaudit-nano", "cpu")
    assert said.startswith("watch: 40 others are too few")
    with pytest.raises(InputError, match="other records, or of another limit"):
        MemberWatch(WatchSettings(**files, limit=0.3))
    files["ours"].write_text(files["ours"].read_text() + '{"text": "One more record of ours."}\n')
    with pytest.raises(InputError, match="other records"):
        MemberWatch(WatchSettings(**files))
