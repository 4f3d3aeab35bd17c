"""Which counterfactual an audit compares with, and which it refuses."""

import json
import shutil
from dataclasses import replace

import counterfactual_run
import pytest
from command import Command

from fedaudit.audit.attacks import resolve
from fedaudit.audit.input_files import InputReader
from fedaudit.audit.request import ExtractionRequest
from fedaudit.report.document import validate


@pytest.fixture(scope="module")
def made(small, tmp_path_factory):
    """Return the folder of a federation of three and that of the same without c1."""
    run = tmp_path_factory.mktemp("runs") / "run"
    return run, counterfactual_run.train(small, run)[1]


@pytest.fixture
def told(monkeypatch, capfd, tmp_path):
    monkeypatch.chdir(tmp_path)
    return Command(monkeypatch, capfd)


OPTIONS = (
    "contextual.samples=1",
    "contextual.new_tokens=4",
    "contextual.context=4",
    "contextual.sweeps=false",
)
BRIEF = [word for option in OPTIONS for word in ("--set", option)]


def pair(run, victim="c1"):
    data = run / "data"
    return ("extract", "--target", run, "--prefixes", data / "c0.jsonl", "--victim",
            data / f"{victim}.jsonl", "--quiet", *BRIEF)  # fmt: skip


def report(folder):
    found = json.loads((folder / "report.json").read_text())
    validate(found)
    return found


def compared(found):
    return {r["scope"]["without"] for r in found["measurements"] if r["kind"] == "counterfactual"}


def test_one_beside_the_federation_is_taken(told, made, tmp_path):
    run, place = made
    assert told(*pair(run), "--out", tmp_path / "a").code in (0, 1, 7)
    found = report(tmp_path / "a")
    assert compared(found) == {"c1"}
    assert any("lay beside the federation" in limit for limit in found["limits"])
    named = taken(run, counterfactual=place)  # it is the same, and so is what is measured
    assert replace(named, discovered=True) == taken(run)
    assert "was named" in next(named.caveats(0))


def taken(run, victim="c1", **changes):
    """Return the counterfactual that such an audit finds, without a model."""
    data = run / "data"
    files = {"prefixes": data / "c0.jsonl", "victim": data / f"{victim}.jsonl"}
    request = ExtractionRequest(target=str(run), **files, **changes)
    return resolve(request, InputReader()).others.without


def test_another_victim_has_none(made):
    assert taken(made[0], "c2") is None


def test_an_earlier_round_is_compared_with_its_own(made):
    run, place = made
    assert taken(run).adapter == place / "rounds/002/global"
    assert taken(run, round=1).adapter == place / "rounds/001/global"


def test_membership_has_a_score_and_a_mean(told, made, tmp_path):
    run, _ = made
    words = (*pair(run), "--attack", "membership", "--out", tmp_path / "a")
    held = tmp_path / "held.jsonl"
    texts = [f"Note {n}: the parties of case {n} met on a rainy day in York." for n in range(20)]
    held.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    words = (*words[: words.index("--set")], *words[words.index("--attack") :])
    shown = told(*words, "--held-out", held, "--set", "membership.shifted=true")
    assert shown.code in (0, 1, 7), shown
    rows = report(tmp_path / "a")["measurements"]
    means = {r["scope"]["of"]: r for r in rows if r["metric"] == "counterfactual_memorization"}
    assert set(means) == {"members", "held-out"}
    assert all(-1 <= r["low"] <= r["value"] <= r["high"] <= 1 for r in means.values())
    assert "counterfactual" in {r["scope"].get("score") for r in rows}


def test_what_is_no_counterfactual_of_it_is_refused(told, made, federation, tmp_path):
    run, place = made
    asked = pair(run, "c1")
    told.refused(
        3, *asked, "--counterfactual", federation.path, says="not a counterfactual federation"
    )
    told.refused(3, *asked, "--counterfactual", run / "data", says="not a federation's folder")
    told.refused(3, *asked, "--counterfactual", run / "withou", says="not a federation's folder")
    told.refused(3, *pair(run, "c2"), "--counterfactual", place, says="none of the records tried")
    other = pair(federation.path)
    told.refused(3, *other, "--counterfactual", place, says="of another federation than")
    adapter = run / "rounds/002/global"
    told.refused(
        2, *asked, "--adapter", adapter, "--counterfactual", place, says="--counterfactual"
    )
    told.refused(
        2, "extract", "--matrix", "--target", run, "--counterfactual", place, says="matrix"
    )


def test_one_that_was_stopped_is_not_taken(told, made, tmp_path):
    run, _ = made
    stopped = tmp_path / "run"
    shutil.copytree(run, stopped)
    path = stopped / "without/c1/federation.json"
    table = json.loads(path.read_text())
    path.write_text(json.dumps({**table, "status": "running", "rounds": table["rounds"][:2]}))
    assert taken(stopped) is None
    told.refused(3, *pair(stopped), "--counterfactual", stopped / "without/c1", "--out",
                 tmp_path / "b", says="has not finished round 2")  # fmt: skip


def test_simulate_trains_it_and_keeps_it(told, small, tmp_path):
    profile = tmp_path / "tiny.toml"
    profile.write_text(
        """
name = "tiny"
title = "A tiny federation"
paper = "none"

[scale.nano]
base = "fedaudit-nano"
clients = 2
rounds = 1
held_out = 0.2
evaluated = 2
workers = 1
device = "cpu"
central = false
records = { cases = 4, documents_per_case = 4, kinds = 1, languages = ["en"] }
training = { steps = 2, batch_size = 2, learning_rate = 5e-3, max_length = 48, rank = 4 }
"""
    )
    words = ("simulate", "--profile", profile, "--quiet")
    told.refused(3, *words, "--without", "c1", says="without --without first")
    assert told(*words).code == 0
    told.refused(2, *words, "--without", "c9", says="No client named 'c9'")
    assert told(*words, "--without", "c1").code == 0
    found = report(tmp_path / "runs/tiny/without/c1")
    assert any("trained again without c1" in limit for limit in found["limits"])
    assert found["run"]["config"]["without"] == ["c1"]
    again = told("simulate", "--profile", profile, "--without", "c1")
    assert "already holds this federation" in again.err


def test_memorize_takes_every_one_beside_the_federation(told, made, tmp_path):
    run, _ = made
    words = ("memorize", run, "--sample", 3, "--prefix-length", 5, "--new-tokens", 30, "--quiet")
    assert told(*words, "--out", tmp_path / "a").code in (0, 1, 7)
    found = report(tmp_path / "a")
    rows = [r for r in found["measurements"] if r["kind"] == "counterfactual"]
    gains = [r["scope"] for r in rows if r["metric"] == "counterfactual_memorization"]
    assert [(r["attacker"], r["victim"], r["without"]) for r in gains] == [
        ("c0", "c1", "c1"), ("c1", "c1", "c1"), ("c2", "c1", "c1"),
    ]  # fmt: skip
    assert any("trained without c1, lay beside" in limit for limit in found["limits"])
    assert not any(r["scope"].get("source") == "without c1" for r in found["measurements"])
    shown = told("report", tmp_path / "a")
    assert "Counterfactual: memorize" in shown.out
