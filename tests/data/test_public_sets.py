"""Public data sets: a hundred rows of each, in the form that is published, become records."""

import csv
import json
from collections import Counter

import pyarrow
import pytest
from pyarrow import parquet

from fedaudit.api.errors import InputError, UsageError
from fedaudit.api.templates import TEMPLATES
from fedaudit.data import corpus, public_sets
from fedaudit.data.public_sets import RECIPES, convert
from fedaudit.simulation.data.partition import deal_by_corpus, deal_documents

ROWS = 100


def instructions(n):
    return {"instruction": f"Do {n}.", "input": f"with {n}" if n % 2 else "", "output": f"Did {n}."}


def question(n):
    meshes = (["Animals"], ["Humans", "Middle Aged"], ["Humans"])[n % 3]
    return {
        "QUESTION": f"Does drug {n} help?",
        "CONTEXTS": [f"Background {n}.", f"We gave it to {n} people."],
        "LABELS": ["BACKGROUND", "METHODS"],
        "MESHES": meshes,
        "LONG_ANSWER": f"It helps {n}.",
        "final_decision": "yes",
    }


def judgment(n):
    name = f"Anna {n}"
    text = f"The applicant, {name}, was born in 19{n:02} in Bergen."
    spans = [
        ("PERSON", name, "DIRECT"),
        ("LOC", "Bergen", "QUASI"),
        ("DATETIME", f"19{n:02}", "NO_MASK"),
    ]
    mentions = [
        {
            "entity_type": label, "start_offset": text.index(string),
            "end_offset": text.index(string) + len(string), "span_text": string,
            "identifier_type": kind,
        }
        for label, string, kind in spans
    ]  # fmt: skip
    shorter = {**mentions[0], "end_offset": mentions[0]["start_offset"] + 4, "span_text": "Anna"}
    return {
        "doc_id": f"001-{n}",
        "text": text,
        "annotations": {
            "annotator1": {"entity_mentions": mentions},
            "annotator2": {"entity_mentions": [shorter]},
        },
    }


LONG = "In the year in question the applicant lodged a complaint with the court of the city, number"
PAPERS = ("astro-ph.HE", "cond-mat.soft", "math-ph", "cs.CL")

MADE = {
    "alpaca": instructions,
    "medinstruct": instructions,
    "medalpaca": instructions,
    "healthcaremagic": lambda n: {
        "description": f"ache {n}",
        "utterances": [f"patient: It hurts: {n}.", f"doctor: Rest {n} days.", "patient: Thanks."],
    },
    "ultrachat": lambda n: {
        "prompt": f"Why {n}?",
        "prompt_id": f"p{n}",
        "messages": [
            {"content": f"Why {n}?", "role": "user"},
            {"content": f"Because {n}.", "role": "assistant"},
        ],
    },
    "pubmedqa": question,
    "arxiv": lambda n: {
        "abstract": f"We show\n {n}.", "arxiv_id": f"2001.{n:05}", "categories": PAPERS[n % 4],
        "primary_cat": PAPERS[n % 4], "title": f"On {n}",
    },
    "tab": judgment,
    "echr": lambda n: {"ITEMID": f"001-{n}", "TEXT": ["Short.", f"{LONG} {n}.", f"{n}: {LONG}."]},
    "yelp": lambda n: {
        "review_id": f"r{n}", "user_id": f"u{n % 10}", "stars": 4.0, "text": f"Nice, {n}."
    },
    "cail-charges": lambda n: {"fact": f"被告人{n}", "meta": {"accusation": ["盗窃", "抢劫"]}},
    "cail-summary": lambda n: {
        "id": f"s{n}", "summary": f"原告{n}",
        "text": [{"sentence": f"原告{n}。", "label": 1}, {"sentence": "被告。", "label": 0}],
    },
    "cail-reading": lambda n: {
        "caseid": f"c{n}", "domain": "civil",
        "paragraphs": [{
            "context": f"案情{n}", "casename": "x",
            "qas": [
                {"id": f"{n}_1", "question": "谁？", "is_impossible": "false",
                 "answers": [{"text": f"原告{n}", "answer_start": 0}]},
                {"id": f"{n}_2", "question": "何时？", "is_impossible": "true"},
                {"id": f"{n}_3", "question": "何地？", "answers": [{"text": " "}, {"text": None}]},
            ],
        }],
    },
    "cail-matching": lambda n: {"A": f"甲{n}", "B": f"乙{n}", "C": f"丙{n}", "label": "BC"[n % 2]},
    "cail-exam": lambda n: {
        "id": f"0_{n}", "statement": f"题{n}", "option_list": {"B": "二", "A": "一"},
        "answer": ["A", "B"],
    },
}  # fmt: skip


