"""fedaudit scrub: the result holds nothing that was marked, and says what may be left."""

import csv
import json
import os
import re
import stat
from pathlib import Path

import pytest

from fedaudit.api.templates import template
from fedaudit.data import corpus
from fedaudit.nano.generator import corpus as invented

FORM = template("fed_pii")
LINES = (
    {"id": "a", "text": "Call Ann Lee on 020 7946 0958 or ann@mail.co.uk."},
    {"prefix": "Write to bob@mail.co.uk"},
    {"instruction": "Who called?", "input": "020 7946 0958 called.", "output": "020 7946 0958"},
    {"text": "Ann Lee met Lee.", "pii": [{"start": 0, "end": 7, "label": "PERSON"}], "x": "Ann"},
    {"text": "Ann Lee again, 020 7946 0958.", "pii": []},
)


@pytest.fixture
def run(run, empty_folder):
    Path("in.jsonl").write_text("".join(json.dumps(line) + "\n" for line in LINES))
    return run


def scrubbed(run, *words, code=0):
    outcome = run("scrub", "in.jsonl", "out.jsonl", *words, "--quiet")
    assert (outcome.code, outcome.err) == (code, "")  # quiet: not even what is not read
    return outcome.out, list(corpus.read(Path("out.jsonl"), FORM))


def test_marked_and_found_data_are_masked_and_the_rest_is_told(run):
    before = Path("in.jsonl").read_bytes()
    out, found = scrubbed(run, "--style", "label")
    a, prompt, task, marked, clean = found
    assert a.text == "Call <PERSON> on <PHONE_NUMBER> or <EMAIL_ADDRESS>."
    assert (prompt.text, prompt.is_prompt) == ("Write to <EMAIL_ADDRESS>", True)
    assert (task.input, task.output) == ("<PHONE_NUMBER> called.", "<PHONE_NUMBER>")
    assert task.text.endswith("\n<PHONE_NUMBER> called.\n<###Output>\n<PHONE_NUMBER>")
    assert (marked.text, clean.text) == ("<PERSON> met Lee.", "Ann Lee again, 020 7946 0958.")
    assert [document.pii for document in found] == [None, None, None, (), ()]
    assert out.splitlines() == [
        "out.jsonl: 5 records, 7 pieces of PII masked (label)",
        "  masked PHONE_NUMBER          3",
        "  masked EMAIL_ADDRESS         2",
        "  masked PERSON                2",
        "Masked by the data's own annotation alone: 2 records.",
        "In 1 of them, the detector also searched the other fields.",
        "Annotated by presidio-analyzer 2.2.366; languages en, zh; no places; scores from",
        "  0.4; names by titles, lists and endings: 3 records.",
        "Still there: of 4 different strings that were masked, 2 are elsewhere in OUT,",
        "  unmarked or as a part of other words.",
        "Not compared: nicknames, initials, names in another script, dates and numbers",
        "  written otherwise (in words, in another order, without a country code), and",
        "  encrypted, compressed or hexadecimal data.",
        "PII that no one marked and the detector did not find is in OUT unchanged.",
    ]
    assert Path("in.jsonl").read_bytes() == before
    lines = [json.loads(line) for line in Path("out.jsonl").read_text().splitlines()]
    assert [list(line) for line in lines] == [list(line) for line in LINES]


