"""Every format that frameworks write is read as the text that it means, or refused in one line."""

import json
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.api.errors import InputError
from fedaudit.api.records import Document, PiiSpan
from fedaudit.api.templates import template
from fedaudit.audit.input_files import InputFile
from fedaudit.audit.records import reading_caveats
from fedaudit.data import corpus
from fedaudit.data.formats import content

FORM = template("fed_pii")
QUESTION, CONTEXT, ANSWER = "When did it start?", "It started on 31 August 2000.", "In August 2000."
WITH_CONTEXT = f"{QUESTION}\n<###Input>\n{CONTEXT}\n<###Output>\n{ANSWER}"
WITHOUT = f"{QUESTION}\n<###Output>\n{ANSWER}"
ASKED, SAID = {"role": "user", "content": QUESTION}, {"role": "assistant", "content": ANSWER}

# As the frameworks write them, and the text that is trained on.
RECORDS: dict[str, tuple[dict[str, object], str]] = {
    "alpaca": ({"instruction": QUESTION, "input": CONTEXT, "output": ANSWER}, WITH_CONTEXT),
    "alpaca, no input": ({"instruction": QUESTION, "input": "", "output": ANSWER}, WITHOUT),
    "dolly": (
        {"instruction": QUESTION, "context": CONTEXT, "response": ANSWER, "category": "closed_qa"},
        WITH_CONTEXT,
    ),
    "dolly, no context": (
        {"instruction": QUESTION, "context": "", "response": ANSWER, "category": "open_qa"},
        WITHOUT,
    ),
    "openfedllm, flowertune": ({"instruction": QUESTION, "response": ANSWER}, WITHOUT),
    "trl, prompt and completion": (
        {"prompt": "The sky is", "completion": " blue."},
        "The sky is blue.",
    ),
    "trl, the same as conversations": ({"prompt": [ASKED], "completion": [SAID]}, WITHOUT),
    "trl, messages": ({"messages": [ASKED, SAID]}, WITHOUT),
    "trl, messages with a system": (
        {"messages": [{"role": "system", "content": QUESTION},
                      {"role": "user", "content": CONTEXT}, SAID]},
        WITH_CONTEXT,
    ),
    "openai, content in parts": (
        {"messages": [{"role": "user", "content": [{"type": "text", "text": QUESTION}]}, SAID]},
        WITHOUT,
    ),
    "openai, several parts": (
        {"messages": [{"role": "user", "content": [
            {"type": "text", "text": "I wait for"}, "Mrs Quartey", {"type": "text", "text": " now"},
        ]}, SAID]},
        WITHOUT.replace(QUESTION, "I wait for\nMrs Quartey now"),
    ),
    "sharegpt": (
        {"id": "identity_0", "conversations": [{"from": "human", "value": QUESTION},
                                               {"from": "gpt", "value": ANSWER}]},
        WITHOUT,
    ),
    "sharegpt, other speakers": (
        {"conversations": [{"from": "system", "value": QUESTION},
                           {"from": "user", "value": CONTEXT},
                           {"from": "assistant", "value": ANSWER}]},
        WITH_CONTEXT,
    ),
    "question and answer": ({"question": QUESTION, "answer": ANSWER}, WITHOUT),
    "ultrachat": ({"prompt": QUESTION, "prompt_id": "f0e37e9f7800261167ce91143f98f511768847236f13"
                   "3f2d0aed60b444ebe57", "messages": [ASKED, SAID]}, WITHOUT),
    "capitals": ({"Instruction": QUESTION, "INPUT": CONTEXT, "Output ": ANSWER}, WITH_CONTEXT),
    "null columns": ({"text": None, "instruction": QUESTION, "response": ANSWER}, WITHOUT),
    "an empty answer": ({"instruction": QUESTION, "output": ""}, f"{QUESTION}\n<###Output>\n"),
    "several turns": (
        {"messages": [ASKED, SAID, {"role": "user", "content": "Where?"},
                      {"role": "assistant", "content": "In Brisbane."}]},
        f"{WITHOUT}\nWhere?\n<###Output>\nIn Brisbane.",
    ),
    "turns that do not alternate": (
        {"conversations": [{"from": "gpt", "value": "Hello."}, {"from": "human", "value": "A"},
                           {"from": "human", "value": "B"}, {"from": "gpt", "value": "C"},
                           {"from": "gpt", "value": "D"}, {"from": "human", "value": "E"}]},
        "Hello.\nA\nB\n<###Output>\nC\nD\nE\n<###Output>\n",
    ),
}  # fmt: skip