def fixture(name, folder, rows=ROWS):
    """Write a hundred rows of a data set as it is published, and return the file."""
    made = [MADE[name](n) for n in range(rows)] if name in MADE else []
    if name == "pubmed-rct":
        path = folder / "train.txt"
        classes = ("OBJECTIVE", "METHODS", "RESULTS", "CONCLUSIONS")
        lines = [f"###{n}\n{classes[n % 4]}\tSentence {n} .\n" for n in range(rows)]
        path.write_text("\n".join(lines))
    elif name == "arxiv":
        path = folder / "astro.tsv"
        with path.open("w", newline="") as file:
            table = csv.DictWriter(file, list(made[0]), delimiter="\t")
            table.writeheader()
            table.writerows(made)
    elif name == "pubmedqa":
        path = folder / "ori_pqal.json"
        path.write_text(json.dumps({str(n): row for n, row in enumerate(made)}, indent=1))
    elif name == "cail-reading":
        path = folder / "train.json"
        path.write_text(json.dumps({"version": "1", "data": made}, ensure_ascii=False))
    elif name == "ultrachat":
        path = folder / "train.parquet"
        parquet.write_table(pyarrow.Table.from_pylist(made), path)
    elif name in ("yelp", "cail-charges", "cail-summary", "cail-matching", "cail-exam"):
        path = folder / "train.json"
        path.write_text("".join(json.dumps(row) + "\n" for row in made))
    else:
        path = folder / "train.json"
        path.write_text(json.dumps(made))
    return path


def documents(name, folder, **settings):
    out = folder / "out.jsonl"
    corpus.write_fields(out, convert(name, [fixture(name, folder)], **settings).records)
    return list(corpus.read(out, TEMPLATES["alpaca"]))


COUNTS = {"arxiv": 75, "echr": 200}


@pytest.mark.parametrize("name", RECIPES)
def test_a_hundred_rows_become_records_that_can_be_read_and_dealt(name, tmp_path):
    found = documents(name, tmp_path)
    assert len(found) == COUNTS.get(name, ROWS)
    assert len({document.id for document in found}) == len(found)
    answered = [document for document in found if document.output]
    assert len(answered) == (0 if name in ("tab", "echr", "yelp") else len(found))
    assert all(document.text.endswith(document.output) for document in found)
    dealt = deal_by_corpus(found, clients=3, seed=0)
    assert all(dealt)
    assert sum(map(len, dealt)) == len(found)


def test_corpora_are_the_papers(tmp_path):
    areas = ("astrophysics", "condensed-matter", "mathematics")
    found = Counter(one.group.partition("/")[0] for one in documents("arxiv", tmp_path))
    assert found == dict.fromkeys(areas, 25)
    found = Counter(one.group.partition("/")[0] for one in documents("pubmedqa", tmp_path))
    assert found == {"animals": 34, "middle-aged": 33, "other-humans": 33}
    for name, wanted in (("echr", "legal"), ("tab", "legal"), ("yelp", "bank")):
        assert {one.group.partition("/")[0] for one in documents(name, tmp_path)} == {wanted}


