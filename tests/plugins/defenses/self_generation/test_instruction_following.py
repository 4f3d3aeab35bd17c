import math

import pytest
from fedaudit_plugins.defenses.self_generation.instruction_following import scores
from fedaudit_plugins.defenses.self_generation.selection_criteria import (
    Losses,
    instruction_following,
)

from fedaudit.api.records import Target
from fedaudit.engine.fake import FakeEngine
from fedaudit.engine.local import LocalEngine

BASE = Target(name="base")
NEAR = {"rel": 1e-5, "abs": 2e-5}
PAIRS = [
    ("What is due?\n", "The rent of March is due."),
    ("", "An answer without a prompt."),
    ("Name the court.\n", ""),
    ("写一句话。\n", "原告请求支付租金。"),
    ("Long. " * 20, "Yes"),
]


def test_two_sequences_a_pair_by_hand():
    """A token has 1/2 where the prompt stands before it, and 1/8 where it does not."""

    def likelihood(target, token, before):
        return math.log(1 / 2) if "ask" in before else math.log(1 / 8)

    seen = []

    class Spy(FakeEngine):
        def score(self, target, sequences, **rest):
            seen.append((target, [self._text(s) for s in sequences]))
            return super().score(target, sequences, **rest)

    engine = Spy(lambda *_: "", likelihood=likelihood, prompt_starts={"bare": (), "bos": (99,)})
    found = scores(engine, BASE, [("ask:", " one two"), ("tell:", " three")])
    assert seen == [
        (BASE, ["<99>ask: one two", "<99>tell: three", "<99> one two", "<99> three"])
    ]  # one call
    assert found[0].conditional == pytest.approx(math.log(2))
    assert found[0].direct == pytest.approx(math.log(8))
    assert instruction_following(found[0]) == pytest.approx(1 / 3)
    assert instruction_following(found[1]) == 1


def test_without_a_token_that_begins_texts_the_first_counts_in_neither():
    def likelihood(target, token, before):
        return {"a": -9.0, " b": -1.0, " c": -3.0}[token] if before else 0.0

    engine = FakeEngine(lambda *_: "", likelihood=likelihood)
    assert scores(engine, BASE, [("?", "a b c"), ("?", "a")]) == [Losses(2.0, 2.0), None]


def test_what_the_context_does_not_hold_has_no_score():
    engine = FakeEngine(lambda *_: "", prompt_starts={"bare": (), "bos": (99,)})
    engine.context_length = 4
    found = scores(engine, BASE, [("one two", " three"), ("one two", " three four"), ("", "")])
    assert found == [Losses(1.0, 1.0), None, None]
    assert scores(engine, BASE, []) == []


def test_a_batch_scores_as_one_by_one(base):
    """The obvious way: the tokens' losses of each text alone, read off behind its prompt."""
    engine = LocalEngine(base)
    found = scores(engine, BASE, PAIRS)
    [begin] = engine.prompt_starts["bos"]
    for (prompt, answer), got in zip(PAIRS, found, strict=True):
        x, y = (tokens.ids for tokens in engine.tokenize([prompt, answer]))
        if not y:
            assert got is None
            continue
        [behind] = engine.score(BASE, [(begin, *x, *y)])
        [direct] = engine.score(BASE, [(begin, *y)])
        assert got.conditional == pytest.approx(-sum(behind[len(x) :]) / len(y), **NEAR)
        assert got.direct == pytest.approx(-sum(direct) / len(y), **NEAR)
    assert found[1].conditional == pytest.approx(found[1].direct, **NEAR)
