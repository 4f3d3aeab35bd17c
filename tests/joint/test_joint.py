"""A joint audit from commitments to one report, beside the audit of all records in one place."""

import json
import runpy
import zipfile
from pathlib import Path

import pytest
from test_relay import messages

from fedaudit.api.records import PromptStart
from fedaudit.audit import access, preflight
from fedaudit.audit.preflight import PromptStartScores

MODEL = ("--target", "fedaudit-nano", "--adapter", "lora", "--device", "cpu")
LESS = ("--set", "contextual.samples=2")
NAMES = ("a", "b", "c")
rows = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks/joint_equality.py"))["counts"]


@pytest.fixture
def differing_starts(monkeypatch):
    """Let the prompts of b, by the number of its occurrences of PII, begin with the BOS token."""
    load = access.load_engine

    def loaded(*arguments, **options):
        engine, sha256 = load(*arguments, **options)
        engine.prompt_starts = {"bare": (), "bos": (9001,)}
        return engine, sha256

    def choose(engine, target, occurrences):
        start = PromptStart(start="bos" if len(occurrences) % 4 else "bare")
        return PromptStartScores(start, {}, {})

    monkeypatch.setattr(access, "load_engine", loaded)
    monkeypatch.setattr(preflight, "choose_prompt_start", choose)


def test_counts_and_verdict_are_those_of_the_matrix(files, members, run, differing_starts):
    few = (*MODEL, "--set", "contextual.samples=1", "--budget", "8")  # so that not all come out
    group = members(*NAMES)
    group.commit(*few, **files)
    group.to_answers()
    group.to_results("--counts")
    code = run("joint", "report", "a", "--json", "joint.json").code
    whole = run("extract", "--matrix", "--clients", *files.values(), *few, "--quiet", "--json",
                "matrix.json")  # fmt: skip
    joint, matrix = (json.loads(Path(f"{n}.json").read_text()) for n in ("joint", "matrix"))
    assert rows(joint) == rows(matrix)
    assert any(hits for hits, _, _ in rows(matrix).values())
    assert any(row["metric"] == "shared_targets" for row in matrix["measurements"])
    assert joint["verdict"]["status"] == matrix["verdict"]["status"]
    assert code == whole.code
    begun = run("report", "matrix.json", "--format", "markdown").out
    assert "had nothing before them (a, c) or the BOS token before them (b)" in begun
    shown = run("report", "joint.json", "--format", "markdown")
    assert shown.code == 0
    assert "Do not rely" not in shown.out


def test_what_is_missing_altered_or_of_another_audit_is_refused(files, members, run):
    group = members("a", "b")
    group.commit(*MODEL, *LESS, **files)
    run.refused(3, "joint", "ask", "a", says="commitments of 1 members")
    group.send(".commit.json")
    run.refused(3, "joint", "answer", "a", says="b.ask.zip is missing")
    run.refused(3, "joint", "commit", "a", "--as", "a", "--key", "a.pem", "--ours", "a.jsonl",
                *MODEL, says="exists already")  # fmt: skip
    for name in group.names:
        group.step("ask", name, "--quiet")
    group.send(".ask.zip")
    ask = Path("a/b.ask.zip")
    whole = ask.read_bytes()
    ask.write_bytes(whole.replace(b"payloadType", b"payloadtype"))
    run.refused(3, "joint", "answer", "a", says="b.ask.zip")
    with (
        zipfile.ZipFile("a/a.ask.zip") as own,
        zipfile.ZipFile("b/b.ask.zip") as theirs,
        zipfile.ZipFile(ask, "w") as forged,
    ):
        for name in theirs.namelist():
            forged.writestr(name, (own if name == "request-00" else theirs).read(name))
    run.refused(3, "joint", "answer", "a", says="not those that were signed")
    ask.write_bytes(Path("a/a.ask.zip").read_bytes())
    run.refused(3, "joint", "answer", "a", says="this key has not signed it")
    ask.write_bytes(whole)
    group.step("answer", "a")
    group.step("ask", "b", "--quiet")  # a second request could try other strings
    group.send(".ask.zip")
    run.refused(3, "joint", "answer", "a", says="second request")
    files["a"].write_text(files["b"].read_text())
    run.refused(3, "joint", "ask", "a", says="has changed since")


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("ask", "nowhere"), 3, "begin with fedaudit joint commit"),
        (("commit", "x", "--as", "../x", "--key", "k", "--ours", "a.jsonl"), 2, "member's name"),
        (
            ("commit", "x", "--as", "x", "--key", "k", "--ours", "a.jsonl"),
            3,
            "key k cannot be read",
        ),
        (("report", "nowhere"), 3, "commitments of 0 members"),
    ],
)
def test_mistakes(files, run, words, code, says):
    run.refused(code, "joint", *words, says=says)
    assert not Path("x").exists()


def test_a_members_files_take_the_place_of_no_others(files, members, run):
    group = members("a", "b")
    group.commit(*MODEL, *LESS, **files)
    fresh = ("--as", "a", "--key", "a.pem", "--ours", "a.jsonl", *MODEL)
    Path("new").mkdir()
    Path("new/a.commit.json").write_text("mine")
    run.refused(3, "joint", "commit", "new", *fresh, says="it stays as it is")
    assert [p.name for p in Path("new").iterdir()] == ["a.commit.json"]
    group.send(".commit.json")
    steps = (
        ("ask", "a.ask.zip"),
        ("answer", "a.answer-for-b.zip"),
        ("count", "a.result.json"),
        ("count", "private/report.json"),
        ("count", "private/revealed.jsonl"),
    )
    for step, name in steps:
        path = Path("a", name)
        path.write_text("mine")
        run.refused(3, "joint", step, "a", says="it stays as it is")
        assert path.read_text() == "mine"
        path.unlink()
        if step != "count":
            for member in group.names:
                group.step(step, member)
            group.send(".ask.zip" if step == "ask" else ".answer-for-*.zip")
    group.to_results()
    group.to_results()  # its own files are written anew
    # Without --counts only verdicts are told.
    outcome = run("joint", "report", "b")
    assert outcome.out.count("'s strings: ") == 2
    assert "contextual" not in outcome.out
    results = [content for (path, _), content in messages().items() if ".result." in path]
    assert results
    assert not any(b"coverage" in content for content in results)
    run.refused(2, "joint", "report", "b", "--json", "x.json", says="verdict only")


def test_members_must_agree_on_the_audit(files, members, run):
    group = members("a", "b")
    group.commit(*MODEL, "--budget", "5", **files)
    other = members("c")
    other.commit(*MODEL, "--budget", "6", **files)
    Path("a/c.commit.json").write_bytes(Path("c/c.commit.json").read_bytes())
    run.refused(3, "joint", "ask", "a", says="budget")


@pytest.mark.oracle  # the first test above compares the same, without a model
def test_a_real_federation(federation, members, run, empty_folder):
    group = members("c0", "c1")
    clients = {name: federation.path / f"data/{name}.jsonl" for name in group.names}
    model = ("--target", federation.path, "--device", "cpu", "--budget", "10",
             "--set", "contextual.samples=2")  # fmt: skip
    group.commit(*model, **clients)
    group.to_answers()
    group.to_results("--counts")
    run("joint", "report", "c1", "--json", "joint.json")
    run("extract", "--matrix", *model, "--quiet", "--json", "matrix.json")
    joint, matrix = (json.loads(Path(f"{n}.json").read_text()) for n in ("joint", "matrix"))
    assert rows(joint) == rows(matrix)
    assert joint["verdict"]["status"] == matrix["verdict"]["status"]
