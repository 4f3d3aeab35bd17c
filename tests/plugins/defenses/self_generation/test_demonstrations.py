"""Which local examples are shown, and how."""

import random
from collections import Counter

import pytest
from fedaudit_plugins.defenses.self_generation.demonstrations import (
    alternate_kinds,
    example_kinds,
    example_prompt,
    instruction_prompt,
    usable_documents,
)
from fedaudit_plugins.defenses.self_generation.prompt_layout import prompt_layout
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.api.errors import InputError
from fedaudit.api.records import Document
from fedaudit.api.templates import TEMPLATES

LAYOUT = prompt_layout(TEMPLATES["fed_pii"])


def example(number, given=""):
    return Document(
        id=str(number), text="t", instruction=f"Do {number}.", input=given, output=f"Done {number}."
    )


def examples(with_input, without):
    given = [example(n, f"Given {n}.") for n in range(with_input)]
    return given + [example(n) for n in range(with_input, with_input + without)]


def test_half_are_with_an_input_and_half_without_in_turn():
    for seed in range(20):
        shown = alternate_kinds(random.Random(seed), examples(5, 5), 4)
        assert [bool(d.input) for d in shown] == [True, False, True, False]
        assert len({d.id for d in shown}) == 4


@given(st.integers(0, 6), st.integers(0, 6), st.integers(1, 6), st.integers(0, 99))
def test_where_one_kind_is_short_the_other_makes_up_the_number(with_input, without, count, seed):
    there = examples(with_input, without)
    if len(there) < count:
        return
    shown = alternate_kinds(random.Random(seed), there, count)
    found = Counter(bool(d.input) for d in shown)
    assert len({d.id for d in shown}) == len(shown) == count
    half = (count + 1) // 2
    assert found[True] == min(with_input, max(half, count - without))


def test_kinds_are_those_that_there_are():
    assert example_kinds(examples(1, 1)) == (True, False)
    assert example_kinds(examples(2, 0)) == (True,)
    assert example_kinds(examples(0, 2)) == (False,)


def test_prompts_end_where_the_model_goes_on():
    shown = [example(1, "Given 1."), example(2)]
    assert instruction_prompt(LAYOUT, shown, with_input=True) == "Do 1.\n\nDo 2.\n\n"
    assert example_prompt(LAYOUT, shown, "Do 3.", with_input=True) == (
        "Do 1.\n<###Input>\nGiven 1.\n<###Output>\nDone 1.\n\nDo 2.\n<###Output>\nDone 2.\n\nDo 3."
    )
    alpaca = prompt_layout(TEMPLATES["alpaca"])
    prompt = instruction_prompt(alpaca, shown, with_input=False)
    assert prompt.count("### Instruction:\n") == 3
    assert prompt.endswith("completes the request.\n\n### Instruction:\n")
    assert prompt.count("paired with an input") == 1, "as each of those shown really has it"


def test_too_few_examples_and_none_are_one_line_each():
    with pytest.raises(InputError, match="3 examples are fewer than the 8 demonstrations") as few:
        usable_documents(examples(1, 2), 8)
    plain = [Document(id="a", text="A record."), Document(id="b", text="B", is_prompt=True)]
    with pytest.raises(InputError, match="no record has an instruction and an output") as none:
        usable_documents(plain, 1)
    assert "\n" not in str(few.value) + str(none.value)
    assert [d.id for d in usable_documents([*plain, *examples(1, 2)], 3)] == ["0", "1", "2"]
