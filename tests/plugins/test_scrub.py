import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaudit import registry
from fedaudit.nano.generator import corpus
from fedaudit.records import Document, PiiSpan

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


def test_a_document_annotated_as_having_none_stays():
    document = Document(id="a", text="Write to ann@example.org.", pii=())
    assert scrubbed(document).text == document.text


@given(st.integers(0, 10**6), st.sampled_from(["mask", "asterisks", "label"]))
def test_no_annotated_string_survives_and_asterisks_keep_the_length(seed, style):
    for document in corpus(cases=1, documents_per_case=3, seed=seed):
        result = scrubbed(document, style=style)
        assert not [text for text, _ in document.strings() if text in result.text]
        assert style != "asterisks" or len(result.text) == len(document.text)
