"""The whole report of every command that writes one, and of two studies, as it was.

Federations are tiny and models answer by rule, so that a report takes seconds and follows from its
input. What differs from run to run is left out: times, versions, the machine, hashes of weights,
and masks, whose key is drawn. Numbers that training made may differ in their last digits.

After a change that is meant: `pytest tests/cli/test_golden_reports.py --update-golden`, and a look
at the diff of tests/golden/reports/: a line is one entry of a section.
"""

import json
import math
import random
import shutil
from dataclasses import replace
from functools import cache
from hashlib import blake2b
from pathlib import Path

import fake_audit
import handmade
import pytest

from fedaudit.federation import manifest
from fedaudit.report.document import validate
from fedaudit.report.verdict.recheck import recheck
from fedaudit.system.files import sha256

MODEL = ("--target", "fedaudit-nano", "--adapter", "lora", "--quiet")
PAIR = ("extract", "--prefixes", "own.jsonl", "--victim", "victim.jsonl", *MODEL)
BRIEF = ("--set", "contextual.context=4", "--set", "contextual.sweeps=false")

# Of a run: its time, its machine, and what it drew for masks, commitments and asking shards again.
VARYING = {"started", "finished", "environment", "hmac", "draw", "commitment"}

TINY = """
name = "tiny"
title = "A tiny study"
paper = "none"

[scale.nano]
base = "fedaudit-nano"
clients = 2
rounds = 1
held_out = 0.2
evaluated = 4
workers = 1
device = "cpu"
records = { cases = 4, documents_per_case = 4, kinds = 1, languages = ["en"] }
training = { steps = 6, batch_size = 2, learning_rate = 5e-3, max_length = 48, rank = 4 }
"""

EXTRACTION = """
[[study]]
attacks = ["contextual"]
options = { contextual = { sweeps = false } }
[study.matrix.change]
fedavg.quick = true
central = { simulate = { central = true }, model = "central" }

[[claims]]
id = "covers"
source = "table 1"
statement = "The global model says something of the victim's."
left = { variant = "fedavg", metric = "coverage", scope = { source = "tuned", set = "all" } }
compare = ">"
right = 0.0

[[claims]]
id = "central"
source = "table 1"
statement = "The central model says much less."
left = { variant = "central", metric = "coverage", scope = { source = "tuned", set = "all" } }
compare = "<"
factor = 0.5
right = { variant = "fedavg", metric = "coverage", scope = { source = "tuned", set = "all" } }

[[figures]]
source = "table 1"
variant = "{row}"
scope = { source = "tuned", set = "all" }
columns = { coverage = "coverage", efficiency = "efficiency" }
rows = [["fedavg", 0.25, 0.0019], ["central", 0.3, 0.002]]
"""

MEMORIZATION = """
[[study]]
pool = "both"
simulate = { records = { tasks = ["summary"], passages = 6 } }
memorize = { prefix_length = 6, new_tokens = 20, sample = 3 }
[study.matrix.change]
first.simulate.seed = 0
second.simulate.seed = 1

[[claims]]
id = "own"
source = "table 1"
statement = "A client's own prefixes draw its texts more than others' do."
left = { variant = "both", metric = "mr_intra", scope = { source = "tuned", category = "all" } }
compare = ">"
right = { variant = "both", metric = "mr_inter", scope = { source = "tuned", category = "all" } }

[[figures]]
source = "table 1"
what = "intra"
metric = "mr_intra"
value = 0.00342
variant = "both"
scope = { source = "tuned", category = "all" }
"""


@cache
def texts(folder, federations):
    """Return the texts of all records below a folder, while it has so many federations."""
    files = sorted(folder.rglob("*.jsonl"))
    lines = [line for path in files for line in path.read_text("utf-8").splitlines()]
    return [json.loads(line)["text"] for line in lines]


def known():
    """Return the texts of all records below the working directory."""
    return texts(Path().resolve(), len(list(Path("out/federations").glob("*"))))


