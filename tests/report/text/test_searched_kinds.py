"""Before a verdict stands what was not looked for, Articles 9, 10 and 87 of the GDPR first."""

from fedaudit.report.text.searched_kinds import MODEL_GAIN, searched_kinds


def row(*labels):
    scope = {"labels": list(labels)}
    return {"kind": "extraction", "plugin": "names", "metric": "annotation_labels", "scope": scope}


def test_it_names_what_was_looked_for_and_first_what_the_law_protects_most():
    [sentence] = searched_kinds({"measurements": [row("PERSON", "ID_CARD", "WARD_CODE")]})
    looked, missed = sentence.split("Not looked for")
    assert "names looked in them for Name, Identity Card Number, WARD_CODE." in looked
    assert (
        missed.index("Illness")
        < missed.index("(GDPR Art. 9(1))")
        < missed.index("Criminal Record (GDPR Art. 10)")
        < missed.index("Social Insurance")
        < missed.index("Birthday")
    )
    assert "Identity Card" not in missed


def test_it_says_what_a_model_gains_where_names_were_looked_for_without_one():
    [alone] = searched_kinds({"measurements": [row("PERSON")]})
    assert alone.endswith(f"Names were looked for without a model: {MODEL_GAIN}.")
    for labels in (("PERSON", "LOCATION"), ("EMAIL_ADDRESS",)):
        [other] = searched_kinds({"measurements": [row(*labels)]})
        assert "model" not in other


def test_nothing_is_said_of_records_that_came_annotated():
    assert searched_kinds({"measurements": []}) == []
