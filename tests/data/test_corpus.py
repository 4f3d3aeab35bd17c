"""Reading and writing the corpus format, and what is said of every line that is not a record."""

import json
import os
import types
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.api.errors import InputError
from fedaudit.api.records import Document, PiiSpan
from fedaudit.api.templates import template
from fedaudit.data import corpus
from fedaudit.pii.spans import cuts_word

FORM = template("fed_pii")


def read(path: Path) -> list[Document]:
    return list(corpus.read(path, FORM))


@pytest.fixture
def lines(tmp_path):
    """Return a function that reads a file of the given lines: objects, or text as it stands."""
    path = tmp_path / "records.jsonl"

    def reading(*given: object) -> list[Document]:
        text = "".join((g if isinstance(g, str) else json.dumps(g)) + "\n" for g in given)
        path.write_text(text, encoding="utf-8")
        return read(path)

    return reading


# Everything that UTF-8 can carry, separators that are not line ends to JSONL included.
TEXTS = st.text(
    st.one_of(
        st.characters(blacklist_categories=("Cs",)),
        st.sampled_from("\r\n\u2028\u2029\x85\x00\ufeff😀李"),
    ),
    min_size=1,
    max_size=20,
)


@st.composite
def annotations(draw: st.DrawFn, text: str) -> tuple[PiiSpan, ...] | None:
    """Draw spans of whole words, apart or side by side, in order; or none at all."""
    if draw(st.booleans()):
        return None
    bounds = [n for n in range(len(text) + 1) if not cuts_word(text, n)]
    cuts = sorted(draw(st.sets(st.sampled_from(bounds), max_size=6)))
    pairs = list(pairwise(cuts))
    kept = [pair for pair in pairs if draw(st.booleans())]
    return tuple(PiiSpan(start, end, draw(TEXTS)) for start, end in kept)


@st.composite
def documents(draw: st.DrawFn) -> Document:
    text, maybe = draw(TEXTS), st.just("") | TEXTS
    is_prompt = draw(st.booleans())
    return Document(
        id=draw(TEXTS),
        text=text,
        pii=draw(annotations(text)),
        instruction="" if is_prompt else draw(maybe),
        input=draw(maybe),
        output=draw(maybe),
        task=draw(maybe),
        group=draw(maybe),
        is_prompt=is_prompt,
    )


@given(st.lists(documents(), min_size=1, max_size=4, unique_by=lambda d: d.id))
def test_what_is_written_is_read_back(tmp_path_factory, given_documents):
    path = tmp_path_factory.mktemp("corpus") / "records.jsonl"
    corpus.write(path, given_documents)
    assert read(path) == given_documents


def test_reading_is_lazy(tmp_path):
    path = tmp_path / "records.jsonl"
    path.write_text('{"text": "good"}\nbad\n')
    found = corpus.read(path, FORM)
    assert isinstance(found, types.GeneratorType)
    assert next(found).text == "good"
    with pytest.raises(InputError, match="line 2"):
        next(found)


def test_a_byte_order_mark_crlf_and_blank_lines_are_passed_over(tmp_path):
    path = tmp_path / "records.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"text": "one"}\r\n\r\n \t\r\n{"text": "two"}')
    assert [document.text for document in read(path)] == ["one", "two"]


def test_unknown_fields_and_null_are_passed_over(lines):
    (document,) = lines({"id": "a", "text": "t", "task": None, "pii": None, "court": [1, {}]})
    assert document == Document(id="a", text="t")


def test_text_stands_as_it_is_and_instructions_are_rendered(lines):
    plain, rendered = lines(
        {"id": "a", "text": "whole", "instruction": "I", "output": "O"},
        {"id": "b", "instruction": "I", "input": "X {input}", "output": "O", "task": "t"},
    )
    assert plain.text == "whole"
    assert rendered.text == "I\n<###Input>\nX {input}\n<###Output>\nO"
    assert (rendered.instruction, rendered.input, rendered.output) == ("I", "X {input}", "O")


def test_spans_count_code_points_of_the_rendered_text(lines):
    text = "😀I\n<###Output>\n张三"
    span = {"start": text.index("张"), "end": len(text), "label": "PERSON"}
    (document,) = lines({"instruction": "😀I", "output": "张三", "pii": [span]})
    assert document.text == text
    assert document.strings() == (("张三", "PERSON"),)


def test_annotated_without_pii_is_not_unannotated(lines):
    empty, absent = lines({"text": "a", "pii": []}, {"text": "b"})
    assert empty.pii == ()
    assert absent.pii is None


def test_spans_are_sorted_and_may_touch(lines):
    spans = [{"start": 2, "end": 4, "label": "B"}, {"start": 0, "end": 2, "label": "A"}]
    (document,) = lines({"text": "abcd", "pii": spans})
    assert document.pii == (PiiSpan(0, 2, "A"), PiiSpan(2, 4, "B"))


def test_a_prefix_is_a_prompt(lines):
    (document,) = lines({"prefix": "The claimant, "})
    assert document.is_prompt
    assert document.text == "The claimant, "


