import pytest

from fedaudit.api.records import Document, PiiSpan
from fedaudit.data.annotation import annotate

BARE = Document(id="b", text="Write to ann@example.org.")
NONE = Document(id="n", text="Write to bob@example.org.", pii=())
PROMPT = Document(id="p", text="Write to eve@example.org", is_prompt=True)


def test_only_what_nobody_annotated_is_annotated():
    documents, by = annotate([NONE, BARE, PROMPT], "presidio")
    assert documents[0] == NONE
    assert documents[1].strings() == (("ann@example.org", "EMAIL_ADDRESS"),)
    assert documents[2] == PROMPT
    assert "presidio" in by.lower()


def test_nothing_to_annotate_needs_no_detector():
    documents, by = annotate([NONE, Document(id="x", text="a", pii=(PiiSpan(0, 1, "X"),))], "none")
    assert by is None
    assert len(documents) == 2


@pytest.mark.parametrize(
    ("prompt", "answer", "strings"),
    [
        ("Was the letter signed by Dr Rosalind Quux", "Yes", ["Rosalind Quux"]),
        ("Was the letter signed by Dr Rosalind Quux", " Yes", ["Rosalind Quux"]),
        ("Letter of Mr Quux", "Approve", ["Quux"]),
        ("Patient: Rosalind Quux", "Diagnosis: gout", ["Rosalind Quux"]),
        ("Rosalind Jones", "Heart Quux", ["Rosalind Jones"]),
        ("Patient name:", " Xanthor Quux", ["Xanthor Quux"]),
        ("Kind regards,\n", "Xanthor Quux", ["Xanthor Quux"]),
        ("Who?", " Mr Quux", ["Quux"]),
    ],
)
def test_no_name_goes_on_from_the_prompt_to_the_answer(prompt, answer, strings):
    glued = Document(id="g", text=prompt + answer, instruction=prompt, output=answer)
    [document], _ = annotate([glued], "names")
    assert [string for string, _ in document.strings()] == strings