@pytest.fixture
def lines(tmp_path):
    """Return a function that reads records from a file, with what was not read of them."""
    path = tmp_path / "records.jsonl"

    def written(*records: object) -> tuple[list[Document], Counter[str]]:
        path.write_text("".join(json.dumps(record) + "\n" for record in records))
        unread: Counter[str] = Counter()
        return list(corpus.read(path, FORM, unread)), unread

    return written


@pytest.mark.parametrize("name", RECORDS)
def test_every_format_is_the_text_that_it_means(lines, name):
    record, text = RECORDS[name]
    [document], unread = lines(record)
    assert document.text == text
    assert not document.is_prompt
    assert set(unread) <= {"prompt_id"}


@pytest.mark.parametrize("name", ["dolly", "trl, messages with a system", "capitals"])
def test_single_turns_have_the_fields_of_an_instruction(lines, name):
    [document], _ = lines(RECORDS[name][0])
    assert (document.instruction, document.input, document.output) == (QUESTION, CONTEXT, ANSWER)


def test_dollys_category_is_a_task_and_sharegpts_id_an_id(lines):
    [dolly, shared], _ = lines(RECORDS["dolly"][0], RECORDS["sharegpt"][0])
    assert (dolly.task, shared.id) == ("closed_qa", "identity_0")


def test_annotation_is_found_in_capitals_and_counts_in_the_rendered_text(lines):
    at = WITH_CONTEXT.index("31 August")
    span = {"start": at, "end": at + 14, "label": "DATE"}
    [document, plain], _ = lines(
        {**RECORDS["dolly"][0], "PII": [span]},
        {"Text": "Ann", "Pii": [{**span, "start": 0, "end": 3}]},
    )
    assert document.strings() == (("31 August 2000", "DATE"),)
    assert plain.pii == (PiiSpan(0, 3, "DATE"),)


def test_other_fields_are_named_with_how_many_records_have_them(lines, tmp_path):
    turn = {"role": "user", "content": "Q", "weight": 0}
    _, unread = lines(
        {"text": "a", "court": [1, {}], "answer": 7},
        {"text": "b", "court": None, "messages": [ASKED]},
        {"messages": [turn, {**turn, "role": "assistant"}]},
    )
    assert unread == {"court": 2, "answer": 1, "messages": 1, "messages.weight": 1}
    said = (
        "f.jsonl has fields that are not read: 'answer' (1 record), 'court' (2 records), "
        "'messages' (1 record), 'messages.weight' (1 record)"
    )
    assert corpus.unread_caveat(tmp_path / "f.jsonl", unread) == [said]
    file = InputFile(
        path=tmp_path / "f.jsonl", documents=[], annotation="rules", sha256="", unread=unread
    )
    assert reading_caveats([file]) == [
        "f.jsonl was not annotated; PII in it was found by rules", said
    ]  # fmt: skip
    assert corpus.unread_caveat(tmp_path / "f.jsonl", {}) == []


@pytest.mark.parametrize(
    ("record", "unread"),
    [
        (
            {"instruction": "Write it.", "input": "Ann Berg", "output": "Ann is ill."},
            {"instruction", "input", "output"},
        ),
        ({"context": "Ann Berg", "response": "Letter"}, {"context"}),
        ({"question": "A letter  of\nAnn", "answer": "Ann"}, set()),
        ({"input": " ", "output": ""}, set()),
    ],
)
@pytest.mark.parametrize("name", ["text", "source_text"])
def test_fields_that_a_text_beside_them_does_not_hold_are_not_read(lines, record, unread, name):
    [document], found = lines({name: "A Letter: A letter of Ann: Letter", **record})
    assert document.text == "A Letter: A letter of Ann: Letter"
    assert set(found) == unread


def test_what_stands_beside_an_answer_or_a_prompt_alone_is_not_read(lines):
    _, found = lines({"chosen": "Good.", "input": "Ann"}, {"prefix": "Of", "output": "Ann"})
    assert found == {"input": 1, "output": 1}


