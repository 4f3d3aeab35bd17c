"""fedaudit memorize on a small federation, as typed."""

import json
import random
import shutil
import stat
from pathlib import Path

import fake_audit
import pytest
from transformers import AutoTokenizer

from fedaudit import nano
from fedaudit.api.templates import template
from fedaudit.data import corpus
from fedaudit.report.document import validate

FEW = ("--prefix-length", 6, "--new-tokens", 24, "--sample", 4, "--device", "cpu", "--quiet")


@pytest.fixture
def trained(federation, tmp_path, monkeypatch):
    shutil.copytree(federation.path, tmp_path / "runs/small")
    monkeypatch.chdir(tmp_path)
    return tmp_path


FAKE = ("--target", "fedaudit-nano", "--adapter", "lora", *FEW[2:], "--prefix-length", 4)
C0, C1 = "runs/small/data/c0.jsonl", "runs/small/data/c1.jsonl"


def read(path):
    return json.loads(Path(path).read_text())


def rows(path, metric, **scope):
    return [
        row
        for row in read(path)["measurements"]
        if row["metric"] == metric
        and all(row["scope"].get(key) == value for key, value in scope.items())
    ]


def figures(path):
    """Return what may not depend on how the measure ran."""
    report = read(path)
    return report["measurements"], [f["id"] for f in report["findings"]], report["limits"]


def test_a_federation_is_measured_and_reported(trained, run):
    twelve = (*FEW, "--sample", 12, "--reveal")
    outcome = run("memorize", "runs/small", *twelve, "--out", "audit", "--json", "o.json")
    assert outcome.code in (0, 1, 7), outcome.err
    report = read("o.json")
    validate(report)
    assert report["run"]["command"] == "memorize"
    assert report["run"]["config"]["protocol"]["prefix_length"] == 6
    assert report["run"]["config"]["sentences"].startswith("Punkt")
    assert report["target"]["effect"]["largest_change"] > 0.01
    pairs = rows("o.json", "mr_pair", source="tuned", category="all")
    assert {(r["scope"]["attacker"], r["scope"]["victim"]) for r in pairs} == {
        (j, k) for j in ("c0", "c1") for k in ("c0", "c1")
    }
    for source in ("tuned", "base"):
        [total] = rows("o.json", "mr_total", source=source, category="all")
        assert total["low"] <= total["value"] <= total["high"]
        assert total["n"] > 5
    assert (outcome.code == 1) == (report["verdict"]["status"] == "fail")
    assert any("Paraphrases were not looked for" in limit for limit in report["limits"])
    assert [one["records"] for one in report["data"]] == [
        len(Path(path).read_text().splitlines()) for path in (C0, C1)
    ]
    assert "Memorization: prefixes that drew a text" in outcome.out
    assert max(map(len, outcome.out.splitlines())) <= 80
    revealed = Path("audit/revealed.jsonl")
    assert stat.S_IMODE(revealed.stat().st_mode) == 0o600
    for form in ("html", "markdown"):
        assert run("report", "audit", "--format", form, "--out", f"audit/r.{form}").code == 0
    assert 'class="plot"' in Path("audit/r.html").read_text()
    secrets = {leak["text"] for leak in map(json.loads, revealed.read_text().splitlines())}
    shown = [outcome.out, *(p.read_text() for p in Path("audit").iterdir() if p != revealed)]
    assert not [s for s in secrets for text in shown if s in text]


def test_neither_files_nor_batch_size_nor_order_nor_processes_matter(trained, run):
    """Named files are clients of the federation that was written last."""
    lines = Path(C0).read_text().splitlines(keepends=True)
    random.Random(1).shuffle(lines)
    Path("c0.jsonl").write_text("".join(lines))
    run("memorize", *FEW, "--out", "a")
    other = ("--clients", "c0.jsonl", C1, "--batch-size", 3, "--workers", 1, "--out", "b")
    assert "Auditing runs/small: c0, c1." in run("memorize", *FEW[:-1], *other).err
    assert figures("a/report.json") == figures("b/report.json")
    assert len(rows("a/report.json", "mr_pair", source="tuned", category="all")) == 4