def test_a_document_is_no_prompt(lines):
    (document,) = lines({"text": "The claimant, ", "prefix": ""})
    assert not document.is_prompt


def test_ids_come_from_content_and_not_from_order(lines):
    records = [{"text": "a"}, {"text": "b"}, {"text": "b"}, {"text": "a", "task": "t"}]
    forward = {(d.id, d.text, d.task) for d in lines(*records)}
    assert len({identity for identity, _, _ in forward}) == 4
    assert {(d.id, d.text, d.task) for d in lines(*reversed(records))} == forward
    assert {(d.id, d.text, d.task) for d in lines("", *records)} == forward


def test_annotating_a_record_keeps_its_id(lines):
    (bare,) = lines({"text": "ab"})
    (annotated,) = lines({"text": "ab", "pii": [{"start": 0, "end": 1, "label": "X"}]})
    assert bare.id == annotated.id


def test_numbers_are_ids_too(lines):
    assert [d.id for d in lines({"id": 0, "text": "a"}, {"id": 7, "text": "b"})] == ["0", "7"]


def span(start: object, end: object, label: object = "X") -> dict[str, object]:
    return {"start": start, "end": end, "label": label}


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ("{text: 1}", "not JSON"),
        ('{"text": "cut', "not JSON"),
        ("[" * 100_000, "nested too deeply"),
        ('{"text": "a", "meta": ' + "[" * 700 + '"b"' + "]" * 700 + "}", "nested too deeply"),
        ('{"text": "a", "n": ' + "9" * 5000 + "}", "too long"),
        ('["text"]', "object"),
        ('"text"', "object"),
        ("null", "object"),
        ({}, "needs 'text'"),
        ({"content": "a"}, r"Is 'content' meant as 'text'\?"),
        ({"input": "a", "output": "b"}, "needs 'text'"),
        ({"text": 7}, "'text' must be a string"),
        ({"text": False, "instruction": "i"}, "'text' must be a string"),
        ({"text": "a", "output": []}, "'output' must be a string"),
        ({"text": "a", "group": 3}, "'group' must be a string"),
        ({"prefix": ["a"]}, "'prefix' must be a string"),
        ({"text": "a", "id": True}, "'id' must be a string"),
        ({"text": "a", "id": ["x"]}, "'id' must be a string"),
        ({"text": "a", "prefix": "b"}, "whole prompt"),
        ({"instruction": "a", "prefix": "b"}, "whole prompt"),
        ({"text": "a\ud800"}, "'text' holds half a surrogate pair"),
        ({"text": "a", "id": "\udfff"}, "'id' holds half a surrogate pair"),
        ({"text": "a", "pii": [span(0, 1, "\udc00")]}, "'label' holds half"),
        ({"text": "a", "pii": {}}, "'pii' must be a list"),
        ({"text": "a", "pii": "none"}, "'pii' must be a list"),
        ({"text": "a", "pii": [[0, "X"]]}, "needs 'start' and 'end'"),
        ({"text": "a", "n": float("nan")}, "not JSON"),
        ('{"text": "a", "n": 1e400}', "not JSON"),
        ({"text": "a", "pii": [{"start": 0, "end": 1}]}, "and 'label'"),
        ({"text": "a", "pii": [span(0, 1, "")]}, "and 'label'"),
        ({"text": "a", "pii": [span(0, 1, 5)]}, "and 'label'"),
        ({"text": "ab", "pii": [span(0.0, 1)]}, "numbers"),
        ({"text": "ab", "pii": [span("0", 1)]}, "numbers"),
        ({"text": "ab", "pii": [span(False, True)]}, "numbers"),
        ({"text": "ab", "pii": [span(None, 1)]}, "numbers"),
        ({"text": "ab", "pii": [span(0, 3)]}, "0-3 is not inside the text of 2"),
        ({"text": "ab", "pii": [span(-1, 1)]}, "-1-1 is not inside"),
        ({"text": "ab", "pii": [span(1, 1)]}, "1-1 is not inside"),
        ({"text": "ab", "pii": [span(2, 1)]}, "2-1 is not inside"),
        ({"text": "abcd", "pii": [span(1, 4), span(0, 2)]}, "0-2 and 1-4 overlap"),
        ({"text": "abcd", "pii": [span(0, 3), span(2, 4, "Y")]}, "0-3 and 2-4 overlap"),
        ({"text": "b", "id": "first"}, "the id of this record stands in line 1 already"),
    ],
)
def test_a_bad_line_is_named_with_its_file_and_number(lines, bad, message):
    with pytest.raises(InputError, match=message) as caught:
        lines({"text": "a", "id": "first"}, "", bad, {"text": "never reached"})
    assert "records.jsonl, line 3: " in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 3


@pytest.mark.parametrize("text", ["张三", '{"text": "张"}'])
def test_other_encodings_are_named_with_their_line(tmp_path, text):
    path = tmp_path / "records.jsonl"
    path.write_bytes(b'{"text": "a"}\n' + text.encode("gb18030") + b"\n")
    with pytest.raises(InputError, match=r"records\.jsonl, line 2: not UTF-8") as caught:
        read(path)
    assert caught.value.exit_code == 3


