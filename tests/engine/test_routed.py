"""A deployed model: the responder chooses, the engine answers, and keys go no further."""

from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.api.defense import Responder
from fedaudit.api.engine import GenerationBatch, PrefixProbabilities, PrefixProbabilityRequest
from fedaudit.api.records import GatedRequest, GenerationRequest, RoutedRequest, Target
from fedaudit.engine import routed
from fedaudit.engine.exact.probabilities import scatter_probabilities
from fedaudit.engine.fake import FakeEngine
from fedaudit.engine.routed import RoutedEngine

OPEN = {"key a": "A", "key b": "B"}


@dataclass
class Door(Responder):
    """Opens A or B for its key, C without one; keeps what it was asked."""

    asked: list[GatedRequest] = field(default_factory=list)

    def route(self, requests):
        self.asked += requests
        return [
            RoutedRequest(adapter := OPEN.get(one.heading, "C"), adapter, one.prompt)
            for one in requests
        ]

    def headings(self):
        return {"right": "key a", "none": ""}


class Moody(Door):
    """Routes by the prompt: what no gate should do, but an engine must survive."""

    def route(self, requests):
        return [RoutedRequest("", "A" if len(r.prompt) % 2 else "B", r.prompt) for r in requests]


@pytest.fixture
def inner():
    return FakeEngine(
        lambda target, prompt, sample: f"{target.adapter}:{prompt}:{sample}",
        likelihood=lambda target, token, before: -float(len(target.adapter or "xx") + len(before)),
    )


def asked(engine, *texts):
    return [
        GenerationRequest(prompt=tokens.ids, samples=2, max_new_tokens=3)
        for tokens in engine.tokenize(texts)
    ]


@pytest.mark.parametrize(("heading", "adapter"), [("key a", "A"), ("key b", "B"), ("", "C")])
def test_the_heading_decides_which_adapter_answers(inner, heading, adapter):
    engine = RoutedEngine(inner, Door())
    target = Target(name="tuned", heading=heading)
    [one, two] = engine.generate(
        target, GenerationBatch(asked(engine, "who is", "where is"), seed=0)
    )
    assert one.texts == (f"{adapter}:who is:0", f"{adapter}:who is:1")
    assert two.texts == (f"{adapter}:where is:0", f"{adapter}:where is:1")


def test_no_responder_is_asked_for_a_plain_target(inner):
    door = Door()
    engine = RoutedEngine(inner, door)
    for adapter in (None, "D"):
        target = Target(name="plain", adapter=adapter)
        [one] = engine.generate(target, GenerationBatch(asked(engine, "who is"), seed=0))
        assert one.texts[0] == f"{adapter}:who is:0"
    assert door.asked == []


def test_scores_are_those_of_the_chosen_adapter(inner):
    engine = RoutedEngine(inner, Door())
    ids = [tokens.ids for tokens in engine.tokenize(["one two three", "one two"])]
    gated, plain = Target(name="t", heading="key b"), Target(name="t", adapter="B")
    assert engine.score(gated, ids) == inner.score(plain, ids)
    assert engine.score_groups(gated, [ids, ids[:1]]) == inner.score_groups(plain, [ids, ids[:1]])
    assert engine.token_statistics(gated, ids) == inner.token_statistics(plain, ids)


def test_keys_that_open_the_same_adapter_cost_one_answer(inner):
    engine = RoutedEngine(inner, Door())
    probes = asked(engine, "who is")
    answers = [
        engine.generate(Target(name=name, heading=heading), GenerationBatch(probes, seed=0))
        for name, heading in (("none", ""), ("wrong", "key x"), ("right", "key a"))
    ]
    assert answers[0] == answers[1] != answers[2]
    assert [target.adapter for target, _ in inner.asked] == ["C", "A"]
    engine.generate(Target(name="again", heading=""), GenerationBatch(probes, seed=1))
    assert len(inner.asked) == 3, "another seed is another question"


@given(st.lists(st.text("ab ", min_size=1, max_size=9), min_size=1, max_size=8, unique=True))
def test_answers_stand_where_their_questions_stood(texts):
    def echo(target, prompt, sample):
        return f"{target.adapter}:{prompt}"

    engine = RoutedEngine(FakeEngine(echo), Moody())
    target = Target(name="tuned", heading="")
    tokens = engine.tokenize(texts)
    probes = [GenerationRequest(prompt=t.ids, samples=1, max_new_tokens=1) for t in tokens]
    for text, one, answer in zip(
        texts, tokens, engine.generate(target, GenerationBatch(probes, seed=0)), strict=True
    ):
        assert answer.texts[0] == f"{'A' if len(one.ids) % 2 else 'B'}:{text}"
    rows = [t.ids for t in tokens]
    assert engine.score_groups(target, [rows]) == [engine.score(target, rows)]


