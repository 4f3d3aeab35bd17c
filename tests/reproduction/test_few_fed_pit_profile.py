"""The profile `few_fed_pit`: what its variants train, and that claims and figures fit them."""

from dataclasses import replace

import pytest

from fedaudit.config import registry
from fedaudit.config.profile import Select, load
from fedaudit.reproduction.runner import study_variants, variant_config

PROFILE = load("few_fed_pit")
NANO, PAPER = (study_variants(PROFILE, scale, quick=False) for scale in ("nano", "paper"))
QUICK = study_variants(PROFILE, "nano", quick=True)


def of(scale, name):
    [variant] = [one for one in PROFILE.study if one.name == name and one.only in ("", scale)]
    return variant_config(PROFILE, scale, variant, {})


def federations(scale, chosen):
    return {repr(sorted(variant_config(PROFILE, scale, one, {}).table().items())) for one in chosen}


def test_controls_are_of_the_very_federation_that_they_are_compared_with():
    for scale in ("nano", "paper"):
        assert of(scale, "FedAvg") == of(scale, "central") == of(scale, "LocIT")
        assert replace(of(scale, "LocIT+SG"), local="no") == of(scale, "FedMIT")
        assert (of(scale, "FedAvg").central, of(scale, "FedAvg").local) == (True, "plain")
        assert of(scale, "LocIT+SG").local == "defended"
    assert len(federations("nano", QUICK)) == len(QUICK) - 2
    assert len(federations("nano", NANO)) == len(NANO) - 2


@pytest.mark.parametrize("scale", ["nano", "paper"])
@pytest.mark.parametrize(
    ("name", "alpha"),
    [("alpha 0", 0), ("alpha 0.3", 0.3), ("FewFedPIT", 0.5), ("alpha 0.7", 0.7)],
)
def test_alphas_are_what_their_names_say_and_nothing_else_differs(scale, name, alpha):
    config = of(scale, name)
    [(plugin, options)] = config.defense_plugins()
    made = registry.create("defense", plugin, options)
    assert (plugin, made.alpha) == ("few_fed_pit", alpha)
    assert made.keep == 16
    plain = replace(config, defenses=())
    assert plain == replace(of(scale, "FedAvg"), central=False, local="no")


def test_only_the_choice_differs_where_it_is_studied():
    for name, method in (("by PPL", "perplexity"), ("by IFD", "ifd"), ("by Rand", "random")):
        for scale in ("nano", "paper"):
            [(plugin, options)] = of(scale, name).defense_plugins()
            [(_, wanted)] = of(scale, "FewFedPIT").defense_plugins()
            made = registry.create("defense", plugin, options)
            assert made.selection == method
            assert replace(made, selection="ifs") == registry.create("defense", plugin, wanted)


def test_public_examples_are_of_the_domain_that_they_should_be():
    from fedaudit.api.templates import template
    from fedaudit.data.public_examples import public_examples

    own = set(of("nano", "FedAvg").records.domains)
    for name, like in (("+OOD", False), ("+SIMD", True), ("+IDEAL", True)):
        [(_, options)] = of("nano", name).defense_plugins()
        found = public_examples(options["source"], template("alpaca"))
        assert len(found) >= 16
        assert (set(options["source"].split(":")[1].split(",")) <= own) == like
    tasks = set(of("nano", "FedAvg").records.tasks)
    assert {d.task for d in public_examples(_source("+IDEAL"), template("alpaca"))} == tasks
    assert not {d.task for d in public_examples(_source("+SIMD"), template("alpaca"))} & tasks


def _source(name):
    [(_, options)] = of("nano", name).defense_plugins()
    return options["source"]


def test_the_papers_federations():
    """Table 1 and section 4.1."""
    silo = of("paper", "FewFedPIT")
    assert (silo.clients, silo.rounds, silo.participation) == (10, 10, 1.0)
    assert silo.few_shot.clusters * silo.few_shot.each == 500
    for name in ("Alpaca, FewFedPIT", "MedAlpaca, FewFedPIT", "Alpaca, SCAFFOLD"):
        device = of("paper", name)
        assert (device.clients, device.rounds) == (50, 30)
        assert round(device.participation * device.clients) == 2
        assert device.few_shot.clusters * device.few_shot.each == 1000
        assert device.partition == silo.partition
        assert device.training == silo.training
    assert (silo.partition.method, silo.partition.alpha) == ("cluster", 1.0)
    training = silo.training
    assert (training.rank, training.batch_size, training.epochs, training.steps) == (16, 8, 1, 0)
    assert (training.decay, training.learning_rate) == ("cosine", 3e-4)
    [(_, options)] = silo.defense_plugins()
    made = registry.create("defense", "few_fed_pit", options)
    assert (made.candidates, made.keep, made.shown, made.demonstrations) == (32, 16, 8, 4)
    assert (made.tries, made.similarity, made.alpha, made.selection) == (3, 0.7, 0.5, "ifs")


def test_a_judge_waits_for_an_address():
    for scale in ("nano", "paper"):
        assert of(scale, "FewFedPIT").judge.endpoint() is None
    asked = variant_config(
        PROFILE, "paper", PAPER[0], {"judge": {"url": "https://judge.example/v1"}}
    )
    assert asked.judge.endpoint().model == "gpt-4-0613"


def test_every_side_of_a_claim_is_measured_by_its_variant():
    by = {one.name: one for one in PROFILE.study}
    for claim in PROFILE.claims:
        for side in (claim.left, claim.right):
            if not isinstance(side, Select):
                continue
            variant, scope = by[side.variant], side.scope
            if side.plugin == "discoverable":
                assert variant.attacks == ("discoverable",)
                assert ("passed" in scope) == bool(variant.trace)
                if "passed" in scope:
                    assert scope["passed"] * variant.trace in range(1, variant.trace + 1)
                assert (scope.get("client") == "all") == (variant.model == "local")
            elif scope["source"] == "central":
                assert of("nano", side.variant).central
            elif scope["source"] == "local":
                assert of("nano", side.variant).local != "no"


def test_quick_leaves_the_ablations_out():
    names = {one.name for one in NANO} - {one.name for one in QUICK}
    assert names == {
        *("alpha 0.7", "LocIT+SG", "by PPL", "by IFD", "by Rand", "+OOD", "+SIMD", "+IDEAL"),
        "two of eight a round",
    }


def test_published_win_tie_and_lose_make_a_whole():
    """Table 2: three shares of each method and data set add up to 1, to rounding."""
    found = {}
    for figure in PROFILE.figures:
        if figure.source == "table 2":
            what = figure.what.partition(":")[0]
            found.setdefault(what, []).append(figure.value)
    assert len(found) == 21
    assert all(
        len(some) == 3 and sum(some) == pytest.approx(1, abs=2e-3) for some in found.values()
    )
    names = {one.name for one in PROFILE.study}
    assert {figure.variant for figure in PROFILE.figures} <= names