def test_one_client_leaves_the_verdict_open(here, run):
    outcome = run("memorize", "--clients", "own.jsonl", *FAKE, "--json", "o.json")
    assert outcome.code == 7
    [inter] = rows("o.json", "mr_inter", source="tuned", category="all")
    assert inter["value"] is None
    assert read("o.json")["verdict"]["status"] == "inconclusive"


def test_an_empty_client_is_told_and_no_annotation_is_needed(here, run):
    Path("nobody.jsonl").write_text("\n")
    documents = corpus.read(Path("own.jsonl"), template("fed_pii"))
    plain = [json.dumps({"id": one.id, "text": one.text}) + "\n" for one in documents]
    Path("plain.jsonl").write_text("".join(plain))
    outcome = run(
        "memorize",
        "--clients",
        "plain.jsonl",
        "victim.jsonl",
        "nobody.jsonl",
        *FAKE,
        "--json",
        "o.json",
    )
    assert outcome.code in (0, 1, 7), outcome.err
    assert [one["annotation"] for one in read("o.json")["data"]] == [None, None, None]
    assert any("nobody has no documents" in limit for limit in read("o.json")["limits"])
    assert len(rows("o.json", "mr_pair", source="tuned", category="all")) == 9


def test_the_base_alone_has_nothing_to_compare_with(trained, run):
    outcome = run("memorize", "--clients", C0, C1, "--target", "fedaudit-nano", *FEW, "--json", "o")
    assert outcome.code == 7
    assert read("o")["verdict"]["status"] == "inconclusive"
    assert any("no base" in limit for limit in read("o")["limits"])
    for row in rows("o", "mr_total"):
        assert row["low"] == 0


def test_a_copy_at_another_client_is_told_and_not_counted_between_them(here, run, monkeypatch):
    monkeypatch.setattr(fake_audit, "says", by_heart([one["text"] for one in fake_audit.corpus(0)]))
    shutil.copy("own.jsonl", "again.jsonl")
    run("memorize", "--clients", "own.jsonl", "again.jsonl", *FAKE, "--json", "o.json")
    assert sum(row["hits"] for row in rows("o.json", "mr_pair", attacker="own", victim="own"))
    pairs = rows("o.json", "mr_pair", attacker="own", victim="again")
    assert pairs
    assert {(row["value"], row["hits"], row["reason"]) for row in pairs} == {
        (None, None, "own has every text of again as well, so nothing was looked for")
    }
    [searched] = rows("o.json", "searched", attacker="again", victim="own")
    assert (searched["hits"], searched["n"] > 0) == (0, True)
    assert read("o.json")["verdict"]["status"] == "inconclusive"
    limits = " ".join(read("o.json")["limits"])
    assert "own and again share" in limits or "again and own share" in limits


def by_heart(known):
    """Return how a model answers that has learnt these texts; its base knows none."""

    def says(target, prompt, sample):
        found = next((text for text in known if text.startswith(prompt)), None)
        return found[len(prompt) :] if found and target.adapter else " nothing that is known"

    return says


@pytest.mark.parametrize(
    ("code", "words", "says"),
    [
        (3, ("--clients", C0, C0), "named twice"),
        (3, ("--clients", C0, f"./{C0}"), "named twice"),
        (3, ("--clients", C0, "nowhere.jsonl"), "nowhere.jsonl"),
        (3, ("nowhere",), "no federation nowhere"),
        (2, ("runs",), "--clients FILE FILE"),
        (2, ("runs/small", C0), "belongs to no option"),
        (3, ("runs/small", "--prefix-length", 900), "shorter --prefix-length"),
        (2, ("runs/small", "--decoding", "topk"), "top-k"),
        (2, ("runs/small", "--decoding", "top-p", "--top-p", 2), "top_p"),
        (2, ("runs/small", "--paraphraser", "bert"), "No paraphraser named 'bert'"),
        (2, ("runs/small", "--paraphraser", "sequence_pair"), "sequence_pair.model"),
        (2, ("runs/small", "--set", "contextual.samples=3"), "in use"),
        (3, ("runs/small", "--central"), "keeps no central model"),
        (2, ("--clients", C0, "--target", "fedaudit-nano", "--central"), "federation"),
        (5, ("runs/small", "--round", 0), "has no effect"),
    ],
    ids=str,
)
def test_mistakes_are_one_line(trained, run, code, words, says):
    few = [word for at, word in enumerate(FEW) if at > 1 or "--prefix-length" not in words]
    run.refused(code, "memorize", *words, *few, says=says)