def test_only_and_except_leave_the_others_and_their_annotation(run):
    first, _, mail = LINES[0]["text"].partition("ann@")
    span = {"start": len(first), "end": len(first + mail) + 3, "label": "EMAIL_ADDRESS"}
    phone = {"start": 16, "end": 29, "label": "PHONE_NUMBER"}
    lines = [{**LINES[0], "pii": [span, phone]}, *LINES[1:]]
    Path("in.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    out, (a, *_) = scrubbed(run, "--only", "PHONE_NUMBER")
    assert a.text == "Call Ann Lee on [MASK] or ann@mail.co.uk."
    assert a.strings() == (("ann@mail.co.uk", "EMAIL_ADDRESS"),)
    assert "  kept   EMAIL_ADDRESS         2" in out.splitlines()
    _, (again, *_) = scrubbed(run, "--force", "--except", "EMAIL_ADDRESS", "--except", "PERSON")
    assert again == a


TABLE = (
    "\ufeff" 'Id;"pii";text;a,b;messages' "\n"
    '1;"[{""start"": 5, ""end"": 12, ""label"": ""PERSON""}]";"Call Ann Lee\r; now";"Ann, 7";' "\n"
    '2;;"He said ""call"" ann@mail.co.uk";;"[{""role"": ""user"", ""content"": ""x""}]"' "\n"
)  # fmt: skip


def test_a_table_stays_a_table_with_all_its_columns(run):
    Path("in.csv").write_bytes(TABLE.encode())
    assert run("scrub", "in.csv", "out.csv", "--quiet").code == 0
    header, _ = Path("out.csv").read_bytes().decode().split("\r\n", 1)
    assert header == TABLE.partition("\n")[0]
    with Path("out.csv").open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file, delimiter=";"))
    assert [list(row.values()) for row in rows] == [
        ["1", "[]", "Call [MASK]\r; now", "Ann, 7", ""],
        ["2", "", 'He said "call" [MASK]', "", '[{"role": "user", "content": "x"}]'],
    ]
    assert [d.text for d in corpus.read(Path("out.csv"), FORM)] == [row["text"] for row in rows]
    assert run("scrub", "in.csv", "out.jsonl", "--quiet").code == 0
    objects = [json.loads(line) for line in Path("out.jsonl").read_text().splitlines()]
    assert [one["text"] for one in objects] == [row["text"] for row in rows]


def test_pseudonyms_repeat_with_a_seed_and_cannot_be_foretold_without(run):
    words = ("--style", "pseudonym", "--force")
    out, one = scrubbed(run, *words, "--seed", 7)
    assert scrubbed(run, *words, "--seed", 7) == (out, one)
    assert one[2].output == one[2].input.removesuffix(" called.")
    assert one[2].output in one[0].text
    drawn = [scrubbed(run, *words)[1] for _ in range(2)]
    assert drawn[0] != drawn[1] != one != drawn[0]


def test_ids_made_of_the_text_are_not_kept(run):
    before = list(corpus.read(Path("in.jsonl"), FORM))
    corpus.write(Path("in.jsonl"), before)  # gives every record an id, as a simulation does
    _, found = scrubbed(run)
    assert {document.id for document in found} & {document.id for document in before} == {"a"}
    assert len({document.id for document in found}) == 5
    assert all(document.id.startswith("scrubbed-") for document in found[1:])


def test_data_in_ids_are_told_of(run):
    span = {"start": 0, "end": 7, "label": "PERSON"}
    Path("in.jsonl").write_text(json.dumps({"id": "Ann Lee", "text": "Ann Lee", "pii": [span]}))
    out, (document,) = scrubbed(run)
    assert document.id == "Ann Lee"
    assert "Not masked: ids, groups or tasks with PII in 1 record." in out


def test_what_a_record_without_an_id_is_called_by_is_no_id_of_it(run):
    lines = [
        {"text": f"Aged {age} now.", "pii": [{"start": 5, "end": 6, "label": "AGE"}]}
        for age in range(10)
    ]
    Path("in.jsonl").write_text("\n".join(map(json.dumps, lines)))
    done = run("scrub", "in.jsonl", "out.jsonl", "--strict")
    assert (done.code, "ids, groups or tasks" in done.out) == (0, False)


def test_labels_in_no_category_are_named(run):
    spans = [{"start": n, "end": n + 1, "label": at} for n, at in ((0, "PERSON"), (2, "ZED"))]
    Path("in.jsonl").write_text(json.dumps({"text": "x y", "pii": spans}))
    out, _ = scrubbed(run)
    assert "In no category of the taxonomy: ZED." in out


