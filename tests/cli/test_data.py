"""data: a public data set becomes records that a simulation takes."""

import json
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def records(empty_folder):
    rows = [{"instruction": f"Do {n}.", "input": "", "output": f"Did {n}."} for n in range(30)]
    Path("alpaca_data.json").write_text(json.dumps([*rows, rows[0]]))


def test_records_for_a_simulation(run):
    done = run("data", "alpaca", "alpaca_data.json")
    assert done.code == 0, done.err
    assert done.out.splitlines() == [
        "alpaca.jsonl: 30 records",
        "  left out, duplicates: 1",
    ]
    said = run("simulate", "--profile", "fed_pii", "--set", "data=alpaca.jsonl", "--dry-run")
    assert said.code == 0, said.err
    run.refused(3, "data", "alpaca", "alpaca_data.json", says="alpaca.jsonl exists")
    assert run("data", "alpaca", "alpaca_data.json", "--force", "--each", "4").code == 0
    assert len(Path("alpaca.jsonl").read_text().splitlines()) == 4


def test_the_list_names_every_data_set(run):
    listed = run("data")
    assert listed.code == 0
    names = [line.split()[0] for line in listed.out.splitlines() if not line.startswith(" ")]
    assert names[:3] == ["alpaca", "arxiv", "cail-charges"]


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["alpaca"], 2, "Name the files of alpaca"),
        (["alpac", "alpaca_data.json"], 2, "Did you mean 'alpaca'"),
        (["tab", "alpaca_data.json"], 3, "record 1: not a row of the data set tab"),
        (["alpaca", "none.json"], 3, "none.json"),
        (["alpaca", "alpaca_data.json", "--out", "alpaca_data.json"], 3, "one of the files"),
    ],
)
def test_mistakes_are_one_line(run, words, code, says):
    run.refused(code, "data", *words, says=says)
    assert not Path("alpaca.jsonl").exists()