@pytest.mark.parametrize("form", ["alpaca", "fed_pii"])
def test_a_text_that_was_rendered_from_its_fields_holds_them(lines, form):
    record = {"instruction": "Write.\n", "input": "Ann  Berg", "output": "Ann is ill."}
    text = template(form).render(Document(id="d", text="", **record)).text
    assert not lines({"text": text, **record}, {"text": " ".join(text.split()), **record})[1]


def test_of_very_many_unread_fields_the_first_are_named(tmp_path):
    [said] = corpus.unread_caveat(tmp_path / "f", {f"n{number:02d}": 1 for number in range(30)})
    assert said.endswith("'n11' (1 record) and 18 more")


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"instruction": "Q"}, "'instruction' without an answer; the record has 'instruction'"),
        ({"instruction": "Q", "context": "C"}, 'Add "output": ""'),
        ({"instruction": "Q", "output": None}, "without an answer"),
        ({"instruction": "Q", "reponse": "R"}, "Is 'reponse' meant as 'response'"),
        ({"txt": "Q"}, "needs 'text'.*it has 'txt'.*Is 'txt' meant as 'text'"),
        ({"messages": [ASKED]}, "no one answers in 'messages'"),
        ({"messages": []}, "'messages' must be a list of turns"),
        ({"messages": "Q"}, "'messages' must be a list of turns"),
        ({"messages": ["Q"]}, "turn 1 of 'messages' needs 'role' and 'content'"),
        ({"messages": [ASKED, {"role": "nobody", "content": "x"}]}, "turn 2 .* unknown speaker"),
        ({"messages": [ASKED, {"role": "assistant", "content": 5}]}, "'messages.content' must be"),
        ({"messages": [{**ASKED, "content": [{"text": 5}]}]}, "'messages.content' must be"),
        ({"text": "a", "entities": ["b"]}, "'entities' is annotation without offsets"),
        ({"text": "a", "entities": {"NAME": ["b"]}}, "'entities' is annotation without offsets"),
        ({"text": "By Quo", "tags": [{"start": "3", "end": "6", "type": "NAME"}]}, "numbers"),
        ({"text": "By Quo", "tokens": ["By", "Quo"], "ner_tags": [0, 1]}, "without offsets"),
        ({"messages": [ASKED, {**SAID, "content": "\ud800"}]}, "half a surrogate"),
        ({"prompt": "Q", "completion": [SAID]}, "'completion' must be a string"),
        ({"prompt": "other", "messages": [ASKED, SAID]}, "'messages' and 'prompt' are both"),
        ({"output": "A", "response": "B", "instruction": "Q"}, "'output' and 'response' are both"),
        ({"text": "a", "Text": "b"}, "'Text' and 'text' are both the text, and differ"),
        ({"text": "a", "pii": [], "PII": [{}]}, "'PII' and 'pii' are both the pii"),
        ({"prefix": "a", "messages": [ASKED, SAID]}, "'prefix' is a whole prompt"),
        ({"text": "a", "PII": {}}, "'pii' must be a list"),
        (
            {"instruction": "Q", "output": "Ann", "pii": [{"start": 2, "end": 5, "label": "X"}]},
            "span 2-5 lies in what the template writes",
        ),
    ],
)  # fmt: skip
def test_what_is_not_clear_is_refused_in_one_line(lines, record, message):
    with pytest.raises(InputError, match=message) as caught:
        lines({"text": "good"}, record)
    assert "records.jsonl, line 2: " in str(caught.value)
    assert "\n" not in str(caught.value)


def test_two_names_for_the_same_are_read_where_they_agree_or_one_is_empty(lines):
    documents, _ = lines(
        {"instruction": "Q", "output": "A", "response": "A"},
        {"instruction": "Q", "output": "", "response": "A"},
        {"instruction": "Q", "output": "A", "response": None},
    )
    assert {document.text for document in documents} == {"Q\n<###Output>\nA"}


def test_a_name_that_stands_twice_is_refused(tmp_path):
    path = tmp_path / "records.jsonl"
    path.write_text('{"text": "a", "meta": {"x": 1, "x": 2}}\n')
    with pytest.raises(InputError, match="line 1: 'x' stands twice"):
        list(corpus.read(path, FORM))


