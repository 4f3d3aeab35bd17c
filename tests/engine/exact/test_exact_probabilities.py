"""Exact probabilities are those of going through every token sequence."""

import weakref
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models
from toy_vocabularies import TARGETS, brute_force, toy
from transformers import PreTrainedTokenizerFast

from fedaudit.api.engine import (
    Engine,
    GenerationBatch,
    PrefixProbabilities,
    PrefixProbabilityRequest,
)
from fedaudit.api.errors import InputError
from fedaudit.api.records import GenerationRequest, SamplingParams, Target
from fedaudit.engine.exact import probabilities
from fedaudit.engine.exact.token_automaton import SPACES, TokenAutomaton, vocabulary
from fedaudit.engine.fake import FakeEngine
from fedaudit.engine.local import LocalEngine
from fedaudit.metrics.extraction import Matcher, prefix_disjoint

BASE = Target(name="base")
DECODINGS = [
    SamplingParams(),
    SamplingParams(temperature=0.6),
    SamplingParams(temperature=1.5, top_k=6),
    SamplingParams(top_p=0.8),
    SamplingParams(temperature=1.2, top_k=9, top_p=0.9),
    SamplingParams(temperature=0),
]


@pytest.fixture(scope="module", params=["byte-level", "sentence"])
def either(request):
    return toy(request.param)


@pytest.fixture(scope="module")
def bytes_base():
    return toy("byte-level")


def least(found):
    return np.array([one.least for one in found])


def most(found):
    return np.array([one.most for one in found])


@pytest.mark.parametrize("decoding", DECODINGS, ids=str)
def test_they_are_those_of_all_token_sequences(either, decoding):
    prompts = [(1, 9), (1, 12, 4, 3, 7, 6, 6, 5, 3, 4)]
    engine: Engine = LocalEngine(either)
    found = engine.prefix_probabilities(
        BASE,
        PrefixProbabilityRequest(
            prompts, TARGETS, max_new_tokens=3, decoding=decoding, threshold=1e-300
        ),
    )
    slow = [brute_force(either, prompt, TARGETS, 3, decoding) for prompt in prompts]
    assert least(found) == pytest.approx(np.array(slow), abs=1e-6)
    assert most(found) == pytest.approx(np.array(slow), abs=1e-6)
    assert decoding.temperature == 0 or np.count_nonzero(least(found)) > 0


def test_four_tokens_long_and_characters_of_several_bytes(bytes_base):
    [found] = LocalEngine(bytes_base).prefix_probabilities(
        BASE, PrefixProbabilityRequest([(1, 4)], TARGETS, max_new_tokens=4, threshold=1e-300)
    )
    slow = brute_force(bytes_base, (1, 4), TARGETS, 4, SamplingParams())
    assert found.least == pytest.approx(slow, abs=1e-6)
    assert all(found.least > 0)


PROMPTS = [(1, 4, 5), (1, 9), (1, 12, 4, 3, 7, 6, 6, 5, 3, 4), (1,), (1, 8, 8)]


def test_neither_batch_size_nor_order_matters(bytes_base):
    asked = {"max_new_tokens": 5, "threshold": 0.02, "trials": [200] * 5, "seed": 2}
    wanted = LocalEngine(bytes_base).prefix_probabilities(
        BASE, PrefixProbabilityRequest(PROMPTS, TARGETS, **asked)
    )
    assert sum(one.drawn.sum() for one in wanted) > 20
    for bounds in ({"batch_size": 1}, {"tokens": 60}):
        found = LocalEngine(bytes_base, **bounds).prefix_probabilities(
            BASE, PrefixProbabilityRequest(PROMPTS, TARGETS, **asked)
        )
        same(found, wanted)
    back = LocalEngine(bytes_base).prefix_probabilities(
        BASE, PrefixProbabilityRequest(PROMPTS[::-1], TARGETS[::-1], **asked)
    )
    same([turned(one) for one in back[::-1]], wanted)


