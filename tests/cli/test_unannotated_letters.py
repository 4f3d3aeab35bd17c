"""Letters that nobody annotated: what was not looked for is said first, and nothing is shown."""

import json

import pytest
from command import Command

LETTERS = [
    f"Dear Mrs {name},\nyour case F{case} under WN-{ward}/21 was heard on 4 March. "
    f"Diagnosis: {illness}. Born 3 May 19{ward % 60 + 30}. Call +44 20 7946 0{case % 1000:03}."
    for name, case, ward, illness in (
        ("Abendroth", 482913, 4417, "gout"), ("Quistgaard", 771204, 9032, "asthma"),
        ("Ormerodson", 350861, 2285, "eczema"), ("Tarnowska", 916437, 6120, "angina"),
    )
]  # fmt: skip
PLANTED = ("Abendroth", "Quistgaard", "Ormerodson", "Tarnowska", "F482913", "F771204", "F350861",
           "F916437", "WN-4417", "WN-9032", "WN-2285", "WN-6120", "20 7946")  # fmt: skip
PATTERNS = ("--pattern", "CASE_NO=F[0-9]{6}", "--pattern", "WARD_NO=WN-[0-9]{4}/[0-9]{2}")
AUDIT = ("extract", "--prefixes", "own.jsonl", "--victim", "letters.jsonl", "--quiet",
         "--target", "fedaudit-nano", "--adapter", "lora", "--out", "out", "--json", "copy.json",
         "--attack", "contextual", "--set", "contextual.samples=2")  # fmt: skip


@pytest.fixture
def letters(here):
    """Return a folder with the letters, an adapter, and a model that costs nothing to ask."""
    lines = [json.dumps({"id": f"r{n}", "text": text}) for n, text in enumerate(LETTERS)]
    (here / "letters.jsonl").write_text("\n".join(lines) + "\n")
    return here


def test_two_patterns_make_targets_and_what_was_not_looked_for_stands_before_the_verdict(
    letters, run, monkeypatch
):
    with monkeypatch.context() as patch:
        patch.setenv("COLUMNS", "200")
        done = run(*AUDIT, *PATTERNS)
    assert done.code in (0, 1, 7), done.err
    report = json.loads((letters / "out/report.json").read_text())
    targets = {row["scope"]["label"]: row["n"] for row in report["measurements"]
               if row["metric"] == "coverage" and row["scope"].get("source") == "tuned"
               and "label" in row["scope"]}  # fmt: skip
    assert targets["CASE_NO"] == targets["WARD_NO"] == len(LETTERS)
    forms = {"terminal": done.out}
    for form in ("markdown", "annex", "html"):
        words = ("--out", f"{form}.html") if form in ("annex", "html") else ()
        shown = run("report", "out", "--format", form, *words)
        assert shown.code == 0, shown.err
        forms[form] = (letters / words[1]).read_text() if words else shown.out
    for form, shown_text in forms.items():
        text = " ".join(shown_text.replace("\\", "").split())
        told = text.index("Not looked for, so nothing is known of them")
        assert "Illness" in text[told : told + 400], form
        assert "CASE_NO, WARD_NO" in text[:told].rpartition("The records were not annot")[2], form
        if form in ("terminal", "markdown"):
            assert told < text.index("Verdict"), form
    first_screen = "\n".join(done.out.splitlines()[:24])
    assert "Not looked for, so nothing is known of them" in " ".join(first_screen.split())
    assert "names.ner=installed" in first_screen