NAMED = "Quillon Ashdown"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (f'{{"text": "x", "meta": {{"{NAMED}": 1, "{NAMED}": 2}}}}', "'<PERSON>' stands twice"),
        (f'{{"{NAMED}": "came", "x": 1}}', "it has '<PERSON>', 'x'"),
        (f'{{"text": "x", "{NAMED}": ["O", "B-PER"]}}', "'<PERSON>' is annotation without"),
        (f'{{"instruction": "x", "{NAMED}": 1, "Zed Yule": 1}}', "has 'instruction', '<PERSON>'. "),
    ],
)
def test_no_message_has_a_field_that_is_called_by_a_persons_name(tmp_path, line, message):
    path = tmp_path / "records.jsonl"
    path.write_text(f"{line}\n")
    with pytest.raises(InputError, match=message) as caught:
        list(corpus.read(path, FORM))
    assert "Ashdown" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "hidden"),
    [
        ("Quillon Ashdown", True),
        ("messages.Quillon Ashdown", True),
        ("ASHDOWN, Quillon", True),
        ("王建国", True),
        ("q.ashdown@example.org", True),
        ("0151 234567", True),
        ("Birth Date", False),
        ("Patient Name", False),
        ("患者", False),
        ("created_by", False),
        ("messages.content.image_url", False),
        ("URL", False),
        ("", False),
    ],
)
def test_the_name_of_a_field_is_shown_unless_it_may_be_a_persons(name, hidden):
    read = content({"text": "x", name: 1}, FORM, "here")
    assert read.unread == (("<PERSON>",) if hidden else (name,))


def test_an_array_of_records_is_read_like_lines(tmp_path):
    path, records = tmp_path / "local_training_0.json", [RECORDS["dolly"][0], {"text": "b"}]
    path.write_text("\ufeff\n" + json.dumps(records, indent=4))
    assert [one.text for one in corpus.read(path, FORM)] == [WITH_CONTEXT, "b"]
    for written, message in (
        ("[]", "holds no record"),
        ('[{"text": "a"}, 7]', "record 2: a JSON object is needed"),
        ('[{"text": "a"}', "not JSON"),
        ('[{"text": "a"}, {"input": "b"}]', "record 2: a record needs 'text'"),
    ):
        path.write_text(written)
        with pytest.raises(InputError, match=message):
            list(corpus.read(path, FORM))


@given(st.sampled_from(sorted(RECORDS)), st.randoms(use_true_random=False))
def test_a_record_means_the_same_in_any_order_of_its_fields(tmp_path_factory, name, random):
    record = {**RECORDS[name][0], "court": "X", "id": "a"}
    names = list(record)
    random.shuffle(names)
    path = Path(tmp_path_factory.mktemp("formats")) / "records.jsonl"
    path.write_text(json.dumps({key: record[key] for key in names}) + "\n")
    [document] = corpus.read(path, FORM)
    assert document.text == RECORDS[name][1]


TURNS = st.lists(
    st.tuples(st.sampled_from(["system", "human", "gpt", "tool"]), st.text("ab\n", max_size=4)),
    min_size=1, max_size=7,
)  # fmt: skip


@given(TURNS, st.sampled_from(["fed_pii", "alpaca", "qwen"]))
def test_no_turn_is_lost_and_all_are_in_order(turns, form):
    turns = [*turns, ("gpt", "end")]
    record = {"conversations": [{"from": who, "value": f"<{n}>{said}"} for n, (who, said)
                                in enumerate(turns)]}  # fmt: skip
    said = content(record, template(form), "here")
    places = [said.text.index(f"<{n}>{what}") for n, (_, what) in enumerate(turns)]
    assert places == sorted(places)
    assert [p.text for p in said.pieces if p.place] == [
        f"<{n}>{s}" for n, (_, s) in enumerate(turns)
    ]


SPAN = {"start": 3, "end": 6, "label": "PERSON"}