def continues(target, prompt, sample):
    """Return how a document goes on after the prompt, from the tuned model more often."""
    digest = blake2b(f"{prompt}|{sample}".encode(), digest_size=1).digest()
    if digest[0] < (170 if target.adapter else 40):
        for text in known():
            _, found, rest = text.partition(prompt[-12:])
            if found:
                return rest
    return " nobody left."


def recites(target, prompt, sample):
    """Return a piece of a document that has nothing to do with the prompt; the base knows three."""
    digest = blake2b(f"{prompt}|{sample}".encode(), digest_size=2).digest()
    documents = known() if target.adapter else known()[:3]
    text = documents[digest[0] % len(documents)]
    return text[text.find(" ", digest[1] * len(text) // 300) :]


def frozen(value, key=""):
    """Return a value of a report without what differs from run to run, its numbers rounded."""
    if key in VARYING or key.endswith("seconds") or (key == "device" and "torch" in value):
        return "..." if value is not None else None
    if isinstance(value, dict):
        timed = value.get("metric") in ("seconds", "overhead")
        return {
            name: "..." if timed and name == "value" else frozen(one, name)
            for name, one in value.items()
            if one is not None and one != ""
        }
    if isinstance(value, list):
        return [frozen(one) for one in value]
    if isinstance(value, float):
        return float(f"{value:.5g}")
    return value


def lines(document):
    """Return a report as lines of JSON: one for each entry of a list or table at its top."""
    weights = {"sha256": "...", "base_sha256": "..."}
    if others := document["target"].get("models"):
        weights["models"] = [{**other, "sha256": "..."} for other in others]
    whole = frozen({**document, "target": {**document["target"], **weights}})
    config = whole["run"].pop("config")
    whole["config"] = [{key: value} for key, value in config.items()]
    for name, section in whole.items():
        whole[name] = section if isinstance(section, list) else [section]
    # A measurement without the names of what is in all of them.
    for row in whole["measurements"]:
        row["of"] = [row.pop("kind"), row.pop("plugin"), row.pop("metric")]
    entries = [{name: entry} for name, section in sorted(whole.items()) for entry in section]
    return "".join(f"{json.dumps(one, sort_keys=True, ensure_ascii=False)}\n" for one in entries)


def near(tolerance):
    """Return a function that tells whether two lines say the same but for small differences."""

    def same(new, old):
        if isinstance(new, float | int) and isinstance(old, float | int):
            return math.isclose(new, old, rel_tol=tolerance, abs_tol=1e-9)
        if isinstance(new, dict) and isinstance(old, dict):
            return new.keys() == old.keys() and all(same(new[key], old[key]) for key in new)
        if isinstance(new, list) and isinstance(old, list):
            return len(new) == len(old) and all(map(same, new, old))
        return new == old

    return lambda new, old: same(json.loads(new), json.loads(old))


@pytest.fixture
def written(golden):
    """Return a function that compares a finished command's report with the one that is kept."""

    def check(name, done, path="out/report.json", tolerance=1e-4):
        assert done.code in (0, 1, 7), done.err
        document = json.loads(Path(path).read_text())
        validate(document)
        assert recheck(document).message == ""
        golden(f"reports/{name}.txt", lines(document), near(tolerance))

    return check


def test_extract(here, run, written):
    written(
        "extract",
        run(*PAIR, *BRIEF, "--attack", "contextual", "--attack", "verbatim", "--out", "out"),
    )


def test_infer(here, run, written):
    words = ("infer", "--data", "own.jsonl", *MODEL, "--candidates", "3")
    written("infer", run(*words, "--out", "out"))


def test_memorize(here, monkeypatch, run, written):
    monkeypatch.setattr(fake_audit, "says", continues)
    words = ("memorize", "--clients", "own.jsonl", "victim.jsonl", *MODEL, "--sample", 5)
    written("memorize", run(*words, "--prefix-length", 4, "--new-tokens", 9, "--out", "out"))


def test_the_exact_estimator(here, run, written):
    done = run(*PAIR, *BRIEF, "--estimator", "exact", "--attack", "contextual", "--out", "out")
    written("exact", done)


def test_a_matrix(here, run, written):
    words = ("extract", "--matrix", "--clients", "own.jsonl", "victim.jsonl", *MODEL, *BRIEF)
    written("matrix", run(*words, "--budget", 20, "--out", "out"))


def undated(path):
    """Give a file of canaries a fixed time, as the report has its hash."""
    table = json.loads(Path(path).read_text())
    Path(path).write_text(json.dumps({**table, "made": "2026-01-01T00:00:00+00:00"}))


def plant(run, records):
    """Put the canaries of c.json among records, in the records' place."""
    client = json.loads(Path("c.json").read_text())["canaries"][0]["client"]
    words = ("--records", records, "--client", client, "--seed", 5, "--out", "planted.jsonl")
    assert run("canary", "plant", "c.json", *words).code == 0
    Path("planted.jsonl").replace(records)


def test_canaries(here, run, written):
    planted = ("--count", 6, "--client", "c0", "--times", "1,4,16", "--seed", 5)
    run("canary", "make", "--out", "c.json", *planted, "--corpus", "own.jsonl")
    undated("c.json")
    written("canary", run("canary", "measure", "c.json", *MODEL, "--out", "out"))


def test_a_claimed_epsilon(here, run, written):
    planted = ("--count", 60, "--seed", 5, "--position", "outsider", "--position", "server")
    run("dp", "make", "--out", "coins.json", "--corpus", "own.jsonl", *planted)
    undated("coins.json")
    run("dp", "plant", "coins.json", "--records", "own.jsonl", "--out", "planted.jsonl")
    made = handmade.write(Path("run"), clients=2)
    keep(made.path, {"c0": "planted.jsonl", "c1": "victim.jsonl"})
    words = ("dp", "audit", "coins.json", "--target", "run", "--epsilon", 1, "--quiet")
    written("dp", run(*words, "--out", "out"))


def test_a_members_own_test_of_every_round(here, run, written):
    handmade.write(Path("run"), clients=2)
    run("canary", "make", "--out", "c.json", "--count", 6, "--seed", 5, "--corpus", "own.jsonl")
    undated("c.json")
    plant(run, "own.jsonl")
    words = ("watch", "run", "--ours", "own.jsonl", "--held-out", "victim.jsonl", "--quiet")
    written("watch", run(*words, "--canaries", "c.json", "--references", 20, "--out", "out"))


def remembers(target, token, before):
    """Return a log-probability that tells models apart; the one called before has seen ours."""
    name = Path(target.adapter).parts[-4] if target.adapter else "base"
    text = before + token
    digest = blake2b(f"{name}|{text}".encode(), digest_size=1).digest()
    seen = name == "before" and any(one.startswith(text) for one in texts(Path("ours"), 0))
    return -1.5 - digest[0] / 256 + seen


def test_a_member_that_left(here, monkeypatch, run, written):
    monkeypatch.setattr(fake_audit, "likelihood", remembers)
    rng, names = random.Random(1), ["after", "before", *(f"retrained{n}" for n in range(6))]
    for seed, name in enumerate(names):
        handmade.write(Path(name), clients=2 if name == "before" else 1, rounds=1, seed=seed)
    for name, count in (("ours", 60), ("aside", 120)):
        numbers = rng.sample(range(10**6), count)
        cases = [f"{n}: {' '.join(rng.choices(fake_audit.END, k=2))}" for n in numbers]
        Path(name).mkdir()
        lines = [json.dumps({"text": f"Case {case}"}) + "\n" for case in cases]
        Path(name, "records.jsonl").write_text("".join(lines))
    ours = ("--ours", "ours/records.jsonl", "--held-out", "aside/records.jsonl")
    run("canary", "make", "--out", "c.json", "--count", 6, "--seed", 5, "--corpus", ours[1])
    undated("c.json")
    plant(run, ours[1])
    beside = [word for name in names[2:] for word in ("--retrained", name)]
    words = ("forget", "verify", "after", "--before", "before", *ours, *beside, "--quiet")
    written("forget", run(*words, "--canaries", "c.json", "--references", 20, "--out", "out"))


def keep(place, data):
    """Give clients of a federation's folder their records, and name their hashes."""
    (place / "data").mkdir()
    for client, path in data.items():
        shutil.copy(path, place / f"data/{client}.jsonl")
    found = manifest.read(place)
    kept = tuple(replace(one, data=f"data/{one.id}.jsonl") for one in found.clients)
    hashes = {one.data: sha256(place / one.data) for one in kept}
    kept = replace(found, clients=kept, files={**found.files, **hashes}, config_sha256="5e" * 32)
    manifest.write(kept, place)


def without(place, client):
    """Make a federation's folder that of its counterfactual without a client."""
    found = manifest.read(place)
    rounds = tuple(
        replace(
            one,
            participants=tuple(who for who in one.participants if who != client),
            clients={who: path for who, path in one.clients.items() if who != client},
        )
        for one in found.rounds
    )
    origin = {"without": [client], "config_sha256": found.config_sha256}
    clients = tuple(one for one in found.clients if one.id != client)
    left = replace(found, clients=clients, rounds=rounds, counterfactual=origin)
    manifest.write(left, place)


@pytest.fixture
def beside(here):
    """Write a federation, the same without c1 below it, and records that nobody trained on."""
    for name, start in (("third", "Suit"), ("fresh", "Writ")):
        Path(f"{name}.jsonl").write_text(Path("own.jsonl").read_text().replace("Case", start))
    data = {"c0": "own.jsonl", "c1": "victim.jsonl", "c2": "third.jsonl"}
    for place in (Path("run"), Path("run/without/c1")):
        handmade.write(place, clients=3)
        keep(place, data)
    without(Path("run/without/c1"), "c1")


def test_who_was_trained_on_and_by_whom(beside, run, written):
    asked = ("--prefixes", "run/data/c0.jsonl", "--victim", "run/data/c1.jsonl")
    attacks = ("--attack", "membership", "--attack", "source", "--held-out", "fresh.jsonl")
    done = run("extract", "--target", "run", *asked, *attacks, "--quiet", "--out", "out")
    written("source", done)


def test_an_audit_of_a_federation_beside_its_counterfactual(beside, run, written):
    words = ("audit", "run", "--set", "contextual.context=4", "--set", "ranking.candidates=[3]")
    written("audit", run(*words, "--quick", "--device", "cpu", "--out", "out", "--quiet"))


def test_merge(here, run, written):
    for part in ("1/2", "2/2"):
        shard = run(*PAIR, *BRIEF, "--shard", part, "--out", f"part{part[0]}")
        assert shard.code == 0, shard.err
    merged = run("merge", "part1", "part2", "--out", "out", "--quiet")
    written("merge", merged)


def test_attribute(tmp_path, monkeypatch, run, written):
    monkeypatch.chdir(tmp_path)
    made = handmade.write(Path("fed"), clients=5, size=handmade.SIZE, guilty=("c1",))
    [mark] = handmade.marks(made.path / "owner/watermark.json")
    handmade.reading(monkeypatch, mark)
    words = ("attribute", "--rounds", "fed", "--others", 2, "--queries", 2, "--threshold", 2)
    written("attribute", run(*words, "--workers", 1, "--device", "cpu", "--quiet", "--out", "out"))


def test_simulate(tmp_path, monkeypatch, run, written):
    monkeypatch.chdir(tmp_path)
    Path("tiny.toml").write_text(TINY)
    words = ("simulate", "--profile", "tiny.toml", "--set", "central=true", "--quiet")
    written("simulate", run(*words, "--out", "out"), tolerance=5e-3)


@pytest.mark.parametrize(
    ("name", "study"), [("extraction", EXTRACTION), ("memorization", MEMORIZATION)]
)
def test_a_study(here, monkeypatch, run, written, name, study):
    monkeypatch.setattr(fake_audit, "says", recites if name == "extraction" else continues)
    for path in here.glob("*.jsonl"):
        path.unlink()
    Path("tiny.toml").write_text(TINY + study)
    words = ("reproduce", "tiny.toml", "--device", "cpu", "--jobs", 1, "--quiet", "--out", "out")
    written(f"study-{name}", run(*words), tolerance=5e-3)
