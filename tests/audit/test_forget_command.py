"""`fedaudit forget verify` from end to end, with a model that is told what is left."""

import json
import random
import shutil
from dataclasses import replace
from functools import cache
from pathlib import Path

import handmade
import pytest
from command import Command

from fedaudit.audit import access
from fedaudit.engine import environment
from fedaudit.engine.fake import FakeEngine
from fedaudit.federation import adapters, manifest

OWN, HELD_OUT = 60, 120
WORDS = ["court", "bank", "claim", "house", "letter", "judge", "paid", "lost", "year", "side"]
MODELS = ("after", "before", "r1", "r2", "r3", "r4", "r5", "r6")
RETRAINED = [word for name in MODELS[2:] for word in ("--retrained", name)]
ASKED = ("forget", "verify", "after", "--before", "before", "--ours", "ours.jsonl",
         "--held-out", "aside.jsonl", "--quiet")  # fmt: skip


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    for seed, name in enumerate(MODELS):
        handmade.write(folder / name, rounds=1, clients=6 if name == "before" else 5)
        change(folder / name, seed)
    return folder


@pytest.fixture
def run(models, monkeypatch, capfd, tmp_path):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(models, tmp_path, dirs_exist_ok=True)
    rng = random.Random(1)
    lines = [
        json.dumps({"text": f"Case {n}: {' '.join(rng.choices(WORDS, k=20))}"}) + "\n"
        for n in range(OWN + HELD_OUT)
    ]
    rng.shuffle(lines)
    Path("ours.jsonl").write_text("".join(lines[:OWN]))
    Path("aside.jsonl").write_text("".join(lines[OWN:]))
    return Command(monkeypatch, capfd)


def change(folder, seed):
    """Give a federation's last adapter weights of its own."""
    from fedaudit.system.files import sha256

    whole = manifest.read(folder)
    adapter = folder / whole.rounds[-1].adapter
    tensors = {name: tensor + 0.001 * (seed + 1) for name, tensor in adapters.read(adapter).items()}
    adapters.write(tensors, adapters.read_config(adapter), adapter)
    changed = {n: sha256(folder / n) for n in whole.files if (folder / n).parent == adapter}
    manifest.write(replace(whole, files={**whole.files, **changed}), folder)


def answer_as(monkeypatch, left):
    """Put in models that say so much more of our records, in nats, by the folder they are in."""
    ours = [json.loads(line)["text"] for line in Path("ours.jsonl").read_text().splitlines()]
    beginnings = {own[:end] for own in ours for end in range(13, len(own) + 1)}

    def likelihood(target, token, before):
        if not target.adapter:
            return -2.0
        name, text = model_of(target.adapter), before + token
        known = left.get(name, 0.0) if text in beginnings else 0.0
        return min(0.0, -2.0 + noise(name, text) + known)

    def load(audited, form, request, kept=None):
        if kept:
            kept.record_fact("the base's SHA-256", "0" * 64)
        return FakeEngine(lambda *_: "", likelihood=likelihood), "0" * 64

    monkeypatch.setattr(access, "load_engine", load)
    monkeypatch.setattr(
        environment, "describe", lambda device: {"versions": {}, "device": "none", "git": None}
    )


@cache
def model_of(adapter):
    return next(part for part in Path(adapter).parts if part in MODELS)


@cache  # every test asks for the same texts
def noise(name, text):
    return random.Random(f"{name} {text}").gauss(0, 0.2)


def report(folder):
    return json.loads((Path(folder) / "report.json").read_text())


