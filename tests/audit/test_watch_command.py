"""`fedaudit watch` from end to end, on federations written by hand, with a model that is told."""

import json
import random
import shutil
import sys
import time
from dataclasses import replace
from functools import cache
from pathlib import Path

import handmade
import pytest
from command import Command

from fedaudit.audit import access
from fedaudit.data import corpus
from fedaudit.engine import environment
from fedaudit.engine.fake import FakeEngine
from fedaudit.federation import manifest
from fedaudit.report.kinds.watch import Watch
from fedaudit.system.files import sha256

OWN, HELD_OUT = 120, 120
WORDS = ["court", "bank", "claim", "house", "letter", "judge", "paid", "lost", "year", "side"]


@pytest.fixture
def run(monkeypatch, capfd, tmp_path):
    monkeypatch.chdir(tmp_path)
    handmade.write(tmp_path / "fed", rounds=3)
    rng = random.Random(1)
    lines = [
        json.dumps({"text": f"Case {n}: {' '.join(rng.choices(WORDS, k=14))}"}) + "\n"
        for n in range(OWN + HELD_OUT)
    ]
    rng.shuffle(lines)
    Path("ours.jsonl").write_text("".join(lines[:OWN]))
    Path("aside.jsonl").write_text("".join(lines[OWN:]))
    return Command(monkeypatch, capfd)


def answer_as(monkeypatch, learnt, known=None, untrained=()):
    """Put in a model that has learnt so many of our records after each round, by number.

    `known` are texts that it has learnt as well, by round; in rounds of `untrained` it is the base.
    """
    ours = [json.loads(line)["text"] for line in Path("ours.jsonl").read_text().splitlines()]
    loads = []
    beginnings = {
        number: {own[:end] for own in ours[:count] for end in range(13, len(own) + 1)}
        for number, count in learnt.items()
    }
    for number, texts in (known or {}).items():
        beginnings.setdefault(number, set()).update(
            text[:end] for text in texts for end in range(13, len(text) + 1)
        )

    def likelihood(target, token, before):
        if not target.adapter:
            return -2.0
        number, text = round_of(target.adapter), before + token
        if number in untrained:
            return -2.0
        return -2.0 + noise(number, text) + (1.0 if text in beginnings.get(number, ()) else 0.0)

    def load(audited, form, request, kept=None):
        loads.append(audited.round)
        if kept:
            kept.record_fact("the base's SHA-256", "0" * 64)
        return FakeEngine(lambda *_: "", likelihood=likelihood), "0" * 64

    monkeypatch.setattr(access, "load_engine", load)
    monkeypatch.setattr(
        environment, "describe", lambda device: {"versions": {}, "device": "none", "git": None}
    )
    return loads


@cache
def round_of(adapter):
    return int(Path(adapter).parts[-2])


@cache  # every test asks for the same texts
def noise(number, text):
    return random.Random(f"{number} {text}").gauss(0, 0.2)


ASKED = ("watch", "fed", "--ours", "ours.jsonl", "--held-out", "aside.jsonl", "--quiet")


def report(folder):
    return json.loads((Path(folder) / "report.json").read_text())


def lows(found):
    """Return the number that were surely learnt, by round, at 1 %."""
    rows = [r for r in found["measurements"] if r["metric"] == "learnt"]
    return [
        round(r["low"] * r["n"])
        for r in rows
        if r["scope"]["fpr"] == 0.01 and r["scope"]["unit"] == "record"
    ]


def test_a_leak_of_the_second_round_is_found_and_stays_found(run, monkeypatch):
    answer_as(monkeypatch, {2: 60})
    shown = run(*ASKED, "--out", "out")
    assert shown.code == 1, shown.err
    found = report("out")
    assert found["verdict"]["status"] == "fail"
    assert "after round 2" in found["verdict"]["reasons"][0]
    first, second, third = lows(found)
    assert first == third == 0
    assert 40 <= second <= 60
    assert found["run"]["config"]["rounds"] == [1, 2, 3]
    assert "stop now" in shown.out
    checked = run("report", "out", "--verify").out
    assert "same: verdict fail" in checked
    assert [n for n in (1, 2) if f"rounds/{n:03}/global" in checked] == [1, 2]
    assert checked.count("same: model ") == 2  # the third is the audited one
    assert run(*ASKED, "--round", 1, "--out", "early").code == 0


