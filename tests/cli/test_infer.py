"""fedaudit infer on a small federation, as typed."""

import json
import random
import shutil
import stat
from pathlib import Path

import pytest

from fedaudit.api.templates import template
from fedaudit.data import corpus
from fedaudit.report.document import validate

C0 = "runs/fed_pii/data/c0.jsonl"
ASK = ("infer", "--data", C0, "--quiet", "--candidates", 8)
FEW = (*ASK, "--set", "ranking.sentences=6")


@pytest.fixture
def here(federation, tmp_path, monkeypatch):
    shutil.copytree(federation.path, tmp_path / "runs/fed_pii")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def read(path):
    return json.loads(Path(path).read_text())


def told(evidence):
    """Return what is the same under every key of the masks."""
    return {name: value for name, value in evidence.items() if name != "hmac"}


def figures(path):
    """Return what may not depend on how the audit ran."""
    report = read(path)
    findings = [(f["id"], f["label"], told(f["evidence"])) for f in report["findings"]]
    return report["measurements"], findings, report["limits"]


def test_it_finds_the_last_federation_and_asks_tuned_and_base(here, run):
    outcome = run("infer", "--data", C0, "--json", "o.json", "--candidates", 3, "--candidates", 8)
    assert outcome.code in (0, 1, 7)
    assert "Auditing runs/fed_pii" in outcome.err
    assert "Inference: ranking" in outcome.out
    assert max(map(len, outcome.out.splitlines())) <= 80
    assert "\x1b" not in outcome.out
    report = read("o.json")
    validate(report)
    rows = [r for r in report["measurements"] if r["metric"] == "inference_accuracy"]
    totals = {
        (r["scope"]["source"], r["scope"]["candidates"]): r
        for r in rows
        if "label" not in r["scope"]
    }
    assert set(totals) == {(s, c) for s in ("tuned", "base") for c in (3, 8)}
    for (source, candidates), row in totals.items():
        assert row["chance"] == pytest.approx(1 / candidates)
        assert row["low"] <= row["value"] <= row["high"]
        of_kinds = [
            r["n"]
            for r in rows
            if "label" in r["scope"]
            and (r["scope"]["source"], r["scope"]["candidates"]) == (source, candidates)
        ]
        assert sum(of_kinds) == row["n"] > 5
    assert totals["tuned", 8]["baseline"] == totals["base", 8]["value"]
    assert report["run"]["command"] == "infer"
    assert report["target"]["effect"]["largest_change"] > 0.1
    assert report["target"]["beginning"]["start"] in ("bos", "bare")
    assert (outcome.code == 1) == (report["verdict"]["status"] == "fail")


def test_batch_size_and_order_of_the_input_change_no_figure(here, run):
    lines = Path(C0).read_text().splitlines(keepends=True)
    random.Random(1).shuffle(lines)
    Path("shuffled.jsonl").write_text("".join(lines))
    run(*FEW, "--out", "a")
    run(*FEW, "--out", "b", "--batch-size", 3, "--data", "shuffled.jsonl")
    assert figures("a/report.json") == figures("b/report.json")
    run.refused(3, *FEW, "--out", "a", "--seed", 9, says="another run")


def test_no_pii_stands_in_anything_but_the_revealed_file(here, run, monkeypatch):
    """And the user's key, by which it is masked, not in the folder."""
    monkeypatch.setenv("FEDAUDIT_CONFIG", str(here / "own/config"))
    documents = corpus.read(Path(C0), template("fed_pii"))
    secrets = {text for d in documents for text, _ in d.strings() if len(text) > 3}
    shown = run(*ASK, "--set", "ranking.sentences=12", "--out", "audit", "--reveal")
    for form in ("html", "markdown"):
        assert run("report", "audit", "--format", form, "--out", f"audit/r.{form}").code == 0
    texts = [shown.out, shown.err]
    texts += [p.read_text() for p in Path("audit").iterdir() if p.name != "revealed.jsonl"]
    assert not [s for s in secrets for text in texts if s in text]
    revealed = Path("audit/revealed.jsonl")
    assert stat.S_IMODE(revealed.stat().st_mode) == 0o600
    leaks = [json.loads(line) for line in revealed.read_text().splitlines()]
    assert leaks
    assert {leak["id"] for leak in leaks} == {
        f["id"] for f in read("audit/report.json")["findings"]
    }
    assert all(leak["text"] in leak["sentence"] for leak in leaks)
    assert [p.name for p in Path("own/config").iterdir()] == ["redaction-key"]
    assert stat.S_IMODE(Path("own/config").stat().st_mode) == 0o700
    assert not [p for p in Path().rglob("*") if "redaction" in p.name and "own" not in p.parts]


def test_options_reach_the_attack(here, run):
    words = ("--set", "ranking.sentences=4", "--set", "ranking.labels=PERSON")
    outcome = run(*ASK, *words, "--json", "o.json")
    assert outcome.code in (0, 1, 7)
    report = read("o.json")
    asked = [r for r in report["measurements"] if r["metric"] != "targets"]
    assert {r["scope"].get("label") for r in asked} == {None, "PERSON"}
    assert report["measurements"][0]["n"] == 4
    assert report["run"]["config"]["attacks"]["ranking"]["candidates"] == [8]


def test_the_base_alone_cannot_be_judged(here, run):
    outcome = run(*FEW, "--target", "fedaudit-nano", "--json", "o.json")
    assert outcome.code == 7
    report = read("o.json")
    assert {r["scope"]["source"] for r in report["measurements"]} == {"tuned"}
    assert report["verdict"]["status"] == "inconclusive"
    assert report["findings"] == []
    assert "no base to compare with" in " ".join(outcome.out.split())


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("--data", "none.jsonl"), 3, "no file none.jsonl"),
        (("--data", "none.jsonl", "--set", "ranking.sentence=3"), 2, "Did you mean 'sentences'?"),
        (("--data", "plain.jsonl"), 3, "no annotated PII"),
        (("--data", "prompts.jsonl"), 3, "no annotated PII"),
        (("--data", C0, "--set", "ranking.labels=PERSN"), 2, "Did you mean 'PERSON'?"),
        (("--data", C0, "--set", "contextual.samples=3"), 2, "No attack or detector in use"),
        (("--data", C0, "--candidates", "1"), 2, "--candidates"),
        (("--data", C0, "--candidates", "few"), 2, "--candidates"),
        (("--data", C0, "--target", "./none"), 3, "no target"),
        ((), 2, "--data"),
    ],
)
def test_mistakes_are_one_line(here, run, words, code, says):
    Path("plain.jsonl").write_text('{"text": "nothing personal at all", "pii": []}\n')
    Path("prompts.jsonl").write_text('{"prefix": "Claimant:"}\n')
    run.refused(code, "infer", *words, "--quiet", says=says)
