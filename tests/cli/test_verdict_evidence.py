"""What the command line says of a verdict, and the files of other members and of controls."""

import json
import shutil
from pathlib import Path

import fake_audit
import pytest

from fedaudit.cli.console import verdict_code

pytestmark = pytest.mark.usefixtures("here")

AUDIT = (
    *("extract", "--prefixes", "own.jsonl", "--target", "fedaudit-nano", "--adapter", "lora"),
    *("--set", "contextual.context=4", "--set", "contextual.sweeps=false", "--out", "out"),
)
SCORED = (*AUDIT, "--victim", "victim.jsonl")


def rows(metric, **scope):
    report = json.loads(Path("out/report.json").read_text())
    return [
        row
        for row in report["measurements"]
        if row["metric"] == metric and scope.items() <= row["scope"].items()
    ]


def test_too_few_targets_end_with_seven(run):
    one, *_ = Path("victim.jsonl").read_text().splitlines(keepends=True)
    Path("victim.jsonl").write_text(one)
    found = run(*SCORED)
    assert found.code == 7
    assert "Verdict: inconclusive" in found.out
    assert "too few targets to see any leak" in " ".join(found.out.split())
    assert "Evidence" in found.out
    assert "No other member's documents were at hand" in " ".join(found.out.split())


def test_every_verdict_has_a_code():
    codes = [verdict_code({"verdict": {"status": s}}) for s in ("pass", "fail", "inconclusive")]
    assert codes == [0, 1, 7]


def test_what_a_named_member_has_is_not_judged(run):
    # Four of the victim's names come out, none of the base or of the controls.
    [alone] = rows_after(run, SCORED, code=1)
    shutil.copy("victim.jsonl", "copy.jsonl")
    [copied] = rows_after(run, (*SCORED, "--member", "copy.jsonl"), code=1)
    assert copied == alone
    victims = [json.loads(line) for line in Path("victim.jsonl").read_text().splitlines()]
    names = {v["text"][p["start"] : p["end"]] for v in victims for p in v["pii"]}
    other = {"id": "list", "text": "; ".join(sorted(names)), "pii": []}
    Path("other.jsonl").write_text(json.dumps(other) + "\n")
    [shared] = rows_after(run, (*SCORED, "--member", "other.jsonl"), code=7)
    assert alone["n"] == 7
    assert shared["value"] is None
    assert shared["reason"] == "the victim has nothing that no other member has as well"


def rows_after(run, words, code):
    shutil.rmtree("out", ignore_errors=True)
    assert run(*words).code == code
    return [
        row
        for row in rows("coverage", set="exclusive", source="tuned-not-base")
        if not {"label", "category"} & row["scope"].keys()
    ]


def test_named_controls_are_counted_and_listed(run):
    documents = [fake_audit.document(n, f"Kim {n}y Moss", "Hull") for n in range(5)]
    Path("nobody.jsonl").write_text("".join(json.dumps(one) + "\n" for one in documents))
    assert run(*SCORED, "--control", "nobody.jsonl").code == 7
    [control] = rows("coverage", set="exclusive", source="control", label="PERSON")
    assert control["n"] == 5
    report = json.loads(Path("out/report.json").read_text())
    assert [file["path"] for file in report["data"]] == [
        *("own.jsonl", "victim.jsonl", "nobody.jsonl")
    ]


@pytest.mark.parametrize("option", ["--member", "--control"])
def test_mistakes_with_these_files_are_one_line(run, option):
    run.refused(3, *SCORED, option, "nowhere.jsonl", says="nowhere.jsonl")
    run.refused(3, *SCORED, option, "lora", says="lora is a folder")
    run.refused(2, *AUDIT, option, "victim.jsonl", says=f"{option} goes with --victim")


def test_a_matrix_has_everybody_at_hand(run):
    run.refused(2, "extract", "--matrix", "--member", "own.jsonl", says="combined with --member")