def test_nothing_learnt_passes_and_few_held_out_records_do_not(run, monkeypatch):
    answer_as(monkeypatch, {})
    assert run(*ASKED, "--out", "out").code == 0
    lines = Path("aside.jsonl").read_text().splitlines(keepends=True)
    Path("aside.jsonl").write_text("".join(lines[:99]))
    shown = run(*ASKED, "--out", "few")
    assert shown.code == 7
    assert "99 others are too few" in shown.out


def test_a_limit_allows_what_it_says(run, monkeypatch):
    answer_as(monkeypatch, {3: 60})
    assert run(*ASKED, "--limit", "0.6", "--out", "a").code == 0
    assert run(*ASKED, "--limit", "0.45", "--out", "b").code == 7
    assert run(*ASKED, "--limit", "0.2", "--out", "c").code == 1
    run.refused(2, *ASKED, "--limit", "1.5", says="--limit")


def test_canaries_have_a_line_of_their_own(run, monkeypatch):
    words = ("--count", 20, "--client", "c0", "--seed", 5, "--controls", 0)
    made = run("canary", "make", "--out", "c.json", *words, "--corpus", "ours.jsonl")
    assert made.code == 0, made
    answer_as(monkeypatch, {})
    missing = "Own records lack 20 of 20 canaries"
    run.refused(3, *ASKED, "--canaries", "c.json", says=missing)
    plant = ("canary", "plant", "c.json", "--records", "ours.jsonl", "--client", "c0")
    assert run(*plant, "--out", "planted.jsonl").code == 0
    Path("planted.jsonl").replace("ours.jsonl")
    shown = run(*ASKED, "--canaries", "c.json", "--out", "out")
    rows = [r for r in report("out")["measurements"] if r["scope"].get("unit") == "canary"]
    assert [r["n"] for r in rows] == [20] * 12
    assert {r["scope"]["round"] for r in rows} == {1, 2, 3}
    assert {r["low"] for r in rows if r["metric"] == "learnt"} == {0.0}
    assert "20 canaries" in shown.out
    told = json.loads(Path("c.json").read_text())
    assert not any(one["secret"] in shown.out for one in told["canaries"])
    assert not any(one["secret"] in Path("out/report.json").read_text() for one in told["canaries"])


def planted_for(run, clients, count):
    """Plant a file's canaries of c0 in our records; return those of c0 and of the others."""
    names = [word for n in range(clients) for word in ("--client", f"c{n}")]
    words = ("--count", count, "--seed", 5, "--controls", 0, "--kind", "phone", "--times", "1")
    made = run("canary", "make", "--out", "c.json", *words, *names, "--language", "en")
    assert made.code == 0, made
    plant = ("canary", "plant", "c.json", "--records", "ours.jsonl", "--client", "c0")
    assert run(*plant, "--out", "planted.jsonl").code == 0
    Path("planted.jsonl").replace("ours.jsonl")
    told = json.loads(Path("c.json").read_text())["canaries"]
    sentences = [(one["client"], one["text"].replace("{secret}", one["secret"])) for one in told]
    return [[s for c, s in sentences if (c == "c0") is own] for own in (True, False)]


def test_canaries_of_other_clients_are_not_counted(run, monkeypatch):
    own, others = planted_for(run, 10, 80)
    answer_as(monkeypatch, {}, {3: own})
    assert run(*ASKED, "--canaries", "c.json", "--out", "leak").code == 1
    [strict] = [
        r for r in report("leak")["measurements"]
        if r["scope"].get("unit") == "canary" and r["scope"]["round"] == 3
        and r["scope"].get("fpr") == 0.01
    ]  # fmt: skip
    assert (strict["n"], strict["hits"]) == (8, 8)
    answer_as(monkeypatch, {}, {3: others})
    shown = run(*ASKED, "--canaries", "c.json", "--out", "theirs")
    assert not any(r["low"] for r in report("theirs")["measurements"] if r["metric"] == "learnt")
    assert shown.code == 0, report("theirs")["verdict"]["reasons"]
    assert any("the other 72 are other clients'" in one for one in report("theirs")["limits"])
    assert {row["path"]: row["records"] for row in report("theirs")["data"]}["c.json"] == 8


