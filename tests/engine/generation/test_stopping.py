"""Answers that are looked through for strings end as soon as it is settled what they begin with."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_vocabularies import TARGETS, toy
from transformers import PreTrainedTokenizerFast

from fedaudit.api.engine import GenerationBatch
from fedaudit.api.records import GenerationRequest, SamplingParams, Target
from fedaudit.engine.generation.stopping import StopState, StopStrings
from fedaudit.engine.local import LocalEngine
from fedaudit.extraction.matcher import TargetMatcher
from fedaudit.metrics.extraction import Matcher
from fedaudit.pii.normalized_search import fold

BASE = Target(name="base")
PROBES = [
    GenerationRequest(prompt=prompt, samples=40, max_new_tokens=new)
    for prompt, new in [((1, 4, 5), 6), ((1, 9), 6), ((1, 12, 4, 3, 7, 6, 6, 5, 3, 4), 3)]
]


@pytest.fixture
def steps(monkeypatch):
    """Return a function that has an engine count the rows that its model reads."""

    def counting(engine):
        model, rows = engine.base.model, []
        forward = model.forward
        monkeypatch.setattr(
            model, "forward", lambda **given: rows.append(given["input_ids"]) or forward(**given)
        )
        return rows

    return counting


@pytest.mark.parametrize(
    "decoding",
    [SamplingParams(), SamplingParams(temperature=0.5, top_k=6), SamplingParams(temperature=0)],
    ids=str,
)
@pytest.mark.parametrize("kind", ["byte-level", "sentence"])
def test_what_answers_begin_with_stays_the_same(kind, decoding):
    engine = LocalEngine(toy(kind))
    strings = TargetMatcher(TARGETS)
    asked = {"seed": 5, "decoding": decoding}
    whole = engine.generate(BASE, GenerationBatch(PROBES, **asked))
    short = engine.generate(BASE, GenerationBatch(PROBES, stop_strings=strings.strings, **asked))
    found = [[strings.reduce(text) for text in one.texts] for one in whole]
    assert [[strings.reduce(text) for text in one.texts] for one in short] == found
    assert decoding.temperature == 0 or len({text for texts in found for text in texts}) > 3
    assert all(
        long.startswith(cut.rstrip("\ufffd"))
        for one, other in zip(whole, short, strict=True)
        for long, cut in zip(one.texts, other.texts, strict=True)
    )


def test_fewer_rows_are_read(steps):
    engine = LocalEngine(toy())
    rows = steps(engine)

    def read(**options):
        rows.clear()
        engine.generate(BASE, GenerationBatch(PROBES, seed=5, **options))
        return sum(ids.numel() for ids in rows)

    everything, few, nothing = read(), read(stop_strings=["abé", "bb"]), read(stop_strings=[])
    prompts = 8 + 8 + 16  # padded, none of them read twice
    assert nothing == prompts
    assert nothing < few < everything


def test_a_batch_and_its_order_do_not_matter():
    strings = TargetMatcher(TARGETS).strings
    found = [
        LocalEngine(toy(), batch_size=rows).generate(
            BASE, GenerationBatch(requests, seed=1, stop_strings=strings)
        )
        for rows, requests in [(512, PROBES), (7, PROBES), (30, PROBES[::-1])]
    ]
    assert found[0] == found[1] == found[2][::-1]


def test_a_tokenizer_without_bytes_is_asked_to_the_end():
    base = toy()
    base.tokenizer.backend_tokenizer.decoder = None
    engine = LocalEngine(base)
    whole = engine.generate(BASE, GenerationBatch(PROBES, seed=5))
    assert engine.generate(BASE, GenerationBatch(PROBES, seed=5, stop_strings=["a"])) == whole


def test_spaces_that_decoding_takes_out_forbid_it(monkeypatch):
    base = toy()
    option = "clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output"
    engine = LocalEngine(base)
    assert engine._stop_strings(["a"]) is not None
    monkeypatch.setattr(base.tokenizer, option, True)
    assert LocalEngine(base)._stop_strings(["a"]) is None
    assert isinstance(base.tokenizer, PreTrainedTokenizerFast)


@pytest.mark.parametrize(
    ("said", "open_"),
    [
        ("", True),
        (" \u3000", True),
        ("Ann", True),  # Anna may come
        ("Anna", True),  # found; whether the word ends there, the next character tells
        ("Anna,", False),
        ("Annas", False),
        (" \n Ann", True),
        ("Anz", False),
        ("ann", True),  # case does not matter
        ("Ann L", False),
        ("é", False),
    ],
)
def test_an_answer_is_open_while_a_longer_string_may_come(said, open_):
    assert StopStrings(["Anna", "Ann", "Bo"], []).open(said.encode()) == open_


def test_the_first_bytes_of_a_character_leave_it_open():
    sought = StopStrings(["李"], [])
    first, second = "李".encode()[:1], "李".encode()[:2]
    assert sought.open(first)
    assert sought.open(second)
    assert sought.open("李".encode())
    assert not sought.open("李,".encode())
    assert not sought.open(b"a" + first)


@pytest.mark.parametrize("kind", ["byte-level", "sentence"])
def test_bytes_that_make_no_character_take_back_what_was_spelt(kind):
    """SentencePiece shows nothing of a run of bytes that ends within a character."""
    engine, strings = LocalEngine(toy(kind)), TargetMatcher(["é"])
    asked = {"seed": 5, "decoding": SamplingParams(temperature=3.0)}
    requests = [GenerationRequest(prompt=(1, 4, 5), samples=3000, max_new_tokens=5)]
    [whole] = engine.generate(BASE, GenerationBatch(requests, **asked))
    [short] = engine.generate(
        BASE, GenerationBatch(requests, stop_strings=strings.strings, **asked)
    )
    hits = [strings.reduce(text) for text in whole.texts]
    assert [strings.reduce(text) for text in short.texts] == hits
    assert "é" in hits
    blotted = [text.lstrip().startswith("\ufffd\ufffd\ufffd") for text in whole.texts]
    assert any(blotted)


def test_a_run_of_bytes_is_not_settled_before_it_ends():
    table = [b"\xc3", b"\xa9", b"\n", b"", b"ab", b"a"]
    heard = StopState(StopStrings(["é", "a"], table))

    def says(sample, *tokens):
        return [bool(heard.open(np.array([sample]), np.array([token]))[0]) for token in tokens]

    # A byte of ASCII goes on with a run, a token that is not shown does not end it.
    assert says(0, 0, 1, 2, 3, 2) == [True] * 5
    assert says(0, 4) == [False]
    assert says(1, 0, 1, 4) == [True, True, False]
    assert says(2, 4) == [False]
    assert says(3, 3, 4) == [True, False]
    assert says(4, 5, 3, 4) == [True, True, False]


LETTERS = st.text("ab é李\u3000", max_size=5)


@given(
    strings=st.sets(LETTERS.filter(lambda s: s and not s[0].isspace()), max_size=6),
    said=LETTERS,
    rest=LETTERS,
)
def test_closed_is_certain(strings, said, rest):
    """The slow way: look for every string in every continuation of what was said."""
    sought, strings = StopStrings(strings, []), sorted(strings)
    begun = fold(said)
    assert sought.open(said.encode()) == any(fold(one).startswith(begun) for one in strings)
    if not sought.open(said.encode()):
        assert [*Matcher(strings).hits(said + rest)] == [*Matcher(strings).hits(said)]
        assert TargetMatcher(strings).reduce(said + rest) == TargetMatcher(strings).reduce(said)


def cut(text, strings):
    """Return how much of an answer is drawn until it is closed, byte by byte."""
    sought = StopStrings(strings, [])
    said = text.encode()
    ends = (end for end in range(len(said) + 1) if not sought.open(said[:end]))
    return said[: next(ends, len(said))].decode("utf-8", "replace")


@pytest.mark.parametrize(
    ("text", "strings", "drawn"),
    [
        # Whether a word ends behind the string, the next character tells.
        ("Ann, who", ["Ann"], "Ann,"),
        ("Annex here", ["Ann"], "Anne"),
        ("west of it", ["West"], "west o"),
        ("East", ["West"], "E"),
        ("Jose\u0301 left", ["José"], "Jose\u0301 l"),
        ("Ann Leeds", ["Ann", "Ann Lee"], "Ann Leed"),
    ],
)
def test_an_answer_is_not_closed_before_its_boundary_is_known(text, strings, drawn):
    assert cut(text, strings) == drawn


LETTERS = "abAé1 -\u0301\u0323"
SOUGHT = st.text(LETTERS, min_size=1, max_size=4).map(str.strip).filter(fold)


@settings(deadline=None)
@given(st.lists(SOUGHT, min_size=1, max_size=4), st.text(LETTERS, max_size=8))
def test_what_is_drawn_says_all_that_the_whole_answer_says(strings, text):
    known = TargetMatcher(strings)
    assert known.reduce(cut(text, strings).rstrip("\ufffd")) == known.reduce(text)