def test_few_distributions_are_in_memory_at_once(bytes_base, monkeypatch):
    rows, logits = [], []
    distribution, read = probabilities.distribution, probabilities._read

    def counted(table, config):
        rows.append(len(table))
        return distribution(table, config)

    def forgotten(model, level):
        assert not [one for one in logits if one() is not None]
        found = read(model, level)
        logits.append(weakref.ref(found[1]))
        return found

    monkeypatch.setattr(probabilities, "distribution", counted)
    monkeypatch.setattr(probabilities, "_read", forgotten)
    engine = LocalEngine(bytes_base)
    wanted = engine.prefix_probabilities(
        BASE, PrefixProbabilityRequest(PROMPTS, TARGETS, max_new_tokens=4, threshold=1e-3)
    )
    assert max(rows) > 3
    assert len(logits) > 3
    rows.clear()
    engine._limits.current = replace(engine._limits.current, logits=3 * probabilities.TABLES + 1)
    same(
        engine.prefix_probabilities(
            BASE, PrefixProbabilityRequest(PROMPTS, TARGETS, max_new_tokens=4, threshold=1e-3)
        ),
        wanted,
    )
    assert max(rows) == 3


def turned(one):
    parts = {name: getattr(one, name)[::-1] for name in ("least", "most", "drawn")}
    return PrefixProbabilities(**parts, rows=one.rows)


def same(found, wanted):
    for one, other in zip(found, wanted, strict=True):
        assert one.least == pytest.approx(other.least, abs=1e-6)
        assert one.most == pytest.approx(other.most, abs=1e-6)
        assert one.drawn.tolist() == other.drawn.tolist()
        assert one.rows == other.rows


@given(
    prompt=st.lists(st.integers(1, 13), min_size=1, max_size=6),
    thresholds=st.tuples(st.floats(1e-6, 0.5), st.floats(1e-6, 0.5)),
    new=st.integers(1, 4),
    decoding=st.sampled_from(DECODINGS),
)
def test_a_lower_threshold_knows_more(bytes_base, prompt, thresholds, new, decoding):
    engine = LocalEngine(bytes_base)
    low, high = (
        engine.prefix_probabilities(
            BASE,
            PrefixProbabilityRequest(
                [prompt], TARGETS, max_new_tokens=new, decoding=decoding, threshold=one
            ),
        )[0]
        for one in sorted(thresholds)
    )
    # More rows in a batch, other rounding: the model computes in float32.
    within = (high.least <= low.least + 1e-6, low.least <= low.most, low.most <= high.most + 1e-6)
    assert all(map(all, within))
    assert high.least.min() >= 0
    assert high.most.max() <= 1
    apart = [TARGETS.index(one) for one in prefix_disjoint(TARGETS)]
    assert low.least[apart].sum() <= 1 + 1e-6


def test_draws_tell_what_was_given_up(bytes_base):
    engine, trials = LocalEngine(bytes_base), 3000
    [whole] = engine.prefix_probabilities(
        BASE, PrefixProbabilityRequest([(1, 4)], TARGETS, max_new_tokens=3, threshold=1e-300)
    )
    [some] = engine.prefix_probabilities(
        BASE,
        PrefixProbabilityRequest(
            [(1, 4)], TARGETS, max_new_tokens=3, threshold=0.2, trials=[trials], seed=1
        ),
    )
    missed = trials * (whole.least - some.least)
    assert missed.max() > 30
    # Counts are Poisson: five standard deviations, and one draw where none is expected.
    assert all(abs(some.drawn - missed) <= 5 * np.sqrt(missed) + 1)
    assert some.drawn.sum() == pytest.approx(missed.sum(), abs=3 * np.sqrt(missed.sum()))
    [none] = engine.prefix_probabilities(
        BASE,
        PrefixProbabilityRequest(
            [(1, 4)], TARGETS, max_new_tokens=3, threshold=1e-300, trials=[trials]
        ),
    )
    assert none.drawn.sum() == 0


