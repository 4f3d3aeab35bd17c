"""A scrubbed record keeps its shape, and masks in every string what it masks in one."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.api.records import Document, PiiSpan
from fedaudit.api.templates import template
from fedaudit.data import corpus, record_scrubbing, scrubbing
from fedaudit.data.corpus import CorpusRecord
from fedaudit.data.formats import content
from fedaudit.data.record_scrubbing import MarkedRecord, mask_record, other_strings
from fedaudit.data.scrubbing import ScrubRequest
from fedaudit.pii.masking import STYLES, substitution

FORM = template("fed_pii")
PHONE, MAIL = "020 7946 0958", "ann@mail.co.uk"
TEXT = f"Call {PHONE} or {MAIL}."
HUMAN, GPT = {"from": "human", "value": TEXT}, {"from": "gpt", "value": f"I wrote to {MAIL}"}
USER, BOT = {"role": "user", "content": TEXT}, {"role": "assistant", "content": PHONE}

# As the frameworks write them.
RECORDS: dict[str, dict[str, Any]] = {
    "fedaudit": {"id": "a", "text": TEXT, "task": "summary", "group": "g"},
    "prompt": {"prefix": TEXT},
    "alpaca": {"instruction": "Who?", "input": TEXT, "output": PHONE},
    "dolly": {"instruction": "Who?", "context": TEXT, "response": MAIL, "category": "closed_qa"},
    "openfedllm, flowertune": {"instruction": TEXT, "response": PHONE},
    "trl": {"prompt": "Mail to", "completion": f" {MAIL}"},
    "trl, conversations": {"prompt": [USER], "completion": [BOT]},
    "trl, messages": {"messages": [{"role": "system", "content": MAIL}, USER, BOT, USER, BOT]},
    "parts": {"messages": [{"role": "user", "content": [{"type": "text", "text": TEXT}]}, BOT]},
    "sharegpt": {"id": "identity_0", "conversations": [HUMAN, GPT]},
    "questions": {"question": TEXT, "answer": PHONE},
    "text and fields": {"text": f"Q {TEXT} {PHONE}", "instruction": f"Q {TEXT}", "output": PHONE},
    "text and turns": {"text": "Nothing.", "messages": [USER, BOT]},
    "calls": {"messages": [USER, {**BOT, "tool_calls": [{"function": {
        "name": "f", "arguments": {"to": MAIL, "rows": [PHONE, 7]}}}]}]},
    "repeated": {"prompt": TEXT, "messages": [USER, BOT, {"role": "user", "content": "?"}, BOT]},
    "capitals": {"Text": TEXT, "PII": [{"start": 5, "end": 18, "label": "PHONE_NUMBER"}]},
    "other fields": {
        "text": "Nothing.", "n": 0.25, "yes": True, "none": None, "many": [1, [MAIL, {"x": TEXT}]],
        "half": "\ud800",
    },
}  # fmt: skip


def paths(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Yield every value that holds no others, with its place."""
    inner = value.items() if isinstance(value, dict) else ()
    inner = enumerate(value) if isinstance(value, list) else inner
    if not isinstance(value, dict | list):
        yield place, value
    for key, below in inner:
        if str(key).casefold() != "pii":
            yield from paths(below, (*place, key))


def scrubbed(tmp_path, records, array=False, **options):
    source, out = tmp_path / "in", tmp_path / "out"
    corpus.write_fields(source, records, array=array)
    done = scrubbing.scrub(ScrubRequest(source=source, out=out, force=True, seed=1, **options))
    text = out.read_text()
    return (json.loads(text) if array else [json.loads(line) for line in text.splitlines()]), done


