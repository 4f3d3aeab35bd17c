import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.api.defense import FinishedFederation
from fedaudit.api.errors import UsageError
from fedaudit.api.records import Document, PiiSpan
from fedaudit.config import registry
from fedaudit.nano.generator import corpus

TEXT = "Claimant: Ann Lee, born 3 May 1980."
ANNOTATED = Document(
    id="a", text=TEXT, pii=(PiiSpan(10, 17, "PERSON"), PiiSpan(24, 34, "BIRTHDAY"))
)


def scrubbed(document, **options):
    (result,) = registry.create("defense", "scrub", options).prepare([document])
    return result


@pytest.mark.parametrize(
    ("style", "text"),
    [
        ("mask", "Claimant: [MASK], born [MASK]."),
        ("asterisks", "Claimant: *******, born **********."),
        ("label", "Claimant: <PERSON>, born <BIRTHDAY>."),
    ],
)
def test_annotated_pii_is_masked_in_each_style(style, text):
    result = scrubbed(ANNOTATED, style=style)
    assert result.text == text
    assert result.pii == ()


def test_what_a_detector_misses_stays():
    # The name follows no title and is in no list of names: only its annotation knows it.
    text = "Claimant: Qvist Ubbe, ann.lee@example.com."
    document = Document(id="a", text=text, pii=(PiiSpan(10, 20, "PERSON"),))
    result = scrubbed(document, detector="presidio")
    assert result.text == "Claimant: Qvist Ubbe, [MASK]."
    assert result.pii == ()
    assert scrubbed(document).text == "Claimant: [MASK], ann.lee@example.com."
    with pytest.raises(UsageError, match="detector"):
        scrubbed(document, detector="nobody")


def test_a_pseudonym_is_the_same_for_all_clients_with_the_seed():
    (one,) = registry.create("defense", "scrub", {"style": "pseudonym"}).prepare([ANNOTATED])
    assert re.fullmatch(r"Claimant: \S+ \S+, born \d+ \w+ \d{4}\.", one.text)
    assert "Ann Lee" not in one.text
    assert one.pii == ()
    assert scrubbed(ANNOTATED, style="pseudonym") == one
    assert scrubbed(ANNOTATED, style="pseudonym", seed=1) != one


def test_clients_with_other_documents_write_the_same_label_for_the_same_string():
    defence = registry.create("defense", "scrub", {"style": "pseudonym"})
    one = Document(id="a", text="male", pii=(PiiSpan(0, 4, "GENDER"),))
    other = Document(id="b", text="female", pii=(PiiSpan(0, 6, "GENDER"),))
    (alone,), (_, beside) = defence.prepare([one]), defence.prepare([other, one])
    assert alone == beside
    assert re.fullmatch("<GENDER-[0-9a-f]{8}>", alone.text)


def test_that_a_seed_is_no_secret_is_a_limit_of_pseudonyms_alone(tmp_path):
    finished = FinishedFederation(
        engine=None, folder=tmp_path, adapter=tmp_path, parties={}, batch_size=1, rounds=1,
        max_length=8, seed=0,
    )  # fmt: skip
    (limit,) = registry.create("defense", "scrub", {"style": "pseudonym"}).deploy(finished).limits
    assert "anyone who knows it can test" in limit
    assert registry.create("defense", "scrub", {"style": "mask"}).deploy(finished).limits == ()


def test_the_fields_of_instruction_records_are_masked_too():
    for document in corpus(cases=2, documents_per_case=3, seed=1, tasks=["summary"]):
        result = scrubbed(document)
        assert "[MASK]" in result.input
        assert result.input in result.text


def test_an_unknown_style_is_refused():
    with pytest.raises(UsageError, match="mask"):
        scrubbed(ANNOTATED, style="masks")


def test_a_document_annotated_as_having_none_stays():
    document = Document(id="a", text="Write to ann@example.org.", pii=())
    assert scrubbed(document).text == document.text


@given(st.integers(0, 10**6), st.sampled_from(["mask", "asterisks", "label"]))
def test_no_annotated_string_survives_and_asterisks_keep_the_length(seed, style):
    for document in corpus(cases=1, documents_per_case=3, seed=seed):
        result = scrubbed(document, style=style)
        assert not [text for text, _ in document.strings() if text in result.text]
        assert style != "asterisks" or len(result.text) == len(document.text)