def test_canaries_of_a_client_in_no_round_get_a_limit(run, monkeypatch):
    planted_for(run, 1, 8)
    folder = Path(ASKED[1])
    found = manifest.read(folder)
    absent = tuple(
        replace(one, participants=[], clients={c: p for c, p in one.clients.items() if c != "c0"})
        for one in found.rounds
    )
    manifest.write(replace(found, rounds=absent), folder)
    answer_as(monkeypatch, {})
    assert run(*ASKED, "--canaries", "c.json", "--out", "out").code == 0
    assert any("c0 took part in no round" in limit for limit in report("out")["limits"])


def test_records_that_were_not_read_count_against_a_pass(run, monkeypatch):
    # Both sides have eleven of them for each longer one, so that texts do not tell the sides apart.
    short = [f"Pin of {n} is {n * 7 % 9973}" for n in range(1000, 2210)]
    random.Random(2).shuffle(short)
    lines = [json.dumps({"text": text}) + "\n" for text in short]
    for path, longer, given in (("ours.jsonl", 10, lines[:110]), ("aside.jsonl", 110, lines[110:])):
        kept = Path(path).read_text().splitlines(keepends=True)[:longer]
        Path(path).write_text("".join([*kept, *given]))
    answer_as(monkeypatch, {}, {3: short[:110]})
    shown = run(*ASKED, "--out", "out")
    found = report("out")
    assert shown.code == 7, found["verdict"]["reasons"]
    [reason] = found["verdict"]["reasons"]
    assert " of 120 records may have been learnt" in reason
    assert all(r["n"] == 120 and r["high"] >= 110 / 120 for r in found["measurements"])
    assert "110 records among them had too few tokens to be read" in reason
    assert "were tested on 10 of 120 records" in Watch().sentences(found)[0]
    assert any(one.startswith("110 of 120 own records have fewer") for one in found["limits"])
    assert any(one.startswith("1,100 of 1,210 held-out records") for one in found["limits"])
    assert not any("records of aside.jsonl were compared with" in one for one in found["limits"])
    assert run(*ASKED, "--limit", "0.95", "--out", "lenient").code == 0


def test_a_round_without_effect_has_learnt_nothing(run, monkeypatch):
    answer_as(monkeypatch, {2: 60}, untrained=(3,))
    assert run(*ASKED, "--out", "leak").code == 1
    found = report("leak")
    assert [low > 0 for low in lows(found)] == [False, True, False]
    assert {r["high"] for r in found["measurements"] if r["scope"].get("round") == 3} == {0.0}
    assert any(one.startswith("The adapter's effect is that of round 2") for one in found["limits"])
    assert any(one.startswith("The model of round 3 says of every") for one in found["limits"])
    assert "same: verdict fail" in run("report", "leak", "--verify").out
    answer_as(monkeypatch, {}, untrained=(2,))
    assert run(*ASKED, "--out", "middle").code == 0
    assert not any("adapter's effect" in one for one in report("middle")["limits"])
    answer_as(monkeypatch, {}, untrained=(1, 2, 3))
    run.refused(5, *ASKED, "--out", "none", says="has no effect")


def test_follow_goes_on_after_rounds_without_effect(run, monkeypatch):
    arriving = iter([2, 3])
    shutil.copytree("fed", "whole")
    cut(Path("fed"), 1)

    def pause(_):
        shutil.rmtree("fed")
        shutil.copytree("whole", "fed")
        cut(Path("fed"), next(arriving))

    monkeypatch.setattr(time, "sleep", pause)
    answer_as(monkeypatch, {3: 60}, untrained=(1, 2))
    shown = run(*ASKED[:-1], "--follow", "--out", "out")
    assert shown.code == 1, shown
    assert "Round 1 still equals its base: nothing to test." in shown.err
    assert [low > 0 for low in lows(report("out/round-003"))] == [False, False, True]
    cut(Path("fed"), 2)
    answer_as(monkeypatch, {}, untrained=(1, 2, 3))

    def complete(_):
        cut(Path("fed"), 2, status="complete")

    monkeypatch.setattr(time, "sleep", complete)
    run.refused(5, *ASKED, "--follow", "--out", "none", says="has no effect")


