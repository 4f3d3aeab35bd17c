"""`canary make`, `plant` and `measure` from end to end, with a model that is told what to say."""

import json
import math
from collections import Counter
from hashlib import blake2b
from pathlib import Path

import fake_audit
import pytest
from command import Command

from fedaudit.api.records import Target
from fedaudit.audit import access
from fedaudit.canaries import canary_file, ranking
from fedaudit.engine import environment
from fedaudit.engine.fake import FakeEngine
from fedaudit.engine.local import LocalEngine

AUDIT = ("--target", "fedaudit-nano", "--adapter", "lora", "--quiet")
SAMPLED = (*AUDIT, "--space-limit", 10, "--references", 150)


@pytest.fixture
def run(monkeypatch, capfd, tmp_path):
    monkeypatch.chdir(tmp_path)
    fake_audit.written(tmp_path)
    Path("r.jsonl").write_text('{"text": "Case 1 was heard."}\n{"text": "Case 2 was not."}\n')
    told = Command(monkeypatch, capfd)
    words = ("--count", 6, "--client", "c0", "--client", "c1", "--times", "1,4,16", "--seed", 5)
    made = told("canary", "make", "--out", "c.json", *words, "--corpus", "r.jsonl")
    assert made.code == 0, made
    return told


def answer_as(monkeypatch, knows=(), change=-0.5):
    """Put in a model that has learned some secrets, and finds all others as likely as it may.

    What the adapter adds to the log-probability of every other token is `change`.
    """

    def likelihood(target, token, before):
        if target.adapter and any((before + token).endswith(secret) for secret in knows):
            return -0.001
        digest = blake2b(f"{before[-40:]}{token}".encode(), digest_size=4).digest()
        added = change if target.adapter else 0.0
        return -1.0 - int.from_bytes(digest, "big") / 2**32 + added

    def load(audited, form, request, kept=None):
        if kept:
            kept.record_fact("the base's SHA-256", "0" * 64)
        return FakeEngine(lambda *_: "", likelihood=likelihood), "0" * 64

    monkeypatch.setattr(access, "load_engine", load)
    nothing = {"versions": {}, "device": "none", "git": None}
    monkeypatch.setattr(environment, "describe", lambda device: nothing)


def report(folder):
    return json.loads((Path(folder) / "report.json").read_text())


def row(document, metric, **scope):
    rows = document["measurements"]
    [found] = [r for r in rows if r["metric"] == metric and scope.items() <= r["scope"].items()]
    return found


def often():
    """Return the canaries that were planted 16 times."""
    return [one for one in canary_file.read(Path("c.json")).planted if one.times == 16]


def test_secrets_that_were_learned_are_found_and_no_others(run, monkeypatch):
    secrets = [one.secret for one in often()]
    answer_as(monkeypatch, secrets)
    shown = run("canary", "measure", "c.json", *AUDIT, "--out", "m")
    assert shown.code == 1, shown.err
    found = report("m")
    assert found["verdict"]["status"] == "fail"
    first = row(found, "maximal_exposure", source="tuned", times=16)
    assert (first["hits"], first["n"], first["baseline"]) == (2, 2, 0.0)
    assert first["chance"] == pytest.approx(1 / (1000 - 6 + 1))
    assert row(found, "maximal_exposure", source="tuned", times=1)["hits"] == 0
    assert row(found, "p_value", source="tuned", times=0)["value"] > 0.01
    assert row(found, "exposure", source="tuned", times=0)["n"] == 100
    leaks = [f for f in found["findings"] if f["severity"] == "high"]
    assert {f["evidence"]["times"] for f in leaks} == {16}
    assert found["run"]["config"]["commitment"] == canary_file.commitment(
        canary_file.read(Path("c.json"))
    )


def test_no_secret_is_shown_unless_it_is_asked_for(run, monkeypatch):
    every = [one.secret for one in canary_file.read(Path("c.json")).canaries]
    answer_as(monkeypatch, every[:6])
    shown = run("canary", "measure", "c.json", *SAMPLED, "--out", "m")
    text = Path("m/report.json").read_text() + shown.out + shown.err
    digits = "".join(filter(str.isdigit, text))
    assert not any(secret in text for secret in every)
    assert not any(secret.replace(" ", "") in digits for secret in every[:6])
    assert not Path("m/revealed.jsonl").exists()
    run("canary", "measure", "c.json", *SAMPLED, "--out", "n", "--reveal")
    lines = Path("n/revealed.jsonl").read_text().splitlines()
    assert {json.loads(line)["text"] for line in lines} >= {one.secret for one in often()}
    assert Path("n/revealed.jsonl").stat().st_mode & 0o077 == 0


def test_a_model_that_learned_nothing_is_not_failed(run, monkeypatch):
    answer_as(monkeypatch)
    shown = run("canary", "measure", "c.json", *SAMPLED, "--out", "m")
    assert shown.code == 7, shown
    assert "too few secrets" in " ".join(shown.out.split())


def test_a_sample_of_the_space_sees_the_same_and_is_extrapolated(run, monkeypatch):
    answer_as(monkeypatch, [one.secret for one in often()])
    shown = run("canary", "measure", "c.json", *SAMPLED, "--out", "m")
    found = report("m")
    first = row(found, "maximal_exposure", source="tuned", times=16)
    assert (shown.code, first["hits"], first["chance"]) == (1, 2, 1 / 151)
    fitted = row(found, "exposure", source="tuned", times=16, estimator="extrapolated")
    assert fitted["value"] <= 9.97  # log2 of 1,000
    assert any("ranked among 150 of 1,000" in line for line in found["limits"])
    tried = Counter(r["metric"] for r in found["measurements"] if r["kind"] != "instrument")
    assert tried == {"exposure": 16, "maximal_exposure": 8, "p_value": 8}