def test_what_was_unlearnt_passes_and_the_report_is_bound_to_all_models(run, monkeypatch):
    answer_as(monkeypatch, {"before": 1.0})
    shown = run(*ASKED, *RETRAINED, "--out", "out")
    assert shown.code == 0, report("out")["verdict"]["reasons"]
    assert "as if the member had never been there" in shown.out
    found = report("out")
    assert found["verdict"]["status"] == "pass"
    [left] = [r for r in found["measurements"] if r["metric"] == "residual"]
    assert (left["n"], left["low"] < 0 < left["high"]) == (6, True)
    assert found["run"]["config"]["retrained"] == list(MODELS[2:])
    others = [one["path"] for one in found["target"]["models"]]
    assert others == [f"{name}/rounds/001/global" for name in MODELS[1:]]
    checked = run("report", "out", "--verify").out
    assert "same: verdict pass" in checked
    assert checked.count("same: model ") == len(others)
    shutil.rmtree("r6")
    change(Path("before"), 9)
    checked = run("report", "out", "--verify")
    assert "not at hand: model r6/rounds/001/global" in checked.out
    assert "differs: model before/rounds/001/global" in checked.out
    assert checked.code == 1


@pytest.mark.parametrize("left", [1.0, 0.5])
def test_a_server_that_did_nothing_or_only_trained_on_is_refused(run, monkeypatch, left):
    answer_as(monkeypatch, {"before": 1.0, "after": left})
    shown = run(*ASKED, *RETRAINED, "--out", "out")
    assert shown.code == 1, shown
    assert "do not call them" in shown.out
    assert run(*ASKED, "--out", "alone").code == 1  # without any retrained model, too


def test_records_that_come_out_word_for_word_are_counted(run, monkeypatch):
    answer_as(monkeypatch, {"before": 2.0})
    run(*ASKED, *RETRAINED, "--out", "out")
    counts = {
        row["scope"]["model"]: row["hits"]
        for row in report("out")["measurements"]
        if row["metric"] == "extractable" and "number" not in row["scope"]
    }
    assert counts["after"] == 0
    assert counts["before"] > OWN / 2


def test_records_pushed_below_others_can_be_told_by_that(run, monkeypatch):
    answer_as(monkeypatch, {"before": 1.0, "after": -0.5})
    shown = run(*ASKED, *RETRAINED, "--out", "out")
    assert shown.code == 1
    assert any("stand lower" in reason for reason in report("out")["verdict"]["reasons"])


def test_what_is_missing_is_named(run, monkeypatch):
    answer_as(monkeypatch, {"before": 1.0})
    shown = run(*ASKED, "--out", "none")
    assert shown.code == 7
    assert "4 retrained models" in shown.out
    answer_as(monkeypatch, {})
    shown = run(*ASKED, *RETRAINED, "--out", "nothing")
    assert shown.code == 7
    assert any("could not have seen" in r for r in report("nothing")["verdict"]["reasons"])
    answer_as(monkeypatch, {"before": 1.0, "r2": 1.0})
    shown = run(*ASKED, *RETRAINED, "--out", "tainted")
    assert shown.code == 7
    assert any("retrained model 2" in reason for reason in report("tainted")["verdict"]["reasons"])


def test_canaries_have_a_line_of_their_own(run, monkeypatch):
    words = ("--count", 8, "--client", "c0", "--seed", 5, "--controls", 0)
    assert run("canary", "make", "--out", "c.json", *words, "--corpus", "ours.jsonl").code == 0
    plant = ("canary", "plant", "c.json", "--records", "ours.jsonl", "--client", "c0")
    assert run(*plant, "--out", "planted.jsonl").code == 0
    Path("planted.jsonl").replace("ours.jsonl")
    answer_as(monkeypatch, {"before": 1.0})
    shown = run(*ASKED, *RETRAINED, "--canaries", "c.json", "--out", "out")
    rows = [r for r in report("out")["measurements"] if r["scope"].get("unit") == "canary"]
    assert {r["scope"]["model"] for r in rows} == {"after", "before", "retrained"}
    assert "8 canaries" in shown.out
    told = json.loads(Path("c.json").read_text())["canaries"]
    text = shown.out + Path("out/report.json").read_text()
    assert not any(one["secret"] in text for one in told)


def test_adapters_of_folders_are_verified_as_well(run, monkeypatch):
    answer_as(monkeypatch, {"before": 1.0, "after": 1.0})
    adapter = "rounds/001/global"
    words = ("forget", "verify", f"after/{adapter}", "--before", f"before/{adapter}", *ASKED[5:])
    assert run(*words, "--base", "fedaudit-nano", "--out", "out").code == 1