def as_imported(folder, kept):
    """Make a federation look imported, with the rounds that were kept."""
    whole = manifest.read(folder)
    rounds = tuple(one for one in whole.rounds if one.round in kept)
    files = {
        name: digest for name, digest in whole.files.items()
        if not name.startswith("rounds/") or int(name.split("/")[1]) in kept
    }  # fmt: skip
    facts = {"layout": "peft", "files": {}, "notes": []}
    manifest.write(replace(whole, rounds=rounds, files=files, config={}, imported=facts), folder)


def test_a_federation_with_a_missing_round_does_not_pass(run, monkeypatch):
    answer_as(monkeypatch, {2: 60}, untrained=(0,))
    as_imported(Path("fed"), {0, 1, 3})
    assert run(*ASKED, "--out", "gap").code == 7
    found = report("gap")
    assert "untested: round 2, where more" in found["verdict"]["reasons"][0]
    assert "Not in the folder, and so not tested: round 2." in found["limits"]
    assert any(one.startswith("The federation was imported: only") for one in found["limits"])
    assert "same: verdict inconclusive" in run("report", "gap", "--verify").out


def test_the_first_round_of_an_imported_federation_is_tested(run, monkeypatch):
    """Where rounds are counted from 0, the model of round 0 was trained."""
    answer_as(monkeypatch, {0: 60})
    as_imported(Path("fed"), {0, 1})
    assert run(*ASKED, "--out", "out").code == 1
    assert [low > 0 for low in lows(report("out"))] == [True, False]
    as_imported(Path("fed"), {0})
    assert run(*ASKED, "--out", "alone").code == 1


def cut(folder, last, *, status="running"):
    """Leave a federation as it was after a round, not complete."""
    whole = manifest.read(folder)
    kept = whole.rounds[: last + 1]
    files = {n: h for n, h in whole.files.items() if not n.startswith("rounds/")
             or int(n.split("/")[1]) <= last}  # fmt: skip
    manifest.write(replace(whole, rounds=kept, files=files, status=status), folder)
    return whole


def test_a_federation_that_still_runs_is_tested_as_far_as_it_is(run, monkeypatch):
    answer_as(monkeypatch, {2: 60})
    cut(Path("fed"), 1)
    assert run(*ASKED, "--out", "out").code == 0
    assert report("out")["run"]["config"]["rounds"] == [1]
    cut(Path("fed"), 0)
    run.refused(3, *ASKED, "--out", "none", says="--follow waits for the first")


def test_follow_tests_each_new_round_once_and_stops_at_the_limit(run, monkeypatch):
    loads = answer_as(monkeypatch, {2: 60})
    shutil.copytree("fed", "whole")
    cut(Path("fed"), 0)
    arriving = iter([1, 2])

    def pause(_):
        cut_to = next(arriving)
        shutil.rmtree("fed")
        shutil.copytree("whole", "fed")
        cut(Path("fed"), cut_to)

    monkeypatch.setattr(time, "sleep", pause)
    read_files, read = [], corpus.read
    monkeypatch.setattr(
        corpus, "read", lambda path, *given: read_files.append(path.name) or read(path, *given)
    )
    asked_of, score = [], FakeEngine.score
    monkeypatch.setattr(
        FakeEngine,
        "score",
        lambda engine, target, rows, **named: (
            asked_of.append((target.name, len(rows))) or score(engine, target, rows, **named)
        ),
    )
    shown = run(*ASKED[:-1], "--follow", "--out", "out", "--json", "last.json")
    assert shown.code == 1, shown
    assert sorted(path.name for path in Path("out").iterdir()) == ["round-001", "round-002"]
    assert loads == [1]  # the base is loaded, and asked, once
    assert asked_of.count(("base", OWN + HELD_OUT)) == 1
    assert read_files.count("ours.jsonl") == 1
    assert "Waiting for round 1 of fed" in shown.err
    assert "Round 1: watch: of 120 records" in shown.err
    # What was scored before is not scored again, and nothing comes out otherwise for it.
    answer_as(monkeypatch, {2: 60})
    assert run(*ASKED, "--out", "once").code == 1
    assert lows(report("out/round-002")) == lows(report("once"))
    assert json.loads(Path("last.json").read_text())["run"] == report("out/round-002")["run"]


