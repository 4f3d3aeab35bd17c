"""Help is light and everywhere, and a wrong command is one line."""

import json
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

from fedaudit.cli import app
from fedaudit.cli.help import EXAMPLES, LONG, SECTIONS, HelpfulCommand, section_of

pytestmark = pytest.mark.usefixtures("empty_folder")

ROOT = typer.main.get_command(app)

# Runs command lines, then prints which of the named modules they have imported.
PROBE = """
import sys
from fedaudit.cli import main
codes = set()
for words in LINES:
    sys.argv = ["fedaudit", *words]
    try:
        main()
    except SystemExit as ended:
        codes.add(ended.code)
print("imported:", sorted(WATCHED & sys.modules.keys()), "codes:", codes)
"""


def imported(watched: set[str], *lines: tuple[str, ...]) -> str:
    code = PROBE.replace("WATCHED", repr(watched)).replace("LINES", repr(lines))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]


def every_command(words: tuple[str, ...] = (), group: Any = ROOT) -> Iterator[tuple[str, ...]]:
    yield words
    for name, one in getattr(group, "commands", {}).items():
        yield from every_command((*words, name), one)


def test_help_imports_nothing_heavy():
    heavy = {"torch", "numpy", "rich", "transformers", "scipy", "peft", "presidio_analyzer"}
    helps = [(*words, "--help") for words in every_command()]
    assert ("attribute", "decide", "--help") in helps
    # The probe notices what is imported: the library of the command line is.
    found = imported({*heavy, "typer"}, ("--version",), *helps)
    assert found == "imported: ['typer'] codes: {0}"


def test_listing_what_is_installed_loads_no_model_library():
    """Nor does masking records that are annotated."""
    marked = {"text": "Ann Lee met Lee.", "pii": [{"start": 0, "end": 7, "label": "PERSON"}]}
    Path("in.jsonl").write_text(json.dumps(marked) + "\n")
    words = (("plugins",), ("plugins", "contextual"), ("profiles", "fed_pii"),
             ("scrub", "in.jsonl", "out.jsonl", "--style", "pseudonym"))  # fmt: skip
    assert imported({"torch", "transformers", "peft"}, *words) == "imported: [] codes: {0}"


@pytest.mark.parametrize("name", ROOT.commands)
def test_every_command_explains_itself_and_its_options(run, name):
    shown = run(name, "--help")
    assert shown.code == 0
    assert shown.err == ""
    assert shown.out.startswith(f"Usage: fedaudit {name} ")
    assert "\x1b" not in shown.out
    command = ROOT.commands[name]
    first, *_ = command.help.strip().splitlines()
    assert len(first.split()) > 2
    for option in command.params:
        assert option.help, f"{name} {option.name}"
        assert option.help.endswith("."), f"{name} {option.name}"
    for example in EXAMPLES.get(name, ()):
        assert example in shown.out
        fedaudit, first, *words = shlex.split(example)
        assert (fedaudit, first) == ("fedaudit", name)
        command.make_context(name, words)  # which refuses options that it does not have
    if isinstance(command, HelpfulCommand) and len(command.params) > LONG:
        has_sections(command, shown.out)


def has_sections(command, shown):
    """Assert that every option of a long command has a section."""
    assert "\nOptions:" not in shown
    places = [shown.find(f"\n{title}:") for title in SECTIONS]
    assert [place for place in places if place > 0] == sorted(p for p in places if p > 0)
    for option in command.params:
        if option.param_type_name == "option":
            assert section_of(option.opts[0]) in SECTIONS, option.opts
            assert f"  {option.opts[0]}" in shown


def test_nothing_at_all_shows_the_help(run):
    shown, asked = run(), run("--help")
    assert (shown.code, shown.out, asked.code, asked.err) == (2, "", 0, "")
    assert shown.err == asked.out == run("-h").out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["simulat"], "fedaudit: No such command 'simulat'. Did you mean 'simulate'?\n"),
        (["--nope"], "No such option '--nope'"),
        (["plugins", "--nope"], "No such option '--nope'"),
        (["extract"], "Missing option '--prefixes'"),
        (["simulate"], "Missing option '--profile'"),
        (["simulate", "--profile"], "--profile"),
        (
            ["extract", "--prefixes", "x", "--batch-size", "many"],
            "value for '--batch-size'",
        ),
        (["plugins", "contextual", "presidio"], "unexpected extra argument"),
        (["plugins", "contextuel"], "No plugin named 'contextuel'. Did you mean 'contextual'"),
        (["profiles", "fed_pi"], "No profile named 'fed_pi'. Did you mean 'fed_pii'"),
        (["profiles", "fed_pii", "--scale", "nan"], "Did you mean 'nano'"),
        (["simulate", "--profile", "fed_pi"], "Did you mean 'fed_pii'"),
        (["simulate", "--profile", "fed_pii", "--set", "round=1"], "Did you mean 'rounds'"),
    ],
    ids=str,
)
def test_a_wrong_command_is_one_line_with_exit_code_2(run, tmp_path, arguments, message):
    shown = run.refused(2, *arguments, says=message)
    assert shown.err.startswith("fedaudit: ")
    assert list(tmp_path.iterdir()) == []


GROUPS = [(), *[(name,) for name, one in ROOT.commands.items() if hasattr(one, "commands")]]


@pytest.mark.parametrize("words", GROUPS, ids=lambda words: " ".join(words) or "fedaudit")
def test_every_command_is_listed_with_a_whole_sentence(run, monkeypatch, words):
    monkeypatch.setenv("COLUMNS", "80")
    shown = run(*words, "--help").out
    listed = shown[shown.index("Commands:") :].split("\n\n")[0].splitlines()[1:]
    group = ROOT.commands[words[0]] if words else ROOT
    assert [line.split()[0] for line in listed] == group.list_commands(None)
    assert set(group.list_commands(None)) == set(group.commands)
    assert not [line for line in listed if line.endswith("...") or not line.endswith(".")]


def test_h_is_help_of_a_command_of_commands(run):
    assert run("attribute", "decide", "-h").out == run("attribute", "decide", "--help").out


def test_the_order_is_a_users_and_the_first_steps_stand_there(run):
    shown = run("--help").out
    assert shown.index("\n  audit ") < shown.index("\n  extract ") < shown.index("\n  simulate ")
    assert "First steps: `fedaudit simulate --profile fed_pii`" in shown
    assert EXAMPLES.keys() <= ROOT.commands.keys()
