"""A base that was trained on some of the cases before."""

import json
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.api.errors import UsageError
from fedaudit.api.records import Document, Target
from fedaudit.config.profile import Variant, load
from fedaudit.engine.loading.loader import load_base
from fedaudit.engine.local import LocalEngine
from fedaudit.reproduction.contaminated_base import (
    contaminated_base,
    seen_documents,
    write_contaminated_base,
)
from fedaudit.reproduction.runner import federation_config, study_variants
from fedaudit.reproduction.variant_checks import check_variant
from fedaudit.simulation.config import Simulation, Training
from fedaudit.simulation.data.settings import Partition, Records
from fedaudit.simulation.initialization import documents, split

SMALL = Simulation(
    clients=2,
    rounds=1,
    central=False,
    workers=1,
    device="cpu",
    records=Records(cases=6, documents_per_case=4, languages=("en",)),
    training=Training(
        steps=40,
        batch_size=4,
        learning_rate=5e-3,
        warmup=5,
        rank=32,
        alpha=64,
        max_length=96,
    ),
)


@given(
    groups=st.lists(st.sampled_from(["", *"abcdefghij"]), min_size=1, max_size=30),
    share=st.floats(0.01, 1.0),
    seed=st.integers(0, 5),
)
def test_whole_groups_are_seen_in_any_order(groups, share, seed):
    documents = [Document(id=str(n), text="x", group=g) for n, g in enumerate(groups)]
    seen = seen_documents(documents, share, seed)
    names = {document.group or document.id for document in documents}
    chosen = {document.group or document.id for document in seen}
    assert len(chosen) == max(1, round(share * len(names)))
    assert seen == [one for one in documents if (one.group or one.id) in chosen]
    assert seen == seen_documents(documents[::-1], share, seed)[::-1]


def test_the_base_knows_what_it_saw_and_nothing_else(tmp_path):
    out = contaminated_base(SMALL, 0.34, tmp_path / "federations")
    write_contaminated_base(SMALL, 0.34, out)
    kept = (out / "model.safetensors").stat().st_mtime_ns
    write_contaminated_base(SMALL, 0.34, out)
    assert (out / "model.safetensors").stat().st_mtime_ns == kept
    every = documents(SMALL)
    seen = seen_documents(every, 0.34, SMALL.seed)
    assert len(seen) == 8  # two of six cases, four documents each
    others = [document for document in every if document not in seen]
    clean, dirty = (LocalEngine(load_base(name, device="cpu")) for name in (SMALL.base, str(out)))

    def loss(engine, chosen):
        rows = [engine.base.tokenizer(document.text)["input_ids"] for document in chosen]
        return -fmean(map(fmean, engine.score(Target(name="base"), rows)))

    assert loss(dirty, seen) < loss(clean, seen) - 0.3
    assert loss(dirty, seen) < loss(dirty, others) - 0.3
    assert contaminated_base(replace(SMALL, seed=1), 0.34, tmp_path / "federations") != out


PROFILE = """
name = "small"
title = "A small study"
[scale.nano]
clients = 2
rounds = 1
central = false
workers = 1
records = { cases = 3, documents_per_case = 2, languages = ["en"] }
evaluated = 0
training = { steps = 1, batch_size = 2, max_length = 48 }
[[study]]
name = "masked, contaminated"
simulate.defenses = ["scrub"]
contaminated = 0.4
attacks = ["contextual"]
options = { contextual = { sweeps = false } }
scale_options.nano.contextual.samples = 2
"""


@pytest.mark.usefixtures("empty_folder", "few_controls")
def test_a_study_has_such_a_base_and_keeps_it(run):
    Path("small.toml").write_text(PROFILE)
    assert "fedaudit-nano" in run("reproduce", "small.toml", "--dry-run").out
    done = run("reproduce", "small.toml", "--quiet", "--jobs", "1", "--json", "r.json")
    assert done.code == 0, done.err
    place = Path("runs/reproduce/small")
    bases = {
        json.loads((path / "federation.json").read_text())["base"]["name"]
        for path in (place / "federations").iterdir()
    }
    made = {str(path) for path in (place / "bases").iterdir()}
    assert len(made) == 1
    assert bases == made
    rows = json.loads(Path("r.json").read_text())["measurements"]
    queries = [row["value"] for row in rows if row["metric"] == "queries"]
    assert queries
    assert all(value % 2 == 0 for value in queries)
    assert run("reproduce", "small.toml", "--quiet", "--jobs", "1").code == 0
    assert {str(path) for path in (place / "bases").iterdir()} == made


def test_documents_are_dealt_as_with_the_clean_base(tmp_path):
    config = replace(SMALL, partition=Partition(clusters=3))
    own = federation_config(Variant(name="a", contaminated=0.4), config, tmp_path)
    assert own.base != config.base
    every = documents(config)
    shares = [split(one, every, load_base(config.base, device="cpu")) for one in (config, own)]
    assert shares[0].clients == shares[1].clients


def test_cases_are_of_one_file():
    variant = Variant(name="a", contaminated=0.1)
    with pytest.raises(UsageError, match="client_data"):
        check_variant(variant, Simulation(clients=1, client_data={"c0": "a.jsonl"}))


def test_the_papers_numbers_of_questions_and_texts():
    chosen = load("secure_gate")
    for variant in study_variants(chosen, "paper", quick=False):
        options = variant.options
        if "untargeted" in variant.attacks:
            assert options["untargeted"] == {"samples": 15_000, "new_tokens": 256}
        if "ranking" in options:
            assert options["ranking"]["sentences"] == 100
    [nano] = [v for v in study_variants(chosen, "nano", quick=True) if v.name == "secure gate"]
    assert nano.options["untargeted"]["samples"] == 48