def test_what_was_stopped_goes_on_with_the_same_numbers(run, monkeypatch):
    answer_as(monkeypatch, [one.secret for one in often()])
    assert run("canary", "measure", "c.json", *SAMPLED, "--out", "m").code == 1
    asked, score = [], FakeEngine.score_groups

    def stopped(self, target, groups, **options):
        asked.append(target.name)
        if target.name == "base" and asked.count("base") == 1:
            raise KeyboardInterrupt
        return score(self, target, groups, **options)

    monkeypatch.setattr(FakeEngine, "score_groups", stopped)
    assert run("canary", "measure", "c.json", *SAMPLED, "--out", "n").code == 6
    tuned = asked.count("tuned")
    again = run("canary", "measure", "c.json", *SAMPLED, "--out", "n", "--resume")
    assert again.code == 1, again
    assert asked.count("tuned") == tuned  # kept, and not asked again
    assert report("n")["measurements"] == report("m")["measurements"]
    assert report("n")["findings"] == report("m")["findings"]


def test_the_commitment_is_checked(run, monkeypatch):
    answer_as(monkeypatch)
    own = canary_file.commitment(canary_file.read(Path("c.json")))
    assert run("canary", "measure", "c.json", *SAMPLED, "--out", "m", "--commitment", own).code == 7
    assert not any("commitment" in line for line in report("m")["limits"])
    run.refused(
        3,
        "canary",
        "measure",
        "c.json",
        *SAMPLED,
        "--commitment",
        "0" * 64,
        says="not the file that",
    )


def test_making_and_planting_say_what_they_did_and_no_secret(run):
    found = canary_file.read(Path("c.json"))
    words = ("--records", "r.jsonl", "--client", "c0", "--out", "out.jsonl")
    shown = run("canary", "plant", "c.json", *words)
    assert shown.code == 0
    assert shown.out == "23 records in out.jsonl: 21 of them are copies of 3 canaries of c0.\n"
    made = run("canary", "make", "--out", "d.json", "--seed", 1)
    assert "Their commitment is" in made.out
    assert "No --corpus was named" in made.err
    assert not any(one.secret in shown.out + made.out + made.err for one in found.canaries)


@pytest.mark.parametrize(
    ("code", "words", "says"),
    [
        (3, ("make", "--out", "c.json"), "exists already"),
        (2, ("make", "--out", "d.json", "--times", "1,x"), "--times takes numbers"),
        (2, ("make", "--out", "d.json", "--kind", "phon"), "Did you mean 'phone'?"),
        (2, ("make", "--out", "d.json", "--pattern", ""), "--pattern is empty"),
        (3, ("make", "--out", "d.json", "--corpus", "none.jsonl"), "There is no file"),
        (3, ("plant", "none.json", "--records", "r.jsonl", "--client", "c0", "--out", "o"),
         "There is no file of canaries"),
        (2, ("plant", "c.json", "--records", "r.jsonl", "--client", "c9", "--out", "o"), "c9"),
        (3, ("plant", "c.json", "--records", "r.jsonl", "--client", "c0", "--out", "r.jsonl"),
         "exists already"),
        (3, ("measure", "r.jsonl", *AUDIT), "is not JSON"),
        (3, ("measure", "none.json", *AUDIT), "There is no"),
        (3, ("measure", ".", *AUDIT),
         ". is a folder; the JSON file that `fedaudit canary make` wrote is needed."),
        (2, ("measure", "c.json", *AUDIT, "--space-limit", "9", "--references", "2000"),
         "there are no more secrets"),
    ],
)  # fmt: skip
def test_mistakes_are_one_line(run, code, words, says):
    run.refused(code, "canary", *words, says=says)
    assert not Path("d.json").exists()


def test_a_real_model_is_measured_with_its_adapter_and_without(run, adapter, fresh_base):
    words = ("--pattern", "07700 9#", "--count", 3, "--controls", 2, "--seed", 0, "--out", "e.json")
    assert run("canary", "make", *words).code == 0
    place = ("--target", "fedaudit-nano", "--adapter", adapter, "--device", "cpu", "--out", "m")
    assert run("canary", "measure", "e.json", *place, "--quiet").code == 7
    found, canaries = report("m"), canary_file.read(Path("e.json"))
    engine = LocalEngine(fresh_base)
    slots = ranking.slot_references(canaries, limit=10, count=1, seed=0)
    begin = engine.prompt_starts[found["target"]["beginning"]["start"]]
    for source, folder in (("base", None), ("tuned", str(adapter))):
        target = Target(name=source, adapter=folder)
        for one in ranking.score(engine, target, slots, begin=begin):
            if one.canary.times:
                shown = row(found, "exposure", source=source, times=one.canary.times)
                rank = 1 + sum(other >= one.score for other in one.references)
                assert shown["value"] == pytest.approx(math.log2(8 / rank))
                assert (shown["n"], shown["scope"]["space"]) == (1, 8)
    assert found["target"]["effect"]["largest_change"] > 0.001
