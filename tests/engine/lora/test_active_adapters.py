"""Adapters that PEFT attached: the last few stay, and none is taken for what it was before."""

import pytest
import tiny_models
import torch

from fedaudit.api.records import Target
from fedaudit.engine.local import LocalEngine
from fedaudit.engine.lora import active

BASE = Target(name="base")
ROWS = [(1, 9, 30, 41), (5, 6, 7)]


@pytest.fixture
def engine(base):
    made = LocalEngine(tiny_models.llama(base.tokenizer))
    made.merging.possible = False
    return made


def target(folder):
    return Target(name="tuned", adapter=str(folder))


def test_the_last_ones_stay(engine, tmp_path, monkeypatch):
    monkeypatch.setattr(active, "MAX_ADAPTERS", 3)
    folders = [
        tiny_models.write(engine.base, tmp_path / str(seed), r=2, seed=seed) for seed in range(5)
    ]
    first = [engine.score(target(folder), ROWS) for folder in folders]
    assert len({str(one) for one in first}) == 5
    assert list(engine.model.peft_config) == ["adapter2", "adapter3", "adapter4"]
    engine.score(target(folders[2]), ROWS)
    engine.score(target(folders[0]), ROWS)
    assert set(engine.model.peft_config) == {"adapter2", "adapter4", "adapter5"}
    assert [engine.score(target(folder), ROWS) for folder in folders] == first


def test_one_that_was_written_anew_is_read_again(engine, tmp_path):
    folder = tiny_models.write(engine.base, tmp_path / "one", r=2, seed=1)
    before = engine.score(target(folder), ROWS)
    tiny_models.write(engine.base, folder, r=3, seed=2)
    assert engine.score(target(folder), ROWS) != before
    config = folder / "adapter_config.json"
    changed = engine.score(target(folder), ROWS)
    text = config.read_text()
    config.write_text(text.replace('"lora_alpha": 8', '"lora_alpha": 80'))
    assert config.read_text() != text
    assert engine.score(target(folder), ROWS) != changed


def test_what_is_attached_does_not_make_a_model_large(engine, tmp_path, monkeypatch):
    monkeypatch.setattr("fedaudit.engine.device.MAX_PARAMETERS", 10**9)
    seen, threads = [], torch.get_num_threads()
    monkeypatch.setattr(torch, "set_num_threads", seen.append)
    engine.small = True
    folder = tiny_models.write(engine.base, tmp_path / "one", r=2, seed=1)
    engine.score(target(folder), ROWS)
    monkeypatch.setattr("fedaudit.engine.device.MAX_PARAMETERS", 1)
    engine.score(target(folder), ROWS)
    engine.score(BASE, ROWS)
    assert seen == [1, threads] * 3
