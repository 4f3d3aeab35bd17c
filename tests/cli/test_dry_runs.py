"""Commands say what they would ask or train, load no model for it, and write nothing."""

import re
from pathlib import Path

import pytest

MODEL = ("--target", "fedaudit-nano", "--adapter", "lora")
FILES = ("--prefixes", "own.jsonl", "--victim", "victim.jsonl")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        # 24 records of two strings, each asked about 15 times, with answers of 10 tokens.
        (("extract", *MODEL, *FILES), "720 continuations of 7,200 tokens at most"),
        (("infer", *MODEL, "--data", "victim.jsonl"), "2,400 texts scored"),  # 48 x 50
        (("extract", *MODEL, *FILES, "--attack", "superset"), "what superset asks is not known"),
        (
            ("extract", *MODEL, "--matrix", "--clients", "own.jsonl", "victim.jsonl"),
            "1,440 continuations of 14,400 tokens at most",
        ),
        (("memorize", *MODEL, "--clients", "own.jsonl", "victim.jsonl"), "48 continuations of"),
    ],
)
def test_what_would_be_asked_is_said_and_nothing_is_written(words, says, here, run):
    before = sorted(here.rglob("*"))
    done = run(*words, "--dry-run")
    assert (done.code, done.err) == (0, "")
    text = " ".join(done.out.split())
    assert "Model: fedaudit-nano, adapter lora" in text
    assert f"Asked of the tuned model and its base each: {says}" in text
    known = "not known" if "superset" in words else r"about \d+ (?:s|min) at most"
    assert re.search(rf"Time: {known}, not counting reading and loading", text)
    assert re.search(r"Memory: about \d+ MB, and what a batch takes", text)
    disk = r"Disk: about \d+\.?\d* [kM]B of answers until the report is written"
    assert bool(re.search(disk, text)) != ("superset" in words)
    assert [path for path in sorted(here.rglob("*")) if path.name != "log"] == before
    assert max(map(len, done.out.splitlines())) <= 80


def test_a_mistake_is_found_without_asking(here, run):
    Path("victim.jsonl").write_text('{"text": 5}\n')
    run.refused(3, "extract", *MODEL, *FILES, "--dry-run", says="victim.jsonl")
    assert not Path("log").exists()


@pytest.mark.parametrize("words", [("extract", *FILES), ("infer", "--data", "own.jsonl")])
def test_nothing_to_ask_is_refused_as_by_the_audit(words, here, run):
    Path("own.jsonl").write_text('{"text": "  "}\n' * 3)
    run.refused(3, *words, *MODEL, "--dry-run", says="There is nothing to ask")


PROFILE = """
name = "small"
[scale.nano]
clients = 2
rounds = 3
participation = 0.5
workers = 1
records = { cases = 3, documents_per_case = 4 }
training = { steps = 4, batch_size = 8, rank = 2, targets = ["q_proj"] }
[scale.paper]
base = "Qwen/Qwen2.5-0.5B"
data = "letters.jsonl"
training = { epochs = 2, steps = 0, max_length = 100, batch_size = 10, rank = 16 }
[like]
paper = "nano"
[[study]]
name = "fedavg"
attacks = ["contextual"]
quick = true
[[study]]
name = "again"
attacks = ["verbatim"]
options = { verbatim = { suffix = 40 } }
[[study]]
name = "fedprox"
simulate = { aggregation = "fedprox" }
attacks = ["superset"]
"""


@pytest.fixture
def profile(tmp_path, monkeypatch):
    (tmp_path / "small.toml").write_text(PROFILE)
    monkeypatch.chdir(tmp_path)
    loading = "fedaudit.engine.loading.loader.load"  # weights are read here
    monkeypatch.setattr(loading, lambda *a, **k: pytest.fail("A model was loaded."))
    return tmp_path


def dry(run, *words, code=0):
    before = sorted(Path().rglob("*"))
    done = run(*words, "--dry-run", "--device", "cpu")
    assert (done.code, sorted(Path().rglob("*"))) == (code, before), done.err
    assert max(map(len, done.out.splitlines())) <= 80
    return " ".join(done.out.split())


def test_simulate_says_what_training_comes_to(profile, run):
    text = dry(run, "simulate", "--profile", "small.toml")
    # A round has one client of two, and the central model in batches twice as large: 4 steps each.
    assert "2 clients, 3 rounds with 1 of them; about 5 documents each" in text
    assert "6 trainings in all, 24 steps, 288 sequences" in text  # 3 x 4 x (8 + 16)
    # Four layers with A (2 x 160) and B (160 x 2): 2,560 numbers of 4 bytes.
    assert "an adapter has 2,560 (10.2 kB)" in text
    for line in (r"Time: about \d+ s", r"Memory: about \d+ MB", r"Disk: about \d+\.?\d* kB"):
        assert re.search(line, text), line


def test_a_scale_whose_records_and_base_are_elsewhere_is_sized(profile, run):
    text = dry(run, "simulate", "--profile", "small.toml", "--scale", "paper")
    assert "letters.jsonl is not there, so 1,000 documents of 100 tokens are assumed" in text
    # A client passes 500 documents twice in 50 batches of 10, the central model 1,000.
    assert "6 trainings in all, 600 steps, 9,000 sequences, about 900,000 tokens" in text
    assert "Qwen/Qwen2.5-0.5B, not on this machine, 494 million parameters" in text
    run.refused(
        3, "simulate", "--profile", "small.toml", "--set", "data=no.jsonl", "--dry-run", says="no."
    )


def test_reproduce_says_what_each_variant_trains_and_asks(profile, run):
    text = dry(run, "reproduce", "small.toml")
    assert "Study: 3 variants on 2 federations" in text
    assert "again: the federation of a variant above; " in text
    assert "fedprox: 24 steps, about" in text
    assert "what superset asks is not known before" in text
    assert "Training: 2 federations, 12 trainings, 48 steps" in text
    assert "5 continuations of 200 tokens" in text  # five documents, suffixes of 40 tokens
    seeds = dry(run, "reproduce", "small.toml", "--quick", "--seeds", "1000")
    assert "Study: 1 variant, 1,000 seeds on 1000 federations" in seeds
    assert "Training: 1,000 federations, 6,000 trainings, 24,000 steps" in seeds
    paper = dry(run, "reproduce", "small.toml", "--scale", "paper")
    assert "Asked of each attacked model, and of its base: what contextual, verbatim" in paper
