"""How fields are told apart in what a model writes."""

import pytest
from fedaudit_plugins.defenses.self_generation.prompt_layout import prompt_layout

from fedaudit.api.errors import UsageError
from fedaudit.api.templates import TEMPLATES, PromptTemplate

ALPACA, FED_PII = prompt_layout(TEMPLATES["alpaca"]), prompt_layout(TEMPLATES["fed_pii"])


def test_markers_are_what_stands_ahead_of_input_and_output():
    assert (ALPACA.input_marker, ALPACA.output_marker) == ("### Input:", "### Response:")
    assert (FED_PII.input_marker, FED_PII.output_marker) == ("<###Input>", "<###Output>")


@pytest.mark.parametrize("name", ["chat", "qwen", "llama3"])
def test_a_template_without_markers_is_refused_in_one_line(name):
    with pytest.raises(UsageError, match=f"{name}' does not mark where an input") as refused:
        prompt_layout(TEMPLATES[name])
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("with_input", "without_input"),
    [
        ("{input}\nTask: {instruction}\nAnswer: ", "Task: {instruction}\nAnswer: "),
        ("{instruction}\nA:{input}\nA: ", "{instruction}\nA: "),
        ("{instruction}\nIn: {input}\nOut: ", "{instruction}\nAnswer: "),
        ("{instruction}\nIn: {input}\n", "{instruction}\n"),
    ],
)
def test_so_are_markers_that_cannot_be_told_apart(with_input, without_input):
    with pytest.raises(UsageError, match="choose alpaca or fed_pii"):
        prompt_layout(PromptTemplate("own", with_input, without_input))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Name a bird.\n\n### Input:\nBirds.", ("Name a bird.", True)),
        ("Name a bird.\n\n### Response:\nA tit.", ("Name a bird.", True)),
        ("Name a bird.\n\nBelow is an", ("Name a bird.", True)),
        (" Name a bird", ("Name a bird", False)),
        ("\n\n### Response:\nA tit.", ("", True)),
    ],
)
def test_an_instruction_ends_where_another_field_or_a_blank_line_begins(text, found):
    assert ALPACA.instruction(text) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("\n\n### Input:\nOwls.\n\n### Response:\nAn owl.", ("Owls.", "An owl.")),
        ("\n\n### Response:\nAn owl.", ("", "An owl.")),
        ("\n\n### Response:\nAn owl.\n\nOr two.", ("", "An owl.\n\nOr two.")),
        ("\n\n### Response:\nAn owl.\n\nBelow is an instruction that describes a task. Write a "
         "response that appropriately completes the request.\n\n### In", ("", "An owl.")),
        ("\n\n### Response:\nAn owl.\n\n### Instruction:\nMore.", ("", "An owl.")),
        ("\n\n### Response:\nAn owl. ### Response:\nTwo.", ("", "An owl.")),
        ("\n\n### Response:\n", ("", "")),
        ("\n\nAn owl.", None),
        (" at night.\n\n### Response:\nAn owl.", None),
        ("\n\n### Input:\n\n\n### Response:\nAn owl.", None),
        ("\n\n### Input:\nOwls.", None),
    ],
)  # fmt: skip
def test_fields_are_read_back_or_the_try_has_failed(text, found):
    assert ALPACA.fields(text) == found


def test_without_a_head_another_example_begins_behind_a_blank_line():
    assert FED_PII.fields("\n<###Output>\nAn owl.\n\nName a fish.") == ("", "An owl.")
    assert FED_PII.head(with_input=True) == ""
