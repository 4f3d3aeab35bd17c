"""extract --matrix on the command line."""

import json
from pathlib import Path

import pytest

GOOD = json.dumps(
    {"text": "Claimant: Ann Lee.", "pii": [{"start": 10, "end": 17, "label": "PERSON"}]}
)


TARGET = ("--target", "fedaudit-nano")


@pytest.fixture(autouse=True)
def records(empty_folder):
    Path("one.jsonl").write_text(GOOD + "\n")
    Path("two.jsonl").write_text(GOOD.replace("Ann Lee", "Bob Ray") + "\n")


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        ((), 2, "Missing option '--prefixes'"),
        (("--matrix",), 2, "--clients"),
        (("--matrix", "--prefixes", "one.jsonl"), 2, "cannot be combined with --prefixes"),
        (("--matrix", "--victim", "one.jsonl"), 2, "cannot be combined with --victim"),
        (("--prefixes", "one.jsonl", "--clients", "two.jsonl"), 2, "--clients goes with --matrix"),
        (("--prefixes", "one.jsonl", "--budget", "3"), 2, "--budget goes with --matrix"),
        (("--matrix", "--budget", "0"), 2, "budget"),
        (("one.jsonl",), 2, "one.jsonl belongs to no option"),
        (("--matrix", "one.jsonl", "two.jsonl"), 2, "one.jsonl belongs to no option"),
        (("--matrix", "--clients", "one.jsonl"), 3, "two clients or more"),
        (("--matrix", "--clients", "one.jsonl", "none.jsonl"), 3, "There is no file none.jsonl"),
        (("--matrix", "--target", "fedaudit-nano"), 2, "--clients"),
        (
            ("--matrix", "--clients", "one.jsonl", "two.jsonl", "--attack", "untargeted", *TARGET),
            2,
            "asks no prefixes",
        ),
    ],
)
def test_mistakes(run, words, code, says):
    run.refused(code, "extract", *words, says=says)
    assert not list(Path().rglob("report.json"))


def test_a_matrix_of_files_on_a_bare_model(run):
    words = ("--clients", "one.jsonl", "two.jsonl", "--budget", "2", "--json", "m.json")
    outcome = run("extract", "--matrix", *words, "--target", "fedaudit-nano", "--device", "cpu",
                  "--set", "contextual.samples=2", "--quiet")  # fmt: skip
    report = json.loads(Path("m.json").read_text())
    assert outcome.code == 7
    assert "Attackers and victims: contextual" in outcome.out
    assert report["budget"]["queries"] == 4
    assert report["verdict"]["status"] == "inconclusive"  # a base alone has nothing to be beyond of
    assert [row["path"] for row in report["data"]] == ["one.jsonl", "two.jsonl"]
    assert report["run"]["config"]["budget"] == 2