def test_what_a_row_becomes(tmp_path):
    first = {name: documents(name, tmp_path)[0] for name in RECIPES}
    assert first["pubmedqa"].instruction == "Does drug 0 help?"
    assert first["pubmedqa"].input == "Background 0. We gave it to 0 people."
    assert (first["arxiv"].input, first["arxiv"].output) == ("We show 0.", "On 0")
    dialogue = first["healthcaremagic"]
    assert (dialogue.input, dialogue.output) == ("It hurts: 0.", "Rest 0 days.")
    assert first["pubmed-rct"].output == first["pubmed-rct"].group == "OBJECTIVE"
    assert first["cail-charges"].output == "盗窃、抢劫"
    assert first["cail-summary"].input == "原告0。被告。"
    assert (first["cail-reading"].output, first["cail-reading"].group) == ("原告0", "c0")
    assert first["cail-matching"].input.splitlines()[:2] == ["<Case A>", "甲0"]
    assert first["cail-exam"].input == "题0\nA. 一\nB. 二"
    assert (first["ultrachat"].instruction, first["ultrachat"].output) == ("Why 0?", "Because 0.")


def test_the_masks_of_all_annotators(tmp_path):
    found = documents("tab", tmp_path)[7]
    strings = [(found.text[one.start : one.end], one.label) for one in found.pii]
    assert strings == [("Anna 7", "PERSON"), ("Bergen", "LOC")]  # the year need not be masked


def test_classes_are_dealt_by_dirichlet(tmp_path):
    found = documents("pubmed-rct", tmp_path)
    names = sorted({one.group for one in found})
    classes = [names.index(one.group) for one in found]
    dealt = deal_documents(found, classes, clients=3, alpha=5.0, seed=0, whole_groups=False)
    assert {len({one.group for one in share}) for share in dealt} == {4}


def test_what_is_left_out_is_counted(tmp_path):
    rows = [instructions(1), instructions(1), {**instructions(2), "output": " "}, instructions(3)]
    path = tmp_path / "alpaca_data.json"
    path.write_text(json.dumps(rows))
    done = convert("alpaca", [path])
    assert [record["instruction"] for record in done.records] == ["Do 1.", "Do 3."]
    assert done.left_out == {public_sets.COPIES: 1, public_sets.NO_ANSWER: 1}


def test_as_many_of_each_corpus_in_any_order(tmp_path):
    path = fixture("pubmedqa", tmp_path)
    done = convert("pubmedqa", [path], each=5)
    table = json.loads(path.read_text())
    path.write_text(json.dumps(dict(sorted(table.items(), reverse=True))))
    again = convert("pubmedqa", [path], each=5)
    assert {one["id"] for one in done.records} == {one["id"] for one in again.records}
    assert Counter(map(public_sets.corpus_name, done.records)) == {
        "animals": 5, "middle-aged": 5, "other-humans": 5,
    }  # fmt: skip
    assert done.left_out[public_sets.DRAWN] == ROWS - 15


def test_reviews_without_a_header(tmp_path):
    path = tmp_path / "train.csv"
    path.write_text('"5","Nice, with a ""quote"""\n"1","Bad."\n')
    assert [record["text"] for record in convert("yelp", [path]).records] == [
        'Nice, with a "quote"',
        "Bad.",
    ]


@pytest.mark.parametrize(
    ("name", "rows", "says"),
    [
        ("alpaca", [{"instruction": "a"}], r"record 1: not a row of the data set alpaca: 'output'"),
        ("tab", [{"doc_id": "a", "text": "b", "annotations": []}], "record 1: not a row"),
        ("pubmed-rct", "A note without a class.\n", "line 1: not a row of the data set pubmed-rct"),
        ("alpaca", [{**instructions(1), "output": ""}], "There is no record of alpaca in"),
        ("alpaca", [], "There is no record"),
    ],
)
def test_a_row_of_another_form_is_named(tmp_path, name, rows, says):
    path = tmp_path / "a.json"
    path.write_text(rows if isinstance(rows, str) else json.dumps(rows))
    with pytest.raises(InputError, match=says):
        convert(name, [path])


def test_names_are_suggested(tmp_path):
    with pytest.raises(UsageError, match="Did you mean 'alpaca'"):
        convert("alpacca", [tmp_path / "a.json"])
