"""What an engine is asked, and engines that wrap another one, on a fake one."""

import pickle
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.api.engine import (
    EngineWrapper,
    GenerationBatch,
    PrefixProbabilityRequest,
    unwrap_engine,
)
from fedaudit.api.records import GenerationRequest, SamplingParams, Target
from fedaudit.engine.fake import FakeEngine

TARGET = Target(name="tuned")


def fake():
    return FakeEngine(
        lambda target, prompt, sample: f"{prompt}-{sample}",
        likelihood=lambda target, token, before: -float(len(before)),
        chance=lambda target, prompt, string: 1 / (1 + len(prompt) + len(string)),
        prompt_starts={"bare": (), "bos": (7,)},
    )


def requests(count):
    return [GenerationRequest(prompt=(n,), samples=n + 1, max_new_tokens=3) for n in range(count)]


class Shouting(EngineWrapper):
    """Continues in capitals; the rest is the engine's."""

    def generate(self, target, batch, **options):
        found = super().generate(target, batch, **options)
        return [replace(one, texts=tuple(text.upper() for text in one.texts)) for one in found]


def test_a_wrapper_answers_as_its_engine_does():
    engine, wrapper, told = fake(), EngineWrapper(fake()), []
    for one in (engine, wrapper):
        one.tokenize(["a b c"])

    def progress(*counts):
        told.append(counts)

    batch = GenerationBatch(requests(3), seed=1)
    asked = PrefixProbabilityRequest([(0,), (1, 2)], ["x", "yy"], max_new_tokens=2)
    rows = [(0, 1), (0, 1, 2)]
    assert wrapper.context_length == engine.context_length
    assert wrapper.prompt_starts == engine.prompt_starts
    assert wrapper.tokenize(["c b"]) == engine.tokenize(["c b"])
    assert wrapper.generate(TARGET, batch, progress=progress) == engine.generate(TARGET, batch)
    assert wrapper.score(TARGET, rows, progress=progress) == [[-1.0], [-1.0, -3.0]]
    assert wrapper.score_groups(TARGET, [rows, []], progress=progress) == [
        engine.score(TARGET, rows),
        [],
    ]
    found = wrapper.prefix_probabilities(TARGET, asked, progress=progress)
    # Prompts "a" and " b c" of 1 and 4 characters, strings of 1 and 2.
    assert [one.least.tolist() for one in found] == [[1 / 3, 1 / 4], [1 / 6, 1 / 7]]
    assert told == [(3, 3), (2, 2), (2, 2), (2, 2)]


def test_a_wrapper_changes_only_what_it_overrides():
    engine = Shouting(fake())
    engine.tokenize(["a b"])
    [one] = engine.generate(TARGET, GenerationBatch(requests(1), seed=0))
    assert one.texts == ("A-0",)
    assert engine.score(TARGET, [(0, 1)]) == [[-1.0]]


def test_a_wrapped_engine_is_found_by_its_kind():
    inner = fake()
    shouting = Shouting(inner)
    outer = EngineWrapper(EngineWrapper(shouting))
    assert unwrap_engine(outer, Shouting) is shouting
    assert unwrap_engine(outer, FakeEngine) is inner
    assert unwrap_engine(outer, EngineWrapper) is outer
    assert unwrap_engine(EngineWrapper(inner), Shouting) is None
    assert unwrap_engine(inner, Shouting) is None


def test_a_question_is_the_same_whatever_sequences_it_is_made_of():
    one = GenerationBatch(requests(2), seed=3, stop_strings=["x"])
    other = GenerationBatch(tuple(requests(2)), seed=3, stop_strings=("x",))
    assert hash(one) == hash(other)
    assert one == other
    assert one != replace(other, seed=4)
    assert one != replace(other, stop_strings=None)
    assert one != replace(other, decoding=SamplingParams(top_k=1))
    asked = PrefixProbabilityRequest([[1, 2]], ["x"], max_new_tokens=1, trials=[4])
    same = PrefixProbabilityRequest(((1, 2),), ("x",), max_new_tokens=1, trials=(4,))
    assert hash(asked) == hash(same)
    assert asked == same
    assert asked != replace(same, trials=[5])


@pytest.mark.parametrize(
    "question",
    [
        GenerationBatch(requests(3), seed=3, stop_strings={"x"}),
        PrefixProbabilityRequest([[1], [2]], ["x"], max_new_tokens=1, trials=[1, 2]),
    ],
    ids=["generation", "prefix probabilities"],
)
def test_a_question_can_be_sent_to_another_process(question):
    assert pickle.loads(pickle.dumps(question)) == question


@given(st.lists(st.integers(0, 5), max_size=8), st.booleans())
def test_a_part_of_a_question_has_its_prompts_in_the_order_that_is_asked_for(places, drawn):
    batch = GenerationBatch(requests(6), seed=9, stop_strings=["x"])
    part = batch.select(places)
    assert len(part) == len(places)
    assert [request.prompt for request in part.requests] == [(place,) for place in places]
    assert replace(part, requests=batch.requests) == batch
    trials = [10, 11, 12, 13, 14, 15] if drawn else []
    asked = PrefixProbabilityRequest(
        [(n,) for n in range(6)], ["x"], max_new_tokens=2, trials=trials, seed=5
    )
    some = asked.select(places)
    assert len(some) == len(places)
    assert some.prompts == tuple((place,) for place in places)
    assert list(some.trials) == ([10 + place for place in places] if drawn else [])
    assert replace(some, prompts=asked.prompts, trials=trials) == asked