@pytest.mark.parametrize("style", STYLES)
def test_every_format_keeps_all_and_masks_all(tmp_path, style):
    before = [{**r, "extra": {"of": [MAIL]}} for r in RECORDS.values()]
    after, done = scrubbed(tmp_path, before, style=style)
    assert PHONE not in str(after)
    assert MAIL not in str(after)
    masks = {"mask": ["[MASK]"] * 2, "asterisks": ["*" * 13, "*" * 14],
             "label": ["<PHONE_NUMBER>", "<EMAIL_ADDRESS>"]}.get(style)  # fmt: skip
    if masks is None:  # the same for the same, everywhere
        mail = after[0]["extra"]["of"][0]
        masks = [after[2]["output"], mail]
    for old, new in zip(before, after, strict=True):
        wanted = {
            place: value.replace(PHONE, masks[0]).replace(MAIL, masks[1])
            if isinstance(value, str) else value
            for place, value in paths(old)
        }  # fmt: skip
        assert dict(paths(new)) == wanted
        assert list(new) == list(old)
    assert done.remaining == 0
    assert done.unread["extra"] == len(RECORDS)


def test_an_array_of_records_stays_one(tmp_path):
    after, _ = scrubbed(tmp_path, [RECORDS["dolly"]] * 2, array=True, style="label")
    assert [one["response"] for one in after] == ["<EMAIL_ADDRESS>"] * 2


def test_annotation_that_is_left_stands_where_it_says(tmp_path):
    text = content(RECORDS["dolly"], FORM, "here").text
    spans = [
        {"start": at, "end": at + len(string), "label": label}
        for string, label in ((PHONE, "PHONE"), (MAIL, "MAIL"))
        for at in [text.index(string)]
    ]
    talk = {"messages": [USER, BOT, {"role": "user", "content": "and?"}, {**BOT, "content": MAIL}]}
    said = content(talk, FORM, "here").text
    start = said.index(MAIL)
    turn = {"start": start, "end": start + len(MAIL), "label": "MAIL"}
    number = {"start": 5, "end": 18, "label": "PHONE"}
    records = [{**RECORDS["dolly"], "Pii": spans}, {**talk, "pii": [number, turn]}]
    after, _ = scrubbed(tmp_path, records, style="label", only=("PHONE",))
    again = list(corpus.read(tmp_path / "out", FORM))
    assert list(after[0]) == list(records[0])
    for document in again:
        assert PHONE not in document.text
        assert document.strings() == ((MAIL, "MAIL"),)


def marked(record: dict[str, Any], *strings: tuple[str, str]) -> MarkedRecord:
    """Return a record of which the first places of some strings in its text are marked."""
    said = content(record, FORM, "here")
    spans = tuple(
        PiiSpan(at, at + len(string), label)
        for string, label in strings
        for at in [said.text.index(string)]
    )
    document = Document(id="a", text=said.text, **said.fields, pii=spans)
    whole = CorpusRecord(record, said, document, "r.jsonl, line 1")
    around = {at: Document(id="b", text=text, pii=()) for at, text in other_strings(whole).items()}
    return MarkedRecord(whole, document, around)


def after(one: MarkedRecord, style: str = "label") -> dict[str, Any]:
    return mask_record(one, substitution(style, one.documents(), "key"), lambda label: True).fields


def test_what_is_marked_in_one_field_is_masked_in_the_others_as_a_word():
    record = {
        "instruction": "Who is Ann Lee of Leeds?", "context": "Ann\nLee called Lee.",
        "response": "Lee", "by": ["Ann\u00a0Lee", {"x": "Leeds"}],
    }  # fmt: skip
    assert after(marked(record, ("Ann Lee", "PERSON"))) == {
        "instruction": "Who is <PERSON> of Leeds?", "context": "<PERSON> called Lee.",
        "response": "Lee", "by": ["<PERSON>", {"x": "Leeds"}],
    }  # fmt: skip
    both = after(marked(record, ("Ann Lee", "PERSON"), ("Lee.", "PERSON")))
    assert (both["context"], both["response"]) == ("<PERSON> called <PERSON>", "Lee")


