"""Public examples of the generator, for what stands in place of self-made ones."""

import pytest

from fedaudit.api.errors import UsageError
from fedaudit.api.templates import template
from fedaudit.data.public_examples import CASES, EACH, is_source, public_examples
from fedaudit.nano.generator import corpus

FORM = template("alpaca")


def test_a_source_says_domain_tasks_and_languages():
    found = public_examples("nano:medical:summary,exam:en", FORM)
    assert len(found) == CASES * EACH
    assert {d.task for d in found} == {"summary", "exam"}
    assert all("### Response:" in d.text and d.text.endswith(d.output) for d in found)
    assert all(ord(letter) < 0x3000 for d in found for letter in d.instruction)
    assert any("patient" in d.input.lower() for d in found)
    assert not any("claimant" in d.input.lower() for d in found)


def test_what_is_left_out_is_every_language_and_the_tasks_that_answer():
    found = public_examples("nano:legal", FORM)
    assert {d.task for d in found} == {"reading", "summary", "classification"}
    assert any(ord(letter) > 0x3000 for d in found for letter in d.instruction)
    assert {d.task for d in public_examples("nano:legal,bank::zh", FORM)} == {d.task for d in found}


def test_it_is_always_the_same_and_of_nobody_in_a_federation():
    found = public_examples("nano:legal:summary:en", FORM)
    assert found == public_examples("nano:legal:summary:en", FORM)
    own = corpus(cases=24, documents_per_case=4, seed=0, domains=("legal",), languages=("en",))
    people = {text for d in own for text, label in d.strings() if label == "PERSON"}
    others = {text for d in found for text, label in d.strings() if label == "PERSON"}
    assert people
    assert others
    assert len(people & others) < len(people) / 10  # two people may share a name
    assert not {d.text for d in found} & {d.text for d in own}


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("nano:lega", "legal"),
        ("nano:legal:sumary", "summary"),
        ("nano:legal:summary:fr", "language of public examples"),
        ("nano:", "domain of nano records"),
        ("nano:legal:summary:en:x", "is not nano:DOMAIN"),
        ("public.jsonl", "is not nano:DOMAIN"),
    ],
)
def test_sources_that_there_are_not(name, says):
    with pytest.raises(UsageError, match=says):
        public_examples(name, FORM)


def test_a_file_is_no_source():
    assert is_source("nano:legal")
    assert not is_source("nano.jsonl")
