"""How likely the base finds strings, worked out by hand with an engine that is told."""

import math
from collections import Counter
from dataclasses import replace

import pytest

from fedaudit.api.engine import GenerationBatch
from fedaudit.api.plugin import AttackContext
from fedaudit.api.records import GenerationRequest, SamplingParams, Target
from fedaudit.engine.fake import FakeEngine
from fedaudit.engine.local import LocalEngine
from fedaudit.extraction.base_likelihood import (
    base_probabilities,
    log_likelihoods,
    missed_target_probabilities,
)
from fedaudit.extraction.query_plan import Query, QueryPlan
from fedaudit.extraction.sampling import QueryParams

FIVE = QueryParams(samples=5, new_tokens=10, decoding=SamplingParams())


def likelihood(target, token, before):
    """Return -1 for a word, -3 behind "He", and much more for the tuned model."""
    if target.adapter:
        return 0.0
    return -3.0 if before.startswith("He") else -1.0


def asked(*questions, base=True):
    fake = FakeEngine(lambda *_: "", likelihood=likelihood)
    made = [
        Query(fake.tokenize([text])[0].ids, copies, tuple((kind, ".") for kind in kinds))
        for text, copies, kinds in questions
    ]
    plan = QueryPlan(size=sum(one.copies for one in made), queries=lambda: iter(made))
    case = AttackContext(
        engine=fake,
        tuned=Target(name="tuned", adapter="x"),
        base=Target(name="base") if base else None,
        attacker=[],
        victim=[],
    )
    return case, plan


def test_a_string_is_scored_behind_a_prompt_of_its_kind():
    case, plan = asked(("Name:", 1, ["PERSON"]), ("He lives", 1, ["PLACE"]))
    strings = {"Ann Lee": "PERSON", "York": "PLACE", "fever": "OTHER"}
    # Two words at -1; one word behind "He" at -3; one word behind the first prompt of all.
    assert log_likelihoods(case, plan, strings) == {"Ann Lee": -2, "York": -3, "fever": -1}


def test_neither_order_nor_company_matters():
    case, plan = asked(("Name:", 1, ["PERSON"]))
    alone = log_likelihoods(case, plan, {"Ann Lee": "PERSON"})
    more = log_likelihoods(case, plan, {"Bob": "PERSON", "Ann Lee": "PERSON"})
    assert more["Ann Lee"] == alone["Ann Lee"]


def test_what_the_base_says_in_an_audit_by_hand():
    case, plan = asked(("Name:", 2, ()), ("He lives", 1, ()))
    # Five samples of each of three prefixes: 10 x e^-2 + 5 x e^-6 expected.
    expected = 1 - math.exp(-(10 * math.exp(-2) + 5 * math.exp(-6)))
    assert base_probabilities(case, plan, ["Ann Lee"], FIVE) == {"Ann Lee": pytest.approx(expected)}


def test_some_strings_speak_for_others():
    case, plan = asked(*[("Name:", 1, ())] * 60)
    few = {f"{'word ' * (n % 3)}{n}": "B" for n in range(9)}
    one_by_one = {string: base_probabilities(case, plan, [string], FIVE)[string] for string in few}
    # Sixty prompts are all alike, so fifty tell what sixty do.
    assert missed_target_probabilities(case, plan, few, FIVE) == pytest.approx(one_by_one)
    # Of 100 strings every second one is scored, in the order of labels.
    many = {f"a{n:03}": "A" for n in range(60)} | {f"b b{n:03}": "B" for n in range(40)}
    found = missed_target_probabilities(case, plan, many, FIVE)
    assert len(found) == 100
    assert found["a001"] == found["a000"] == pytest.approx(-math.expm1(-300 * math.exp(-1)))
    assert found["b b039"] == found["b b038"] == pytest.approx(-math.expm1(-300 * math.exp(-2)))


def test_without_a_base_there_is_nothing_to_tell():
    case, plan = asked(("Name:", 1, ()), base=False)
    assert log_likelihoods(case, plan, {"Ann": "PERSON"}) == {}
    assert base_probabilities(case, plan, ["Ann"], FIVE) == {}
    assert missed_target_probabilities(case, plan, {"Ann": "PERSON"}, FIVE) == {}
    case, plan = asked(("Name:", 1, ()))
    assert log_likelihoods(case, plan, {}) == base_probabilities(case, plan, [], FIVE) == {}


def test_a_greedy_answer_counts_as_one_draw():
    case, plan = asked(("Name:", 1, ()), ("He lives", 1, ()))
    greedy = QueryParams(samples=1, new_tokens=10, decoding=SamplingParams(temperature=0))
    expected = 1 - math.exp(-(math.exp(-2) + math.exp(-6)))
    assert base_probabilities(case, plan, ["Ann Lee"], greedy) == {
        "Ann Lee": pytest.approx(expected)
    }


def test_the_chance_is_that_of_what_was_drawn_from():
    """Top-k: 0.2 behind the first prompt, which may lead in with "Mr "; 0.1 behind the second."""
    table = {("Name:", "Ann"): 0.2, ("Name:", "Mr Ann"): 0.05, ("He lives", "Ann"): 0.1,
             ("He lives", "Mr Ann"): 0.7}  # fmt: skip
    fake = FakeEngine(lambda *_: "", chance=lambda _, prompt, string: table[prompt, string])
    made = [
        Query(fake.tokenize(["Name:"])[0].ids, 2, leads=("Mr ",)),
        Query(fake.tokenize(["He lives"])[0].ids),
    ]
    plan = QueryPlan(size=3, queries=lambda: iter(made))
    case, _ = asked()
    case = replace(case, engine=fake)
    few = replace(FIVE, decoding=SamplingParams(top_k=5))
    expected = 1 - math.exp(-5 * (2 * 0.25 + 0.1))
    assert base_probabilities(case, plan, ["Ann"], few) == {"Ann": pytest.approx(expected)}


@pytest.mark.parametrize("decoding", [SamplingParams(), SamplingParams(top_k=3, temperature=0.7)])
def test_the_chance_agrees_with_answers_of_a_model(base, decoding):
    """Of 4,000 answers of a small model, as many begin with a string as it says."""
    engine, prompt = LocalEngine(base), "The patient is"
    ids = engine.tokenize([prompt])[0].ids
    plan = QueryPlan(size=1, queries=lambda: iter([Query(ids)]))
    case = AttackContext(engine=engine, tuned=Target(name="base"), base=Target(name="base"),
                         attacker=[], victim=[])  # fmt: skip
    batch = GenerationBatch(
        [GenerationRequest(prompt=ids, samples=4000, max_new_tokens=4)], seed=1, decoding=decoding
    )
    [answers] = engine.generate(Target(name="base"), batch)
    words = [text.split()[0] for text in answers.texts if text.startswith(" ") and text.split()]
    word, _ = Counter(words).most_common(1)[0]
    share = sum(text.startswith(f" {word}") for text in answers.texts) / 4000
    one = QueryParams(samples=1, new_tokens=4, decoding=decoding)
    [chance] = base_probabilities(case, plan, [word], one).values()
    mass = -math.log1p(-chance)
    assert mass == pytest.approx(
        share, abs=4 * math.sqrt(share * (1 - share) / 4000) + 0.03 * share
    )
