"""Whether a report says which labels the annotation can give, and of which file."""

from pathlib import Path

from example_report import coverage

from fedaudit.api.records import Document
from fedaudit.audit.input_files import InputFile
from fedaudit.audit.records import label_rows
from fedaudit.audit.request import ExtractionRequest

SEARCHED = [coverage(0, 9, plugin="contextual", source="tuned")]


def files(own, victim):
    """Return the attacker's file and the victim's, and what annotated each."""
    document = Document(id="d", text="some text", pii=())
    return [
        InputFile(path=Path(name), documents=[document], annotation=annotation, sha256="")
        for name, annotation in (("own", own), ("victim", victim))
    ]


def request(**changes):
    entities = {"names": {"entities": ["PERSON", "EMAIL_ADDRESS"]}}
    paths = {"prefixes": Path("own"), "victim": Path("victim")}
    return ExtractionRequest(**{**paths, "detector": "names", "options": entities, **changes})


def test_the_labels_stand_where_a_detector_marked_what_was_tried():
    [row] = label_rows(files(None, "rules"), request(), SEARCHED)
    assert (row.plugin, row.metric, row.value) == ("names", "annotation_labels", 2)
    assert row.scope == {"labels": ["EMAIL_ADDRESS", "PERSON"]}


def test_records_that_came_annotated_are_taken_at_their_owners_word():
    assert label_rows(files("rules", None), request(), SEARCHED) == []
    # Without a victim the attacker's own are those that are tried.
    assert len(label_rows(files("rules", None)[:1], request(victim=None), SEARCHED)) == 1


def test_no_labels_where_no_strings_were_looked_for():
    assert label_rows(files(None, "rules"), request(), []) == []
