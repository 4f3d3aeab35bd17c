"""Prefixes and suffixes: which texts are drawn, where they are cut, what is left out."""

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memorized import FORM, PROTOCOL, corpus, cut, text, words

from fedaudit.api.records import Document
from fedaudit.api.templates import template
from fedaudit.audit.memorization.splits import input_span, sample_splits, unused_text_caveats
from fedaudit.audit.request import Protocol
from fedaudit.engine.fake import FakeEngine


@pytest.fixture
def engine():
    return FakeEngine(lambda *_: "")


def said(engine, tokens):
    return engine._text(tokens)


def test_a_plain_text_is_cut_behind_its_first_tokens(engine):
    document = Document(id="a", text=" ".join(words(30, 1)))
    [part] = sample_splits([document], engine, FORM, PROTOCOL, seed=0).splits
    assert said(engine, part.prompt) == " ".join(words(30, 1)[:5])
    assert part.suffix == " ".join(words(30, 1)[5:])
    assert (part.input_tokens, part.output_tokens) == (30, 0)


def instruction(number=1, output="Yes it does."):
    raw = Document(
        id=f"i-{number}",
        text="",
        instruction=f"Question {number}, please?",
        input=" ".join(words(40, number)),
        output=output,
    )
    return FORM.render(raw)


def test_of_a_record_the_input_is_cut_behind_all_that_stands_before_it(engine):
    document = instruction()
    [part] = sample_splits([document], engine, FORM, PROTOCOL, seed=0).splits
    given = words(40, 1)
    head = "Question 1, please?\n<###Input>"
    assert said(engine, part.prompt) == f"{head}\n{' '.join(given[:5])}"
    assert part.suffix == " ".join(given[5:])
    assert part.input_tokens == 40
    # The template's "<###Output>" between the input and the answer is of neither.
    assert part.output_tokens == len(engine.tokenize(["Yes it does."])[0].ids)


@pytest.mark.parametrize("prompt", ["record", "header"])
@pytest.mark.parametrize("name", ["fed_pii", "chat", "qwen"])
def test_an_output_is_as_long_whatever_the_template_puts_before_it(engine, name, prompt):
    form = template(name)
    raw = Document(
        id="a", text="", instruction="Do it.", input=text("i"), output="one two three", task="t"
    )
    protocol = Protocol(prefix_length=5, prompt=prompt)
    [part] = sample_splits([form.render(raw)], engine, form, protocol, seed=0).splits
    assert part.output_tokens == 3
    [none] = sample_splits(
        [replace(form.render(raw), output="")], engine, form, protocol, seed=0
    ).splits
    assert none.output_tokens == 0


def test_an_output_that_the_text_does_not_hold_has_no_length(engine):
    document = Document(id="a", text=text("i"), input=text("i"), output="elsewhere")
    [part] = sample_splits([document], engine, FORM, PROTOCOL, seed=0).splits
    assert part.output_tokens == 0


def test_an_output_that_repeats_the_input_is_the_one_behind_it(engine):
    given = " ".join(words(40, 1))
    document = FORM.render(Document(id="a", text="", instruction="Say.", input=given, output=given))
    [part] = sample_splits([document], engine, FORM, PROTOCOL, seed=0).splits
    assert (part.input_tokens, part.output_tokens) == (40, 40)


def test_the_published_prompt_leaves_the_instruction_out(engine):
    protocol = Protocol(prefix_length=5, prompt="header")
    [part] = sample_splits([instruction()], engine, FORM, protocol, seed=0).splits
    assert said(engine, part.prompt).strip() == " ".join(words(40, 1)[:5])
    [plain] = sample_splits(
        [Document(id="a", text=text("p"))], engine, FORM, protocol, seed=0
    ).splits
    assert said(engine, plain.prompt) == " ".join(text("p").split()[:5])


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (Document(id="a", text="whole text"), "whole text"),
        (FORM.render(Document(id="a", text="", instruction="do it", output="done")), "do it"),
        (FORM.render(Document(id="a", text="", instruction="copy: x", input="x")), "x"),
        (Document(id="a", text="Q: foo A: bar", input="foo"), "foo"),
        (Document(id="a", text="unrelated", input="foo"), "unrelated"),
    ],
    ids=("plain", "no input", "input within the instruction", "foreign template", "not in it"),
)
def test_where_the_input_stands(document, expected):
    start, end = input_span(document, FORM)
    assert document.text[start:end] == expected
    if document.instruction == "copy: x":
        assert start > document.text.index("<###Input>")