def test_progress_runs_to_its_end_over_all_adapters(inner):
    seen = []
    engine = RoutedEngine(inner, Moody())
    ids = [tokens.ids for tokens in engine.tokenize(["a", "a b", "a b c"])]
    engine.score(Target(name="t", heading=""), ids, progress=lambda n, of: seen.append((n, of)))
    assert seen[-1] == (3, 3)
    assert [n for n, _ in seen] == sorted(n for n, _ in seen)


def test_what_begins_answers_is_asked_of_the_adapter_that_the_key_opens():
    inner = FakeEngine(
        lambda *_: "", chance=lambda target, prompt, string: 0.5 if target.adapter == "A" else 0.25
    )
    engine = RoutedEngine(inner, Moody())
    prompts = [tokens.ids for tokens in engine.tokenize(["one", "one two"])]
    found = engine.prefix_probabilities(
        Target(name="tuned", heading="key"),
        PrefixProbabilityRequest(prompts, ["Ann"], max_new_tokens=3, trials=[2, 3]),
    )
    assert [float(one.least[0]) for one in found] == [0.5, 0.25]


class Cleaning(Door):
    """Takes the first token of every prompt away, whatever it is."""

    def route(self, requests):
        return [
            RoutedRequest(one.name, one.adapter, one.prompt[1:]) for one in super().route(requests)
        ]


class Walked(FakeEngine):
    """Draws three completions for every ten trials; keeps what it was asked."""

    def __init__(self):
        super().__init__(lambda *_: "", chance=lambda *_: 0.25)
        self.walked = []

    def prefix_probabilities(self, target, request, **options):
        self.walked.append(
            (target.adapter, list(map(self._text, request.prompts)), list(request.trials))
        )
        found = super().prefix_probabilities(target, request, **options)
        return [
            PrefixProbabilities(
                least=one.least, most=one.most, drawn=one.drawn + 3 * n // 10, rows=5
            )
            for one, n in zip(found, request.trials, strict=True)
        ]


def walk(engine, texts, trials, heading="", seed=0):
    prompts = [tokens.ids for tokens in engine.tokenize(texts)]
    target = Target(name="tuned", heading=heading)
    return engine.prefix_probabilities(
        target,
        PrefixProbabilityRequest(
            prompts, ["Ann", "Bob"], max_new_tokens=3, trials=trials, seed=seed
        ),
    )


def test_prompts_that_become_the_same_are_walked_once():
    inner = Walked()
    engine = RoutedEngine(inner, Cleaning())
    found = walk(engine, ["one two", "a b", "six two", "ten two"], [100, 10, 200, 0])
    assert inner.walked == [("C", [" two", " b"], [300, 10])]
    one, other, six, ten = found
    assert [r.least.tolist() for r in found] == [[0.25, 0.25]] * 4
    assert (one.drawn + six.drawn).tolist() == [90, 90]
    # A third of 90 each, with a standard deviation of root 20.
    assert abs(one.drawn - 30).max() < 5 * 20**0.5
    assert (ten.drawn.tolist(), other.drawn.tolist()) == ([0, 0], [3, 3])
    assert [r.rows for r in found] == [5, 5, 0, 0]
    assert [r.drawn.tolist() for r in walk(engine, ["one two", "six two"], [])] == [[0, 0]] * 2


def test_keys_that_open_the_same_adapter_cost_one_walk(monkeypatch):
    def asked():
        inner = Walked()
        engine = RoutedEngine(inner, Door())
        for heading in ("", "key x", "key a"):
            walk(engine, ["one two"], [10], heading)
        walk(engine, ["one two"], [10], seed=1)
        walk(engine, ["one two"], [20])
        return [adapter for adapter, _, _ in inner.walked]

    assert asked() == ["C", "A", "C", "C"], "another seed or number of draws is another question"
    monkeypatch.setattr(routed, "ROOM", 100)
    assert asked() == ["C", "A", "C", "C"], "there is room for two"
    monkeypatch.setattr(routed, "ROOM", 10)
    assert asked() == ["C", "C", "A", "C", "C"]


@given(
    st.lists(st.integers(0, 1000), min_size=1, max_size=5),
    st.lists(st.integers(0, 10**6), min_size=1, max_size=6),
    st.integers(0, 9),
)
def test_every_draw_falls_to_a_question_that_wanted_some(drawn, trials, seed):
    own = np.array(drawn) * (sum(trials) > 0)
    chances = PrefixProbabilities(least=own / 1e3, most=own / 1e3, drawn=own, rows=7)
    found = scatter_probabilities(chances, (1, 2), trials, seed)
    assert sum(one.drawn for one in found).tolist() == own.tolist()
    assert not any(one.drawn.any() for one, n in zip(found, trials, strict=True) if not n)
    assert sum(one.rows for one in found) == 7
    assert [one.drawn.tolist() for one in scatter_probabilities(chances, (1, 2), trials, seed)] == [
        one.drawn.tolist() for one in found
    ]
