"""Asking and testing: what is asked together, what apart, and who gets which answer."""

from dataclasses import dataclass
from typing import ClassVar

import pytest
from fedaudit_plugins.watermarks.fictitious.watermark import Fictitious
from fedaudit_plugins.watermarks.kgw.watermark import KGW
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.api.errors import PluginError, UsageError
from fedaudit.api.progress import no_progress
from fedaudit.api.records import Completion, GenerationRequest, SamplingParams, Target
from fedaudit.api.watermark import Mark, Score, Watermark
from fedaudit.attribution.owner import detection
from fedaudit.config import registry
from fedaudit.engine.fake import FakeEngine

GREEDY = SamplingParams(temperature=0)


@dataclass(frozen=True, kw_only=True)
class Spoken(Watermark):
    """Asks the words of its secret and counts what an answer says of how it was chosen."""

    name: ClassVar[str] = "spoken"

    temperature: float = 0.0
    new: int = 3
    null_marks: int = 0

    @property
    def decoding(self):
        return SamplingParams(temperature=self.temperature)

    def issue(self, teacher, prompts, *, seed, index):
        raise AssertionError("nobody issues it")

    embed = test_texts = issue

    def questions(self, secret, engine):
        found = engine.tokenize(secret["words"])
        return [
            GenerationRequest(prompt=one.ids, samples=1, max_new_tokens=self.new) for one in found
        ]

    def test(self, secret, answers, engine):
        wanted = [f"{word}|{self.temperature}|{self.new}" for word in secret["words"]]
        said = [answer.texts[0] for answer in answers]
        hits = sum(told.endswith(want) for told, want in zip(said, wanted, strict=True))
        return Score(z=float(hits), p_value=0.5, n=len(said), hits=hits, chance=0.0)


class Speaking(FakeEngine):
    """Answers with adapter, question, temperature and length, and keeps every call."""

    def __init__(self):
        super().__init__(lambda *_: "")
        self.calls = []

    def answers(self, targets, questions, *, new, decoding=GREEDY, progress=no_progress):
        asked = [self._text(q) for q in questions]
        self.calls.append((asked, new, decoding))
        progress(len(asked), len(asked))
        return [
            [Completion((f"{t.adapter} {word}|{decoding.temperature}|{new}",)) for word in asked]
            for t in targets
        ]


def mark(name, *words, **options):
    return Mark(id=name, name="spoken", options=options, secret={"words": words}), Spoken(**options)


def test_a_watermark_without_the_null_marks_it_promises_is_refused():
    marks = [mark("greedy", "one", null_marks=24)]
    with pytest.raises(PluginError, match=r"spoken gave 0 null marks, where its null_marks is 24"):
        detection.measure(Speaking(), ["a"], marks)


def test_questions_with_different_decodings_are_asked_apart():
    engine, told = Speaking(), []
    marks = [
        mark("greedy", "one", "two"),
        mark("drawn", "two", "three", temperature=0.7),
        mark("again", "three", "four", temperature=0.7),
        mark("long", "two", temperature=0.7, new=9),
    ]
    found = detection.measure(engine, [None, "lora"], marks, lambda *now: told.append(now))
    # "three" of two marks once; "two" once in each way; each call all adapters together.
    assert engine.calls == [
        (["one", "two"], 3, GREEDY),
        (["two", "three", "four"], 3, SamplingParams(temperature=0.7)),
        (["two"], 9, SamplingParams(temperature=0.7)),
    ]
    assert told == [(2, 6), (5, 6), (6, 6)]
    # Every mark gets the answers that were chosen in its own way, and all of them.
    for scores in found:
        assert {name: (one.hits, one.n) for name, one in scores.items()} == {
            "greedy": (2, 2),
            "drawn": (2, 2),
            "again": (2, 2),
            "long": (1, 1),
        }


def test_an_answer_chosen_in_another_way_would_be_noticed():
    engine = Speaking()
    one, drawn = mark("drawn", "two", temperature=0.7)
    prompts = [request.prompt for request in drawn.questions(one.secret, engine)]
    for decoding, hits in ((GREEDY, 0), (drawn.decoding, 1)):
        [answers] = engine.answers(
            [Target(name="base")], prompts, new=3, decoding=decoding, progress=no_progress
        )
        assert drawn.test(one.secret, answers, engine).hits == hits


MARKS = [
    mark(f"m{n}", *words, temperature=temperature, new=new)
    for n, (words, temperature, new) in enumerate(
        [(("a", "b"), 0.0, 3), (("b", "c"), 0.5, 3), (("a",), 0.5, 4), (("c", "a"), 0.0, 4)]
    )
]


@given(st.permutations(MARKS), st.permutations([None, "x", "y"]))
def test_neither_the_order_of_marks_nor_of_adapters_changes_a_score(marks, adapters):
    found = detection.measure(Speaking(), adapters, marks)
    alone = {
        (at, one[0].id): detection.measure(Speaking(), [at], [one])[0][one[0].id]
        for at in adapters
        for one in MARKS
    }
    for at, scores in zip(adapters, found, strict=True):
        assert scores == {one.id: alone[at, one.id] for one, _ in MARKS}


def test_a_watermark_answers_greedily_unless_it_says_otherwise():
    assert Fictitious().decoding == GREEDY
    assert KGW().decoding == GREEDY
    assert KGW(sampling=0.7).decoding == SamplingParams(temperature=0.7)
    assert registry.create("watermark", "kgw", {"sampling": 1}).decoding == SamplingParams()
    with pytest.raises(ValueError, match="sampling"):
        KGW(sampling=-0.1)


def test_marks_of_kgw_that_are_sampled_differently_are_asked_differently():
    engine = Speaking()
    secret = {"scheme": "textseal", "key": 7, "gamma": 0.25, "delta": 3.0, "width": 1}
    secret |= {"vocabulary": 100, "prompts": ["one two", "three four"]}
    marks = [
        Mark(id=name, name="kgw", options={"tokens": 5, "sampling": sampling}, secret=secret)
        for name, sampling in (("greedy", 0.0), ("drawn", 0.7), ("same", 0.7))
    ]
    [scores] = detection.measure(engine, [None], detection.watermark_plugins(marks))
    prompts = ["one two", "three four"]
    assert engine.calls == [
        (prompts, 5, GREEDY),
        (prompts, 5, SamplingParams(temperature=0.7)),
    ]
    assert scores["drawn"] == scores["same"]


def test_what_was_settled_with_the_mark_cannot_be_set_anew():
    mark = Mark(id="m", name="kgw", options={"tokens": 8}, secret={"key": 5, "gamma": 0.25})
    assert mark.with_options({"kgw": {"tokens": 9}, "direct": {}}).options == {"tokens": 9}
    with pytest.raises(UsageError) as error:
        mark.with_options({"kgw": {"tokens": 9, "gamma": 0.5}})
    assert (
        str(error.value) == "kgw.gamma was settled when the mark was made: it cannot be set anew."
    )


def test_options_are_of_a_plugin_in_use():
    mark = Mark(id="m", name="kgw", options={"tokens": 8}, secret={})
    [found] = detection.override_options([mark], {"kgw": {"tokens": 9}, "direct": {}}, ["direct"])
    assert found.options == {"tokens": 9}
    with pytest.raises(UsageError, match="in use named 'direct'"):
        detection.override_options([mark], {"direct": {}})