@pytest.mark.parametrize(
    ("name", "people"), [("Quillon Ashdown", 1), ("Blood Pressure", 0), ("blood", 0), ("Bloods", 0)]
)
def test_a_field_called_by_a_persons_name_is_counted(run, name, people):
    Path("in.jsonl").write_text(json.dumps({"text": "x", "meta": [{name: {"y": 1}}], name: 1}))
    done = run("scrub", "in.jsonl", "out.jsonl", "--strict", "--json", "counts.json")
    said = "Not masked: names of fields that are names of people in 1 record."
    assert (done.code, said in done.out) == (people, bool(people))
    counts = Path("counts.json").read_text()
    assert json.loads(counts)["people_as_fields"] == people
    assert not (people and (name in counts + done.out + done.err))


def test_numbers_in_personal_fields_are_named(run):
    fields = {"text": "x", "phone": 7700900123, "meta": {"ssn": 536228731, "age": 44}}
    Path("in.jsonl").write_text(json.dumps(fields))
    done = run("scrub", "in.jsonl", "out.jsonl", "--strict", "--json", "counts.json")
    said = "Not masked, for they are numbers rather than text: 'meta.ssn' (1 record), 'phone' (1"
    assert done.code == 1
    assert said in " ".join(done.err.split())
    assert json.loads(Path("counts.json").read_text())["numbers"] == {"meta.ssn": 1, "phone": 1}
    Path("in.jsonl").write_text(json.dumps({"text": "x", "phone": "7700900123", "age": 44}))
    done = run("scrub", "in.jsonl", "text.jsonl")
    assert "numbers rather than text" not in done.err


@pytest.mark.parametrize(
    ("name", "value", "masked"),
    [
        *((name, "张伟", True) for name in ("责任护士", "紧急联系人", "代理律师", "开户人")),
        *((name, "张伟", True) for name in ("法定监护人", "审核人", "值班医生姓名", "申报者")),
        *(("出生年月", "1980-05", True), ("紧急联系人电话", "010-62345", True)),
        *(("家庭住址", "某村", True), ("审核人", "待定", False), ("机器人", "小明", False)),
    ],
)
def test_chinese_fields_of_two_words_say_what_their_values_are(run, name, value, masked):
    Path("in.jsonl").write_text(json.dumps({"text": "x", name: value}), "utf-8")
    scrubbed(run)
    assert (value not in Path("out.jsonl").read_text("utf-8")) == masked


def test_counts_as_json_hold_no_data(run):
    out, _ = scrubbed(run, "--seed", 4711, "--style", "pseudonym", "--json", "sub/counts.json")
    text = Path("sub/counts.json").read_text()
    table = json.loads(text)
    assert table["masked"] == {"PHONE_NUMBER": 3, "EMAIL_ADDRESS": 2, "PERSON": 2}
    assert table["records"] == 5
    assert table["annotation"]["given"] == 2
    assert table["strings"] == {"left": 2, "masked": 4, "other_spellings": 0}
    for secret in ("Ann Lee", "ann@", "7946 0958", "seed"):
        assert secret not in text + out


def test_whoever_may_not_read_the_input_may_not_read_the_result(run):
    Path("in.jsonl").chmod(0o400)
    scrubbed(run)
    assert stat.S_IMODE(Path("out.jsonl").stat().st_mode) == 0o600


def test_nobody_may_read_the_result_before_it_is_known_whose_it_is(run, monkeypatch):
    modes, replace = [], Path.replace

    def watched(self, target):
        modes.append(stat.S_IMODE(self.stat().st_mode))
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", watched)
    Path("in.jsonl").chmod(0o640)
    scrubbed(run)
    assert modes == [0o600]
    assert stat.S_IMODE(Path("out.jsonl").stat().st_mode) == 0o640