def test_utf_16_is_named(tmp_path):
    path = tmp_path / "records.jsonl"
    path.write_text('{"text": "a"}\n', encoding="utf-16")
    with pytest.raises(InputError, match="line 1: not UTF-8"):
        read(path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InputError, match=r"There is no file .*absent\.jsonl") as caught:
        read(tmp_path / "absent.jsonl")
    assert caught.value.exit_code == 3


def test_a_folder_is_named(tmp_path):
    with pytest.raises(InputError, match="is a folder"):
        read(tmp_path)


def test_a_file_that_may_not_be_read_is_named(tmp_path, monkeypatch):
    path = tmp_path / "records.jsonl"
    path.touch()

    def refused(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refused)
    with pytest.raises(InputError, match=r"records\.jsonl cannot be read: Permission denied"):
        read(path)


@pytest.mark.parametrize("content", [b"", b"\n", b" \r\n\t\n", b"\xef\xbb\xbf"])
def test_a_file_without_records_is_refused(tmp_path, content):
    path = tmp_path / "records.jsonl"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"records\.jsonl holds no record") as caught:
        read(path)
    assert caught.value.exit_code == 3


def test_writing_leaves_the_old_file_when_a_document_cannot_be_made(tmp_path):
    path = tmp_path / "records.jsonl"
    path.write_text("old")

    def broken():
        yield Document(id="a", text="a")
        raise RuntimeError("stopped")

    with pytest.raises(RuntimeError, match="stopped"):
        corpus.write(path, broken())
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_records_without_text_are_left_out_and_counted(tmp_path):
    path = tmp_path / "records.jsonl"
    path.write_text('{"text": "one", "id": 1.0}\n{"text": ""}\n{"Text": null, "id": "a"}\n')
    unread = Counter[str]()
    assert [document.id for document in corpus.read(path, FORM, unread)] == ["1.0"]
    assert corpus.unread_caveat(path, unread) == [
        "records.jsonl has 2 records without any text, left out"
    ]
    path.write_text('{"text": ""}\n')
    with pytest.raises(InputError, match="line 1: 'text' is empty"):
        read(path)


def test_spans_that_cut_words_are_counted(tmp_path):
    text = "By Quo and 王芳."
    spans = (PiiSpan(3, 5, "PERSON"), PiiSpan(11, 12, "PERSON"), PiiSpan(0, 2, "PERSON"))
    document = Document(id="a", text=text, pii=spans)
    assert corpus.cut_caveat(Path("a.jsonl"), [document]) == [
        "a.jsonl: 1 of 3 annotated spans begins or ends inside a word; check its offsets"
    ]


@pytest.mark.parametrize("name", ["r.jsonl", "r.csv"])
@pytest.mark.parametrize("extra", [0, 1])
def test_a_text_is_as_long_as_a_tokenizer_takes(tmp_path, name, extra):
    long = "ab " * (corpus.LONGEST_TEXT // 3) + "a" * (corpus.LONGEST_TEXT % 3 + extra)
    path = tmp_path / name
    path.write_text(f"text\n{long}\n" if name.endswith("csv") else json.dumps({"text": long}))
    if extra:
        with pytest.raises(InputError, match=r"has a text of 1,048,577 characters"):
            list(corpus.read(path, template("fed_pii")))
    else:
        [document] = corpus.read(path, template("fed_pii"))
        assert document.text == long
    [record] = corpus.read_records(path, template("fed_pii"))  # which no tokenizer reads
    assert record.document.text == long


RECORD = {"text": "a", "meta": {"n": [1, 2]}}


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize(
    ("value", "records"),
    [
        (RECORD, [RECORD]),
        ({"data": [RECORD, {"text": "b"}]}, [RECORD, {"text": "b"}]),
        ({"text": "a", "rows": [{"x": 1}]}, [{"text": "a", "rows": [{"x": 1}]}]),
    ],
)
def test_one_object_over_several_lines_is_a_record_or_holds_them(tmp_path, indent, value, records):
    path = tmp_path / "records.json"
    path.write_text(json.dumps(value, indent=indent), "utf-8")
    assert [fields for _, fields in corpus.read_objects(path)] == records


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (json.dumps(RECORD, indent=1) * 2, "goes over several lines; write one object a line, or"),
        (json.dumps({"version": 1, "data": [RECORD]}), "are in 'data' beside other fields"),
        ('{"text": "a', "line 1: not JSON"),
        ('{"text": "a"}\n{\n', "line 2: not JSON"),
    ],
)
def test_objects_over_several_lines_that_cannot_be_read(tmp_path, text, message):
    path = tmp_path / "records.json"
    path.write_text(text, "utf-8")
    with pytest.raises(InputError, match=message):
        list(corpus.read_objects(path))


def test_a_first_line_longer_than_the_look_at_it_is_a_record(tmp_path):
    path = tmp_path / "records.jsonl"
    lines = [{"text": "a" * corpus.LONGEST_LOOK}, {"text": "b"}]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), "utf-8")
    assert [fields for _, fields in corpus.read_objects(path)] == lines