@pytest.mark.parametrize(("count", "kept"), [(24, 0), (25, 1)])
def test_a_text_needs_twenty_tokens_more_than_the_prefix(engine, count, kept):
    one = sample_splits(
        [Document(id="a", text=" ".join(words(count, 3)))], engine, FORM, PROTOCOL, seed=0
    )
    assert (len(one.splits), one.long_enough, one.too_short) == (kept, kept, 1 - kept)


def test_copies_prompts_and_short_texts_are_counted_and_told(engine):
    own = corpus("a", 3)
    copy = Document(id="z", text=own[0].text.replace(" ", "  ", 1))
    short = Document(id="s", text="Too short.")
    prompt = Document(id="p", text=text("prompt"), is_prompt=True)
    one = sample_splits([*own, copy, short, prompt], engine, FORM, PROTOCOL, seed=0)
    assert (one.documents, one.copies, one.too_short, one.prompts) == (5, 1, 1, 1)
    assert {part.document for part in one.splits} == {"a-0", "a-1", "a-2"}
    empty = sample_splits([], engine, FORM, PROTOCOL, seed=0)
    notes = list(unused_text_caveats({"a": one, "e": empty}, PROTOCOL))
    assert notes == [
        "a: 1 of 4 different texts have fewer than 25 tokens and were left out.",
        "a: 1 copies of other texts of its own were left out.",
        "a: 1 ready-made prompts are not training texts: left out.",
        "a has 3 texts that are long enough, fewer than the 100 to be drawn: all were used.",
        "e has no documents: nothing is asked with its prefixes, or looked for.",
    ]


@settings(max_examples=15, deadline=None)
@given(st.randoms(use_true_random=False), st.integers(1, 8))
def test_the_draw_depends_on_texts_and_seed_alone(chance, sample):
    engine, protocol = FakeEngine(lambda *_: ""), Protocol(sample=sample, prefix_length=5)
    own = corpus("a", 8)
    mixed = list(own)
    chance.shuffle(mixed)
    renamed = [Document(id=f"x{n}", text=one.text) for n, one in enumerate(mixed)]
    drawn, again, other = (
        [part.suffix for part in sample_splits(some, engine, FORM, protocol, seed=3).splits]
        for some in (own, mixed, renamed)
    )
    assert drawn == again == other
    assert len(set(drawn)) == sample


def test_another_seed_draws_others(engine):
    protocol = Protocol(sample=4, prefix_length=5)
    drawn = {
        frozenset(
            part.document
            for part in sample_splits(corpus("a", 8), engine, FORM, protocol, seed=s).splits
        )
        for s in range(5)
    }
    assert len(drawn) > 1


def test_a_character_is_not_cut_in_two(base):
    """A Chinese character is several bytes, which may be several tokens."""
    from fedaudit.engine.local import LocalEngine

    engine = LocalEngine(base)
    odd = "".join(random.Random(0).choices("龘靐齉爩鱻麤灪厵爨癵", k=40))
    for length in range(4, 12):
        protocol = Protocol(prefix_length=length)
        [part] = sample_splits([Document(id="a", text=odd)], engine, FORM, protocol, seed=0).splits
        shown = base.tokenizer.decode(part.prompt)
        assert shown + part.suffix == odd
        assert len(part.prompt) - length <= 3


def test_equal_texts_of_two_clients_are_known_as_such(engine):
    both = Document(id="b-9", text=corpus("a")[0].text)
    clients = cut({"a": corpus("a"), "b": [*corpus("b"), both]}, engine)
    assert len(clients["a"].suffixes & clients["b"].suffixes) == 1


def test_a_copy_is_one_however_it_was_asked_about(engine):
    """A record and a plain text of the same input are cut alike or not: they are copies."""
    record, plain = instruction(), Document(id="p", text=" ".join(words(40, 1)))
    clients = cut({"a": [record], "b": [plain], "c": corpus("c", 2)}, engine)
    for name, other in (("a", "b"), ("b", "a")):
        [part] = clients[name].splits
        assert clients[other].has(part)
        assert not clients["c"].has(part)
