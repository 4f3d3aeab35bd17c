"""Prompt templates: what is trained on, and where PII lands in it."""

import jinja2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.api.errors import InputError, UsageError
from fedaudit.api.records import Document, PiiSpan
from fedaudit.api.templates import TEMPLATES, PromptTemplate, template

FIELDS = st.text("ab{}你 \n", max_size=8) | st.sampled_from(["{input}", "{instruction}"])
INPUT_FIRST = PromptTemplate("input_first", "<{input}|{instruction}>", "<{instruction}>")


@st.composite
def inside(draw: st.DrawFn, text: str) -> tuple[PiiSpan, ...]:
    if not text:
        return ()
    start = draw(st.integers(0, len(text) - 1))
    return (PiiSpan(start, draw(st.integers(start + 1, len(text))), "X"),)


def test_the_built_in_templates_spell_what_their_papers_print():
    fed_pii, alpaca = template("fed_pii"), template("alpaca")
    assert fed_pii.prompt("Sum up.", "Case 7") == "Sum up.\n<###Input>\nCase 7\n<###Output>\n"
    assert fed_pii.prompt("Sum up.", "") == "Sum up.\n<###Output>\n"
    tail = "\n\n### Instruction:\nSum up.\n\n### Input:\nCase 7\n\n### Response:\n"
    assert alpaca.prompt("Sum up.", "Case 7").endswith("completes the request." + tail)
    assert "### Input" not in alpaca.prompt("Sum up.", "")


SMOLLM2 = (  # as the model's files have it
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
    "{{ '<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face"
    "<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + "
    "'<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}"
    "{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def test_smollm2_is_the_models_own_chat_template():
    message = {"role": "user", "content": "Sum up. Case 7"}
    whole = jinja2.Template(SMOLLM2).render(messages=[message], add_generation_prompt=True)
    assert template("smollm2").prompt("Sum up.", "Case 7") == whole
    bare = jinja2.Template(SMOLLM2).render(
        messages=[{**message, "content": "Sum up."}], add_generation_prompt=True
    )
    assert template("smollm2").prompt("Sum up.", "") == bare


@pytest.mark.parametrize("form", [*TEMPLATES.values(), INPUT_FIRST])
def test_the_header_begins_every_prompt_with_an_input(form):
    assert form.prompt("do", "this").startswith(form.header())


def test_header_is_what_stands_before_any_field():
    assert template("fed_pii").header() == ""
    assert template("alpaca").header().endswith("### Instruction:\n")
    assert INPUT_FIRST.header() == "<"


def test_a_field_is_not_read_as_a_template():
    prompt = template("fed_pii").prompt("say {input}", "{instruction}")
    assert prompt == "say {input}\n<###Input>\n{instruction}\n<###Output>\n"


def test_a_document_with_a_text_is_returned_as_it_is():
    document = Document(id="a", text="whole", instruction="I", output="O")
    assert template("alpaca").render(document) is document


@given(st.sampled_from([*TEMPLATES.values(), INPUT_FIRST]), FIELDS, FIELDS, FIELDS, st.data())
def test_composing_renders_and_keeps_what_the_spans_mean(form, instruction, given_, output, data):
    document = Document(id="a", text="", instruction=instruction, input=given_, output=output)
    spans = data.draw(inside(given_)), data.draw(inside(output))
    composed = form.compose(document, *spans)
    assert composed.text == form.prompt(instruction, given_) + output
    assert composed.text == form.render(document).text
    assert [text for text, _ in composed.strings()] == [
        text[span.start : span.end]
        for text, part in zip((given_, output), spans, strict=True)
        for span in part
    ]


def test_unknown_template_names_the_nearest():
    with pytest.raises(UsageError, match="Did you mean 'alpaca'"):
        template("alpacca")


@pytest.mark.parametrize(
    ("with_input", "without_input"),
    [
        ("{instruction}", "{instruction}"),
        ("{instruction} {input} {input}", "{instruction}"),
        ("{input}", "{instruction}"),
        ("{instruction} {input}", "nothing"),
        ("{instruction} {input}", "{instruction} {instruction}"),
    ],
)
def test_a_template_needs_each_field_once(with_input, without_input):
    with pytest.raises(InputError, match=r"'mine' must hold .* once each"):
        PromptTemplate("mine", with_input, without_input)