@pytest.mark.parametrize(
    ("mode", "same", "other"),
    [(0o644, 0o644, 0o604), (0o640, 0o640, 0o600), (0o604, 0o604, 0o600), (0o600, 0o600, 0o600)],
)
def test_a_group_may_read_the_result_only_where_it_is_the_inputs(run, mode, same, other):
    groups = [group for group in (*os.getgroups(), 4711) if group != Path().stat().st_gid]
    for group, expected in ((Path().stat().st_gid, same), (groups[0], other)):
        try:
            os.chown("in.jsonl", -1, group)
        except PermissionError:
            pytest.skip("no second group to give a file to")
        Path("in.jsonl").chmod(mode)
        scrubbed(run, "--force")
        assert stat.S_IMODE(Path("out.jsonl").stat().st_mode) == expected


def test_the_umask_takes_the_result_from_others_whatever_the_input_is(run):
    Path("in.jsonl").chmod(0o644)
    before = os.umask(0o077)
    try:
        scrubbed(run)
    finally:
        os.umask(before)
    assert stat.S_IMODE(Path("out.jsonl").stat().st_mode) == 0o600


def test_what_is_still_there_with_other_white_space_is_told(run):
    span = {"start": 0, "end": 7, "label": "PERSON"}
    line = {"id": "Ann\u00a0Lee", "text": "Ann Lee met nobody.", "pii": [span]}
    other = {"text": "Then Ann\u00a0Lee left.", "pii": []}
    Path("in.jsonl").write_text(f"{json.dumps(line)}\n{json.dumps(other)}\n")
    out, _ = scrubbed(run)
    assert "Still there: of 1 string that was masked, 1 are elsewhere in OUT" in " ".join(
        out.split()
    )
    assert "Not masked: ids, groups or tasks with PII in 1 record." in out


SPELT = {  # of a name that the detector does not know
    "case": "XYL QOM",
    "width": "Ｘｙｌ　Ｑｏｍ",
    "zero-width": "xy\u200bl q\u2060om",
    "zero-width space": "Xyl\u200bQom",
    "look-alikes": "Хyl Qоm",
    "all of it": "ХУL\u00ad ＱОМ",
}


@pytest.mark.parametrize("spelt", SPELT.values(), ids=SPELT)
@pytest.mark.parametrize("place", ["text", "field", "name", "id"])
def test_what_is_still_there_in_another_spelling_is_told(run, spelt, place):
    span = {"start": 0, "end": 7, "label": "PERSON"}
    first = {"id": "1", "text": "Xyl Qom met nobody.", "pii": [span]}
    other = {"id": "2", "text": "Nothing.", "pii": []}
    if place == "id":
        first["id"] = f"case {spelt}"
    else:
        field = {"text": "text", "field": "note", "name": f"by {spelt}"}[place]
        other[field] = f"Then {spelt} left." if place != "name" else "yes"
    Path("in.jsonl").write_text(f"{json.dumps(first)}\n{json.dumps(other)}\n")
    done = run("scrub", "in.jsonl", "out.jsonl", "--strict", "--json", "counts.json")
    said, table = " ".join(done.out.split()), json.loads(Path("counts.json").read_text())
    assert done.code == 1
    assert run("scrub", "in.jsonl", "out.jsonl", "--force").code == 0
    if place == "id":
        assert "Not masked: ids, groups or tasks with PII in 1 record." in said
        assert table["named"] == 1
        return
    assert "none is in OUT" not in said
    wide = int(spelt == SPELT["width"])  # the same string by NFKC
    assert ("Of these, 1 only in other spellings" in said) == (not wide)
    assert table["strings"] == {"masked": 1, "left": 1, "other_spellings": 1 - wide}


