"""One hostile text in every place of a report and of a profile: no renderer lets it act."""

import csv
import io
import json
import re
from collections.abc import Iterator
from copy import deepcopy
from importlib.resources import files
from typing import Any

import pytest
from example_report import example
from rich.console import Console

from fedaudit.cli import console as shown
from fedaudit.cli import main
from fedaudit.config import profile
from fedaudit.report.redaction import make_visible
from fedaudit.report.renderers import annex, csv_table, cyclonedx, html, markdown, sarif, terminal
from fedaudit.report.renderers.annex import ReportOwner

ATTACK = (
    "::error file=x::a\n::warning::b \x1b]0;t\x07\x1b[31m\u202e\u200b\x9b ##vso[task.x]y "
    '<script>alert(1)</script>"><img src=x onerror=y> [x](javascript:z) ![i](http://e.org/p.png) '
    "[red]r[/red] =cmd|'/c calc'!A1"
)
FREE = {"reason", "reasons", "limits", "message", "adapter", "base", "path", "label", "plugin",
        "command", "statement", "client", "document", "title", "evidence", "id"}  # fmt: skip
"""Names of texts that the schema leaves open."""


def infected(value: Any, name: str = "") -> Any:
    if isinstance(value, dict):
        return {key: infected(item, key) for key, item in value.items()}
    if isinstance(value, list):
        return [infected(item, name) for item in value]
    return ATTACK if isinstance(value, str) and name in FREE else value


def strings_of(value: Any) -> Iterator[str]:
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from strings_of(item)
    elif isinstance(value, str):
        yield value


@pytest.fixture(scope="module")
def report() -> dict[str, Any]:
    table = infected(deepcopy(example().to_json()))
    assert json.dumps(table).count("vso[") > 10
    return table


def to_terminal(report: dict[str, Any]) -> str:
    out = io.StringIO()
    terminal.render(report, Console(file=out, width=80, highlight=False, markup=False))
    return out.getvalue()


RENDERERS = {
    "terminal": to_terminal,
    "markdown": markdown.render,
    "html": html.render,
    "csv": csv_table.render,
    "sarif": sarif.render,
    "annex": lambda report: annex.render(report, ReportOwner()),
    "cyclonedx": lambda report: cyclonedx.render(report, ReportOwner()),
}
HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u202e]")
COMMAND = re.compile(r"^\s*::[a-z]|##vso\[", re.MULTILINE)


@pytest.mark.parametrize("form", RENDERERS)
def test_hostile_text_does_nothing_in_any_form(report, form):
    text = RENDERERS[form](report)
    assert "vso" in text
    assert not HIDDEN.search(text)
    assert not COMMAND.search(text)
    if form in ("markdown", "annex", "html"):
        assert "<script>alert" not in text
        assert "<img src=x" not in text
    if form == "sarif":
        strings = list(strings_of(json.loads(text)))
        assert any("vso" in string for string in strings)
        assert not any("](" in string or HIDDEN.search(string) for string in strings)
    if form == "csv":
        cells = [cell for row in csv.reader(io.StringIO(text)) for cell in row]
        assert not any(cell.startswith(tuple("=+@\t\r＝＋－＠")) for cell in cells)


@pytest.mark.parametrize("terminal", [False, True])
@pytest.mark.parametrize(
    "show",
    [
        lambda: shown.print_item("", ATTACK),
        lambda: shown.print_item(f"{ATTACK:<14} ", "a"),
        lambda: shown.print_text(ATTACK),
        lambda: shown.print_note(ATTACK),
    ],
)
def test_hostile_text_does_nothing_in_a_list_or_a_note(monkeypatch, capsys, show, terminal):
    monkeypatch.setattr("sys.stdout.isatty", lambda: terminal)
    show()
    text = "".join(capsys.readouterr())
    assert "vso[" in text
    assert not HIDDEN.search(text)
    assert not COMMAND.search(text)


def test_a_profile_cannot_control_the_terminal(tmp_path, monkeypatch, capsys):
    path = tmp_path / "p.toml"
    escaped = json.dumps(ATTACK)
    shipped = files(profile.PACKAGE).joinpath("fed_pii.toml").read_text("utf-8")
    changed = re.sub(r"(?m)^(title|paper) = .*$", lambda m: f"{m[1]} = {escaped}", shipped)
    path.write_text(changed, "utf-8")
    monkeypatch.setattr("sys.argv", ["fedaudit", "profiles", str(path)])
    with pytest.raises(SystemExit) as left:
        main()
    text = "".join(capsys.readouterr())
    assert left.value.code == 0, text
    assert text.count("vso[") >= 2
    assert not HIDDEN.search(text)
    assert not COMMAND.search(text)


@pytest.mark.parametrize("text", ["std::vector", "a:b", "# title", "10:: 20", "C::x and D::y"])
def test_harmless_text_stays(text):
    assert make_visible(text) == text