@pytest.mark.parametrize(
    "fields",
    [
        {"entities": [[3, 6, "PERSON"]]},
        {"label": [[3, 6, "PERSON"]]},
        {"annotations": [{"start_offset": 3, "end_offset": 6, "entity_type": "PERSON"}]},
        {"annotations": [{"result": [{"value": {"start": 3, "end": 6, "labels": ["PERSON"]}}]}]},
        {"privacy_mask": [{"value": "Quo", "start": 3, "end": 6, "label": "PERSON"}]},
        {"ents": [{"start": 3, "end": 6, "label": "PERSON"}]},
        {"entities": [{"category": "PERSON", "offset": 3, "length": 3, "text": "Quo"}]},
        {
            "annotations": {
                "first": {
                    "entity_mentions": [
                        {"start_offset": 3, "end_offset": 6, "span_text": "Quo", "label": "PERSON"}
                    ]
                },
                "second": {"entity_mentions": [SPAN]},
            }
        },
        {"privacy_mask": [SPAN], "span_labels": [[0, 6, "PERSON"]]},
        {"sentences": [{"start": 0, "end": 7, "label": "claim"}], "spans": [SPAN]},
        {"privacy_mask": "[{'value': 'Quo', 'start': 3, 'end': 6, 'label': 'PERSON'}]"},
        {"pii": [SPAN, SPAN, {"start": 4, "end": 6, "label": "PERSON"}]},
        {"pii": [{**SPAN, "end": 5, "surface": "Quo"}]},
    ],
)
def test_annotation_is_read_as_tools_write_it(fields):
    document = corpus.parse_document({"text": "By Quo.", **fields}, template("fed_pii"), "here")
    assert document.pii == (PiiSpan(3, 6, "PERSON"),)


def test_a_list_of_other_things_with_offsets_is_no_annotation():
    fields = {"text": "By Quo.", "sentences": [{"start": 0, "end": 7, "label": "claim"}]}
    assert corpus.parse_document(fields, template("fed_pii"), "here").pii is None


def test_offsets_that_count_words_are_refused():
    words = {"text": "The bill of Ann Quo", "tokens": ["The", "bill", "of", "Ann", "Quo"]}
    fields = {**words, "ner": [[3, 4, "person"]]}
    with pytest.raises(InputError, match="'ner' counts words rather than characters") as caught:
        corpus.parse_document(fields, template("fed_pii"), "here")
    assert "Quo" not in str(caught.value)
    fields = {**words, "ner": [[12, 19, "person"]]}
    assert corpus.parse_document(fields, template("fed_pii"), "here").strings() == (
        ("Ann Quo", "person"),
    )


@pytest.mark.parametrize(
    "value",
    [
        ["O", "B-PER", "I-PER"],
        ["B_NAME", "L_NAME"],
        "O O U-PER",
        [{"t": "By", "ner": "O"}, {"t": "Quo", "ner": "S-PER"}],
    ],
)
def test_labels_of_tokens_are_refused_whatever_they_are_called(value):
    for name in ("labels", "tags", "bilou", "x"):
        with pytest.raises(InputError, match=f"'{name}' is annotation without offsets"):
            corpus.parse_document({"text": "By Quo.", name: value}, FORM, "here")
    fields = {"text": "By Quo.", "x": value, "pii": [SPAN]}
    assert corpus.parse_document(fields, FORM, "here").pii == (PiiSpan(3, 6, "PERSON"),)


@pytest.mark.parametrize("value", [["O", "O"], ["A-1", "O"], ["NN", "VB"], [], "O", [{"a": 1}]])
def test_other_lists_of_words_are_no_labels_of_tokens(value):
    assert corpus.parse_document({"text": "By Quo.", "tags": value}, FORM, "here").pii is None


@pytest.mark.parametrize("label", ["positive", 1, True, ["a", "b"], None])
def test_the_class_of_a_record_is_no_annotation(label):
    document = corpus.parse_document(
        {"text": "By Quo.", "label": label}, template("fed_pii"), "here"
    )
    assert document.pii is None


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("\U0001f600 By Quo", 5, 8),  # UTF-16
        ("\u00e9\u738b By Quo", 9, 12),  # bytes
        ("a\nb\nBy Quo", 9, 12),  # CRLF counted as two
        ("\U0001f600 By Quo", 5, 7),  # UTF-16, the last character named
    ],
)
def test_offsets_are_converted_where_they_then_say_what_the_spans_quote(text, start, end):
    span = {"start": start, "end": end, "label": "PERSON", "text": "Quo"}
    document = corpus.parse_document({"text": text, "pii": [span]}, template("fed_pii"), "here")
    [found] = document.pii or ()
    assert text[found.start : found.end] == "Quo"
    del span["text"]
    for name in ("text", "quote", "coveredText", "string"):
        wrong = {"text": text, "pii": [{**span, name: "Zed"}]}
        with pytest.raises(InputError, match="does not say what it quotes") as caught:
            corpus.parse_document(wrong, template("fed_pii"), "here")
        assert "Zed" not in str(caught.value)


