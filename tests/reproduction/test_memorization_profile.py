"""The profile `memorization`: one federation for all that is only measured in different ways."""

import pytest

from fedaudit.api.templates import template
from fedaudit.audit.request import Protocol
from fedaudit.config.options import build
from fedaudit.config.profile import load
from fedaudit.reproduction.runner import study_variants, variant_config

PROFILE = load("memorization")
TASKS = ("summary", "dialogue", "question answering", "classification")


def federations(chosen):
    made = {}
    for variant in chosen:
        made.setdefault(variant_config(PROFILE, "nano", variant, {}).sha256(), []).append(
            variant.name
        )
    return list(made.values())


NANO = study_variants(PROFILE, "nano", quick=False)


def test_variants_that_only_measure_otherwise_share_a_federation():
    shared = {names[0]: names[1:] for names in federations(NANO) if len(names) > 1}
    assert tuple(shared) == TASKS
    for task, names in shared.items():
        ways = ("prefix 10", "prefix 50", "top-p", "temperature", "greedy", "header")
        assert set(names) == {f"{task}, {way}" for way in ways}


def test_quick_trains_a_federation_for_each_task():
    assert len(federations(study_variants(PROFILE, "nano", quick=True))) == 4
    # Beside them: FedProx and central models; for one task fewer and more rounds; for one whole
    # texts, and for one answers only.
    assert len(federations(NANO)) == 4 * (1 + 1 + 1) + 2 + 1 + 1


@pytest.mark.parametrize("variant", NANO, ids=lambda one: one.name)
def test_every_variant_measures_and_trains_what_its_name_says(variant):
    protocol = build(Protocol, variant.memorize, variant.name)
    nano, paper = (variant_config(PROFILE, scale, variant, {}) for scale in ("nano", "paper"))
    task, _, way = variant.name.partition(", ")
    answers = way == "answers only" or (task == "classification" and way != "whole text")
    assert nano.records.tasks == (task.replace(" ", "_"),)
    assert paper.data == f"{task.replace(' ', '_')}.jsonl" or variant.only == "nano"
    assert nano.training.learned == ("answer" if answers else "text")
    assert paper.training.learned == "answer"
    assert nano.central == paper.central == protocol.central == (way == "central")
    assert (nano.aggregator()[0] == "fedprox") == (way == "FedProx")
    assert protocol.prefix_length == (int(way.split()[1]) if "prefix" in way else 30)
    named = way if way in ("top-p", "temperature", "greedy") else "top-k"
    assert protocol.decoding == named
    assert paper.rounds == (int(way.split()[0]) if "round" in way else 3)


def test_prefixes_are_short_where_tokens_are_long():
    small = {
        one.name: PROFILE.variant_at(one, "small").memorize["prefix_length"]
        for one in study_variants(PROFILE, "small", quick=False)
    }
    assert {name: length for name, length in small.items() if length != 10} == {
        f"{task}, prefix 50": 50 for task in TASKS
    }
    nano = next(one for one in NANO if one.name == "summary")
    assert PROFILE.variant_at(nano, "nano").memorize == {}


def test_other_models_are_for_the_papers_scale():
    others = [one for one in PROFILE.study if "base" in one.scale.get("paper", {})]
    assert {one.only for one in others} == {"paper"}
    made = {variant_config(PROFILE, "paper", one, {}).base for one in others}
    assert len(made) == 4
    assert len(others) == 4 * len(TASKS)
    for one in others:
        config = variant_config(PROFILE, "paper", one, {})
        assert config.template == ("llama3" if "Llama" in config.base else "qwen")
        assert config.base.endswith(one.name.rpartition(", ")[2])


def test_the_papers_settings():
    paper = variant_config(PROFILE, "paper", PROFILE.study[0], {})
    training = paper.training
    assert training.batch_size * training.accumulation == 64
    assert training.learning_rate == 2e-4
    assert paper.dtype == "bfloat16"
    assert round(30_000 * paper.held_out) == 3000
    assert template(paper.template).header().endswith("<|im_start|>user\n")


def test_figures_are_shares_and_name_a_table():
    assert len(PROFILE.figures) > 90
    for figure in PROFILE.figures:
        assert figure.source.startswith("table ")
        most = {"median_length": 1000, "bleu": 100}.get(figure.metric, 1)
        assert 0 <= figure.value < most