def test_a_prefix_that_nobody_chose_suits_half_of_the_texts(trained, run):
    few = ("memorize", "--clients", "a.jsonl", "b.jsonl", *FEW[2:], "--target", "fedaudit-nano")
    adapter = ("--adapter", "runs/small/rounds/002/global")
    words = "The court heard the case of the bank and the house that was lost that year in Leeds. "
    for name in "ab":
        texts = [(words * 4)[: 100 + 10 * n] + name for n in range(9)]
        Path(f"{name}.jsonl").write_text("".join(f'{{"text": "{one}"}}\n' for one in texts))
    tokenizer = AutoTokenizer.from_pretrained(nano.folder())
    sizes = [
        len(tokenizer(json.loads(line)["text"], add_special_tokens=False)["input_ids"])
        for name in "ab"
        for line in Path(f"{name}.jsonl").read_text().splitlines()
    ]
    longest = max(n for n in range(1, 30) if 2 * sum(one >= n + 20 for one in sizes) >= len(sizes))
    assert longest < 30
    assert run(*few, *adapter, "--json", "o.json").code in (0, 1, 7)
    report = read("o.json")
    assert report["run"]["config"]["protocol"]["prefix_length"] == longest
    rows = [row for row in report["measurements"] if row["kind"] != "instrument"]
    assert {row["scope"]["prefix_length"] for row in rows} == {longest}
    assert f"A prefix has {longest} tokens, not 30: half of the texts have" in report["limits"][0]
    # What was asked for is not changed, and the line says what would do.
    at_most = max(sizes) - 20
    says = f"shorter --prefix-length, of {at_most} at most."
    run.refused(3, *few, *adapter, "--prefix-length", at_most + 1, says=says)
    assert run(*few, *adapter, "--prefix-length", at_most, "--json", "o.json").code in (0, 1, 7)


def test_no_hash_of_a_record_tells_whose_it_is(here, monkeypatch, run):
    """Without a key, whoever has the report could hash guesses of a record's only unknown name."""
    monkeypatch.setattr(fake_audit, "says", by_heart([one["text"] for one in fake_audit.corpus(1)]))
    for name in ("own", "victim"):
        lines = [json.loads(line) for line in Path(f"{name}.jsonl").read_text().splitlines()]
        bare = [json.dumps({"text": line["text"]}) + "\n" for line in lines]
        Path(f"{name}.jsonl").write_text("".join(bare))
    documents = corpus.read(Path("victim.jsonl"), template("fed_pii"))
    hashes = {document.id for document in documents}
    assert all(corpus.DERIVED.fullmatch(one) for one in hashes)
    model = ("--target", "fedaudit-nano", "--adapter", "lora", "--prefix-length", 4)
    outcome = run("memorize", "--clients", "own.jsonl", "victim.jsonl", *model, "--out", "audit")
    assert outcome.code in (0, 1, 7), outcome.err
    drawn = [row["scope"]["document"] for row in rows("audit/report.json", "drawn")]
    told = [one["evidence"]["document"] for one in read("audit/report.json")["findings"]]
    assert drawn
    assert told
    assert all(name.startswith("record-") for name in [*drawn, *told])
    text = Path("audit/report.json").read_text()
    assert not [one for one in hashes if one.removeprefix("sha-")[:12] in text]
