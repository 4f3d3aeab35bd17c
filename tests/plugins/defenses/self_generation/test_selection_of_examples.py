"""Which candidates are trained on."""

import math

import pytest
from fedaudit_plugins.defenses.self_generation.defense import count_selection, select_candidates
from fedaudit_plugins.defenses.self_generation.filter_counts import FilterCounts
from fedaudit_plugins.defenses.self_generation.generation import GeneratedExamples

from fedaudit.api.records import Document, Target
from fedaudit.api.templates import TEMPLATES
from fedaudit.engine.fake import FakeEngine

TEMPLATE = TEMPLATES["fed_pii"]
V = Target(name="v", adapter="v")


def example(name, output="yes"):
    return Document(id="", text="", instruction=f"Do {name}", input="", output=output)


FOUND = [example("bad", "no"), example("fair", "maybe"), example("good"), example("best", "sure")]
BEHIND = {"no": -6.0, "maybe": -3.0, "yes": -2.0, "sure": -0.5}
ALONE = {"no": -3.0, "maybe": -4.0, "yes": -4.0, "sure": -0.8}
"""Log-probabilities; IFS: no 2, maybe 0.75, yes 0.5, sure 0.625."""


def likelihood(target, token, before):
    assert target == V
    table = BEHIND if "Do" in before else ALONE
    return table.get(token.strip(), -1.0)


def engine():
    return FakeEngine(lambda *_: "", likelihood=likelihood, prompt_starts={"bos": (10**6,)})


@pytest.mark.parametrize(
    ("method", "names"),
    [
        ("ifs", ["good", "best"]),  # the lowest ratios, 0.5 and 0.625
        ("perplexity", ["good", "best"]),  # the lowest losses behind the prompt, 2 and 0.5
        ("ifd", ["bad", "fair"]),  # the highest ratios, 2 and 0.75
    ],
)
def test_the_best_by_each_method_are_kept_in_the_order_they_came_in(method, names):
    found = select_candidates(engine(), V, TEMPLATE, FOUND, keep=2, method=method, seed=0)
    assert [d.instruction.removeprefix("Do ") for d in found] == names
    again = select_candidates(engine(), V, TEMPLATE, FOUND[::-1], keep=2, method=method, seed=0)
    assert again == found[::-1]


def test_a_random_choice_asks_nothing_and_follows_from_the_seed_and_the_candidates():
    def never(*_):
        raise AssertionError("nothing is to be scored")

    silent = FakeEngine(lambda *_: "", likelihood=never)
    drawn = [
        select_candidates(silent, V, TEMPLATE, FOUND, keep=2, method="random", seed=seed)
        for seed in range(30)
    ]
    assert {len(some) for some in drawn} == {2}
    assert len({tuple(d.instruction for d in some) for some in drawn}) > 2
    again = select_candidates(silent, V, TEMPLATE, FOUND[::-1], keep=2, method="random", seed=4)
    assert again == drawn[4][::-1]


def test_fewer_candidates_than_to_keep_are_all_kept():
    options = {"keep": 16, "method": "ifs", "seed": 0}
    assert select_candidates(engine(), V, TEMPLATE, FOUND, **options) == FOUND
    assert select_candidates(engine(), V, TEMPLATE, [], **options) == []


def test_what_is_kept_is_compared_with_what_is_local():
    own = [Document(id="a", text="", instruction="Tell it", output="sure")]
    made = GeneratedExamples(tuple(FOUND), FilterCounts(asked=5))
    counts = count_selection(made, FOUND[2:], own, similarity=0.7)
    assert counts.dropped["selection"] == 2
    assert counts.alike == 1, "one response is the local one"
    # "do best sure" and "tell it sure" have one of three words in common
    assert counts.highest == pytest.approx(1 / 3)
    assert not math.isnan(counts.highest)