def test_another_spelling_gets_the_same_pseudonym():
    record = {"instruction": "Who is Ann Lee?", "response": "Ann\u00a0Lee", "by": "Ann \n Lee"}
    new = after(marked(record, ("Ann Lee", "PERSON")), "pseudonym")
    assert new["response"] == new["by"] == new["instruction"][7:-1] != "Ann Lee"


def test_chinese_names_have_no_words_to_stand_in():
    record = {"instruction": "张三是谁？", "response": "原告张三胜诉"}
    assert after(marked(record, ("张三", "PERSON")))["response"] == "原告<PERSON>胜诉"


def test_one_character_is_masked_elsewhere_only_where_it_stands_alone():
    record = {"instruction": "王先生见了国王？", "response": "王建国是国王。", "by": ["王", "国王"]}
    assert after(marked(record, ("王", "PERSON"))) == {
        "instruction": "<PERSON>先生见了国王？", "response": "王建国是国王。",
        "by": ["<PERSON>", "国王"],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("item", "label"),
    [
        ({"quote": "Xan Quux", "infoType": {"name": "PERSON_NAME"}, "location": {}}, "PERSON_NAME"),
        ({"text": "Xan Quux", "label": "PERSON"}, "PERSON"),
        ({"Value": "Xan Quux", "Type": "name"}, "name"),
        (["Xan Quux", "PER"], "PER"),
    ],
)
def test_what_annotation_without_offsets_quotes_is_masked(tmp_path, item, label):
    [new], done = scrubbed(tmp_path, [{"text": "By Xan Quux.", "list": [item]}], style="label")
    assert new["text"] == f"By <{label}>."
    assert (done.masked, done.remaining) == ({label: 2}, 0)


@pytest.mark.parametrize(
    "item", [{"text": "Hello.", "type": "message"}, {"text": "x", "label": "y"}, ["Xan", "Quux"]]
)
def test_a_text_with_another_type_is_no_quotation(item):
    assert list(record_scrubbing.quotations({"list": [item]})) == []


@pytest.mark.parametrize(
    ("name", "field", "masked"),
    [
        ("Xanthor Quux", "Quux v Acme", "<PERSON> v Acme"),
        ("Xanthor Quux", "quux_2.pdf", "<PERSON>_2.pdf"),
        ("Xanthor Quux", "by quux", "by quux"),
        ("Xanthor Quux", ["Xanthor"], ["<PERSON>"]),
        ("Quux, Xanthor", "Dr Quux", "Dr <PERSON>"),
        ("Xanthor A. Quux-Yule", "Quux-Yule came", "<PERSON> came"),
        ("Xanthor Lee", "Lee", "Lee"),
        ("Xanthor Quux", "%u0058anthor Quux", "%u0058anthor Quux"),  # is counted as left
        ("Xanthor Stone", "Stone removed", "Stone removed"),
        ("Professor Xanthor Quux", "Professor Yule", "Professor Yule"),
        ("Dr Xanthor Quux", "Doctor Quux's", "Doctor <PERSON>'s"),
    ],
)
def test_a_part_of_a_name_is_masked_in_other_fields(name, field, masked):
    one = marked({"text": f"Who is {name}?", "x": field}, (name, "PERSON"))
    assert after(record_scrubbing.with_parts_of_names(one))["x"] == masked


def test_a_surname_is_masked_in_the_text_and_a_first_name_is_not():
    one = marked({"text": "Jonas Quux of Jonas: Quux, not Quuxes."}, ("Jonas Quux", "PERSON"))
    text = after(record_scrubbing.with_parts_of_names(one))["text"]
    assert text == "<PERSON> of Jonas: <PERSON>, not Quuxes."


@pytest.mark.parametrize("name", ["May", "So", "Page", "Case"])
def test_a_surname_that_is_an_everyday_word_is_masked_where_it_was_marked(name):
    rest = f"{name} 4 is on {name.casefold()}. {name} it be."
    one = marked({"text": f"Mr {name} came. {rest}", "x": rest, "y": f" {name}"}, (name, "PERSON"))
    fields = after(one)
    assert fields == {"text": f"Mr <PERSON> came. {rest}", "x": rest, "y": " <PERSON>"}
    other = marked({"text": f"Place: {name}. {rest}"}, (name, "LOCATION"))
    assert after(other)["text"].count("<LOCATION>") == 3


