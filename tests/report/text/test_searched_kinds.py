"""Before a verdict stands what was not looked for, Articles 9, 10 and 87 of the GDPR first."""

from fedaudit.report.text.searched_kinds import searched_kinds


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


def test_nothing_is_said_of_records_that_came_annotated():
    assert searched_kinds({"measurements": []}) == []