def test_a_sampler_draws_as_often(base):
    engine, samples = LocalEngine(base), 2000
    prompt = tuple(engine.tokenize(["Dear"])[0].ids)
    strings = ["M", "S", "J", "Jo", "John", "B", "R", "Rob", "K", "A", "原"]
    [found] = engine.prefix_probabilities(
        BASE, PrefixProbabilityRequest([prompt], strings, max_new_tokens=4, threshold=1e-5)
    )
    probe = GenerationRequest(prompt=prompt, samples=samples, max_new_tokens=4)
    [drawn] = engine.generate(BASE, GenerationBatch([probe], seed=1))
    matcher = Matcher(strings)
    counts = Counter(string for text in drawn.texts for string in matcher.hits(text))
    for string, chance in zip(strings, found.least, strict=True):
        sigma = np.sqrt(samples * chance * (1 - chance))
        assert abs(counts[string] - samples * chance) <= 4 * sigma + 1
    assert sum(counts.values()) > samples / 20


def test_an_adapter_answers_for_itself(fresh_base, adapter):
    engine = LocalEngine(fresh_base)
    tuned = Target(name="tuned", adapter=str(adapter))
    prompt = tuple(engine.tokenize(["Claimant: "])[0].ids)
    [one], [other] = (
        engine.prefix_probabilities(
            t, PrefixProbabilityRequest([prompt], ["A", "B", "Mr"], max_new_tokens=2)
        )
        for t in (tuned, BASE)
    )
    assert one.least != pytest.approx(other.least, rel=0.01)


def test_white_space_is_all_that_python_strips():
    assert sorted(space.decode() for space in SPACES) == [
        chr(code) for code in range(0x110000) if chr(code).isspace()
    ]


def test_what_cannot_be_spelt_is_refused(bytes_base):
    words = vocabulary(bytes_base.tokenizer, 14, [0], "toy")
    for string in ("", " a"):
        with pytest.raises(ValueError, match="white space"):
            TokenAutomaton([string], words)


def test_a_tokenizer_without_bytes_is_refused():
    odd = Tokenizer(models.WordLevel({"a": 0, "b": 1}, "a"))
    for tokenizer in (PreTrainedTokenizerFast(tokenizer_object=odd), object()):
        with pytest.raises(InputError, match="toy has none"):
            vocabulary(tokenizer, 2, [0], "toy")


def test_a_prompt_longer_than_the_context_is_refused(bytes_base):
    engine = LocalEngine(bytes_base)
    with pytest.raises(InputError, match="64 tokens"):
        engine.prefix_probabilities(
            BASE, PrefixProbabilityRequest([(3,) * 60], ["a"], max_new_tokens=5)
        )


def test_nobody_asked_nothing_answered(bytes_base):
    engine = LocalEngine(bytes_base)
    assert (
        engine.prefix_probabilities(BASE, PrefixProbabilityRequest([], ["a"], max_new_tokens=5))
        == []
    )
    [found] = engine.prefix_probabilities(
        BASE, PrefixProbabilityRequest([(1,)], [], max_new_tokens=5)
    )
    assert found.least.shape == (0,)


def test_the_fake_says_what_it_is_told_and_nothing_of_what_is_unlikely():
    told = {"Ann": 0.5, "Bob": 1e-4}
    engine = FakeEngine(lambda *_: "", chance=lambda target, prompt, string: told[string])
    [prompt] = [t.ids for t in engine.tokenize(["Dear"])]
    [found] = engine.prefix_probabilities(
        BASE, PrefixProbabilityRequest([prompt], ["Ann", "Bob"], max_new_tokens=3, threshold=1e-3)
    )
    assert found.least.tolist() == [0.5, 0.0]
    assert found.most.tolist() == [0.5, 1e-3]
    with pytest.raises(InputError, match="no exact probabilities"):
        FakeEngine(lambda *_: "").prefix_probabilities(
            BASE, PrefixProbabilityRequest([prompt], ["Ann"], max_new_tokens=3)
        )