@pytest.mark.parametrize(
    ("field", "masked"),
    [
        (["of", "Ann", "Quux", "Quux"], ["of", "<PERSON>", "<PERSON>", "Quux"]),
        (["An", "##n", "Qu", "##ux"], ["<PERSON>", "##<PERSON>", "<PERSON>", "##<PERSON>"]),
        (["▁Ann", "▁Qu", "ux", "."], ["▁<PERSON>", "▁<PERSON>", "<PERSON>", "."]),
        ([["(Ann", "Quux),"], ["Ann"]], [["(<PERSON>", "<PERSON>),"], ["Ann"]]),
        ([{"text": "Ann", "id": 0}, {"text": "Quux", "id": 1}],
         [{"text": "<PERSON>", "id": 0}, {"text": "<PERSON>", "id": 1}]),
        (["Joann", "Quux"], ["Joann", "Quux"]),
        (["Ann", "Quuxes"], ["Ann", "Quuxes"]),
    ],
)  # fmt: skip
def test_what_is_marked_is_masked_over_the_items_of_a_list(field, masked):
    record = {"text": "Who is Ann Quux?", "tokens": field}
    assert after(marked(record, ("Ann Quux", "PERSON")))["tokens"] == masked


def test_what_a_list_of_another_record_says_is_counted(tmp_path):
    span = {"start": 0, "end": 8, "label": "PERSON"}
    other = {"text": "Nothing.", "pii": [], "tokens": ["ann", "quu", "##x", "left"]}
    _, done = scrubbed(tmp_path, [{"text": "Ann Quux", "pii": [span]}, other])
    assert (done.remaining, done.respelt) == (1, 1)


def test_what_is_found_in_the_templates_own_text_is_not_counted(tmp_path):
    record = {"instruction": "Who is Ann?", "output": "Call 7"}
    options = {"patterns": ("WORD=Output|Call",), "entities": ("WORD",)}
    [new], done = scrubbed(tmp_path, [record], style="label", detector="presidio", options=options)
    assert (new["output"], done.masked) == ("<WORD> 7", {"WORD": 1})


def test_a_mark_across_two_fields_is_masked_in_both_and_not_between_them():
    one = marked({"prompt": "Name: Ann", "completion": " Lee."})
    one = replace(one, document=replace(one.document, pii=(PiiSpan(6, 13, "PERSON"),)))
    assert after(one, "asterisks") == {"prompt": "Name: ***", "completion": "****."}


def test_speakers_and_kinds_of_parts_are_never_masked():
    record = {"messages": [{"role": "user", "content": [{"type": "text", "text": "user text"}]},
                           {"role": "assistant", "content": "user"}]}  # fmt: skip
    new = after(marked(record, ("user", "PERSON"), ("text", "PERSON")))
    assert new["messages"][0] == {
        "role": "user", "content": [{"type": "text", "text": "<PERSON> <PERSON>"}]
    }  # fmt: skip
    assert new["messages"][1] == {"role": "assistant", "content": "<PERSON>"}


WORDS = st.lists(st.sampled_from(["Ann", "Lee", "ran", "张三"]), max_size=5).map(" ".join)
EXTRA = st.recursive(
    WORDS | st.integers() | st.booleans() | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner),
    max_leaves=6,
)


