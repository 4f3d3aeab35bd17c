"""The papers' settings, on a small base and few records, to the end of the first round."""

from dataclasses import replace

import pytest

from fedaudit.api.templates import TEMPLATES
from fedaudit.config.profile import load, shipped_profiles
from fedaudit.data import corpus
from fedaudit.nano import generator
from fedaudit.reproduction.runner import study_variants, variant_config
from fedaudit.reproduction.variant_checks import check_variant
from fedaudit.simulation.preparation import prepare
from fedaudit.simulation.runner import simulate

PAPERS = [name for name in shipped_profiles() if load(name).paper]
STAND_IN = {
    "base": "fedaudit-nano",
    "dtype": "float32",
    "device": "cpu",
    "workers": 1,
    "rounds": 1,
    "evaluated": 2,
    "training": {"accumulation": 1},
}
"""What stands in for the paper's models, and what only says how much is done."""
TEMPLATE = {"qwen": "chat", "llama3": "chat"}
"""Turns that this base has no tokens for, and the papers' template for such models."""


def file_names(value):
    """Yield the files of records that settings name."""
    if isinstance(value, str):
        yield from [value] if value.endswith(".jsonl") else []
    elif isinstance(value, list | tuple):
        yield from (name for one in value for name in file_names(one))
    elif isinstance(value, dict):
        yield from file_names(list(value.values()))


@pytest.fixture
def paper(request, tmp_path, monkeypatch):
    """Return a profile, in a folder with every file that it names, of made-up records."""
    chosen = load(request.param)
    variants = study_variants(chosen, "paper", quick=False)
    named = [variant_config(chosen, "paper", variant, {}).table() for variant in variants]
    for seed, name in enumerate(sorted(set(file_names(named)))):
        made = generator.corpus(
            cases=12,
            documents_per_case=3,
            seed=seed,
            languages=("en",),
            domains=("legal", "bank"),
            tasks=("reading", "summary"),
            template=TEMPLATES["alpaca"],
            kinds=3,
        )
        corpus.write(tmp_path / name, made)
    monkeypatch.chdir(tmp_path)
    return chosen


def config_of(chosen, variant):
    """Return a variant's federation with stand-ins for its models, and for their number."""
    plain = variant_config(chosen, "paper", variant, {})
    table = {**STAND_IN, "template": TEMPLATE.get(plain.template, plain.template)}
    if plain.partition.embedding:
        table["partition"] = {"embedding": ""}
    if plain.watermark.teacher:
        table["watermark"] = {"teacher": ""}
        name, _ = plain.watermark_plugin()
        if name == "fictitious":  # this base writes no prose on request
            table["watermark"] = {"teacher": "", "plugin": {"writer": "template"}}
    if plain.few_shot.each:
        table["few_shot"] = {"clusters": 10}
    return variant_config(chosen, "paper", variant, table)


@pytest.mark.parametrize("paper", PAPERS, indirect=True)
def test_every_variant_can_be_trained_as_far_as_that_is_known_before(paper, tmp_path):
    for variant in study_variants(paper, "paper", quick=False):
        config = config_of(paper, variant)
        check_variant(variant, config)
        prepare(config, tmp_path / "out")


FIRST = {
    "fed_attr": "fictitious-fedit-0",  # KGW's documents are rewritten by a chat model
    "fed_pii": "fedavg",
    "few_fed_pit": "FewFedPIT",
    "memorization": "question answering",
    "secure_gate": "secure gate",
}


def first_round(chosen, tmp_path):
    """Train one round of the main variant, and check that all who should have trained."""
    [variant] = [
        one for one in study_variants(chosen, "paper", quick=True) if one.name == FIRST[chosen.name]
    ]
    config = replace(config_of(chosen, variant), central=False)
    if chosen.name == "secure_gate":  # whose clients each fuse adapters and train a gate
        config = replace(config, clients=2)
    done = simulate(config, tmp_path / "out", listener=lambda event: None)
    assert [one.round for one in done.manifest.rounds] == [0, 1]
    assert len(done.manifest.rounds[1].participants) == config.participants_per_round


@pytest.mark.parametrize("paper", ["fed_pii"], indirect=True)
def test_the_first_round_ends(paper, tmp_path):
    first_round(paper, tmp_path)


@pytest.mark.oracle
@pytest.mark.parametrize("paper", PAPERS, indirect=True)
def test_the_first_round_of_every_profile_ends(paper, tmp_path):
    first_round(paper, tmp_path)
