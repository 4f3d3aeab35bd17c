"""A client's updates along canaries' own gradients: made by hand, and from a real training."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from command import Command
from test_epsilon_audit_command import report, run, settings

from fedaudit.api.errors import InputError
from fedaudit.api.progress import no_progress
from fedaudit.api.records import Target
from fedaudit.audit import canary_scores
from fedaudit.canaries import coin_file
from fedaudit.engine.local import LocalEngine
from fedaudit.engine.training.gradients import unit_gradients
from fedaudit.federation import adapters
from fedaudit.metrics.privacy.roc import auc
from fedaudit.simulation.runner import simulate


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    """Return a folder with coins, and a federation that trained on those canaries that are in."""
    here = tmp_path_factory.mktemp("gradients")
    for name in ("c0", "c1"):
        rows = [
            {"text": f"Call from {name} {n}: all.", "pii": [], "group": f"{name}/{n}"}
            for n in range(6)
        ]
        (here / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(here)
        run(patch, "dp", "make", "--out", "coins.json", "--corpus", "c0.jsonl", "--count", 40,
            "--seed", 5, "--position", "server", "--score", "gradient",
            "--prefix-words", 2, "--suffix-tokens", 6)  # fmt: skip
        run(patch, "dp", "plant", "coins.json", "--records", "c0.jsonl", "--out", "c0p.jsonl")
    every = "".join((here / name).read_text() for name in ("c0p.jsonl", "c1.jsonl"))
    (here / "all.jsonl").write_text(every)
    asked = settings(here / "all.jsonl")
    twice = replace(asked, training=replace(asked.training, steps=0, epochs=2))
    simulate(twice, here / "run", listener=lambda event: None)
    return here


def moved(engine, start, canaries, amounts, place):
    """Write the adapter that so much of each canary's gradient makes of `start`."""
    tokenizer = engine.base.tokenizer
    rows = [[*tokenizer(one.text)["input_ids"], tokenizer.eos_token_id] for one in canaries]
    target = Target(name="start", adapter=str(start))
    change = -(torch.tensor(amounts, dtype=torch.float32) @ unit_gradients(engine, target, rows))
    tensors, first = adapters.read(start), 0
    for name in sorted(tensors, key=lambda name: (name.partition(".lora_")[0], name)):
        size = tensors[name].numel()
        own = change[first : first + size].reshape(tensors[name].shape)
        tensors[name], first = tensors[name].float() + own, first + size
    adapters.write(tensors, json.loads((start / adapters.CONFIG).read_text()), place)
    return str(place)


def test_what_an_update_is_made_of_is_found(planted, fresh_base, tmp_path):
    coins, engine = coin_file.read(planted / "coins.json"), LocalEngine(fresh_base)
    start = planted / "run" / "rounds" / "001" / "global"
    update = moved(engine, start, coins.canaries, np.where(coins.coins, 0.5, 0.0), tmp_path / "u")
    pairs = [(update, str(start))]
    found = canary_scores.score_gradients(engine, pairs, coins.canaries, [], no_progress)
    inside = [v for v, coin in zip(found, coins.coins, strict=True) if coin]
    outside = [v for v, coin in zip(found, coins.coins, strict=True) if not coin]
    assert auc(inside, outside).value == 1.0
    # Gradients are alike, so that products alone would not tell these from those as well.
    assert min(inside) - max(outside) > 0.5 * (np.mean(inside) - np.mean(outside))
    # The client's other records are further directions, and rounds add up.
    twice = canary_scores.score_gradients(
        engine, pairs * 2, coins.canaries, ["Call: the end."], no_progress
    )
    assert np.corrcoef(found, twice)[0, 1] > 0.999
    with pytest.raises(InputError, match="nothing changed"):
        canary_scores.score_gradients(
            engine, [(str(start), str(start))], coins.canaries, [], no_progress
        )


def test_an_audit_by_gradients_from_end_to_end(planted, monkeypatch, capfd, tmp_path):
    monkeypatch.chdir(planted)
    told = Command(monkeypatch, capfd)
    shutil.copytree("run", "noiseless", dirs_exist_ok=True)
    key = coin_file.commitment(coin_file.read(Path("coins.json")))
    shown = told("dp", "audit", "coins.json", "--target", "run", "--epsilon", 8, "--quiet",
                 "--commitment", key, "--noiseless", "noiseless", "--device", "cpu",
                 "--out", tmp_path / "a")  # fmt: skip
    assert shown.code in (0, 7), shown
    found = report(tmp_path / "a")
    assert found["run"]["config"]["scorer"] == coin_file.SCORERS["gradient"]
    areas = [row for row in found["measurements"] if row["metric"] == "auc"]
    assert {row["scope"]["position"] for row in areas} == {"server"}
    assert len({row["value"] for row in areas}) == 1  # the control is the same federation here
    # What the updates hold of it is found: these few steps have no noise.
    assert areas[0]["value"] > 0.7


def test_who_has_no_weights_is_told_so(planted, monkeypatch, capfd):
    monkeypatch.chdir(planted)
    told = Command(monkeypatch, capfd)
    shown = told("dp", "audit", "coins.json", "--target", "run", "--epsilon", 8, "--quiet",
                 "--engine", "vllm")  # fmt: skip
    assert shown.code == 2
    assert "needs the model's weights" in shown.err
