"""Copies of a corpus, and corpora that only look like it."""

import pytest

from fedaudit.api.records import Document, PiiSpan
from fedaudit.data.near_duplicates import share_of_copies
from fedaudit.nano.generator import corpus

MASKS = {
    "mask": lambda string, label, number: "[MASK]",
    "tag": lambda string, label, number: f"<{label}>",
    "bar": lambda string, label, number: "█" * len(string),
    "stars": lambda string, label, number: "*" * len(string),
    "number": lambda string, label, number: f"{label}_{number}",
    "cut": lambda string, label, number: "",
}


def clients(seed, language="en"):
    """Return the records of two clients that write with the same templates about other people."""
    found = list(corpus(cases=6, documents_per_case=6, seed=seed, languages=(language,)))
    return found[:18], found[18:]


def strings(documents):
    return sorted({string.strip() for document in documents for string, _ in document.strings()})


def scrubbed(documents, mask, missed):
    """Return records in which every string but those of `missed` is masked."""
    done = []
    for document in documents:
        text, end, spans = "", 0, []
        for number, span in enumerate(sorted(document.pii, key=lambda span: span.start)):
            if span.start < end:
                continue
            text += document.text[end : span.start]
            string, end = document.text[span.start : span.end], span.end
            if string.strip() in missed:
                spans.append(PiiSpan(len(text), len(text) + len(string), span.label))
                text += string
            else:
                text += mask(string, span.label, number)
        done.append(Document(id="", text=text + document.text[end:], pii=tuple(spans)))
    return done


def cut(documents, share):
    ends = [int(len(document.text) * share) for document in documents]
    return [
        Document(id="", text=d.text[:end], pii=tuple(s for s in d.pii if s.end <= end))
        for d, end in zip(documents, ends, strict=True)
    ]


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_scrubbed_copy_that_missed_a_few_is_a_copy_and_a_scrubbed_stranger_is_none(
    mask, language
):
    victim, other = clients(11, language)
    copy = scrubbed(victim, mask, set(strings(victim)[::5]))
    assert share_of_copies(copy, victim) > 0.75
    assert share_of_copies(victim, copy) == share_of_copies(copy, victim)
    stranger = scrubbed(other, mask, set(strings(other)[::5]))
    assert share_of_copies(stranger, victim) == 0


def test_records_without_annotation_are_copies_by_the_other_sides_strings():
    victim, other = clients(12)
    missed = set(strings(victim)[::5])
    copy, stranger = scrubbed(victim, MASKS["tag"], missed), scrubbed(other, MASKS["tag"], ())
    bare = [[Document(id="", text=d.text) for d in group] for group in (copy, other, stranger)]
    assert [share_of_copies(documents, victim) > 0.5 for documents in bare] == [True, False, False]


@pytest.mark.parametrize("share", [0.5, 0.7, 0.9])
def test_records_that_are_cut_off_are_copies_either_way(share):
    victim, other = clients(13)
    assert share_of_copies(cut(victim, share), victim) > 0.9
    assert share_of_copies(victim, cut(victim, share)) > 0.9
    assert share_of_copies(cut(other, share), victim) == 0


def test_case_and_line_breaks_do_not_matter():
    victim, _ = clients(14)
    spelt = [Document(id="", text=d.text.upper().replace(" ", "\n ")) for d in victim]
    assert share_of_copies(spelt, victim) == 1


def test_a_part_of_the_records_and_later_ones_are_still_a_copy():
    victim, later = clients(15)
    assert share_of_copies(victim[:6], victim[:5] + later) == pytest.approx(5 / 6)


def test_other_records_of_the_same_people_are_none_and_shared_ones_count_as_they_are():
    victim, other = clients(16)
    assert share_of_copies(victim[::2], victim[1::2]) <= 0.5
    assert share_of_copies(other[:12] + victim[:6], victim) == pytest.approx(6 / 18)


def test_records_without_personal_data_are_compared_as_wholes():
    def plain(*texts):
        return [Document(id="", text=text, pii=()) for text in texts]

    assert share_of_copies(plain("b", "A "), plain("a", "b", "c")) == 1
    assert share_of_copies(plain("a", "x", "y"), plain("a", "b", "c")) == pytest.approx(1 / 3)
    assert share_of_copies(plain("Dear [NAME]"), plain("Dear <name>")) == 0
    assert share_of_copies([], plain("a")) == share_of_copies(plain("a"), []) == 0


def test_json_in_braces_is_text_and_no_mask():
    text = '{"name": "Ann Lee"}'
    one = Document(id="", text=text, pii=(PiiSpan(10, 17, "PERSON"),))
    assert share_of_copies([one], [one]) == 1