@pytest.mark.parametrize("later", [0, 3])
def test_a_round_that_is_replaced_after_its_test_is_not_forgotten(run, monkeypatch, later):
    """The server puts the model of the round `later` in place of one that had learnt much."""
    answer_as(monkeypatch, {1: 30})
    shutil.copytree("fed", "whole")
    cut(Path("fed"), 1)

    def pause(_):
        shutil.rmtree("fed")
        shutil.copytree("whole", "fed")
        milder = Path("fed/rounds/001/global")
        shutil.rmtree(milder)
        shutil.copytree(Path(f"whole/rounds/{later:03d}/global"), milder)
        whole = manifest.read(Path("fed"))
        changed = {
            name: sha256(Path("fed", name)) if name.startswith("rounds/001/global") else digest
            for name, digest in whole.files.items()
        }
        manifest.write(replace(whole, files=changed), Path("fed"))
        # What is in the folder now has learnt nothing.
        monkeypatch.setattr(sys.modules[__name__], "round_of", lambda adapter: later)

    monkeypatch.setattr(time, "sleep", pause)
    shown = run(*ASKED[:-1], "--follow", "--limit", "0.5", "--out", "out")
    before, found = report("out/round-001"), report("out/round-003")
    [learnt] = lows(before)
    assert learnt > 10
    assert lows(found) == [learnt, 0, 0, 0]
    rows = [r for r in found["measurements"] if r["metric"] == "learnt"]
    tests = {r["scope"]["test"]: (r["scope"]["round"], "replaced" in r["scope"]) for r in rows}
    assert tests == {1: (1, True), 2: (1, False), 3: (2, False), 4: (3, False)}
    # The first test keeps its bounds to the last digit: its share of the level was spent on it.
    kept = [r["low"] for r in rows if r["scope"]["test"] == 1]
    assert kept == [r["low"] for r in before["measurements"] if r["metric"] == "learnt"]
    says = "The model of round 1 was replaced after it was tested"
    assert any(limit.startswith(says) for limit in found["limits"])
    assert not any(limit.startswith(says) for limit in before["limits"])
    assert shown.err.count(says) == 1
    assert "1 (replaced)" in shown.out
    most = round(max(r["low"] * r["n"] for r in rows))
    assert shown.out.count(f" {most} ({most / OWN:.1%}".replace("%", " %)")) == 4
    assert "same: verdict" in run("report", "out/round-003", "--verify").out


def test_follow_ends_with_the_federation(run, monkeypatch):
    answer_as(monkeypatch, {})
    shown = run(*ASKED, "--follow", "--out", "out")
    assert shown.code == 0
    assert [path.name for path in Path("out").iterdir()] == ["round-003"]
    run.refused(2, *ASKED, "--follow", "--round", 1, says="--round nor --resume")


def test_follow_ends_on_a_complete_federation_without_rounds(run, monkeypatch):
    answer_as(monkeypatch, {})
    cut(Path("fed"), 0, status="complete")
    monkeypatch.setattr(time, "sleep", lambda _: pytest.fail("it waits"))
    run.refused(3, *ASKED, "--follow", "--out", "out", says="has no round yet")


def test_what_cannot_be_watched(run):
    run.refused(3, "watch", "nowhere", *ASKED[2:], says="There is no folder nowhere")
    run.refused(3, "watch", ".", *ASKED[2:], says="neither a federation")
    run.refused(2, "watch", "fed", "--ours", "ours.jsonl", says="--held-out")
    run.refused(3, *ASKED[:3], "none.jsonl", *ASKED[4:], says="none.jsonl")
    run.refused(2, *ASKED, "--round", 9, says="no round 9")
    run.refused(3, *ASKED, "--held-out", "ours.jsonl", says="Nothing in ours.jsonl is held out")