@given(st.sampled_from(sorted(RECORDS)), WORDS, EXTRA, st.sampled_from(STYLES))
def test_the_set_of_paths_stays_and_no_marked_word_does(name, words, extra, style):
    record = json.loads(json.dumps(RECORDS[name]).replace(MAIL, f"{words} Ann"))
    record |= {"extra": extra}
    one = marked(record)
    at = one.document.text.find("Ann")
    spans = () if at < 0 else (PiiSpan(at, at + 3, "PERSON"),)
    one = replace(one, document=replace(one.document, pii=spans))
    new = after(one, style)
    assert [place for place, _ in paths(new)] == [place for place, _ in paths(record)]
    if spans:
        assert "Ann" not in str(new)
    else:
        assert dict(paths(new)) == dict(paths(record))


@pytest.mark.parametrize(
    ("key_path", "text", "label"),
    [
        (("patient", "family"), "Quo", "PERSON"),
        (("contactPhone",), "0123 45", "PHONE_NUMBER"),
        (("rows", 0, "Birth Date"), "1970-01-02", "BIRTHDAY"),
        (("Mobiltelefon",), "0151 23 45", "PHONE_NUMBER"),
        (("téléphone",), "01 23 45", "PHONE_NUMBER"),
        (("Geburtstag",), "2. 1. 1970", "BIRTHDAY"),
        (("Straße",), "Am Quo 3", "ADDRESS"),
        (("tool_calls", 0, "function", "name"), "Book", None),
        (("surname",), "van der Berg", "PERSON"),
        (("last_name",), "d'Urso", "PERSON"),
        (("nom",), "de l’Étang", "PERSON"),
        (("姓名",), "王小明", "PERSON"),
        (("name",), "Mr", "PERSON"),
        (("name",), "van der berg", None),
        (("name",), "printer in Room", None),
        (("name",), "a7", None),
        (("comment",), "Quo", None),
        (("doctor",), "Dr. Q. Ashdown (GP)", "PERSON"),
        (("next_of_kin",), "Xanthor Quux", "PERSON"),
        (("createdBy",), "Xanthor Quux", "PERSON"),
        (("nameOfPatient",), "Xanthor", "PERSON"),
        (("patient_full_name",), "XANTHOR QUUX", "PERSON"),
        (("participants", 1), "van der Quux, Xanthor", "PERSON"),
        (("cc",), "Xanthor Quux; Quillon Ashdown", "PERSON"),
        (("witness_2",), "Siobhán O’Quux-Yule", "PERSON"),
        (("patient", "last"), "Quux", "PERSON"),
        (("patient", "city"), "New Quux", None),
        (("author", "display"), "Xanthor Quux", "PERSON"),
        (("paciente",), "Xanthor Quux", "PERSON"),
        (("原告姓名",), "王小明、李娜", "PERSON"),
        (("患者",), "王小明头痛三日", None),
        (("judge",), "محمد علي", "PERSON"),
        (("username",), "xquux", "USERNAME"),
        (("author",), "anonymous", None),
        (("author",), "Unknown Author", None),
        (("speaker",), "Patient", None),
        (("judge",), "quux-4", None),
        (("owner",), "Quux Ltd", None),
        (("manager",), "Thanks.", None),
        (("to",), "French", None),
        (("user",), "Hello", None),
        (("user",), "Please ask Quux", None),
        (("user",), "Is it Quux?", None),
        (("sort_by",), "Last Name", None),
        (("file_name",), "Quux Report", None),
        (("mrn",), "AB12 3456", "MEDICAL_RECORD"),
        (("nhs",), "943 476", "SSN"),
        (("nationalInsuranceNumber",), "AB12 3456", "SSN"),
        (("account_number",), "AB12 3456", "BANK_ACCOUNT"),
        (("cardNo",), "12 3456", "BANK_CARD"),
        (("address_line_1",), "4 Quux", "ADDRESS"),
        (("phone1",), "12 3456", "PHONE_NUMBER"),
        (("contact_no",), "12 3456", "PHONE_NUMBER"),
    ],
)
def test_the_name_of_a_field_says_what_its_value_is(key_path, text, label):
    document = record_scrubbing.with_field_name(key_path, Document(id="", text=text))
    assert [span.label for span in document.pii or ()] == ([label] if label else [])