BILL, MET = "\U0001f600\U0001f600 The bill of Tobias Quo is open.", "Ann \U0001f600 met Tobias Quo."


@pytest.mark.parametrize(
    ("text", "spans", "strings"),
    [
        (BILL, [(17, 27, {})], ["Tobias Quo"]),  # UTF-16
        (BILL, [(21, 31, {})], ["Tobias Quo"]),  # bytes
        (BILL, [(23, 26, {})], ["uo "]),  # no other way fits
        (MET, [(0, 3, {"text": "Ann"}), (11, 21, {})], ["Ann", "Tobias Quo"]),
        ("\U0001f600 a b", [(5, 6, {"coveredText": "b"})], ["b"]),
        ("\U0001f600 a b", [(5, 6, {"entity": "b"})], ["b"]),
        ("\U0001f600 a b", [(4, 5, {"note": "a b"})], ["b"]),  # no quotation
    ],
)
def test_offsets_are_converted_where_words_or_any_quotation_tell_how_they_count(
    text, spans, strings
):
    pii = [{"start": start, "end": end, "label": "NAME", **more} for start, end, more in spans]
    document = corpus.parse_document({"text": text, "pii": pii}, template("fed_pii"), "here")
    assert [string for string, _ in document.strings()] == strings


def test_offsets_that_fit_words_in_several_other_ways_are_refused():
    text = "\U0001f600\U0001f600 Bo  Al Quo"
    fields = {"text": text, "pii": [{"start": 9, "end": 11, "label": "NAME"}]}
    with pytest.raises(InputError, match="more than one other way of counting"):
        corpus.parse_document(fields, template("fed_pii"), "here")


def test_overlapping_spans_of_several_annotators_are_united():
    people = {
        name: {"entity_mentions": [{"start_offset": start, "end_offset": end, "label": "NAME"}]}
        for name, start, end in (("a", 3, 10), ("b", 7, 14))
    }
    fields = {"text": "By Ann Quo Zed.", "annotations": people}
    document = corpus.parse_document(fields, template("fed_pii"), "here")
    assert document.pii == (PiiSpan(3, 14, "NAME"),)


def test_calls_of_tools_images_and_preferences_are_read():
    ask = {"role": "user", "content": [
        {"type": "text", "text": "Whose?", "image_url": None},
        {"type": "image_url", "text": None, "image_url": {"url": "x"}},
    ]}  # fmt: skip
    call = {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{1}"}}]}
    said = {"role": "ai", "content": "Ann's."}
    read = content({"messages": [ask, call, said]}, template("fed_pii"), "here")
    assert [piece.text for piece in read.pieces if piece.place] == ["Whose?", "{1}", "Ann's."]
    assert read.unread == ("messages.content.image_url",)
    arguments = {"who": "Ann Quö", "rows": [{"n": 7}, "b"], "none": None}
    for called in (
        {"tool_calls": [{"type": "function", "function": {"name": "f", "arguments": arguments}}]},
        {"function_call": {"name": "f", "arguments": arguments}},
    ):
        turn = {"role": "assistant", "content": None, **called}
        read = content({"messages": [ask, turn, said]}, template("fed_pii"), "here")
        assert json.dumps(arguments, ensure_ascii=False) in read.text
        assert read.unread == ("messages.content.image_url",)
    turn = {**said, "tool_calls": [{"function": {"name": "f", "arguments": 7}}]}
    read = content({"messages": [ASKED, turn]}, template("fed_pii"), "here")
    assert read.unread == ("messages.tool_calls",)
    chosen = corpus.parse_document(
        {"prompt": "Q: ", "chosen": "A", "rejected": "B"}, template("fed_pii"), "here"
    )
    assert chosen.text == "Q: A"
    turns = {"chosen": [ASKED, SAID], "rejected": [ASKED, SAID]}
    assert corpus.parse_document(turns, template("fed_pii"), "here").output == SAID["content"]