@pytest.mark.parametrize(("start", "end"), [(10, 25), (12, 26), (14, 29)])  # shifted, inclusive
def test_strict_fails_for_annotation_that_cuts_words_and_names_the_lines(run, start, end):
    span = {"start": start, "end": end, "label": "PERSON"}
    line = json.dumps({"text": "The bill of Tobias Ashworth is open.", "pii": [span]})
    Path("in.jsonl").write_text(f'{{"text": "Nothing."}}\n{line}\n{line}\n')
    done = run("scrub", "in.jsonl", "out.jsonl", "--strict", "--quiet")
    said = " ".join(done.err.split())
    assert done.code == 1
    assert "2 of 2 annotated spans begin or end inside a word; check their offsets" in said
    assert "line 2, line 3" in said
    assert "Ashw" not in said
    # A single one is named in the singular and fails only if it was asked for.
    Path("in.jsonl").write_text(f"{line}\n")
    done = run("scrub", "in.jsonl", "out.jsonl", "--force")
    assert done.code == 0
    assert "1 of 1 annotated spans begins or ends inside a word" in " ".join(done.err.split())


def test_strict_is_content_where_nothing_is_left(run):
    span = {"start": 0, "end": 7, "label": "PERSON"}
    Path("in.jsonl").write_text(json.dumps({"text": "Ann Lee met Anna.", "pii": [span]}))
    done = run("scrub", "in.jsonl", "out.jsonl", "--strict")
    assert (done.code, "none is in OUT: neither" in done.out) == (0, True)


