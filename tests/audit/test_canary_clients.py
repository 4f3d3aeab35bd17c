"""Canaries of a client that trained nothing prove nothing, whatever the model does not say."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import handmade
import pytest
from command import Command
from test_exposure_command import answer_as, report

from fedaudit.federation import adapters, manifest
from fedaudit.system.files import sha256

MEASURE = ("canary", "measure", "can.json", "--quiet", "--space-limit", 10, "--references", 200)


@pytest.fixture
def run(monkeypatch, capfd, tmp_path):
    monkeypatch.chdir(tmp_path)
    lines = [json.dumps({"text": f"Case {n}: the court heard the claim."}) for n in range(9)]
    Path("r.jsonl").write_text("\n".join(lines) + "\n")
    told = Command(monkeypatch, capfd)
    made = ("--client", "c0", "--count", 90, "--times", 4, "--controls", 20, "--seed", 1)
    assert told("canary", "make", "--out", "can.json", "--corpus", "r.jsonl", *made).code == 0
    planted = ("--records", "r.jsonl", "--client", "c0", "--out", "p.jsonl")
    assert told("canary", "plant", "can.json", *planted).code == 0
    answer_as(monkeypatch, change=0.5)
    return told


def federation(idle=(), **options):
    """Write a federation whose c0 was given the canaries, and sent back what it got if idle."""
    made = handmade.write(Path("fed"), clients=3, rounds=2, **options)
    for number in idle:
        start = Path(f"fed/rounds/{number - 1:03d}/global") / adapters.WEIGHTS
        shutil.copy(start, Path(f"fed/rounds/{number:03d}/clients/c0") / adapters.WEIGHTS)
    handmade.named(made.path)
    Path("fed/data").mkdir(exist_ok=True)
    shutil.copy("p.jsonl", "fed/data/c0.jsonl")
    whole = manifest.read(made.path)
    clients = (replace(whole.clients[0], data="data/c0.jsonl"), *whole.clients[1:])
    files = {**whole.files, "data/c0.jsonl": sha256(Path("fed/data/c0.jsonl"))}
    manifest.write(replace(whole, clients=clients, files=files), made.path)
    return "--target", "fed"


def test_canaries_of_a_client_that_trained_pass(run):
    assert run(*MEASURE, *federation(), "--out", "o").code == 0
    found = report("o")
    assert not [limit for limit in found["limits"] if "c0" in limit]


@pytest.mark.parametrize(
    ("absent", "words", "last"),
    [
        ({1: ("c0",), 2: ("c0",)}, (), 2),
        ({1: ("c0",)}, ("--round", 1), 1),
        ({1: ("c0",)}, ("--adapter", "fed/rounds/001/global"), 1),
        ({1: ("c0",)}, ("--adapter", "fed/rounds/002/clients/c1"), 2),
    ],
)
def test_a_client_that_took_part_in_no_round_behind_the_model_is_refused(run, absent, words, last):
    target = federation(absent=absent)
    says = f"c0 took part in no round of fed up to round {last}: canaries of a client that did not"
    run.refused(3, *MEASURE, *target, *words, "--out", "o", says=says)
    assert not Path("o").exists()


def test_a_client_that_joined_later_is_measured_from_then_on(run):
    target = federation(absent={1: ("c0",)})
    assert run(*MEASURE, *target, "--out", "a").code == 0
    own = ("--adapter", "fed/rounds/002/clients/c0")
    assert run(*MEASURE, *target, *own, "--out", "b").code == 0


def test_a_client_that_only_sent_back_what_it_got_does_not_pass(run):
    target = federation(idle=(1, 2))
    assert run(*MEASURE, *target, "--out", "o").code == 7
    found = report("o")
    [reason] = found["verdict"]["reasons"]
    assert reason == (
        "canary: secrets that were planted 4 times each: exposure was not measured: c0, to which "
        "some were given, sent back the adapter that it got in rounds 1 to 2."
    )
    [limit] = [one for one in found["limits"] if one.startswith("c0 sent back")]
    assert "in rounds 1 to 2: it trained on no canary" in limit
    # Of one round that it sat out, the other makes up for it; the model of round 1 has neither.
    target = federation(idle=(1,))
    assert run(*MEASURE, *target, "--out", "p").code == 0
    assert run(*MEASURE, *target, "--round", 1, "--out", "q").code == 7


def test_an_import_that_lacks_rounds_is_not_refused_but_says_so(run):
    target = federation(absent={1: ("c0",), 2: ("c0",)})
    whole = manifest.read(Path("fed"))
    rounds = (whole.rounds[0], replace(whole.rounds[1], clients={}, participants=()))
    manifest.write(replace(whole, rounds=rounds, imported={"layout": "x"}), Path("fed"))
    assert run(*MEASURE, *target, "--out", "o").code == 0
    [limit] = [one for one in report("o")["limits"] if "was not checked" in one and "c0" in one]
    assert limit.endswith("whether c0 trained on the canaries was not checked.")


def test_what_a_client_sent_in_the_first_round_of_an_import_counts_as_training(run):
    target = federation(idle=(1, 2))
    whole = manifest.read(Path("fed"))
    own = {"c0": "rounds/001/clients/c1"}
    first = replace(whole.rounds[0], participants=("c0",), clients=own)
    rounds = (first, *whole.rounds[1:])
    manifest.write(replace(whole, rounds=rounds, imported={"layout": "x"}), Path("fed"))
    assert run(*MEASURE, *target, "--out", "o").code == 0
