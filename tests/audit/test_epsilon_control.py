"""What `dp audit` takes as the same training without noise, on federations written by hand."""

import shutil
from dataclasses import replace
from pathlib import Path

import handmade
import pytest
from command import Command
from test_epsilon_audit_command import answer_as, bounds, report

from fedaudit.audit import epsilon
from fedaudit.federation import adapters, manifest
from fedaudit.system.files import sha256

AUDIT = ("dp", "audit", "coins.json", "--target", "run", "--epsilon", 1, "--quiet")


@pytest.fixture
def run(monkeypatch, capfd, tmp_path):
    monkeypatch.setattr(epsilon, "DRAWS", 5)
    monkeypatch.chdir(tmp_path)
    lines = [f'{{"text": "Call {n}: the claimant asked the court for it."}}' for n in range(6)]
    Path("c0.jsonl").write_text("\n".join(lines) + "\n")
    told = Command(monkeypatch, capfd)
    made = ("--out", "coins.json", "--corpus", "c0.jsonl", "--count", 60, "--seed", 5)
    assert told("dp", "make", *made).code == 0
    assert told("dp", "plant", "coins.json", "--records", "c0.jsonl", "--out", "p.jsonl").code == 0
    return told


def federation(place, idle=(), **options):
    """Write a federation whose c0 has the canaries, and sent back what it got if it is idle."""
    made = handmade.write(Path(place), clients=3, rounds=2, **options)
    for number in idle:
        start = made.path / f"rounds/{number - 1:03d}/global" / adapters.WEIGHTS
        shutil.copy(start, made.path / f"rounds/{number:03d}/clients/c0" / adapters.WEIGHTS)
    handmade.named(made.path)
    (made.path / "data").mkdir()
    shutil.copy("p.jsonl", made.path / "data/c0.jsonl")
    whole = manifest.read(made.path)
    clients = (replace(whole.clients[0], data="data/c0.jsonl"), *whole.clients[1:])
    files = {**whole.files, "data/c0.jsonl": sha256(made.path / "data/c0.jsonl")}
    manifest.write(replace(whole, clients=clients, files=files), made.path)


def test_a_client_that_did_not_train_is_refused_in_both_federations(run, monkeypatch):
    answer_as(monkeypatch, ["control/"])
    federation("run", absent={1: ("c0",), 2: ("c0",)}, seed=1)
    federation("control", seed=2)
    says = "c0 took part in no round of run up to round 2"
    run.refused(3, *AUDIT, "--noiseless", "control", "--out", "o", says=says)
    shutil.rmtree("run")
    federation("run", absent={1: ("c0",)}, seed=1)
    run.refused(3, *AUDIT, "--round", 1, "--out", "o", says="of run up to round 1")
    shutil.rmtree("run")
    federation("run", idle=(1, 2), seed=1)
    says = "run c0 sent back the adapter that it got in rounds 1 to 2: it trained on no canary"
    run.refused(3, *AUDIT, "--noiseless", "control", "--out", "o", says=says)
    shutil.rmtree("run")
    federation("run", seed=1)
    shutil.rmtree("control")
    federation("control", idle=(1, 2), seed=2)
    says = "In control c0 sent back the adapter"
    run.refused(3, *AUDIT, "--noiseless", "control", "--out", "o", says=says)


def test_other_participants_are_another_training(run, monkeypatch):
    answer_as(monkeypatch, ["control/"])
    federation("run", absent={2: ("c0", "c1")}, seed=1)
    federation("control", absent={2: ("c1",)}, seed=2)
    says = "its list of participants in round 2 is c0, c2, that of run is c2."
    run.refused(3, *AUDIT, "--noiseless", "control", "--out", "o", says=says)
    # Who comes after the audited round has no part in it.
    words = ("--round", 1, "--noiseless", "control")
    assert run(*AUDIT, *words, "--out", "p").code == 0


@pytest.mark.parametrize(
    ("words", "adapter"),
    [
        (("--round", 1), "global"),
        (("--adapter", "run/rounds/001/global"), "global"),
        (("--adapter", "run/rounds/001/clients/c0"), "clients/c0"),
    ],
)
def test_the_control_is_scored_at_the_audited_round(run, monkeypatch, words, adapter):
    if "--adapter" in words:
        made = ("--out", "other.json", "--corpus", "c0.jsonl", "--count", 60, "--seed", 5)
        assert run("dp", "make", *made, "--position", "outsider").code == 0
        Path("other.json").replace("coins.json")
        Path("p.jsonl").unlink()
        plant = ("coins.json", "--records", "c0.jsonl", "--out", "p.jsonl")
        assert run("dp", "plant", *plant).code == 0
    federation("run", seed=1)
    federation("control", seed=2)
    audit = (*AUDIT, *words, "--noiseless", "control")
    answer_as(monkeypatch, ["control/rounds/002"])
    assert run(*audit, "--out", "o").code == 7
    found = report("o")
    assert "without noise the audit proves only 0" in found["verdict"]["reasons"][0]
    answer_as(monkeypatch, [f"control/rounds/001/{adapter}"])
    assert run(*audit, "--out", "p").code == 0
    assert max(bounds(report("p"), "noiseless").values()) > 1
