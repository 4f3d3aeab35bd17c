"""--estimator exact from the command line: its report, and what does not go with it."""

import json
from pathlib import Path

import pytest

RECORD = {"text": "Dear Tom, hello.", "pii": [{"start": 5, "end": 8, "label": "PERSON"}]}
OTHER = {"text": "To Jo.", "pii": [{"start": 3, "end": 5, "label": "PERSON"}]}


@pytest.fixture(autouse=True)
def records(empty_folder):
    Path("ours.jsonl").write_text(json.dumps(RECORD) + "\n")
    Path("theirs.jsonl").write_text(json.dumps(OTHER) + "\n")


ASKED = ("extract", "--target", "fedaudit-nano", "--prefixes", "ours.jsonl")
EXACT = ("--estimator", "exact")


def test_it_computes_what_comes_out(run):
    outcome = run(*ASKED, *EXACT, "--victim", "theirs.jsonl", "--out", "here", "--device", "cpu")
    assert outcome.code in {0, 1, 7}, outcome
    report = json.loads(Path("here/report.json").read_text())
    rows = [row for row in report["measurements"] if row["scope"].get("estimator") == "exact"]
    grid = {row["scope"]["samples"] for row in rows if "budget" in row["scope"]}
    assert {1, 15, 10**6} <= grid
    [one] = [
        row
        for row in rows
        if row["metric"] == "vx_pii" and {"tuned", "all"} <= set(row["scope"].values())
    ]
    assert 0 < one["value"] < 1
    assert report["run"]["config"]["attacks"]["contextual"]["estimator"] == "exact"
    assert "Expected by samples" in outcome.out
    [leak] = report["findings"]
    assert leak["evidence"]["samples_for_50_percent"] >= 1
    assert "Jo" not in json.dumps(report["findings"])


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (EXACT, "with --victim"),
        (("--set", "contextual.estimator=exact"), "with --victim"),
        (("--estimator", "exakt"), "Did you mean 'exact'?"),
        ((*EXACT, "--attack", "untargeted"), "untargeted has no such targets"),
        (
            (*EXACT, "--victim", "theirs.jsonl", "--set", "contextual.threshold=1"),
            "threshold must be above 0",
        ),
    ],
)
def test_what_does_not_go_with_it_is_said_in_one_line(run, words, says):
    run.refused(2, *ASKED, *words, says=says)


def test_a_matrix_is_computed_too(run):
    clients = ("--clients", "ours.jsonl", "theirs.jsonl", "--target", "fedaudit-nano")
    outcome = run("extract", "--matrix", *clients, *EXACT, "--out", "here", "--device", "cpu")
    assert outcome.code in {0, 1, 7}, outcome
    report = json.loads(Path("here/report.json").read_text())
    rows = [row["scope"] for row in report["measurements"] if row["metric"] == "coverage"]
    assert {(one["attacker"], one["victim"]) for one in rows} == {
        ("ours", "theirs"),
        ("theirs", "ours"),
    }
    assert {one["estimator"] for one in rows} == {"exact"}
    assert report["budget"]["queries"] is None
    assert "~" in outcome.out
