"""Terminals without Unicode, and words that are not text."""

import json
import os
import subprocess
import sys
from datetime import UTC, datetime

import pytest
from command import Command

from fedaudit.engine.environment import describe as environment_of
from fedaudit.report.run_header import build_report

ASCII = [
    {"PYTHONIOENCODING": "ascii"},
    {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
]


def process(*words, **environment):
    """Run fedaudit in a process; return exit code and output, which must be ASCII, and stderr."""
    command = [sys.executable, "-m", "fedaudit", *words]
    done = subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, check=False
    )
    return done.returncode, done.stdout.decode("ascii"), done.stderr.decode("ascii")


@pytest.fixture
def run(monkeypatch, capfd):
    """Return a function that runs fedaudit in this process, where terminals have only ASCII."""
    command = Command(monkeypatch, capfd)
    with open(os.devnull, "w", encoding="ascii") as terminal:

        def shown(*words):
            with monkeypatch.context() as patch:
                patch.setattr(sys, "stdout", terminal)
                patch.setattr(sys, "stderr", terminal)
                done = command(*map(os.fsdecode, words))
            assert (done.out + done.err).isascii()
            return done.code, done.out, done.err

        yield shown


def test_a_terminal_without_unicode_gets_something_else_and_the_same_code(run, tmp_path):
    found = build_report(
        command="extract",
        name="0" * 12,
        config={},
        started=datetime.now(UTC),
        base="fedaudit-nano",
        environment=environment_of("cpu"),
        data=[],
        seeds={"attack": 0},
        limits=["Łódź … 张 😀"],
    ).to_json()
    (tmp_path / "report.json").write_text(json.dumps(found))
    report = str(tmp_path)
    code, out, err = run("report", report)
    assert (code, err) == (0, "")
    assert "\\u0141\\u00f3d\\u017a" in out
    for environment in ASCII:
        assert process("report", report, **environment) == (0, out, "")
    code, out, err = run("report", report, "--format", "json")
    assert (code, err) == (0, "")
    assert json.loads(out) == found
    code, out, err = run("report", report, "--format", "markdown")
    assert (code, err) == (0, "")
    assert "&#321;&#243;d&#378;" in out
    code, _, err = run("report", str(tmp_path / "…"))
    assert code == 3
    assert "\\u2026" in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize("words", [("plugins",), ("extract", "--help")])
def test_every_command_prints_there(run, words):
    code, out, err = run(*words)
    assert (code, err) == (0, "")
    assert len(out) > 100


@pytest.mark.parametrize(
    "words", [("gate", "ask", "run", b"a\xff", "--client", "c0"), ("report", b"\xff")], ids=str
)
def test_a_word_that_is_no_text_is_one_line(run, words):
    code, out, err = run(*words)
    assert (code, out) == (2, "")
    assert "is not UTF-8" in err
    assert len(err.splitlines()) == 1


def test_a_word_that_the_locale_cannot_read_says_what_to_do():
    code, out, err = process("report", "…".encode(), **ASCII[1])
    assert (code, out) == (2, "")
    assert "set PYTHONUTF8=1" in err