def test_one_model_before_and_after_is_said(run, monkeypatch):
    answer_as(monkeypatch, {"before": 1.0})
    words = ("forget", "verify", "before", "--before", "before", *ASKED[5:])
    assert run(*words, "--out", "out").code == 1
    assert "The models before and after are one and the same." in report("out")["limits"]


def limits_on(found, *words):
    return [one for one in found["limits"] if all(word in one for word in words)]


def test_the_manifests_say_who_took_part(run, monkeypatch):
    answer_as(monkeypatch, {"before": 1.0})
    adapter = "r2/rounds/001/global"
    beside = ("--retrained", "r1", "--retrained", adapter)
    run(*ASKED, *beside, "--out", "out")
    found = report("out")
    assert limits_on(found, "c5 took no part in r1, and did in before")
    assert limits_on(found, "could not be checked", f"to be missing: {adapter}.")
    assert not limits_on(found, "do not show that a member had left")
    everyone("after", 1)
    run(*ASKED, "--out", "stayed")
    assert limits_on(report("stayed"), "took part in round 1 of after")
    # Fewer records of a client may be those of a person who left; but nothing shows it.
    everyone("r1", 2, examples=3)
    run(*ASKED, "--retrained", "r1", "--out", "fewer")
    assert limits_on(report("fewer"), "could not be checked", "to be missing: r1.")
    everyone("r1", 2)
    says = "--retrained r1 was not trained without the member"
    run.refused(3, *ASKED, "--retrained", "r1", says=says)


def everyone(name, seed, examples=None):
    """Write a federation in which all clients took part, one of them with other `examples`."""
    shutil.rmtree(name)
    handmade.write(Path(name), rounds=1)
    change(Path(name), seed)
    if examples:
        table = json.loads(Path(name, "federation.json").read_text())
        table["clients"][0]["examples"] = examples
        Path(name, "federation.json").write_text(json.dumps(table))


def test_what_cannot_be_verified(run):
    run.refused(3, *ASKED[:4], "nowhere", *ASKED[5:], says="There is no folder nowhere")
    run.refused(3, *ASKED, "--retrained", "after", says="the model before or after itself")
    run.refused(3, *ASKED, "--retrained", "r1", "--retrained", "r1", says="there twice")
    run.refused(2, *ASKED[:7], says="--held-out")
    run.refused(2, *ASKED, "--base", "fedaudit-nano", says="which names its base")
    run.refused(2, *ASKED, "--limit", "1.5", says="--limit")
    shutil.copytree("before", "other")
    manifest = json.loads(Path("other/federation.json").read_text())
    manifest["base"]["sha256"] = "1" * 64
    Path("other/federation.json").write_text(json.dumps(manifest))
    run.refused(3, *ASKED[:4], "other", *ASKED[5:], says="another base")


def test_as_much_is_read_as_the_training_of_the_model_before_read(run, monkeypatch):
    head = " ".join(WORDS * 4)
    for path in map(Path, ("ours.jsonl", "aside.jsonl")):
        texts = [json.loads(line)["text"] for line in path.read_text().splitlines()]
        path.write_text("".join(json.dumps({"text": f"{head} {text}"}) + "\n" for text in texts))
    answer_as(monkeypatch, {"before": 1.0})
    run(*ASKED, *RETRAINED, "--out", "whole")
    assert report("whole")["limits"][0] == (
        "Every record was read to its end; none of fewer than 8 tokens was."
    )
    state_length("after", 50)  # the records were in the training of the model before
    state_length("before", 30)
    assert run(*ASKED, *RETRAINED, "--out", "cut").code == 7
    found = report("cut")
    assert any("no more than 30 tokens were read" in r for r in found["verdict"]["reasons"])
    assert found["limits"][0].startswith("180 of 180 records are longer than the 30 tokens")


def state_length(folder, length):
    """Let a federation state how much of a text its training read."""
    whole = manifest.read(Path(folder))
    manifest.write(replace(whole, config={"training": {"max_length": length}}), Path(folder))