def test_no_planted_string_is_in_an_artefact_a_log_line_or_an_error(letters, run):
    said = []
    for words in (
        (*AUDIT, *PATTERNS),
        (*AUDIT, *PATTERNS, "--resume"),
        ("report", "out", "--verify"),
        *(("report", "out", "--format", form, "--out", f"made.{form}")
          for form in ("html", "markdown", "json", "sarif", "csv", "excel", "annex", "docx",
                       "cyclonedx")),
        ("compare", "out", "copy.json", "--json", "compared.json"),
        ("scrub", "letters.jsonl", "clean.jsonl", "--json", "counts.json", *PATTERNS),
        ("scrub", "letters.jsonl", "letters.jsonl"),
        ("scrub", "letters.jsonl", "invented.jsonl", "--style", "pseudonym", "--strict", *PATTERNS),
        ("report", "out", "--format", "terminal"),
        ("extract", "--prefixes", "letters.jsonl", "--target", "no/model", "--quiet", *PATTERNS),
    ):  # fmt: skip
        done = run(*words)
        assert done.code in (0, 1, 2, 3, 7), done
        said.append(done.out + done.err)
    made = [path for path in letters.rglob("*")
            if path.is_file() and path.name not in ("letters.jsonl", "own.jsonl", "victim.jsonl",
                                                    "log")]  # fmt: skip
    assert len(made) > 12
    for planted in PLANTED:
        assert not [text for text in said if planted in text]
        assert not [path for path in made if planted.encode() in path.read_bytes()]


BROKEN = {
    "id twice": '{"id": "Quistgaard", "text": "a"}\n{"id": "Quistgaard", "text": "b"}\n',
    "id is a list": '{"id": ["Quistgaard"], "text": "a"}\n',
    "role": '{"messages": [{"role": "Quistgaard", "content": "a"}]}\n',
    "from": '{"conversations": [{"from": "Quistgaard", "value": "a"}]}\n',
    "role is a table": '{"messages": [{"role": {"n": "Quistgaard"}, "content": "a"}]}\n',
    "content": '{"messages": [{"role": "user", "content": {"Quistgaard": 1}}]}\n',
    "text": '{"text": ["Quistgaard"]}\n',
    "label": '{"text": "Ann", "pii": [{"start": 0, "end": 9, "label": "Quistgaard"}]}\n',
    "span": '{"text": "Ann", "pii": [{"start": "Quistgaard", "end": 1, "label": "PERSON"}]}\n',
    "quoted": '{"text": "Ann Lee", "pii": [{"start": 0, "end": 3, "label": "PERSON", '
              '"text": "Quistgaard"}]}\n',
    "other annotation": '{"text": "Ann", "entities": "Quistgaard"}\n',
    "two fields": '{"instruction": "Quistgaard", "prompt": "a", "output": "b"}\n',
    "no answer": '{"instruction": "Quistgaard"}\n',
    "not a number": '{"text": "Quistgaard", "age": NaN}\n',
    "no JSON": '{"text": "Quistgaard"\n',
    "no object": '["Quistgaard"]\n"Quistgaard"\n',
    "twice a name": '{"text": "Quistgaard", "text": "Quistgaard2"}\n',
    "surrogate": '{"text": "Quistgaard \\ud800"}\n',
    "group": '{"text": "a", "group": {"Quistgaard": 1}}\n',
    "csv cells": "id,text\nQuistgaard,a,b\n",
    "csv header": "Quistgaard,other\na,b\n",
    "csv annotation": 'id,text,pii\na,Ann,"[Quistgaard]"\n',
    "csv id twice": "id,text\nQuistgaard,a\nQuistgaard,b\n",
    "csv quote": 'id,text\na,"Quistgaard" b"\n',
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
@pytest.mark.parametrize("command", ["scrub", "extract", "canary", "infer"])
def test_no_error_line_of_a_reader_prints_a_record_s_value(
    tmp_path, monkeypatch, capfd, name, command
):
    monkeypatch.chdir(tmp_path)
    file = "r.csv" if name.startswith("csv") else "r.jsonl"
    (tmp_path / file).write_text(BROKEN[name])
    target = ("--target", "no/model", "--quiet")
    words = {
        "scrub": ("scrub", file, "clean.jsonl", "--detector", "names"),
        "extract": ("extract", "--prefixes", file, *target),
        "canary": ("canary", "make", "--count", "4", "--corpus", file, "--out", "c.json"),
        "infer": ("infer", "--data", file, *target),
    }[command]
    done = Command(monkeypatch, capfd)(*words)
    assert done.code in (0, 2, 3, 4), done
    assert "Quistgaard" not in done.out + done.err
    assert "Traceback" not in done.err
