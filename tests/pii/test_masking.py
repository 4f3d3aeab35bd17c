"""Masks stand where personal data stood, in the text and in every field, and nowhere else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.api.records import Document, PiiSpan
from fedaudit.api.templates import TEMPLATES
from fedaudit.nano.generator import corpus
from fedaudit.pii.masking import STYLES, mask_document, substitution

TEXT = "Claimant: Ann Lee, born 3 May 1980."
ANNOTATED = Document(
    id="a", text=TEXT, pii=(PiiSpan(10, 17, "PERSON"), PiiSpan(24, 34, "BIRTHDAY"))
)


def scrubbed(document, style="mask", chosen=lambda label: True, key="k"):
    return mask_document(document, substitution(style, [document], key), chosen)


@pytest.mark.parametrize(
    ("style", "text"),
    [
        ("mask", "Claimant: [MASK], born [MASK]."),
        ("asterisks", "Claimant: *******, born **********."),
        ("label", "Claimant: <PERSON>, born <BIRTHDAY>."),
    ],
)
def test_each_style_writes_its_mask(style, text):
    result = scrubbed(ANNOTATED, style)
    assert (result.text, result.pii) == (text, ())


def test_kinds_that_are_not_chosen_stay_and_their_spans_move_along():
    result = scrubbed(ANNOTATED, chosen=lambda label: label == "PERSON")
    assert result.text == "Claimant: [MASK], born 3 May 1980."
    assert result.pii == (PiiSpan(23, 33, "BIRTHDAY"),)
    assert result.strings() == (("3 May 1980", "BIRTHDAY"),)
    result = scrubbed(ANNOTATED, chosen=lambda label: label == "BIRTHDAY")
    assert result.strings() == (("Ann Lee", "PERSON"),)


@pytest.mark.parametrize("template", TEMPLATES.values(), ids=lambda one: one.name)
@pytest.mark.parametrize("style", STYLES)
def test_fields_say_what_the_text_says(style, template):
    tasks = ("reading", "summary", "classification")
    found = list(corpus(cases=6, documents_per_case=4, seed=3, tasks=tasks, template=template))
    written = substitution(style, found, "k")
    seen = 0
    for document in found:
        result = mask_document(document, written)
        again = template.render(
            Document(
                id="x", text="", instruction=result.instruction,
                input=result.input, output=result.output,
            )
        )  # fmt: skip
        assert again.text == result.text
        assert result.input != document.input
        seen += result.output != document.output
    assert seen > 3


def test_an_answer_of_one_letter_is_not_masked_for_the_names_it_is_in():
    document = Document(
        id="a", text="Who? Bob. A: Ann, B: Bob\nB", instruction="Who?",
        input="Bob. A: Ann, B: Bob", output="B",
        pii=(PiiSpan(5, 8, "PERSON"), PiiSpan(13, 16, "PERSON"), PiiSpan(21, 24, "PERSON")),
    )  # fmt: skip
    result = scrubbed(document)
    assert (result.input, result.output) == ("[MASK]. A: [MASK], B: [MASK]", "B")


def test_an_answer_that_is_a_name_is_masked_even_where_only_the_input_was_marked():
    document = Document(
        id="a", text="Who?\nBob called.\nBob",
        instruction="Who?", input="Bob called.", output="Bob",
        pii=(PiiSpan(5, 8, "PERSON"),),
    )  # fmt: skip
    result = scrubbed(document)
    assert (result.text, result.output) == ("Who?\n[MASK] called.\nBob", "[MASK]")


def test_a_field_that_is_not_in_the_text_loses_every_masked_string():
    document = Document(
        id="a", text="Ann Lee wrote to Lee.", output="Lee and ANN LEE and Ann Lee",
        pii=(PiiSpan(0, 7, "PERSON"), PiiSpan(17, 20, "PERSON")),
    )  # fmt: skip
    assert scrubbed(document, "label").output == "<PERSON> and ANN LEE and <PERSON>"
    assert scrubbed(document, "asterisks").output == "*** and ANN LEE and *******"


@pytest.mark.parametrize("spelled", ["Ann\u00a0Lee", "Ann \n Lee", "Ａｎｎ Lee"])
def test_a_field_that_is_not_in_the_text_may_spell_a_string_otherwise(spelled):
    document = Document(id="a", text="Ann Lee wrote.", output=f"By {spelled}, Ann.",
                        pii=(PiiSpan(0, 7, "PERSON"),))  # fmt: skip
    assert scrubbed(document).output == "By [MASK], Ann."
    result = scrubbed(document, "pseudonym")
    assert result.output == f"By {result.text.removesuffix(' wrote.')}, Ann."


def test_white_space_at_the_ends_of_a_mark_is_no_part_of_what_is_sought_in_a_field():
    document = Document(id="a", text="Call Ann Lee \nnow", output="Ask Ann Lee.",
                        pii=(PiiSpan(4, 14, "PERSON"),))  # fmt: skip
    assert scrubbed(document).output == "Ask [MASK]."


def test_a_span_across_the_end_of_a_field_is_masked_on_both_sides():
    document = Document(
        id="a", text="Name: Ann Lee", instruction="Name: Ann", output="Lee",
        pii=(PiiSpan(6, 13, "PERSON"),),
    )  # fmt: skip
    result = scrubbed(document, "asterisks")
    assert (result.instruction, result.output) == ("Name: ***", "***")
    result = scrubbed(document, "pseudonym")
    assert (result.instruction, result.output) == ("Name: <PERSON>", "<PERSON>")


def test_nothing_annotated_changes_nothing_but_says_that_there_is_none():
    document = Document(id="a", text="Ann", output="Ann")
    assert scrubbed(document, "pseudonym") == document.annotated(())


LETTERS = st.text("ab张 3", min_size=1, max_size=12)


@given(st.data(), st.sampled_from(STYLES))
def test_text_between_the_spans_stays_as_it_is(data, style):
    pieces = data.draw(st.lists(st.tuples(LETTERS, LETTERS, st.booleans()), max_size=4))
    text, spans = "", []
    for before, string, kept in pieces:
        start = len(text + before)
        text += before + string
        spans.append(PiiSpan(start, start + len(string), "AGE" if kept else "PERSON"))
    document = Document(id="a", text=text, pii=tuple(spans))
    written = substitution(style, [document], "k")
    result = mask_document(document, written, lambda label: label == "PERSON")
    slow = "".join(b + (s if kept else written(s, "PERSON")) for b, s, kept in pieces)
    assert result.text == slow
    assert result.strings() == tuple((s, "AGE") for _, s, kept in pieces if kept)