def test_strict_fails_for_what_is_left_as_it_was(run):
    span = {"start": 0, "end": 7, "label": "PERSON"}
    lines = [{"text": "Ann Lee.", "pii": [span]}, {"text": "Ann Lees", "pii": []}]
    Path("in.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    done = run("scrub", "in.jsonl", "out.jsonl", "--strict")
    assert done.code == 1
    assert "Of these" not in done.out
    assert Path("out.jsonl").exists()


def test_pseudonyms_leave_nothing_of_what_is_no_plain_number_or_date(run):
    known = (
        ("被告人2015年因盗窃罪被判处3年。", "CRIMINAL_RECORD"), ("2003年确诊艾滋病", "DIAGNOSIS"),
        ("Ёлкин Пётр 4510 123456", "PASSPORT"), ("forty-five years and 3 months", "AGE"),
        ("+44 20 7946 0958 ask for Ann Lee", "PHONE_NUMBER"), ("fifth of March 1980", "BIRTHDAY"),
    )  # fmt: skip
    lines = [
        {"text": text, "pii": [{"start": 0, "end": len(text), "label": label}]}
        for text, label in known
    ]
    Path("in.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    out, found = scrubbed(run, "--style", "pseudonym")
    assert "Of 6 different strings that were masked, none is in OUT: neither as it was" in " ".join(
        out.split()
    )
    for (_, label), document in zip(known, found, strict=True):
        assert re.fullmatch(rf"<{label}-[0-9a-f]{{8}}>", document.text)


def test_generated_records_lose_all_that_is_known_of_their_people(run):
    known = list(invented(cases=6, documents_per_case=4, seed=5))
    corpus.write(Path("in.jsonl"), known)
    for style in ("mask", "asterisks", "pseudonym"):
        out, found = scrubbed(run, "--style", style, "--force")
        assert "Still there" not in out
        text = Path("out.jsonl").read_text("utf-8")
        assert not [string for document in known for string, _ in document.strings()
                    if string in text]  # fmt: skip
        assert [d.id for d in found] == [d.id for d in known]


def test_nothing_found_is_said(run):
    Path("in.jsonl").write_text('{"text": "The court sat in the morning."}\n')
    out, (document,) = scrubbed(run)
    assert out.startswith("out.jsonl: 1 record, 0 pieces of PII masked (mask)\n")
    assert "names by titles, lists and endings" in out.replace("\n  ", " ")
    assert document.text == "The court sat in the morning."


@pytest.mark.parametrize(
    ("code", "words", "says"),
    [
        (2, ("in.jsonl",), "Missing argument 'OUT'"),
        (2, ("in.jsonl", "o.jsonl", "--style", "labl"), "Did you mean 'label'"),
        (2, ("in.jsonl", "o.jsonl", "--only", "PERSN"), "Did you mean 'PERSON'"),
        (2, ("in.jsonl", "o.jsonl", "--except", "AGE"), "No kind of PII in the data named 'AGE'"),
        (2, ("in.jsonl", "o.jsonl", "--only", "A", "--except", "B"), "cannot be given together"),
        (2, ("in.jsonl", "o.jsonl", "--detector", "presido"), "Did you mean 'presidio'"),
        (2, ("in.jsonl", "o.jsonl", "--set", "names.threshold=2"), "between 0 and 1"),
        (2, ("in.jsonl", "o.jsonl", "--set", "contextual.samples=2"), "detector in use"),
        (2, ("in.jsonl", "o.jsonl", "--set", "presidio=2"), "detector in use"),
        (2, ("in.jsonl", "o.jsonl", "--template", "alpacca"), "Did you mean 'alpaca'"),
        (3, ("none.jsonl", "o.jsonl"), "There is no file none.jsonl"),
        (3, (".", "o.jsonl"), ". is a folder; a JSONL file is needed"),
        (3, ("text.txt", "o.jsonl"), "line 1: not JSON"),
        (3, ("empty.jsonl", "o.jsonl"), "holds no record"),
        (3, ("in.jsonl", "in.jsonl", "--force"), "the input itself"),
        (3, ("in.jsonl", "link.jsonl", "--force"), "the input itself"),
        (3, ("in.jsonl", "."), "is a folder"),
        (3, ("in.jsonl", "text.txt"), "exists already"),
        (3, ("in.jsonl", "new/"), "new/ names a folder"),
        (3, ("in.jsonl", "new/."), "new/. names a folder"),
        (3, ("in.jsonl", "o.csv"), "o.csv cannot be CSV, for in.jsonl is not"),
        (3, ("in.jsonl", "in.jsonl/o.jsonl"), "not a folder to write into"),
        (3, ("in.jsonl", "o.jsonl", "--json", "o.jsonl"), "both the records and the counts"),
        (3, ("in.jsonl", "o.jsonl", "--json", "in.jsonl"), "in.jsonl exists and is not counts"),
        (3, ("in.jsonl", "o.jsonl", "--json", "."), "is a folder; a file is needed"),
    ],
    ids=str,
)
def test_a_mistake_is_one_line_and_nothing_is_written(run, code, words, says):
    Path("text.txt").write_text("hello\n")
    Path("empty.jsonl").write_text("")
    Path("link.jsonl").symlink_to("in.jsonl")
    before = {path.name: path.read_bytes() for path in Path().iterdir()}
    run.refused(code, "scrub", *words, "--quiet", says=says)
    assert {path.name: path.read_bytes() for path in Path().iterdir()} == before


def test_records_without_text_are_left_out_and_counted(run):
    Path("some.jsonl").write_text('{"text": "Dear Mr Quist"}\n{"text": ""}\n{"text": "x"}\n')
    done = run("scrub", "some.jsonl", "o.jsonl", "--detector", "names", "--json", "counts.json")
    assert done.code == 0
    assert "some.jsonl has 1 record without any text, left out.\n" in done.err
    assert len(Path("o.jsonl").read_text().splitlines()) == 2
    counts = json.loads(Path("counts.json").read_text())
    assert (counts["left_out"], counts["unread"]) == (1, {})


def test_a_field_without_a_name_is_no_record_without_text(run):
    Path("some.csv").write_text(",text\n0,Mr John Miller\n1,Mr Hill\n")
    done = run("scrub", "some.csv", "o.csv", "--detector", "names", "--json", "counts.json")
    assert "without any text" not in done.err
    assert "fields that are not read: '' (2 records)" in done.err
    counts = json.loads(Path("counts.json").read_text())
    assert (counts["left_out"], counts["unread"]) == (0, {"": 2})
