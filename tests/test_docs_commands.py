"""The commands of the pages in Start and How-to have the options of today: all are parsed."""

import re
import shlex
from pathlib import Path

import pytest
import typer

from fedaudit.cli import app

ROOT = Path(__file__).parents[1]
GROUPS = re.search(
    r"(?s)\n  - Start:(.*?)\n  - Reference:", (ROOT / "mkdocs.yml").read_text("utf-8")
)[1]
PAGES = re.findall(r"(?m)^      - ([\w-]+\.md)$", GROUPS)


def commands(page):
    """Return the commands of a page as words: lines that go on are one, comments are left out."""
    text = (ROOT / "docs" / page).read_text("utf-8").replace("\\\n", " ")
    found = re.findall(r"(?m)^(?:    |\$ )((?:JUDGE_KEY=\S+ )?fedaudit .*)$", text)
    # What explains a command stands behind two spaces; "..." is the rest of another command.
    lines = [re.split(r" {3,}(?:#|[a-z] ?[a-z]+ )", line)[0] for line in found]
    words = [shlex.split(line, comments=True) for line in lines]
    return [line[line.index("fedaudit") + 1 :] for line in words if "..." not in line]


COMMANDS = [(page, words) for page in PAGES for words in commands(page)]


def test_pages_have_commands():
    assert len(COMMANDS) > 100


@pytest.mark.parametrize(
    ("page", "words"), COMMANDS, ids=[f"{page}: {' '.join(words)[:50]}" for page, words in COMMANDS]
)
def test_a_command_has_the_options_of_today(page, words):
    command = typer.main.get_command(app)
    context = command.make_context("fedaudit", list(words))
    while hasattr(command, "resolve_command") and context._protected_args:
        name, command, rest = command.resolve_command(
            context, [*context._protected_args, *context.args]
        )
        context = command.make_context(name, rest, parent=context)
