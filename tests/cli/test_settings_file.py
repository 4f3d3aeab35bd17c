"""fedaudit.toml: what `fedaudit audit` audits in a folder, written by `fedaudit init`."""

import shutil
import tomllib
from pathlib import Path

import pytest

from fedaudit import nano

LINE = '{"text": "Ann Lee of York wrote.", "pii": [{"start": 0, "end": 7, "label": "PERSON"}]}\n'
DRY = ("--dry-run", "--device", "cpu")


@pytest.fixture
def run(run, empty_folder, adapter):
    shutil.copytree(nano.folder(), "base")
    shutil.copytree(adapter, "lora")
    for name in ("ours", "theirs"):
        Path(f"{name}.jsonl").write_text(LINE)
    return run


def written():
    return tomllib.loads(Path("fedaudit.toml").read_text("utf-8"))["audit"]


def test_two_commands_lead_to_the_plan_of_an_audit(run):
    assert run("init").code == 0
    assert written() == {
        "target": "base",
        "adapter": "lora",
        "prefixes": "ours.jsonl",
        "victim": "theirs.jsonl",
    }
    outcome = run("audit", *DRY)
    assert (outcome.code, outcome.err) == (0, "")
    for line in ("model: base, adapter lora", "attacker: ours.jsonl", "victim: theirs.jsonl"):
        assert line in outcome.out
    run.refused(3, "init", says="fedaudit.toml is there already")


def test_records_without_telling_names_are_taken_in_order(run):
    Path("ours.jsonl").rename("b.jsonl")
    Path("theirs.jsonl").rename("a.jsonl")
    Path("held_out.jsonl").write_text(LINE)
    assert run("init").code == 0
    found = written()
    assert [found[key] for key in ("prefixes", "victim", "held-out")] == [
        "a.jsonl",
        "b.jsonl",
        "held_out.jsonl",
    ]


def test_records_in_a_table_are_found(run):
    for name in ("ours", "theirs"):
        Path(f"{name}.jsonl").unlink()
        Path(f"{name}.csv").write_text("text\nAnn Lee of York wrote.\n")
    assert run("init").code == 0
    assert (written()["prefixes"], written()["victim"]) == ("ours.csv", "theirs.csv")


def test_what_is_typed_takes_precedence(run):
    run("init")
    Path("third.jsonl").write_text(LINE.replace("Ann", "Eve"))
    assert "victim: third.jsonl" in run("audit", "--theirs", "third.jsonl", *DRY).out
    # A model that is typed is another audit: nothing of the file is about it.
    run.refused(2, "audit", "base", "--adapter", "lora", *DRY, says="no documents to attack with")


def test_nothing_to_audit_is_said(run, tmp_path, monkeypatch):
    shutil.rmtree("base")
    text = Path("lora/adapter_config.json").read_text()
    Path("lora/adapter_config.json").write_text(text.replace('"fedaudit-nano"', "null"))
    run.refused(3, "init", says="lora names no base, and here is no folder of one")
    shutil.rmtree("lora")
    run.refused(3, "init", says="neither a federation's folder")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[audit]\nvictin = 'a'", "Did you mean 'victim'?"),
        ("[audit]\nout = '/etc'", "No setting named 'out'"),
        ("[extract]\ntarget = 'a'", "all settings stand in one table"),
        ("[audit]\ntarget = 3", "target takes a text"),
        ("[audit]\nround = 'a'", "round takes a number"),
        ("[audit]\npattern = 'a'", "pattern takes a list of texts"),
        ("audit = 3", "all settings stand in one table"),
        ("[audit", "fedaudit.toml"),
    ],
)
def test_a_file_that_is_wrong_is_refused(run, text, says):
    Path("fedaudit.toml").write_text(text)
    run.refused(3, "audit", *DRY, says=says)
