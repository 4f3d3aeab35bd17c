"""extract, infer and memorize say what they would ask, and write nothing."""

import re
import sys
from pathlib import Path

import fake_audit
import pytest
from command import Command

MODEL = ("--target", "fedaudit-nano", "--adapter", "lora")
FILES = ("--prefixes", "own.jsonl", "--victim", "victim.jsonl")


@pytest.fixture
def here(tmp_path, monkeypatch):
    fake_audit.written(tmp_path)
    monkeypatch.chdir(tmp_path)
    fake_audit.replace(monkeypatch.setattr, "log", fake_audit.Chances("SIGKILL", sys.maxsize))
    return tmp_path


@pytest.fixture
def run(monkeypatch, capfd):
    return Command(monkeypatch, capfd)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        # 24 records of two strings, each asked about 15 times, with answers of 10 tokens.
        (("extract", *MODEL, *FILES), "720 continuations of 7,200 tokens at most"),
        (("infer", *MODEL, "--data", "victim.jsonl"), "2,400 texts scored"),  # 48 x 50
        (("extract", *MODEL, *FILES, "--attack", "superset"), "what superset asks is not known"),
        (
            ("extract", *MODEL, "--matrix", "--clients", "own.jsonl", "victim.jsonl"),
            "1,440 continuations of 14,400 tokens at most",
        ),
        (("memorize", *MODEL, "--clients", "own.jsonl", "victim.jsonl"), "48 continuations of"),
    ],
)
def test_what_would_be_asked_is_said_and_nothing_is_written(words, says, here, run):
    before = sorted(here.rglob("*"))
    done = run(*words, "--dry-run")
    assert (done.code, done.err) == (0, "")
    text = " ".join(done.out.split())
    assert "Model: fedaudit-nano, adapter lora" in text
    assert f"Asked of the tuned model and its base each: {says}" in text
    known = "not known" if "superset" in words else r"about \d+ (?:s|min) at most"
    assert re.search(rf"Time: {known}, not counting reading and loading", text)
    assert [path for path in sorted(here.rglob("*")) if path.name != "log"] == before
    assert max(map(len, done.out.splitlines())) <= 80


def test_a_mistake_is_found_without_asking(here, run):
    Path("victim.jsonl").write_text('{"text": 5}\n')
    run.refused(3, "extract", *MODEL, *FILES, "--dry-run", says="victim.jsonl")
    assert not Path("log").exists()
